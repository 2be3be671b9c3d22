"""All sessions as JSON lines, for a check from outside that trusts none of our code (`passdown export`).

Each line is an object with a ``kind``:

* ``session``: how it stands;
* ``event``: one of its log, in order, its fields beside ``seq``, ``at``, ``by``, ``prev`` and ``type``; an
  event's own field ``kind`` is called ``eventKind``;
* ``effect``: a row of its ledger under ``key``, the idempotency key; ``args`` are those that run or ran,
  ``proposedArgs`` what was proposed where a person changed them;
* ``ticket``: every one ever opened, with its ``resolution`` or why it was withdrawn; its own kind is
  ``ticketKind``.

Lines of other kinds may follow, from whoever calls `export_lines` with ``extra``.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from passdown.broker.cli.views.transitions import events
from passdown.broker.client import Broker
from passdown.broker.core.state import Effect, State
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import SessionRow
from passdown.contracts.codec import decode, encode

_PAGE = 200


def export_lines(broker: Broker, extra: Iterable[dict[str, Any]] = ()) -> Iterator[bytes]:
    """Yield every line of the export, then those of `extra`; one session at a time is in memory."""
    for row in all_sessions(broker):
        yield from session_lines(broker.app.store, row.session_id)
    for line in extra:
        yield _line(line)


def all_sessions(broker: Broker) -> Iterator[SessionRow]:
    """Yield every session, newest first."""
    before: str | None = None
    while rows := broker.sessions(limit=_PAGE, before=before):
        yield from rows
        before = rows[-1].session_id


def _line(value: dict[str, Any]) -> bytes:
    return encode(value) + b"\n"


def session_lines(store: Store, session_id: str) -> Iterator[bytes]:
    """Yield the lines of one session, as of one version of it."""
    loaded = store.load(session_id)
    if loaded.state is None:
        return
    state = decode(loaded.state, State, what="state")
    yield _line(_session(state))
    wanted = {
        seq for effect in state.effects for seq in (effect.args_seq, effect.result_seq) if seq is not None
    }
    kept: dict[int, dict[str, Any]] = {}
    tickets: dict[int, dict[str, Any]] = {}
    failures: dict[str, str] = {}
    for raw in events(store, session_id, until=loaded.version):
        logged = msgspec.json.decode(raw)
        yield _line(_event(session_id, logged))
        if logged["seq"] in wanted:
            kept[logged["seq"]] = logged["event"]
        if logged["event"]["type"] == "EffectFailed":
            failures[logged["event"]["effectId"]] = logged["event"]["error"]
        _note_ticket(tickets, session_id, logged)
    for effect in state.effects:
        failure = failures.get(effect.effect_id) if effect.status == "failed" else None
        yield _line(_effect(session_id, effect, kept, failure))
    for ticket in tickets.values():
        yield _line(ticket)


def _session(state: State) -> dict[str, Any]:
    return {
        "kind": "session",
        "sessionId": state.session_id,
        "key": state.key,
        "taskId": state.task_id,
        "taskName": state.task_name,
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
