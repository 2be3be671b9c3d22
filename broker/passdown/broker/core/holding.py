"""Who holds a ticket: claim, extend, release, hand on, snooze; and what happens to one that nobody takes (DESIGN §9).

Whoever resolves a ticket holds it, or decides at once on one that nobody holds. A claim that ran out is good until
somebody says otherwise: the tick, or another person's claim.
"""

import re

from passdown.broker.core import branching, sla
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision, Who
from passdown.broker.core.lanes import needs_of, why_not_in
from passdown.broker.core.parts import Holder, Ticket
from passdown.broker.core.tickets import end
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import clean_text
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied, NotFound
from passdown.contracts.plans import ALERTS, FAIL, OPERATORS, Plan
from passdown.contracts.ticket_events import TICKET_LEASE_MS

#: Comments on one ticket.
MOST_COMMENTS = 200
#: What concerns an action that four eyes must see: its queue is part of what the plan allows.
_APPROVALS = ("approval", "permission", "unmet")


def open_at(draft: Draft, ticket_no: int, version: int) -> Ticket:
    """Return an open ticket as it was seen; raises NotFound, and Conflict, which says who was first and what they did."""
    ticket = open_ticket(draft, ticket_no)
    if ticket.version == version:
        return ticket
    holder = ticket.holder
    if holder is not None and holder.by != draft.command.by and holder.until > draft.at:
        raise _held(draft, ticket, holder)
    raise _moved_on(draft, ticket, version)


def open_ticket(draft: Draft, ticket_no: int) -> Ticket:
    """Return an open ticket; raises NotFound, and Conflict, which says who decided it and how."""
    state = draft.state
    name = _name(draft, ticket_no)
    ticket = state.ticket(ticket_no)
    if ticket is not None:
        return ticket
    if not 0 < ticket_no <= state.tickets_opened:
        raise NotFound("ticket", name)
    first = next((one for one in state.decided if one.ticket_no == ticket_no), None)
    if first is None:
        raise Conflict(f"ticket {name} is no longer open", "", "see the log for who decided")
    raise Conflict(f"ticket {name} is no longer open", first.by, first.how)


def _name(draft: Draft, ticket_no: int) -> str:
    return f"{draft.state.session_id}/{ticket_no}"


def _held(draft: Draft, ticket: Ticket, holder: Holder) -> Conflict:
    left = max(0, holder.until - draft.at) // 1000
    return Conflict(
        f"ticket {_name(draft, ticket.ticket_no)} is held", holder.by, f"its lease runs {left} s more"
    )


def _moved_on(draft: Draft, ticket: Ticket, version: int) -> Conflict:
    """Return the error for whoever saw a ticket before something happened to it that decided nothing."""
    what = f"ticket {_name(draft, ticket.ticket_no)} is at version {ticket.version}, not {version}"
    holder = ticket.holder.by if ticket.holder else "nobody"
    return Conflict(what, "", f"it is not decided, and {holder} holds it: look at it again")


def why_not(ticket: Ticket, by: str, who: Who | None) -> str:
    """Return why a principal may not take a ticket; empty where they may (rules 8 and 10).

    Four eyes hold for everybody. Whoever nothing is known of (`Who` None) needs no group and no skill.
    """
    if by in ticket.approved_by:
        return "whoever approved an action once does not approve it again"
    if by in ticket.needs.excluded:
        return "whoever initiated or proposed an action does not decide on it"
    return why_not_in(needs_of(ticket), by, who)


def require_may_take(draft: Draft, ticket: Ticket, what: str) -> None:
    """Raise Denied where whoever acts may not take this ticket."""
    why = why_not(ticket, draft.command.by, draft.command.who)
    if why:
        raise Denied(draft.command.by, f"{what} ticket {_name(draft, ticket.ticket_no)}", why)


