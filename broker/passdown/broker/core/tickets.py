"""Opening and withdrawing tickets, and ending a session that somebody called off."""

from passdown.broker.core.draft import Draft
from passdown.contracts import events as ev
from passdown.contracts.codec import clean_text
from passdown.contracts.plans import OPERATORS, Stage

#: What a person may do who decides how a step goes on.
DECIDES: list[ev.Resolution] = ["complete", "send-back", "redirect", "cancel"]
WHY_LIMIT = 500


def first_queue(stage: Stage) -> str:
    """Return where a stage's tickets go for which the plan names no queue."""
    return stage.escalation[0].queue if stage.escalation else OPERATORS


def open_ticket(
    draft: Draft,
    kind: ev.TicketKind,
    why: str,
    actions: list[ev.Resolution],
    *,
    about: str = "",
    action: str = "",
    queue: str | None = None,
) -> int:
    """Open a ticket on the plan's queue, else the first of the escalation path, else `operators`."""
    stage, join = draft.stage, draft.state.joining
    if stage.queue is not None or (join is not None and join.closed and not join.merges):
        # Nobody but a person does this stage, or nothing is merged, so there is no agent to send it back to.
        actions = [one for one in actions if one != "send-back"]
    number = draft.state.tickets_opened + 1
    draft.add(
        ev.TicketOpened(
            ticket_no=number,
            kind=kind,
            queue=queue or stage.queue or first_queue(stage),
            why=clean_text(why, WHY_LIMIT),
            actions=actions,
            about=about,
            action=action,
        )
    )
    return number


def ask_about_effect(draft: Draft, effect_id: str, why: str) -> None:
    """Ask a person whether an effect happened, unless somebody is asked already."""
    if not any(one.kind == "effect" and one.about == effect_id for one in draft.state.tickets):
        open_ticket(draft, "effect", why, ["done", "not-done"], about=effect_id)


def withdraw_about(draft: Draft, about: str, why: str) -> None:
    """Withdraw the tickets on an effect, whose truth has arrived, or on a join that has come to its end."""
    for ticket in draft.state.tickets:
        if ticket.kind != "question" and ticket.about == about:
            draft.add(ev.TicketWithdrawn(ticket_no=ticket.ticket_no, why=why))


def withdraw_tickets(draft: Draft, why: str) -> None:
    """Withdraw open tickets, but those on effects: only the truth or a person answers these (rule 3)."""
    for ticket in draft.state.tickets:
        if ticket.kind != "effect":
            draft.add(ev.TicketWithdrawn(ticket_no=ticket.ticket_no, why=why))


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
