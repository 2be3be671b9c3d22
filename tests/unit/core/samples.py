"""One event of each type, made to fit the session that it is shown to."""

from typing import Any

from passdown.contracts import events as ev
from passdown.contracts import reserved
from passdown.contracts.plans import plan_ref
from passdown.contracts.returns import DoneReturn, Fence
from tests.unit.core.spec import Session


def written(session: Session) -> dict[str, ev.Event]:
    """Return a sample of each event that this version writes, by name."""
    state = session.state
    claim = state.claim.claim_id if state.claim else "claim-001"
    effect = state.effects[0].effect_id if state.effects else f"{session.id}.e-none"
    call: dict[str, Any] = {
        "effect_id": effect,
        "tool": "mail",
        "tool_digest": "d",
        "args": {},
        "identity": "i",
        "n": 1,
    }
    found: list[ev.Event] = [
        *_later(session),
        *_of_joins(session),
        *_of_tickets(session),
        ev.SessionOpened(
            session_id=session.id, task_id="t", task_name="t", key="k", plan=plan_ref(session.plan), inputs={}
        ),
        ev.StageEntered(stage="tell", step=state.step + 1, reason="done"),
        ev.PackIssued(
            step=state.step,
            attempt=state.attempt + 1,
            cause="retry",
            role="worker",
            digest="d",
            bytes=1,
            lease_ms=1,
        ),
        ev.Claimed(attempt=state.attempt, claim_id="claim-009"),
        ev.ClaimReleased(claim_id=claim, reason="r"),
        ev.LeaseLost(claim_id=claim, retry_at=session.at),
        ev.Checkpointed(claim_id=claim, data={}),
        ev.EffectProposed(**call, action="a", why="w", claim_id=claim),
        ev.EffectIntended(**call, claim_id=claim),
        ev.EffectDone(effect_id=effect),
        ev.EffectFailed(effect_id=effect, error="e"),
        ev.EffectUnknown(effect_id=effect, why="w"),
        ev.EffectSettled(effect_id=effect, status="done"),
    ]
    return {type(one).__name__: one for one in found}


def _later(session: Session) -> list[ev.Event]:
    state = session.state
    claim = state.claim.claim_id if state.claim else "claim-001"
    body = DoneReturn(**session.bound(), output={})
    fence = Fence(step=1, attempt=1, claim_id="claim-000")
    return [
        ev.ToolCalled(tool="t", args={}, args_digest="a", result_digest="r"),
        ev.ToolDenied(tool="t", why="w"),
        ev.Returned(body=body),
        ev.ReturnFenced(fence=fence, digest="d", why="w"),
        ev.ReturnRejected(claim_id=claim, kind="error", problem="p", retry_at=session.at),
        ev.InputRequested(attempt=1, questions=[], ask="producer"),
        ev.InputProvided(attempt=1, id="why", value=1),
        ev.Escalated(reason="r"),
        ev.Paused(),
        ev.Resumed(),
        ev.Ending(status="cancelled", reason="r"),
        ev.Cancelled(reason="r"),
        ev.Expired(reason="r"),
        ev.Completed(),
        ev.Refused(reason="r"),
        ev.Failed(reason="r"),
    ]


def _of_tickets(session: Session) -> list[ev.Event]:
    state, until = session.state, session.at + 900_000
    number = state.tickets[-1].ticket_no if state.tickets else 1
    return [
        ev.TicketOpened(
            ticket_no=state.tickets_opened + 1, kind="failure", queue="q", why="w", actions=["cancel"]
        ),
        ev.TicketClaimed(ticket_no=number, claim_id="t-1", until=until),
        ev.TicketExtended(ticket_no=number, until=until),
        ev.TicketReleased(ticket_no=number, holder="user:bob", why="given-back"),
        ev.TicketReassigned(ticket_no=number, to_queue="q"),
        ev.TicketSnoozed(ticket_no=number, until=until),
        ev.TicketWoken(ticket_no=number),
        ev.TicketCommented(ticket_no=number, text="t"),
        ev.TicketApproved(ticket_no=number, action="a"),
        ev.TicketEscalated(ticket_no=number, level=1, queue="q"),
        ev.TicketExpired(ticket_no=number, to="tell"),
        ev.TicketResolved(ticket_no=number, resolution="done"),
        ev.TicketWithdrawn(ticket_no=number, why="w"),
    ]


def _of_joins(session: Session) -> list[ev.Event]:
    state = session.state
    join = state.joins[-1].join_id if state.joins else f"{session.id}.j-1"
    return [
        ev.FannedOut(join_id=f"{session.id}.j-{state.step}", branches=1, digest="d", opening=1),
        ev.BranchesOpened(join_id=join, opened=1, opening=1),
        ev.JoinConflict(join_id=join, counted=1, why="w"),
        ev.JoinShort(join_id=join, why="w"),
        ev.Joined(join_id=join, how="enough", counted=1, digest="d", upto=1),
        ev.BranchesTold(join_id=join, what="cancel", upto=1),
        ev.JoinDrained(join_id=join),
        ev.Reopened(feedback="f"),
    ]


def reserved_ones() -> list[ev.Event]:
    """Return a sample of each event that a later version writes."""
    return [
        reserved.PenMoved(pen=1, visit_id="v"),
    ]