def require_decides(draft: Draft, body: cmd.Resolve) -> Ticket:
    """Return the ticket that is to be resolved: held under this lease, or by nobody and free to take.

    Raises NotFound; Conflict, which names who holds it or what was decided; Denied.
    """
    by = draft.command.by
    ticket = open_ticket(draft, body.ticket_no)
    holder, name = ticket.holder, _name(draft, ticket.ticket_no)
    mine = holder is not None and (holder.by, holder.claim_id) == (by, body.lease)
    if holder is not None and not mine:
        if holder.until > draft.at or holder.by == by:
            raise _held(draft, ticket, holder)
        lapse(draft, ticket)
    if not mine and body.lease:
        why = "claim it again"
        raise Conflict(f"you no longer hold ticket {name}", holder.by if holder else "", why)
    if ticket.version != body.version:
        raise _moved_on(draft, ticket, body.version)
    require_may_take(draft, ticket, f"{body.resolution}")
    return ticket


def lapse(draft: Draft, ticket: Ticket) -> None:
    """Record that a claim ran out."""
    if ticket.holder is not None:
        draft.add(ev.TicketReleased(ticket_no=ticket.ticket_no, holder=ticket.holder.by, why="lapsed"))


def claim(draft: Draft, body: cmd.ClaimTicket) -> Decision:
    """Hold a ticket. Raises NotFound, Conflict, which names who holds it or decided it, and Denied."""
    by = draft.command.by
    ticket = draft.state.ticket(body.ticket_no)
    if ticket and ticket.holder and (ticket.holder.by, ticket.holder.claim_id) == (by, body.claim_id):
        return draft.decision()
    ticket = open_at(draft, body.ticket_no, body.version)
    require_may_take(draft, ticket, "claim")
    taken_from = _make_free(draft, ticket, body)
    draft.add(
        ev.TicketClaimed(
            ticket_no=ticket.ticket_no,
            claim_id=body.claim_id,
            until=draft.at + (body.lease_ms or ticket.lease_ms or TICKET_LEASE_MS),
            taken_from=taken_from,
            reason=clean_text(body.reason),
        )
    )
    return draft.decision()


def _make_free(draft: Draft, ticket: Ticket, body: cmd.ClaimTicket) -> str:
    """Return from whom the ticket is taken over; empty where it is free, also because its claim ran out."""
    holder = ticket.holder
    if holder is None:
        return ""
    if holder.until <= draft.at:
        lapse(draft, ticket)
        return ""
    if not body.take_over:
        raise _held(draft, ticket, holder)
    if not body.reason.strip():
        raise ContractError("take-over", "say why: whoever holds it is told", pointer="/reason")
    return holder.by


def require_held(draft: Draft, ticket_no: int, lease: str) -> tuple[Ticket, Holder]:
    """Return a ticket that whoever acts holds under this lease; raises Conflict, which says what became of it."""
    ticket = open_ticket(draft, ticket_no)
    holder = ticket.holder
    if holder is not None and (holder.by, holder.claim_id) == (draft.command.by, lease):
        return ticket, holder
    if holder is not None:
        raise _held(draft, ticket, holder)
    raise Conflict(f"you no longer hold ticket {_name(draft, ticket_no)}", "", "claim it again")


def extend(draft: Draft, body: cmd.ExtendTicket) -> Decision:
    """Hold on to a ticket. A lease that would hardly run longer is left as it is, so that the log stays short."""
    ticket, holder = require_held(draft, body.ticket_no, body.lease)
    lease_ms = body.lease_ms or ticket.lease_ms or TICKET_LEASE_MS
    until = draft.at + lease_ms
    if until - holder.until >= lease_ms // 4:
        draft.add(ev.TicketExtended(ticket_no=ticket.ticket_no, until=until))
    return draft.decision()


