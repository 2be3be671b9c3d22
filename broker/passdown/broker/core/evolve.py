"""`evolve(state, logged) -> State`: what each event changes. No decisions here, and nothing but the log goes in.

`fold` of a session's log gives exactly the state that is stored beside it (rule 6).
"""

from collections.abc import Iterable
from typing import assert_never, cast

from msgspec.structs import replace

from passdown.broker.core import asking, joining, ledger, ticketing
from passdown.broker.core.asking import with_feedback, with_output
from passdown.broker.core.parts import ClaimHeld, FeedbackItem, Issued, Outcome, Owed, Snapshot
from passdown.broker.core.state import TERMINAL, TRANSITIONS, State, Status, resting_status
from passdown.contracts import events as ev
from passdown.contracts.codec import digest, encode
from passdown.contracts.errors import ContractError


def fold(log: Iterable[ev.Logged]) -> State | None:
    """Return the state after all of `log`; raises ContractError where the chain is broken."""
    state: State | None = None
    for logged in log:
        state = evolve(state, logged)
    return state


def evolve(state: State | None, logged: ev.Logged, head: str = "") -> State:
    """Return the state after one more event. `head` is the digest of its bytes, where that is known already.

    Raises ContractError where the event does not follow on: wrong ``seq`` or ``prev``, a clock that went
    back, a status in which it may not occur or that it may not leave behind (`TRANSITIONS`).
    """
    event = logged.event
    name = type(event).__name__
    head = head or digest(encode(logged))
    if state is None:
        return _opened(logged, head)
    if logged.seq != state.seq + 1 or logged.prev != state.head or logged.at < state.at:
        raise ContractError(
            "log", f"event {logged.seq} ({name}) does not follow on event {state.seq}: the chain is broken"
        )
    allowed = _allowed(name, state.status)
    changed = _apply(state, cast("ev.WrittenEvent", event), logged)  # what is reserved is not allowed
    status = changed.status if changed.status in TERMINAL else resting_status(changed)
    if status not in allowed:
        raise ContractError("log", f"{name} may not lead from {state.status} to {status}")
    return replace(changed, status=status, seq=logged.seq, at=logged.at, head=head)


def _allowed(name: str, status: Status) -> tuple[Status, ...]:
    moves = TRANSITIONS.get(name)
    if moves is None:
        raise ContractError("log", f"{name} is reserved for a later version and cannot be folded by this one")
    allowed = moves.get(status)
    if allowed is None:
        raise ContractError("log", f"{name} may not occur in a session that is {status}")
    return allowed


def _opened(logged: ev.Logged, head: str) -> State:
    event = logged.event
    if not isinstance(event, ev.SessionOpened) or logged.seq != 1 or logged.prev:
        raise ContractError("log", f"a log begins with SessionOpened, not with {type(event).__name__}")
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
        lists=event.lists,
        trace=event.trace,
        reply_to=event.reply_to,
        events_to=event.events_to,
        data=event.inputs,
        seq=logged.seq,
        at=logged.at,
        head=head,
    )


def _apply(state: State, event: ev.WrittenEvent, logged: ev.Logged) -> State:  # noqa: C901, PLR0911, PLR0912 - one case an event
    if isinstance(event, joining.JoinEvent):
        return joining.fold_join(state, event, logged)
    if isinstance(event, ticketing.HoldingEvent):
        return ticketing.fold_holding(state, event, logged)
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
            return _claim_ended(state, Owed(cause="retry", at=logged.at))
        case ev.LeaseLost():
            return _lease_lost(state, event)
        case ev.Checkpointed():
            data = Snapshot(attempt=state.attempt, data=event.data, counters=event.counters)
            return replace(state, snapshot=data)
        case ev.EffectProposed():
            return ledger.effect_proposed(state, event, logged)
        case ev.EffectIntended():
            return ledger.effect_intended(state, event, logged)
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
        case ev.InputRequested():
            return asking.input_requested(state, event)
        case ev.InputProvided():
            return asking.input_provided(state, event, logged)
        case ev.TicketOpened():
            return asking.ticket_opened(state, event, logged)
        case ev.TicketResolved() | ev.TicketWithdrawn():
            return asking.ticket_closed(state, event, logged)
        case ev.TicketExpired():
            return ticketing.ticket_expired(state, event, logged)
        case ev.Reopened():
            return with_feedback(joining.reopened(state, event, logged), "sent-back", event.feedback)
        case ev.Paused():
            return _paused(state, event, logged)
        case ev.Resumed():
            return replace(state, paused=False, resume_at=None)
        case ev.Ending():
            return _ending(state, event)
        case ev.Cancelled() | ev.Expired() | ev.Completed() | ev.Refused() | ev.Failed():
            return _ended(state, event)
        case _:
            assert_never(event)


