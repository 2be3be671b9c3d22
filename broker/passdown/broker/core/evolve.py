"""`evolve(state, logged) -> State`: what each event changes. No decisions here, and nothing but the log goes in.

`fold` of a session's log gives exactly the state that is stored beside it (rule 6).
"""

from collections.abc import Iterable
from typing import Any, assert_never

from msgspec.structs import replace

from passdown.broker.core import ledger
from passdown.broker.core.state import (
    TERMINAL,
    TRANSITIONS,
    Asked,
    ClaimHeld,
    FeedbackItem,
    Issued,
    Outcome,
    Owed,
    Snapshot,
    State,
    Ticket,
    resting_status,
)
from passdown.contracts import events as ev
from passdown.contracts import reserved
from passdown.contracts.codec import PACK_BUDGET, digest, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.returns import DoneReturn

#: How many feedback entries of a step the state keeps (rule 12), and how large the overlaid inputs grow.
FEEDBACK_KEPT = 8
DATA_LIMIT = 2 * PACK_BUDGET


def fold(log: Iterable[ev.Logged]) -> State | None:
    """Return the state after all of `log`; raises ContractError where the chain is broken."""
    state: State | None = None
    for logged in log:
        state = evolve(state, logged)
    return state


def evolve(state: State | None, logged: ev.Logged, head: str = "") -> State:
    """Return the state after one more event. `head` is the digest of its bytes, where that is known already.

    Raises ContractError where the event does not follow on: wrong ``seq`` or ``prev``, a status in which
    it may not occur.
    """
    _follows_on(state, logged)
    event = logged.event
    head = head or digest(encode(logged))
    if isinstance(event, ev.SessionOpened):
        return _opened(event, logged, head)
    assert state is not None  # noqa: S101 - _follows_on has checked it
    changed = _apply(state, event, logged)
    if changed.status not in TERMINAL:
        status = resting_status(changed)
        return replace(changed, status=status, seq=logged.seq, at=logged.at, head=head)
    return replace(changed, seq=logged.seq, at=logged.at, head=head)


def _follows_on(state: State | None, logged: ev.Logged) -> None:
    name = type(logged.event).__name__
    seq, prev, status = (state.seq, state.head, state.status) if state else (0, "", None)
    if logged.seq != seq + 1 or logged.prev != prev:
        raise ContractError(
            "log", f"event {logged.seq} ({name}) does not follow on event {seq}: the chain is broken"
        )
    if name not in TRANSITIONS:
        raise ContractError("log", f"{name} is reserved for a later version and cannot be folded by this one")
    allowed = TRANSITIONS[name][0]
    if (status is None) != (not allowed) or (status is not None and status not in allowed):
        raise ContractError("log", f"{name} may not occur in a session that is {status or 'not open'}")


def _opened(event: ev.SessionOpened, logged: ev.Logged, head: str) -> State:
    return State(
        session_id=event.session_id,
        task_id=event.task_id,
        task_name=event.task_name,
        key=event.key,
        plan=event.plan,
        by=logged.by,
        opened_at=logged.at,
        parent=event.parent,
        resources=event.resources,
        trace=event.trace,
        data=event.inputs,
        seq=logged.seq,
        at=logged.at,
        head=head,
    )


def _apply(state: State, event: ev.Event, logged: ev.Logged) -> State:  # noqa: C901, PLR0911, PLR0912 - one case an event
    match event:
        case ev.SessionOpened():
            raise ContractError("log", "SessionOpened occurs once, first")
        case ev.StageEntered():
            return _stage_entered(state, event, logged)
        case ev.PackIssued():
            return _pack_issued(state, event)
        case ev.Claimed():
            return _claimed(state, event, logged)
        case ev.ClaimReleased():
            return replace(ledger.claim_over(state), owed=_owed(state, logged.at))
        case ev.LeaseLost():
            return _lease_lost(state, event)
        case ev.Checkpointed():
            data = Snapshot(attempt=state.attempt, data=event.data, counters=event.counters)
            return replace(state, snapshot=data)
        case ev.EffectProposed() | ev.EffectIntended():
            return ledger.effect_asked(state, event, logged)
        case ev.EffectDone() | ev.EffectFailed() | ev.EffectUnknown() | ev.EffectSettled():
            return ledger.effect_ended(state, event, logged)
        case ev.ToolCalled():
            return ledger.tool_called(state, event, logged)
        case ev.ToolDenied() | ev.Escalated():
            return state
        case ev.Returned():
            return replace(ledger.claim_over(state), kept=event.body)
        case ev.ReturnFenced():
            return replace(state, fenced=state.fenced + 1)
        case ev.ReturnRejected():
            return _rejected(state, event)
        case ev.InputRequested() | ev.InputProvided():
            return _input(state, event, logged)
        case ev.TicketOpened() | ev.TicketResolved() | ev.TicketWithdrawn():
            return _ticket(state, event, logged)
        case ev.Paused():
            return _paused(state, event)
        case ev.Resumed():
            return replace(state, paused=False, resume_at=None)
        case ev.Ending():
            return _ending(state, event)
        case ev.Cancelled() | ev.Expired() | ev.Completed() | ev.Refused() | ev.Failed():
            return _ended(state, event)
        case (
            reserved.TicketClaimed()
            | reserved.TicketReleased()
            | reserved.TicketReassigned()
            | reserved.TicketEscalated()
            | reserved.TicketExpired()
            | reserved.PenMoved()
            | reserved.FannedOut()
            | reserved.Joined()
            | reserved.JoinConflict()
        ):
            raise ContractError("log", f"{type(event).__name__} cannot be folded by this version")
        case _:
            assert_never(event)