def release(draft: Draft, body: cmd.ReleaseTicket) -> Decision:
    """Give a ticket back; for `access` whoever manages grants does, in place of its holder."""
    if body.why == "lapsed":
        raise ContractError("release", "only the broker says that a claim lapsed", pointer="/why")
    if body.why == "access":
        if draft.command.who is not None:
            raise Denied(draft.command.by, "end the claim of somebody else", "take the ticket over instead")
        ticket = open_ticket(draft, body.ticket_no)
        if ticket.holder is None or ticket.holder.claim_id != body.lease:
            return draft.decision()
    else:
        ticket, _ = require_held(draft, body.ticket_no, body.lease)
    holder = ticket.holder.by if ticket.holder else ""
    reason = clean_text(body.reason)
    draft.add(ev.TicketReleased(ticket_no=ticket.ticket_no, holder=holder, why=body.why, reason=reason))
    return draft.decision()


def require_not_of_another(draft: Draft, ticket: Ticket) -> None:
    """Raise Conflict where somebody else holds the ticket; a claim that ran out is recorded as such."""
    holder = ticket.holder
    if holder is None or holder.by == draft.command.by:
        return
    if holder.until > draft.at:
        raise _held(draft, ticket, holder)
    lapse(draft, ticket)


def reassign(draft: Draft, body: cmd.ReassignTicket) -> Decision:
    """Hand a ticket on, to a person or to a queue of the plan. Raises ContractError, Conflict and Denied."""
    ticket = open_at(draft, body.ticket_no, body.version)
    require_not_of_another(draft, ticket)
    require_may_take(draft, ticket, "reassign")
    if bool(body.to) == bool(body.to_queue):
        raise ContractError("reassign", "name a person or a queue, one of both", pointer="/to")
    if body.to:
        _require_person(draft, ticket, body)
    else:
        _require_queue(draft, ticket, body.to_queue)
    until = draft.at + (ticket.lease_ms or TICKET_LEASE_MS) if body.to else None
    draft.add(
        ev.TicketReassigned(
            ticket_no=ticket.ticket_no,
            to=body.to,
            to_queue=body.to_queue,
            claim_id=body.claim_id if body.to else "",
            until=until,
            reason=clean_text(body.reason),
        )
    )
    return draft.decision()


def _require_person(draft: Draft, ticket: Ticket, body: cmd.ReassignTicket) -> None:
    if not re.match(cmd.PRINCIPAL_PATTERN, body.to) or body.to.startswith("group:"):
        problem = f"expected a person, such as user:ann, got {body.to!r}; a group serves a queue"
        raise ContractError("reassign", problem, pointer="/to")
    if not body.claim_id:
        raise ContractError("reassign", "a person gets the ticket with a claim", pointer="/claimId")
    # Which groups and skills they have is for whoever knows them to look up.
    why = why_not(ticket, body.to, None)
    if why:
        raise Denied(body.to, f"be given ticket {_name(draft, ticket.ticket_no)}", why)


def _require_queue(draft: Draft, ticket: Ticket, queue: str) -> None:
    allowed = queues_of(draft.given.plan)
    if queue not in allowed:
        names = ", ".join(sorted(allowed))
        raise Denied(draft.command.by, f"hand this ticket to queue {queue!r}", f"the plan has {names}")
    if ticket.kind in _APPROVALS and draft.command.who is not None:
        why = "the plan says who approves it; an operator may move it"
        raise Denied(draft.command.by, f"hand this {ticket.kind} to queue {queue}", why)


def queues_of(plan: Plan) -> set[str]:
    """Return the queues to which a ticket of a plan may go: those that it names, `operators` and `alerts`."""
    found = {OPERATORS, ALERTS}
    for stage in plan.stages.values():
        found.update(level.queue for level in stage.escalation)
        found.update(grant.approve for grant in stage.tools if grant.approve)
        found.update(permit.queue for permit in stage.permits)
        found.update([stage.queue] if stage.queue else [])
        if stage.ask != "producer":
            found.add(stage.ask)
        if stage.fan_out is not None:
            otherwise = (stage.fan_out.on_conflict, stage.fan_out.on_short)
            found.update(
                one for one in otherwise if one and one not in plan.stages and one not in (FAIL, "merge")
            )
    return found


