"""Events of ticket queues and visits: named and fixed here, written by no command of this version."""

from passdown.contracts.codec import Record


class TicketClaimed(Record, frozen=True, kw_only=True, tag_field="type", tag="TicketClaimed"):
    """A person holds the ticket until its lease runs out."""

    ticket_no: int
    lease_ms: int


class TicketReleased(Record, frozen=True, kw_only=True, tag_field="type", tag="TicketReleased"):
    """The holder gave the ticket back."""

    ticket_no: int
    reason: str = ""


class TicketReassigned(Record, frozen=True, kw_only=True, tag_field="type", tag="TicketReassigned"):
    """The ticket went to another person or queue."""

    ticket_no: int
    to: str
    reason: str = ""


class TicketEscalated(Record, frozen=True, kw_only=True, tag_field="type", tag="TicketEscalated"):
    """The ticket reached the next level of its path."""

    ticket_no: int
    level: int
    queue: str


class TicketExpired(Record, frozen=True, kw_only=True, tag_field="type", tag="TicketExpired"):
    """Nobody resolved the ticket in time."""

    ticket_no: int


class PenMoved(Record, frozen=True, kw_only=True, tag_field="type", tag="PenMoved"):
    """Another visit holds the task's pen; lower numbers are refused from here on."""

    pen: int
    visit_id: str


ReservedEvent = TicketClaimed | TicketReleased | TicketReassigned | TicketEscalated | TicketExpired | PenMoved