def _stage_entered(state: State, event: ev.StageEntered, logged: ev.Logged) -> State:
    return replace(
        _with_output(state),
        stage=event.stage,
        step=event.step,
        human=event.human,
        deadline=event.deadline,
        entries={**state.entries, event.stage: state.entries.get(event.stage, 0) + 1},
        attempt=0,
        issued=None,
        owed=None if event.human else Owed(cause="first", at=logged.at),
        failures=0,
        lost=0,
        settles_lost=0,
        snapshot=None,
        reads=[],
        reads_left_out=0,
        questions=[],
        feedback=[],
    )


def _with_output(state: State) -> State:
    """Overlay the inputs with what the finished stage gave; what would not fit the state stays in the log."""
    output = _pending_output(state)
    data = {**state.data, **output} if output else state.data
    if output and len(encode(data)) > DATA_LIMIT:
        data = state.data
    return replace(state, data=data, kept=None, completed=None)


def _pending_output(state: State) -> dict[str, Any] | None:
    if state.completed is not None:
        return state.completed
    return state.kept.output if isinstance(state.kept, DoneReturn) else None


def _pack_issued(state: State, event: ev.PackIssued) -> State:
    settle = event.cause == "settle"
    return replace(
        state,
        status="queued",
        outcome=None,
        attempt=event.attempt,
        issued=Issued(
            attempt=event.attempt,
            cause=event.cause,
            digest=event.digest,
            role=event.role,
            lease_ms=event.lease_ms,
            solo=event.solo,
            priority=event.priority,
            tools=event.tools,
        ),
        owed=state.owed if settle else None,
        failures=0 if event.fresh else state.failures,
        lost=0 if event.fresh else state.lost,
        snapshot=None if event.from_top else state.snapshot,
    )


def _claimed(state: State, event: ev.Claimed, logged: ev.Logged) -> State:
    held = ClaimHeld(
        claim_id=event.claim_id,
        attempt=event.attempt,
        by=logged.by,
        agent=event.agent,
        agent_version=event.agent_version,
        model=event.model,
    )
    return replace(state, claim=held)


def _owed(state: State, at: int, *, lost: bool = False) -> Owed:
    """What follows the attempt that ends. One that only settled leaves what was owed before it."""
    settled = state.issued is not None and state.issued.cause == "settle"
    return state.owed if settled and state.owed else Owed(cause="retry", at=at, lost=lost)


def _lease_lost(state: State, event: ev.LeaseLost) -> State:
    settling = state.issued is not None and state.issued.cause == "settle"
    note = FeedbackItem(attempt=state.attempt, kind="lost", text="the worker that held this attempt was lost")
    return replace(
        ledger.claim_over(state),
        owed=_owed(state, event.retry_at, lost=True),
        failures=state.failures + 1,
        lost=state.lost + 1,
        settles_lost=state.settles_lost + settling,
        feedback=_feedback(state, note),
    )


def _rejected(state: State, event: ev.ReturnRejected) -> State:
    note = FeedbackItem(attempt=state.attempt, kind=event.kind, text=event.problem)
    return replace(
        ledger.claim_over(state),
        kept=None,
        owed=_owed(state, event.retry_at),
        failures=state.failures + 1,
        feedback=_feedback(state, note),
    )


def _feedback(state: State, item: FeedbackItem) -> list[FeedbackItem]:
    return [*state.feedback, item][-FEEDBACK_KEPT:]