def snooze(draft: Draft, body: cmd.SnoozeTicket) -> Decision:
    """Offer a ticket to nobody for a while."""
    ticket = open_at(draft, body.ticket_no, body.version)
    require_not_of_another(draft, ticket)
    require_may_take(draft, ticket, "snooze")
    reason = clean_text(body.reason)
    draft.add(ev.TicketSnoozed(ticket_no=ticket.ticket_no, until=draft.at + body.for_ms, reason=reason))
    return draft.decision()


def wake(draft: Draft, body: cmd.WakeTicket) -> Decision:
    """Offer a snoozed ticket again."""
    ticket = open_at(draft, body.ticket_no, body.version)
    require_may_take(draft, ticket, "wake")
    if ticket.snoozed_until is not None:
        draft.add(ev.TicketWoken(ticket_no=ticket.ticket_no))
    return draft.decision()


def comment(draft: Draft, body: cmd.CommentTicket) -> Decision:
    """Say something about an open ticket."""
    ticket = open_ticket(draft, body.ticket_no)
    if ticket.comments >= MOST_COMMENTS:
        raise BudgetExceeded("comments on this ticket", ticket.comments + 1, MOST_COMMENTS)
    text = clean_text(body.text, 8192).strip()
    if not text:
        raise ContractError("comment", "it says nothing", pointer="/text")
    draft.add(ev.TicketCommented(ticket_no=ticket.ticket_no, text=text))
    return draft.decision()


def alert(draft: Draft, body: cmd.AlertTicket) -> Decision:
    """Move a ticket that nobody known may take to the alerting queue, or back; without effect where it is not as seen."""
    if draft.command.who is not None:
        raise Denied(draft.command.by, "raise the alert about a ticket", "the broker does that")
    ticket = draft.state.ticket(body.ticket_no)
    if ticket is None or ticket.version != body.version or ticket.holder is not None:
        return draft.decision()
    why, number = clean_text(body.why), ticket.ticket_no
    if body.back and ticket.alerted_from:
        draft.add(ev.TicketReassigned(ticket_no=number, to_queue=ticket.alerted_from, reason=why))
    elif not body.back and ticket.queue != ALERTS:
        draft.add(ev.TicketReassigned(ticket_no=number, to_queue=ALERTS, reason=why, alert=True))
    return draft.decision()


def lease_due(draft: Draft, ticket_no: int) -> None:
    """A claim ran out: the ticket is back in its queue."""
    ticket = draft.state.ticket(ticket_no)
    if ticket is not None:
        lapse(draft, ticket)


def wake_due(draft: Draft, ticket_no: int) -> None:
    """A ticket is no longer snoozed."""
    draft.add(ev.TicketWoken(ticket_no=ticket_no))


def escalate_due(draft: Draft, ticket_no: int) -> None:
    """The next level of a ticket's path is due, or, after the last, what the plan says of one that is overdue.

    A write of which nobody knows whether it happened is no matter of time: it goes to the alerting queue (rule 3).
    """
    ticket = draft.state.ticket(ticket_no)
    if ticket is None:
        return
    plan = draft.given.plan
    stage = draft.given.stage(ticket.stage or draft.state.stage)
    due = sla.next_step(plan, stage, ticket.level, ticket.opened_at)
    if due is None:
        return
    if due.to and ticket.kind != "effect":
        _expire(draft, ticket, due.to)
        return
    following = sla.next_step(plan, stage, due.level, ticket.opened_at)
    draft.add(
        ev.TicketEscalated(
            ticket_no=ticket_no,
            level=due.level,
            queue=due.queue or ALERTS,
            escalate_at=following.at if following else None,
        )
    )


def _expire(draft: Draft, ticket: Ticket, to: str) -> None:
    """Let the overdue rule follow; where a write is not settled yet, once it is."""
    draft.add(ev.TicketExpired(ticket_no=ticket.ticket_no, to=to))
    why = f"nobody resolved ticket {ticket.ticket_no} in time"
    if to == FAIL:
        end(draft, "failed", why)
    elif ticket.kind in ("conflict", "short"):
        branching.close_by_person(draft, ticket.about, "left", why=why)
