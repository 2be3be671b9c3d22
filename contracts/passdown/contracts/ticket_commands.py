"""What people do with a ticket beside resolving it (DESIGN §9). Each is a command on its session.

A ``version`` is the ticket's, as it was seen; a ``lease`` is the id of the claim under which it is held.
"""

from typing import Annotated

from msgspec import Meta

from passdown.contracts.codec import Record
from passdown.contracts.ticket_events import ReleasedWhy

Text = Annotated[str, Meta(max_length=8192)]
#: Longest that a ticket may be held without being extended, and snoozed (milliseconds): a day, thirty days.
MOST_LEASE_MS, MOST_SNOOZE_MS = 86_400_000, 30 * 86_400_000


class _TicketCommand(Record, frozen=True, kw_only=True, tag_field="command"):
    ticket_no: int


class ClaimTicket(_TicketCommand, frozen=True, kw_only=True, tag="claim-ticket"):
    """Hold a ticket that nobody holds; with ``take_over``, and a ``reason``, also one that somebody else does.

    ``lease_ms``: how long, in place of what the plan says (0: as the plan says). Each claim brings an id of its own: one
    that was used before is answered as it was then, though it may have run out since.
    """

    version: int
    claim_id: Annotated[str, Meta(min_length=1, max_length=64)]
    lease_ms: Annotated[int, Meta(ge=0, le=MOST_LEASE_MS)] = 0
    take_over: bool = False
    reason: Text = ""


class ExtendTicket(_TicketCommand, frozen=True, kw_only=True, tag="extend-ticket"):
    """Hold on to a ticket. ``seen_until`` is the end of the lease as it was last known; ``lease_ms`` as in `ClaimTicket`."""

    lease: str
    seen_until: int
    lease_ms: Annotated[int, Meta(ge=0, le=MOST_LEASE_MS)] = 0


class ReleaseTicket(_TicketCommand, frozen=True, kw_only=True, tag="release-ticket"):
    """Give a ticket back to its queue; with ``why`` `access` in place of a holder whose grant was withdrawn."""

    lease: str
    why: ReleasedWhy = "given-back"
    reason: Text = ""


class ReassignTicket(_TicketCommand, frozen=True, kw_only=True, tag="reassign-ticket"):
    """Give a ticket to a person (``to``), who holds it from then on, or to another queue (``to_queue``): one of both.

    ``claim_id`` is the id of that person's claim. A ticket that somebody else holds is given away by no one but its
    holder; take it over first.
    """

    version: int
    to: Annotated[str, Meta(max_length=140)] = ""
    to_queue: Annotated[str, Meta(max_length=100)] = ""
    claim_id: Annotated[str, Meta(max_length=64)] = ""
    reason: Text = ""


class SnoozeTicket(_TicketCommand, frozen=True, kw_only=True, tag="snooze-ticket"):
    """Offer the ticket to nobody for a while (milliseconds). Its escalation goes on meanwhile."""

    version: int
    for_ms: Annotated[int, Meta(ge=1, le=MOST_SNOOZE_MS)]
    reason: Text = ""


class WakeTicket(_TicketCommand, frozen=True, kw_only=True, tag="wake-ticket"):
    """Offer a snoozed ticket again, before its time."""

    version: int


class CommentTicket(_TicketCommand, frozen=True, kw_only=True, tag="comment-ticket"):
    """Say something about an open ticket. ``comment_id`` makes it one comment however often it is sent."""

    comment_id: Annotated[str, Meta(min_length=1, max_length=64)]
    text: Annotated[str, Meta(min_length=1, max_length=8192)]


class AlertTicket(_TicketCommand, frozen=True, kw_only=True, tag="alert-ticket"):
    """Nobody who is known may take this ticket: it goes to the alerting queue (`passdown.contracts.plans.ALERTS`).

    ``back``: somebody may again, so it goes back to the queue from which the alert took it, if nobody touched it since.
    Whatever process raises it says the same ``why`` of the same ``version``: they are one act.
    """

    version: int
    why: Text
    back: bool = False


TicketCommand = (
    ClaimTicket
    | ExtendTicket
    | ReleaseTicket
    | ReassignTicket
    | SnoozeTicket
    | WakeTicket
    | CommentTicket
    | AlertTicket
)


def act_of(body: TicketCommand, by: str) -> tuple[object, ...]:
    """Return what makes this act the one that it is: equal for every try of it."""
    name = type(body).__name__
    match body:
        case ClaimTicket():
            return (name, body.ticket_no, body.claim_id)
        case ExtendTicket():
            return (name, body.ticket_no, body.lease, body.seen_until)
        case ReleaseTicket():
            return (name, body.ticket_no, body.lease)
        case CommentTicket():
            return (name, body.ticket_no, body.comment_id, by)
        case ReassignTicket() | SnoozeTicket() | WakeTicket() | AlertTicket():
            return (name, body.ticket_no, body.version, by)