def _input(state: State, event: ev.InputRequested | ev.InputProvided, logged: ev.Logged) -> State:
    if isinstance(event, ev.InputRequested):
        asked = [
            Asked(attempt=event.attempt, id=one.id, text=one.text, schema=one.schema, ask=event.ask)
            for one in event.questions
        ]
        return replace(state, questions=[*state.questions, *asked], kept=None, owed=None)
    questions = [
        replace(one, answered=True, value=event.value, by=logged.by)
        if (one.attempt, one.id) == (event.attempt, event.id)
        else one
        for one in state.questions
    ]
    changed = replace(state, questions=questions)
    if any(not one.answered for one in questions):
        return changed
    return replace(changed, owed=Owed(cause="input", at=logged.at))


def _ticket(
    state: State, event: ev.TicketOpened | ev.TicketResolved | ev.TicketWithdrawn, logged: ev.Logged
) -> State:
    if isinstance(event, ev.TicketOpened):
        return _ticket_opened(state, event, logged)
    ticket = state.ticket(event.ticket_no)
    if ticket is None:
        raise ContractError("log", f"ticket {event.ticket_no} is not open")
    tickets = [one for one in state.tickets if one.ticket_no != event.ticket_no]
    changed = replace(state, tickets=tickets)
    return changed if isinstance(event, ev.TicketWithdrawn) else _resolved(changed, event, ticket, logged)


def _ticket_opened(state: State, event: ev.TicketOpened, logged: ev.Logged) -> State:
    ticket = Ticket(
        ticket_no=event.ticket_no,
        kind=event.kind,
        queue=event.queue,
        why=event.why,
        actions=event.actions,
        about=event.about,
        action=event.action,
        opened_at=logged.at,
    )
    # A ticket takes the place of what would have been issued; a question or an effect is only waited for.
    decides = event.kind not in ("question", "effect", "approval")
    base = replace(_with_output(state), owed=None) if decides else state
    return replace(base, tickets=[*state.tickets, ticket], tickets_opened=event.ticket_no)


def _resolved(state: State, event: ev.TicketResolved, ticket: Ticket, logged: ev.Logged) -> State:
    match event.resolution:
        case "approve" | "edit":
            return ledger.approved(state, event, ticket, logged)
        case "deny":
            return ledger.denied(state, event, ticket, logged)
        case "complete":
            return replace(state, completed=event.value, owed=None, kept=None)
        case "send-back":
            note = FeedbackItem(attempt=state.attempt, kind="sent-back", text=str(event.value or event.note))
            return replace(
                state,
                questions=[one for one in state.questions if one.answered],
                feedback=_feedback(state, note),
                owed=Owed(cause="rework", at=logged.at),
                kept=None,
            )
        case "redirect":
            return replace(state, questions=[], owed=None, kept=None)
        case "answer" | "cancel" | "done" | "not-done":
            return state
        case _:
            assert_never(event.resolution)


def _paused(state: State, event: ev.Paused) -> State:
    changed = replace(state, paused=True, resume_at=event.until)
    if state.issued is None or state.claim is not None:
        return changed
    cause = "retry" if state.issued.cause == "settle" else "resume"
    return replace(changed, issued=None, owed=state.owed or Owed(cause=cause, at=state.at))


def _ending(state: State, event: ev.Ending) -> State:
    withdrawn = state.issued if state.claim or (state.issued and state.issued.cause == "settle") else None
    return replace(
        state,
        ending=event.status,
        ending_reason=event.reason,
        paused=False,
        resume_at=None,
        issued=withdrawn,
        owed=None,
        kept=None,
        questions=[one for one in state.questions if one.answered],
    )


def _ended(state: State, event: ev.Cancelled | ev.Expired | ev.Completed | ev.Refused | ev.Failed) -> State:
    match event:
        case ev.Completed():
            output = _pending_output(state)
            outcome = Outcome(result="done", output=output)
            return replace(_closed(_with_output(state)), status="done", outcome=outcome)
        case ev.Refused():
            outcome = Outcome(result="refused", reason=event.reason, policy=event.policy)
            return replace(_closed(state), status="refused", outcome=outcome)
        case ev.Failed():
            return replace(
                _closed(state), status="failed", outcome=Outcome(result="failed", reason=event.reason)
            )
        case ev.Cancelled():
            return replace(
                _closed(state), status="cancelled", outcome=Outcome(result="cancelled", reason=event.reason)
            )
        case ev.Expired():
            return replace(
                _closed(state), status="expired", outcome=Outcome(result="expired", reason=event.reason)
            )


def _closed(state: State) -> State:
    return replace(
        state,
        claim=None,
        issued=None,
        owed=None,
        kept=None,
        completed=None,
        paused=False,
        resume_at=None,
        ending=None,
        ending_reason="",
    )
