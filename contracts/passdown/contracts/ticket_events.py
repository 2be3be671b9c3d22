"""Events of tickets: who holds one, what became of it, and what was decided (DESIGN §9)."""

from typing import Any, Literal

from passdown.contracts.codec import Record
from passdown.contracts.join_events import EventRecord

TicketKind = Literal[
    "escalation",
    "question",
    "approval",
    "permission",
    "conflict",
    "short",
    "effect",
    "unmet",
    "stage",
    "failure",
    "budget",
]
#: `choose` and `merge` are of a join's ticket: take one branch's output, or go on with the branches that count.
Resolution = Literal[
    "answer",
    "approve",
    "deny",
    "edit",
    "complete",
    "send-back",
    "redirect",
    "cancel",
    "done",
    "not-done",
    "choose",
    "merge",
]
#: Why a claim ended without a decision: its holder gave it back, its lease ran out, or a grant was withdrawn.
ReleasedWhy = Literal["given-back", "lapsed", "access"]


class Needs(Record, frozen=True, kw_only=True):
    """Who may take a ticket: one of ``candidates`` (principals; none named: whoever serves its queue) with all ``skills``.

    Never one of ``excluded``: who initiated or proposed what is decided, and who approved it before.
    """

    candidates: list[str] = []
    skills: list[str] = []
    excluded: list[str] = []


#: Of a ticket that asks for nobody in particular. One object, so that as a default it leaves no bytes.
NO_NEEDS = Needs()
#: How long a claim lasts where nothing else is said (milliseconds).
TICKET_LEASE_MS = 900_000


class TicketOpened(EventRecord, frozen=True, kw_only=True, tag="TicketOpened"):
    """A person is asked. ``about`` is what it concerns: an effectId, a question's attempt, or a join's id.

    Times are store milliseconds: ``due_at`` is what tickets are sorted by, at ``escalate_at`` the next level of the
    path is told, or, after the last, the stage's overdue rule applies. ``approvals`` different people must agree.
    ``stage`` is the one whose path that is; ``lease_ms`` how long a claim lasts (0: `TICKET_LEASE_MS`).
    """

    ticket_no: int
    kind: TicketKind
    queue: str
    why: str
    actions: list[Resolution]
    about: str = ""
    #: Digest of the pending action, for an approval.
    action: str = ""
    priority: int = 0
    stage: str = ""
    needs: Needs = NO_NEEDS
    approvals: int = 1
    lease_ms: int = 0
    due_at: int | None = None
    escalate_at: int | None = None


class TicketClaimed(EventRecord, frozen=True, kw_only=True, tag="TicketClaimed"):
    """A person (``by`` of this event) holds the ticket until its lease runs out, in store milliseconds.

    ``taken_from`` is who held it until then, where it was taken over for a ``reason``.
    """

    ticket_no: int
    claim_id: str
    until: int
    taken_from: str = ""
    reason: str = ""


class TicketExtended(EventRecord, frozen=True, kw_only=True, tag="TicketExtended"):
    """The holder is still at it; the lease runs ``until`` then."""

    ticket_no: int
    until: int


class TicketReleased(EventRecord, frozen=True, kw_only=True, tag="TicketReleased"):
    """The ticket is back in its queue; ``holder`` held it. One that lapsed is counted."""

    ticket_no: int
    holder: str
    why: ReleasedWhy
    reason: str = ""


class TicketReassigned(EventRecord, frozen=True, kw_only=True, tag="TicketReassigned"):
    """The ticket went to another queue, where whoever serves that may take it, or to a person, who holds it from here on.

    To a person (``to``) it comes with a claim, so that it returns to its queue where that person does nothing.
    ``alert``: the broker moved it, since nobody known could take it; it goes back once somebody can.
    """

    ticket_no: int
    to: str = ""
    to_queue: str = ""
    claim_id: str = ""
    until: int | None = None
    reason: str = ""
    alert: bool = False


class TicketSnoozed(EventRecord, frozen=True, kw_only=True, tag="TicketSnoozed"):
    """Nobody is offered the ticket until then (store milliseconds); whoever held it holds it no more."""

    ticket_no: int
    until: int
    reason: str = ""


class TicketWoken(EventRecord, frozen=True, kw_only=True, tag="TicketWoken"):
    """The ticket is offered again."""

    ticket_no: int


class TicketCommented(EventRecord, frozen=True, kw_only=True, tag="TicketCommented"):
    """Somebody said something about it. Stands in the log only."""

    ticket_no: int
    text: str


class TicketApproved(EventRecord, frozen=True, kw_only=True, tag="TicketApproved"):
    """One of several approvals that are needed, of exactly this ``action``; the ticket is back in its queue.

    An edit is the first approval of the arguments ``args``: those given before are void.
    """

    ticket_no: int
    action: str
    note: str = ""
    args: dict[str, Any] | None = None
    identity: dict[str, Any] | None = None


class TicketEscalated(EventRecord, frozen=True, kw_only=True, tag="TicketEscalated"):
    """Nobody resolved it in time, so the ticket went to the next level of its path."""

    ticket_no: int
    level: int
    queue: str
    escalate_at: int | None = None


class TicketExpired(EventRecord, frozen=True, kw_only=True, tag="TicketExpired"):
    """Nobody resolved it, not on the last level either: the stage's overdue rule applies. Never an approval."""

    ticket_no: int
    #: A stage, or `fail`.
    to: str


class TicketResolved(EventRecord, frozen=True, kw_only=True, tag="TicketResolved"):
    """A person decided; ``by`` of this event did."""

    ticket_no: int
    resolution: Resolution
    value: Any = None
    note: str = ""
    #: For an approval: until when it is good, in store milliseconds, and of which exact action.
    valid_until: int | None = None
    action: str = ""
    #: For an edit: the identity that the new arguments would have as an effect of their own.
    identity: dict[str, Any] | None = None


class TicketWithdrawn(EventRecord, frozen=True, kw_only=True, tag="TicketWithdrawn"):
    """The ticket is no longer needed; ``holder`` held it until now."""

    ticket_no: int
    why: str
    holder: str = ""
