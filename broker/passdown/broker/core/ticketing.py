"""How events change who holds a ticket, where it waits, and who has approved it; a part of `evolve`."""

from typing import assert_never

from msgspec.structs import replace

from passdown.broker.core import ledger
from passdown.broker.core.bounds import DECIDED_KEPT
from passdown.broker.core.parts import Decided, Holder, Owed, Ticket
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.errors import ContractError
from passdown.contracts.plans import ALERTS, FAIL
from passdown.contracts.ticket_events import Needs

HoldingEvent = (
    ev.TicketClaimed
    | ev.TicketExtended
    | ev.TicketReleased
    | ev.TicketReassigned
    | ev.TicketSnoozed
    | ev.TicketWoken
    | ev.TicketCommented
    | ev.TicketApproved
    | ev.TicketEscalated
)


def fold_holding(state: State, event: HoldingEvent, logged: ev.Logged) -> State:
    """Fold an event after which the ticket is still open."""
    ticket = state.ticket(event.ticket_no)
    if ticket is None:
        raise ContractError("log", f"ticket {event.ticket_no} is not open")
    changed = _changed(ticket, event, logged)
    if not isinstance(event, ev.TicketExtended | ev.TicketCommented):
        alerted = isinstance(event, ev.TicketReassigned) and event.alert
        came_from = ticket.queue if alerted else ""
        changed = replace(changed, version=ticket.version + 1, alerted_from=came_from)
    return replace(state, tickets=[changed if one is ticket else one for one in state.tickets])


def _changed(ticket: Ticket, event: HoldingEvent, logged: ev.Logged) -> Ticket:
    match event:
        case ev.TicketClaimed():
            holder = Holder(by=logged.by, claim_id=event.claim_id, until=event.until)
            return replace(ticket, holder=holder, snoozed_until=None)
        case ev.TicketExtended():
            return replace(ticket, holder=ticket.holder and replace(ticket.holder, until=event.until))
        case ev.TicketReleased():
            return replace(ticket, holder=None, lapses=ticket.lapses + (event.why == "lapsed"))
        case ev.TicketReassigned():
            return _reassigned(ticket, event)
        case ev.TicketSnoozed():
            return replace(ticket, holder=None, snoozed_until=event.until)
        case ev.TicketWoken():
            return replace(ticket, snoozed_until=None)
        case ev.TicketCommented():
            return replace(ticket, comments=ticket.comments + 1)
        case ev.TicketApproved():
            return _approved(ticket, event, logged.by)
        case ev.TicketEscalated():
            moved = _moved(ticket, event.queue)
            return replace(moved, level=event.level, escalate_at=event.escalate_at)
        case _:
            assert_never(event)


def _reassigned(ticket: Ticket, event: ev.TicketReassigned) -> Ticket:
    if event.to:
        holder = Holder(by=event.to, claim_id=event.claim_id, until=event.until or ticket.opened_at)
        return replace(ticket, holder=holder, snoozed_until=None)
    return _moved(ticket, event.to_queue)


def _moved(ticket: Ticket, queue: str) -> Ticket:
    """Return a ticket on another queue; its path of escalation goes on.

    Who was named for the queue before is not on this one; what they must be able to do stays. On the alerting queue
    nobody is asked for either (`lanes.needs_of`), and both hold again where it is handed back.
    """
    kept = queue == ALERTS or (ticket.queue == ALERTS and queue == ticket.first_queue)
    candidates = ticket.needs.candidates if kept else []
    needs = Needs(candidates=candidates, skills=ticket.needs.skills, excluded=ticket.needs.excluded)
    moved = replace(ticket, queue=queue, needs=needs, holder=None, snoozed_until=None)
    return replace(moved, opened_on="" if queue == ticket.first_queue else ticket.first_queue)


def _approved(ticket: Ticket, event: ev.TicketApproved, by: str) -> Ticket:
    """Fold one of several approvals; changed arguments make another action, which nobody else has approved yet."""
    ticket = replace(ticket, holder=None, snoozed_until=None)
    if event.args is None:
        return replace(ticket, approved_by=[*ticket.approved_by, by])
    return replace(
        ticket,
        approved_by=[by],
        action=event.action,
        edited=event.args,
        edited_identity=event.identity,
    )


def ticket_expired(state: State, event: ev.TicketExpired, logged: ev.Logged) -> State:
    """Fold the end of a ticket that nobody resolved; an action that waited for a yes is denied."""
    ticket = state.ticket(event.ticket_no)
    if ticket is None:
        raise ContractError("log", f"ticket {event.ticket_no} is not open")
    decided = Decided(ticket_no=ticket.ticket_no, by=logged.by, how="expired: nobody resolved it in time")
    changed = replace(
        state,
        tickets=[one for one in state.tickets if one.ticket_no != event.ticket_no],
        decided=[*state.decided, decided][-DECIDED_KEPT:],
        questions=[],
        owed=None if event.to == FAIL else Owed(cause="human", at=logged.at, to=event.to),
        kept=None,
    )
    if ticket.kind not in ("approval", "permission", "unmet"):
        return changed
    return ledger.nobody_approved(changed, ticket.about, logged.seq)
