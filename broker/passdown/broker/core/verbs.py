"""What an operator may ask of a session: cancel, pause, resume, retry."""

from passdown.broker.core.advance import advance, issue, misfit
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision
from passdown.broker.core.packing import granted
from passdown.broker.core.state import State
from passdown.broker.core.tickets import end, withdraw_tickets
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import PACK_BUDGET, clean_text, encode
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied, PlanError

_REASON_LIMIT = 500


def cancel(draft: Draft, body: cmd.Cancel) -> Decision:
    """Call the session off. Raises Conflict where it has ended; one that is ending already goes on ending."""
    _require_open(draft.state, "cancel")
    if not draft.state.ending:
        end(draft, "cancelled", clean_text(body.reason, _REASON_LIMIT) or "cancelled")
        advance(draft)
    return draft.decision()


def pause(draft: Draft, body: cmd.Pause) -> Decision:
    """Issue nothing new until resumed. Raises Conflict where the session has ended or is ending."""
    state = draft.state
    _require_open(state, "pause")
    if state.ending:
        raise Conflict("cannot pause: the session is ending", "", state.ending)
    if body.for_ms is not None and body.for_ms < 1:
        raise ContractError("pause", f"a pause lasts 1 ms or longer, not {body.for_ms}", pointer="/forMs")
    if not state.paused:
        until = None if body.for_ms is None else draft.at + body.for_ms
        draft.add(ev.Paused(until=until, reason=clean_text(body.reason, _REASON_LIMIT)))
    return draft.decision()


def resume(draft: Draft) -> Decision:
    """Go on after a pause; without effect where there is none. Raises Conflict where the session has ended."""
    _require_open(draft.state, "resume")
    if draft.state.paused:
        draft.add(ev.Resumed())
        advance(draft)
    return draft.decision()


def retry(draft: Draft) -> Decision:
    """Issue the present step again, its failures forgotten; reopens a failed session.

    Raises Conflict where the session runs, waits for something else, or ended otherwise; Denied where that would
    withdraw a ticket that whoever asks must not decide; PlanError, ContractError or BudgetExceeded where the attempt
    could not be issued.
    """
    state = draft.state
    _require_retryable(state, draft.at)
    _require_not_excluded(draft)
    if draft.stage.fan_out is not None and not (state.joining and state.joining.merges):
        raise Conflict("cannot retry: its branches were not joined", "", "submit the work anew")
    found = misfit(draft.stage, state.data)
    if found:
        raise ContractError("inputs", f"they do not fit stage {state.stage}: {found}")
    withdraw_tickets(draft, "retried by an operator")
    match issue(draft, "retry", fresh=True):
        case "issued":
            return draft.decision()
        case "missing":
            missing = ", ".join(granted(draft.given, state.stage).missing)
            raise PlanError(
                str(state.plan), [f"stage {state.stage} needs {missing}: register it, then retry"]
            )
        case "too-large":
            parts = {"inputs": len(encode(state.data)), "snapshot": len(encode(state.snapshot))}
            raise BudgetExceeded("the pack of this step", sum(parts.values()), PACK_BUDGET, parts)


def _require_retryable(state: State, at: int) -> None:
    disputed = next((one.ticket_no for one in state.tickets if one.kind == "effect"), None)
    if disputed is not None or state.unknown():
        raise Conflict("cannot retry: it is not known what happened outside", "", "settle that first")
    if state.human:
        raise Conflict("cannot retry: this step is with a person", "", "resolve its ticket")
    asks = any(ticket.kind in ("failure", "budget", "escalation") for ticket in state.tickets)
    waits = state.owed is not None and state.owed.cause == "retry" and not state.tickets
    idle = state.issued is None and not (state.over or state.paused or state.ending)
    if state.status != "failed" and not (idle and (asks or waits)):
        raise Conflict("there is nothing to retry", "", f"the session is {state.shown_status}")
    if state.over and state.parent is not None:
        # Its join may be closed by now, and its parent have ended: nobody would wait for it.
        raise Conflict("cannot retry: this branch has ended", "", "send it back with the ticket of its join")
    if state.deadline is not None and state.deadline <= at:
        raise Conflict("cannot retry: the stage's deadline has passed", "", "submit the work anew")


def _require_not_excluded(draft: Draft) -> None:
    """Raise Denied where a retry would decide in place of the people whom a ticket asks; calling it off decides nothing."""
    by = draft.command.by
    for ticket in draft.state.tickets:
        if by in ticket.needs.excluded:
            why = f"the plan leaves ticket {ticket.ticket_no} to others; cancel it, or wait for them"
            raise Denied(by, "retry what they submitted themselves", why)


def _require_open(state: State, verb: str) -> None:
    if state.over:
        raise Conflict(f"cannot {verb}: the session has ended", "", state.status)
