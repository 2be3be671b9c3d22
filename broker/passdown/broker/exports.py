"""One session as JSON lines, for a check from outside that trusts none of our code.

Each line is an object with a ``kind``:

* ``session``: how it stands; for a branch ``parent`` names the session, join and branch, else it is null;
* ``event``: one of its log, in order, its fields beside ``seq``, ``at``, ``by``, ``prev`` and ``type``; an
  event's own field ``kind`` is called ``eventKind``;
* ``effect``: a row of its ledger under ``key``, the idempotency key; ``args`` are those that run or ran,
  ``proposedArgs`` what was proposed where a person changed them;
* ``ticket``: every one ever opened, with its ``resolution`` or why it was withdrawn; its own kind is
  ``ticketKind``;
* ``brief``: the ``text`` that a person is shown, of its oldest open ticket, else of the session (left out where the
  session's plan is gone from the store, and of an archive).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from passdown.broker.core.brief import brief
from passdown.broker.core.brief_render import render
from passdown.broker.core.parts import Effect
from passdown.broker.core.state import State
from passdown.broker.logbook import read_logged
from passdown.contracts.codec import decode, encode
from passdown.contracts.plans import Plan


def json_line(value: dict[str, Any]) -> bytes:
    """Return an object as a line."""
    return encode(value) + b"\n"


def session_lines(stored: bytes, log: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a session: its state as it is stored, and its log up to there.

    Raises ContractError where the state cannot be read.
    """
    state = decode(stored, State, what="state")
    session_id = state.session_id
    yield json_line(_session(state))
    wanted = {
        seq for effect in state.effects for seq in (effect.args_seq, effect.result_seq) if seq is not None
    }
    kept: dict[int, dict[str, Any]] = {}
    tickets: dict[int, dict[str, Any]] = {}
    failures: dict[str, str] = {}
    for raw in log:
        logged = msgspec.json.decode(raw)
        yield json_line(_event(session_id, logged))
        if logged["seq"] in wanted:
            kept[logged["seq"]] = logged["event"]
        if logged["event"]["type"] == "EffectFailed":
            failures[logged["event"]["effectId"]] = logged["event"]["error"]
        _note_ticket(tickets, session_id, logged)
    for effect in state.effects:
        failure = failures.get(effect.effect_id) if effect.status == "failed" else None
        yield json_line(_effect(session_id, effect, kept, failure))
    for ticket in tickets.values():
        yield json_line(ticket)


def brief_line(stored: bytes, log: Iterable[bytes], plan: Plan) -> bytes:
    """Return the line of a session's brief. Raises ContractError where the state or the log cannot be read."""
    state = decode(stored, State, what="state")
    ticket = min((one.ticket_no for one in state.tickets), default=None)
    found = brief(state, [read_logged(raw) for raw in log], plan, ticket)
    return json_line({"kind": "brief", "sessionId": state.session_id, "text": render(found)})


def _session(state: State) -> dict[str, Any]:
    return {
        "kind": "session",
        "sessionId": state.session_id,
        "key": state.key,
        "taskId": state.task_id,
        "taskName": state.task_name,
        "parent": msgspec.to_builtins(state.parent),
        "plan": str(state.plan),
        "status": state.shown_status,
        "stage": state.stage,
        "step": state.step,
        "attempt": state.attempt,
        "by": state.by,
        "openedAt": state.opened_at,
        "updatedAt": state.at,
        "events": state.seq,
        "outcome": msgspec.to_builtins(state.outcome),
        "head": state.head,
    }


def _event(session_id: str, logged: dict[str, Any]) -> dict[str, Any]:
    fields = {("eventKind" if name == "kind" else name): value for name, value in logged["event"].items()}
    place = {name: logged[name] for name in ("seq", "at", "by", "prev")}
    return {**fields, **place, "kind": "event", "sessionId": session_id}


def _effect(
    session_id: str, effect: Effect, kept: dict[int, dict[str, Any]], failure: str | None
) -> dict[str, Any]:
    """What the state left in the log, because it is large or old, is taken from the events that hold it.

    The result of a failed effect is what its tool said.
    """
    args = effect.args if effect.args is not None else kept.get(effect.args_seq, {}).get("args")
    result = effect.result if failure is None else failure
    if result is None and effect.result_seq is not None:
        result = kept.get(effect.result_seq, {}).get("result")
    line = {
        "kind": "effect",
        "sessionId": session_id,
        "key": effect.effect_id,
        "ordinal": effect.ordinal,
        "step": effect.step,
        "tool": effect.tool,
        "args": effect.edited or args,
        "status": effect.status,
        "result": result,
        "error": effect.error,
        "attempts": effect.attempts,
        "approvedBy": effect.approval.by if effect.approval else "",
    }
    return {**line, "proposedArgs": args} if effect.edited else line


def _note_ticket(tickets: dict[int, dict[str, Any]], session_id: str, logged: dict[str, Any]) -> None:
    event = logged["event"]
    if event["type"] == "TicketOpened":
        tickets[event["ticketNo"]] = {
            "kind": "ticket",
            "sessionId": session_id,
            "ticketNo": event["ticketNo"],
            "ticketKind": event["kind"],
            "queue": event["queue"],
            "why": event["why"],
            "actions": event["actions"],
            "about": event.get("about", ""),
            "openedAt": logged["at"],
            "status": "open",
        }
    elif event["type"] in ("TicketResolved", "TicketWithdrawn"):
        resolved = event["type"] == "TicketResolved"
        said = ("resolution", "value", "note", "action") if resolved else ("why",)
        tickets[event["ticketNo"]] |= {
            ("withdrawnWhy" if name == "why" else name): event[name] for name in said if name in event
        }
        tickets[event["ticketNo"]] |= {
            "status": "resolved" if resolved else "withdrawn",
            "closedAt": logged["at"],
            "closedBy": logged["by"],
        }
