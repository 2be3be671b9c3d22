"""Opening and withdrawing tickets, and ending a session that somebody called off."""

from passdown.broker.core import sla
from passdown.broker.core.draft import Draft
from passdown.broker.core.packing import fill
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.codec import clean_text
from passdown.contracts.plans import END, OPERATORS, Plan, Stage, moves
from passdown.contracts.ticket_events import Needs, Resolution, TicketKind

#: What a person may do who decides how a step goes on.
DECIDES: list[Resolution] = ["complete", "send-back", "redirect", "cancel"]
WHY_LIMIT = 500
#: Characters of a skill, which may come from a session's data.
SKILL_LIMIT = 100


def first_queue(stage: Stage) -> str:
    """Return where a stage's tickets go for which the plan names no queue."""
    return stage.escalation[0].queue if stage.escalation else OPERATORS


def redirects(plan: Plan, state: State) -> list[str]:
    """Return where a person may redirect a session: on where the plan leads from here, to this stage, or back to one seen."""
    following = moves(plan.stages[state.stage], plan.stages).values()
    return sorted({state.stage, *following, *state.entries} - {END})


def open_ticket(
    draft: Draft,
    kind: TicketKind,
    why: str,
    actions: list[Resolution],
    *,
    about: str = "",
    action: str = "",
    queue: str | None = None,
    approvals: int = 1,
) -> int:
    """Open a ticket on the plan's queue, else the first of the escalation path, else `operators`.

    With an `action` it is about an effect that was proposed: whoever initiated or proposed that does not decide it, and
    the people whom the stage names for its own tickets are not those who approve.
    """
    stage, join, plan = draft.stage, draft.state.joining, draft.given.plan
    if stage.queue is not None or (join is not None and join.closed and not join.merges):
        # Nobody but a person does this stage, or nothing is merged, so there is no agent to send it back to.
        actions = [one for one in actions if one != "send-back"]
    number = draft.state.tickets_opened + 1
    step = sla.next_step(plan, stage, 0, draft.at)
    draft.add(
        ev.TicketOpened(
            ticket_no=number,
            kind=kind,
            queue=queue or stage.queue or first_queue(stage),
            why=clean_text(why, WHY_LIMIT),
            actions=actions,
            about=about,
            action=action,
            priority=stage.priority,
            stage=draft.state.stage,
            needs=_four_eyes(draft, about) if action else _needs(draft),
            approvals=approvals,
            lease_ms=int(stage.people.lease_seconds * 1000),
            due_at=sla.due_at(plan, stage, draft.at, draft.state.deadline),
            escalate_at=step.at if step else None,
        )
    )
    return number


def _needs(draft: Draft) -> Needs:
    people, state = draft.stage.people, draft.state
    return Needs(
        candidates=people.candidates,
        skills=sorted({clean_text(fill(skill, state.data), SKILL_LIMIT) for skill in people.skills}),
        excluded=[state.by] if people.exclude_initiator else [],
    )


def _four_eyes(draft: Draft, effect_id: str) -> Needs:
    effect = draft.state.effect(effect_id)
    proposed = [effect.by] if effect else []
    return Needs(excluded=sorted({draft.state.by, *proposed}))


def withdraw(draft: Draft, ticket_no: int, why: str) -> None:
    """Withdraw an open ticket; whoever holds it is named, so that they are told."""
    ticket = draft.state.ticket(ticket_no)
    holder = ticket.holder.by if ticket and ticket.holder else ""
    draft.add(ev.TicketWithdrawn(ticket_no=ticket_no, why=why, holder=holder))


def ask_about_effect(draft: Draft, effect_id: str, why: str) -> None:
    """Ask a person whether an effect happened, unless somebody is asked already."""
    if not any(one.kind == "effect" and one.about == effect_id for one in draft.state.tickets):
        open_ticket(draft, "effect", why, ["done", "not-done"], about=effect_id)


def withdraw_about(draft: Draft, about: str, why: str) -> None:
    """Withdraw the tickets on an effect, whose truth has arrived, or on a join that has come to its end."""
    for ticket in draft.state.tickets:
        if ticket.kind != "question" and ticket.about == about:
            withdraw(draft, ticket.ticket_no, why)


def withdraw_tickets(draft: Draft, why: str) -> None:
    """Withdraw open tickets, but those on effects: only the truth or a person answers these (rule 3)."""
    for ticket in draft.state.tickets:
        if ticket.kind != "effect":
            withdraw(draft, ticket.ticket_no, why)


def end(draft: Draft, status: ev.EndingStatus, reason: str) -> None:
    """End the session, or record that it will once what is open outside is settled (DESIGN §6) and its branches have ended."""
    withdraw_tickets(draft, reason)
    if draft.state.unfinished() or draft.state.undrained():
        draft.add(ev.Ending(status=status, reason=reason))
    else:
        draft.add(ended(status, reason))


def ended(status: ev.EndingStatus, reason: str, policy: str = "") -> ev.Event:
    """Return the event that ends a session for good."""
    match status:
        case "cancelled":
            return ev.Cancelled(reason=reason)
        case "expired":
            return ev.Expired(reason=reason)
        case "done":
            return ev.Completed()
        case "refused":
            return ev.Refused(reason=reason, policy=policy)
        case "failed":
            return ev.Failed(reason=reason)
