"""A session's log → what of it is told outside: its status changes and its outcome (DESIGN §11).

The log is the outbox. What is told is a function of it alone, so that whoever tells, and however often, says
the same under the same id. Where to is fixed when the session is opened (`SessionOpened`): for a branch that is the
exchange of its parent, and never a queue, for nobody has asked for its outcome but the join.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import asdict

from passdown.broker.core.evolve import evolve
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.codec import clean_text, decode, digest, encode
from passdown.contracts.outgoing import (
    OUTGOING_BUDGET,
    Change,
    Outcome,
    OutcomeEvent,
    Outgoing,
    StatusEvent,
)

#: Events that only ever begin a commit.
_BEGINNINGS = ev.SessionOpened | ev.Claimed | ev.Paused | ev.Resumed


class Telling(NamedTuple):
    """A message: to a topic exchange under a routing key, or, where ``exchange`` is empty, to the queue ``key``.

    It tells of the event ``seq`` of the log, and of the time ``at`` (store clock, ms).
    """

    exchange: str
    key: str
    event: Outgoing
    seq: int
    at: int


def to_tell(before: State | None, after: State) -> bool:
    """Whether a commit that leads from one state to the other is told to anybody."""
    shown = before.shown_status if before else ""
    if shown == after.shown_status:
        return False
    return bool(after.events_to or (after.reply_to and after.over))


def tellings(log: Sequence[bytes], after: int, source: str) -> list[Telling]:
    """Return what is to be told of a whole log, in order, beyond event `after`; `source` says whose sessions these are.

    Raises ContractError where the log cannot be read or folded.
    """
    found: list[Telling] = []
    read = [decode(raw, ev.Logged, what="log") for raw in log]
    state: State | None = None
    told = passed = ""
    changed = 0
    for n, logged in enumerate(read):
        state = evolve(state, logged, digest(log[n]))
        if state.shown_status != passed:
            passed, changed = state.shown_status, logged.seq
        if n + 1 < len(read) and _passing(state, read[n + 1], logged.by):
            continue
        before, told = told, passed
        if before != told and changed > after:
            found += _tellings(state, before, changed, source)
    return found


def _passing(state: State, following: ev.Logged, by: str) -> bool:
    """Whether a state was only passed through: the event that follows is of the same commit.

    The log does not say where a commit ends. What the same principal does at the same time is taken for one,
    unless it begins with an event that only begins one, or ends a claim: a claim is never passed through.
    """
    same_act = following.at == state.at and following.by == by
    return same_act and state.claim is None and not isinstance(following.event, _BEGINNINGS)


def _tellings(state: State, before: str, seq: int, source: str) -> list[Telling]:
    event = _event(state, before, seq, source)
    found: list[Telling] = []
    if state.events_to:
        key = f"{state.shown_status}.{state.plan.name}"
        found.append(Telling(state.events_to, key, event, seq, state.at))
    if state.reply_to and state.over:
        found.append(Telling("", state.reply_to, event, seq, state.at))
    return found


def _event(state: State, before: str, seq: int, source: str) -> Outgoing:
    change = Change(
        status=state.shown_status,
        before=before,
        task_id=state.task_id,
        task_name=state.task_name,
        key=state.key,
        plan=str(state.plan),
        stage=state.stage,
        step=state.step,
        parent=state.parent.session_id if state.parent else "",
        branch=state.parent.branch if state.parent else "",
    )
    head: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{state.session_id}/{seq}",
        "source": source,
        "subject": state.session_id,
        "time": _rfc3339(state.at),
        "datacontenttype": "application/json",
        "taskid": state.task_id,
        "traceparent": state.trace,
    }
    if not state.over:
        return StatusEvent(**head, data=change)
    whole = OutcomeEvent(**head, data=_outcome(state, change))
    if len(encode(whole)) <= OUTGOING_BUDGET:
        return whole
    return OutcomeEvent(**head, data=_outcome(state, change, by_digest=True))


def _outcome(state: State, change: Change, *, by_digest: bool = False) -> Outcome:
    ended = state.outcome
    if ended is None:
        raise AssertionError("a session that is over has an outcome")
    fields: dict[str, Any] = {
        **asdict(change),
        "reason": clean_text(ended.reason),
        "policy": clean_text(ended.policy),
    }
    if ended.result != "done":
        return Outcome(**fields, output=UNSET)
    if not by_digest:
        return Outcome(**fields, output=ended.output)
    raw = encode(ended.output)
    return Outcome(**fields, output_digest=digest(raw), output_bytes=len(raw))


def _rfc3339(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
