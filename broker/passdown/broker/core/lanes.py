"""Where a ticket waits, and in which order it is offered: what stores find the next one by (DESIGN §9)."""

from passdown.broker.core.given import Who
from passdown.broker.core.parts import Ticket
from passdown.contracts.codec import Record, decode, encode
from passdown.contracts.plans import ALERTS

#: Priorities, numbers of skills and times as texts of one width, so that their order as texts is that as numbers.
_HIGHEST, _MOST_SKILLS, _NEVER = 500_000_000, 999, 9_999_999_999_999


class Lane(Record, frozen=True, kw_only=True):
    """All that decides who may take the tickets of a lane, but for whom four eyes exclude from each."""

    queue: str
    candidates: list[str] = []
    skills: list[str] = []
    #: Where its tickets waited before an alert took them, to which they go back.
    before: "Lane | None" = None

    def serves(self, by: str, who: Who | None) -> bool:
        """Whether this principal may take tickets of this lane."""
        return not why_not_in(self, by, who)


def why_not_in(lane: Lane, by: str, who: Who | None) -> str:
    """Return why a principal may not take the tickets of a lane; empty where they may (rule 10).

    Whoever nothing is known of (`Who` None) needs no group and no skill.
    """
    if who is None:
        return ""
    names = {by, *(f"group:{group}" for group in who.groups)}
    if lane.candidates:
        if names.isdisjoint(lane.candidates):
            return f"it is for {', '.join(lane.candidates)}"
    elif "*" not in who.groups and f"group:{lane.queue}" not in names:
        return f"queue {lane.queue} is served by the group of its name"
    missing = [skill for skill in lane.skills if skill not in who.skills]
    return f"it needs the skill {', '.join(missing)}" if missing else ""


def needs_of(ticket: Ticket) -> Lane:
    """Return what a ticket asks of who takes it; on the alerting queue nothing, for nobody known has it."""
    if ticket.queue == ALERTS:
        came_from = ticket.alerted_from
        return Lane(queue=ALERTS, before=_asked_on(ticket, came_from) if came_from else None)
    return _asked_on(ticket, ticket.queue)


def _asked_on(ticket: Ticket, queue: str) -> Lane:
    return Lane(queue=queue, candidates=ticket.needs.candidates, skills=ticket.needs.skills)


def lane_of(ticket: Ticket) -> str:
    """Return the name of the lane in which a ticket is on offer; empty where it is held or snoozed."""
    if ticket.holder is not None or ticket.snoozed_until is not None:
        return ""
    return encode(needs_of(ticket)).decode()


def read_lane(name: str) -> Lane:
    """Return what the tickets of a lane ask for."""
    return decode(name.encode(), Lane, what="lane")


def order_of(session_id: str, ticket: Ticket) -> str:
    """Return what tickets on offer are sorted by: priority, due date, skills (what few can do first), and age."""
    priority = min(max(_HIGHEST - ticket.priority, 0), 2 * _HIGHEST - 1)
    skills = _MOST_SKILLS - min(len(ticket.needs.skills), _MOST_SKILLS)
    due = _NEVER if ticket.due_at is None else ticket.due_at
    return f"{priority:09}.{due:013}.{skills:03}.{ticket.opened_at:013}.{session_id}.{ticket.ticket_no:05}"