def _stage_entered(state: State, event: ev.StageEntered, logged: ev.Logged) -> State:
    return replace(
        with_output(state),
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
        unreturned=0,
        settles_lost=0,
        snapshot=None,
        reads=[],
        left_out=0,
        questions=[],
        feedback=[FeedbackItem(attempt=0, kind="sent-back", text=event.feedback)] if event.feedback else [],
        joins=[join for join in state.joins if not join.drained],
    )


def _pack_issued(state: State, event: ev.PackIssued) -> State:
    if state.paused or state.issued or event.attempt != state.attempt + 1:
        raise ContractError("log", f"attempt {event.attempt} may not be issued after {state.attempt} here")
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
            delivery=event.delivery,
            lease_ms=event.lease_ms,
            solo=event.solo,
            priority=event.priority,
            tools=event.tools,
        ),
        owed=state.owed if event.cause == "settle" else None,
        failures=0 if event.fresh else state.failures,
        settles_lost=0 if event.fresh else state.settles_lost,
        snapshot=None if event.from_top else state.snapshot,
    )


def _claimed(state: State, event: ev.Claimed, logged: ev.Logged) -> State:
    if state.issued is None:
        raise ContractError("log", f"attempt {event.attempt} is claimed but was not issued")
    held = ClaimHeld(
        claim_id=event.claim_id,
        attempt=event.attempt,
        by=logged.by,
        agent=event.agent,
        agent_version=event.agent_version,
        model=event.model,
    )
    return replace(state, claim=held)


def _claim_ended(state: State, owed: Owed) -> State:
    """Return the state without its claim; a settle attempt leaves what is owed, or a kept return, as it was."""
    if state.settling():
        over = ledger.claim_over(state)
        return over if state.owed or state.kept else replace(over, owed=owed)
    return replace(ledger.claim_over(state), owed=owed, unreturned=state.unreturned + 1)


def _lease_lost(state: State, event: ev.LeaseLost) -> State:
    settling = state.settling()
    changed = replace(
        _claim_ended(state, Owed(cause="retry", at=event.retry_at, lost=True)),
        failures=state.failures + 1,
        lost=state.lost + 1,
        settles_lost=state.settles_lost + settling,
    )
    text = "the worker that held this attempt was lost"
    return changed if settling else with_feedback(changed, "lost", text)


def _rejected(state: State, event: ev.ReturnRejected) -> State:
    settling = state.settling()
    changed = replace(
        _claim_ended(state, Owed(cause="retry", at=event.retry_at)),
        kept=state.kept if settling else None,
        failures=state.failures + 1,
    )
    return changed if settling else with_feedback(changed, event.kind, event.problem)


def _paused(state: State, event: ev.Paused, logged: ev.Logged) -> State:
    changed = replace(state, paused=True, resume_at=event.until)
    if state.issued is None or state.claim is not None:
        return changed
    changed = replace(changed, issued=None)
    return changed if state.settling() else replace(changed, owed=Owed(cause="resume", at=logged.at))


def _ending(state: State, event: ev.Ending) -> State:
    # What was accepted is the outcome of a session that only waits for its branches.
    called_off = event.status in ("cancelled", "expired")
    return replace(
        joining.left_by_ending(state),
        # What waits in the queue is withdrawn, unless it is to find out what happened outside.
        issued=state.issued if state.claim or state.settling() else None,
        ending=event.status,
        ending_reason=event.reason,
        paused=False,
        resume_at=None,
        owed=None,
        kept=None if called_off else state.kept,
        completed=None if called_off else state.completed,
        questions=[one for one in state.questions if one.answered],
    )


def _ended(state: State, event: ev.Cancelled | ev.Expired | ev.Completed | ev.Refused | ev.Failed) -> State:
    match event:
        case ev.Completed():
            return _closed(state, "done", Outcome(result="done", output=asking.pending_output(state)))
        case ev.Refused():
            outcome = Outcome(result="refused", reason=event.reason, policy=event.policy)
            return _closed(state, "refused", outcome)
        case ev.Failed():
            # `retry` may reopen it, so the step keeps what its next attempt would need.
            return _shut(state, "failed", Outcome(result="failed", reason=event.reason))
        case ev.Cancelled():
            return _closed(state, "cancelled", Outcome(result="cancelled", reason=event.reason))
        case ev.Expired():
            return _closed(state, "expired", Outcome(result="expired", reason=event.reason))


def _closed(state: State, status: Status, outcome: Outcome) -> State:
    return replace(_shut(state, status, outcome), snapshot=None, reads=[], questions=[], feedback=[])


def _shut(state: State, status: Status, outcome: Outcome) -> State:
    return replace(
        state,
        status=status,
        outcome=outcome,
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
