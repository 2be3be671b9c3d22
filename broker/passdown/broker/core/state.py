"""The state of a session, its statuses, and which event may lead where.

The state is folded from the log (`evolve`) and stored beside it; it holds what the next decision needs
and nothing else. What is large or old stays in the log and is referred to by ``seq``.
"""

from typing import Any, Literal

from msgspec import field

from passdown.broker.core.parts import (
    Asked,
    ClaimHeld,
    Decided,
    Effect,
    FeedbackItem,
    Issued,
    Join,
    Outcome,
    Owed,
    Read,
    Snapshot,
    Ticket,
)
from passdown.contracts.codec import Record
from passdown.contracts.events import EndingStatus
from passdown.contracts.pack import ListRef, Parent, Resource
from passdown.contracts.plans import PlanRef
from passdown.contracts.returns import Return
from passdown.contracts.ticket_events import TicketKind

STATE_SPEC: Literal["passdown.state/1"] = "passdown.state/1"

Status = Literal[
    "queued",
    "running",
    "waiting-input",
    "waiting-human",
    "waiting-join",
    "done",
    "refused",
    "failed",
    "cancelled",
    "expired",
]

TERMINAL: frozenset[Status] = frozenset({"done", "refused", "failed", "cancelled", "expired"})

#: Status → A2A task state (DESIGN §5); an approval is told apart by `a2a_state`.
A2A_STATE: dict[str, str] = {
    "queued": "submitted",
    "running": "working",
    "waiting-input": "input-required",
    "waiting-human": "input-required",
    "waiting-join": "working",
    "paused": "input-required",
    "done": "completed",
    "refused": "rejected",
    "failed": "failed",
    "cancelled": "canceled",
    "expired": "failed",
}

_RESTING: tuple[Status, ...] = ("queued", "waiting-input", "waiting-human", "waiting-join")
_OPEN: tuple[Status, ...] = ("running", *_RESTING)
_ALL: tuple[Status, ...] = (*_OPEN, "done", "refused", "failed", "cancelled", "expired")

Moves = dict[Status, tuple[Status, ...]]


def _stays(*statuses: Status) -> Moves:
    return {status: (status,) for status in statuses}


def _leads(froms: tuple[Status, ...], *targets: Status) -> Moves:
    return dict.fromkeys(froms, targets)


_IDLE: tuple[Status, ...] = ("queued", "waiting-human", "waiting-join")
_ENDED: tuple[Status, ...] = ("done", "refused", "failed", "cancelled", "expired")
_CLAIM_ENDS = _leads(("running",), *_IDLE)
#: A settle pack that is no longer needed leaves the queue; what else is open shows then.
_PACK_GOES = _leads(("queued",), *_IDLE)
_TICKET_GOES = _leads(("waiting-human",), *_IDLE)
#: What is left of a join is seen to beside whatever else the session does.
_JOIN_GOES_ON: Moves = {**_stays(*_ALL), **_leads(("waiting-join",), *_IDLE)}

#: Event → status in which it may occur → the statuses that it may leave behind. What is not here is refused.
#: `SessionOpened` opens the log. The diagram in the docs is drawn from this (`diagram`).
TRANSITIONS: dict[str, Moves] = {
    "SessionOpened": {},
    "StageEntered": {
        **_stays("waiting-human"),
        **_leads(("queued", "waiting-join"), "queued", "waiting-join"),
    },
    "PackIssued": _leads((*_IDLE, "failed"), "queued"),
    "Claimed": _leads(("queued",), "running"),
    "ClaimReleased": _CLAIM_ENDS,
    "LeaseLost": _CLAIM_ENDS,
    "Checkpointed": _stays("running"),
    "ToolCalled": _stays("running"),
    "ToolDenied": _stays("running"),
    "EffectProposed": _CLAIM_ENDS,
    "EffectIntended": _stays("running"),
    "EffectDone": {**_stays(*_ALL), **_PACK_GOES},
    "EffectFailed": {**_stays(*_ALL), **_PACK_GOES},
    "EffectUnknown": _stays("running"),
    "EffectSettled": _stays(*_ALL),
    "Returned": _CLAIM_ENDS,
    "ReturnFenced": _stays(*_ALL),
    # A return that was kept is judged once its writes are settled, while branches of an earlier step may be at work.
    "ReturnRejected": {**_CLAIM_ENDS, **_stays(*_IDLE), **_leads(("waiting-join",), "queued")},
    "InputRequested": _leads(_IDLE, "waiting-input"),
    "InputProvided": _leads(("waiting-input",), *_RESTING),
    "Escalated": _stays(*_IDLE),
    "TicketOpened": {**_stays(*_ALL), **_leads(("queued", "waiting-join"), *_IDLE)},
    "TicketResolved": {**_stays(*_ALL), **_TICKET_GOES, **_leads(("waiting-input",), *_RESTING)},
    "TicketExpired": {**_stays(*_ALL), **_TICKET_GOES, **_leads(("waiting-input",), *_RESTING)},
    "TicketWithdrawn": {**_stays(*_OPEN), **_TICKET_GOES},
    "TicketClaimed": _stays(*_ALL),
    "TicketExtended": _stays(*_ALL),
    "TicketReleased": _stays(*_ALL),
    "TicketReassigned": _stays(*_ALL),
    "TicketSnoozed": _stays(*_ALL),
    "TicketWoken": _stays(*_ALL),
    "TicketCommented": _stays(*_ALL),
    "TicketApproved": _stays(*_ALL),
    "TicketEscalated": _stays(*_ALL),
    "FannedOut": _leads(_IDLE, "waiting-join"),
    "BranchesOpened": _stays(*_OPEN),
    "JoinConflict": _stays(*_OPEN),
    "JoinShort": _stays(*_OPEN),
    "Joined": _JOIN_GOES_ON,
    "BranchesTold": _JOIN_GOES_ON,
    "JoinDrained": _JOIN_GOES_ON,
    "Reopened": _leads(_ENDED, "queued", "waiting-human"),
    "Paused": {**_stays(*_OPEN), **_PACK_GOES},
    "Resumed": _stays(*_OPEN),
    "Ending": {
        **_stays("running", "waiting-human", "waiting-join"),
        **_leads(("queued",), *_IDLE),
        **_leads(("waiting-input",), "waiting-human", "waiting-join"),
    },
    "Completed": _leads(_IDLE, "done"),
    "Refused": _leads(_IDLE, "refused"),
    "Failed": _leads(("running", "queued", "waiting-human"), "failed"),
    "Cancelled": _leads(_OPEN, "cancelled"),
    "Expired": _leads(_OPEN, "expired"),
}


class State(Record, frozen=True, kw_only=True):
    """A session, as of event ``seq``. ``head`` is the digest of that event; ``data`` the overlaid inputs.

    ``failures`` and ``settles_lost`` bound the attempts of this step; ``lost`` counts its lost claims, also
    those that a person or an operator forgave; ``unreturned`` counts all that ended without an accepted return:
    lost, rejected, released, suspended by a proposal. ``left_out`` counts what of this step only the log still has.
    """

    #: Made by a function, for msgspec leaves out defaults: the bytes always say what they are.
    spec: Literal["passdown.state/1"] = field(default_factory=lambda: STATE_SPEC)
    session_id: str
    task_id: str
    task_name: str
    key: str
    plan: PlanRef
    by: str
    opened_at: int
    parent: Parent | None = None
    resources: list[Resource] = []
    lists: dict[str, ListRef] = {}
    trace: str = ""
    reply_to: str = ""
    events_to: str = ""
    data: dict[str, Any] = {}
    status: Status = "queued"
    paused: bool = False
    resume_at: int | None = None
    ending: EndingStatus | None = None
    ending_reason: str = ""
    outcome: Outcome | None = None
    stage: str = ""
    step: int = 0
    human: bool = False
    deadline: int | None = None
    entries: dict[str, int] = {}
    attempt: int = 0
    issued: Issued | None = None
    claim: ClaimHeld | None = None
    owed: Owed | None = None
    failures: int = 0
    lost: int = 0
    unreturned: int = 0
    settles_lost: int = 0
    snapshot: Snapshot | None = None
    effects: list[Effect] = []
    #: How many writes outside the branches of its joins did that are over, with those of theirs.
    below: int = 0
    reads: list[Read] = []
    left_out: int = 0
    questions: list[Asked] = []
    feedback: list[FeedbackItem] = []
    tickets: list[Ticket] = []
    tickets_opened: int = 0
    decided: list[Decided] = []
    #: The join of this step, and earlier ones of which some branch has not ended yet.
    joins: list[Join] = []
    #: The accepted return, or a person's output, whose consequences are not drawn yet.
    kept: Return | None = None
    completed: dict[str, Any] | None = None
    fenced: int = 0
    seq: int = 0
    at: int = 0
    head: str = ""

    def effect(self, effect_id: str) -> Effect | None:
        """Return the ledger's row of an effect."""
        return next((effect for effect in self.effects if effect.effect_id == effect_id), None)

    def ticket(self, ticket_no: int) -> Ticket | None:
        """Return an open ticket."""
        return next((ticket for ticket in self.tickets if ticket.ticket_no == ticket_no), None)

    def ticket_about(self, kind: TicketKind, about: str | None = None) -> Ticket | None:
        """Return an open ticket of a kind, about one thing or about any."""
        return next((one for one in self.tickets if one.kind == kind and about in (None, one.about)), None)

    def join(self, join_id: str) -> Join | None:
        """Return a fan-out of which something is still to come."""
        return next((join for join in self.joins if join.join_id == join_id), None)

    @property
    def joining(self) -> Join | None:
        """The fan-out of this step."""
        return next((join for join in self.joins if join.step == self.step), None)

    def undrained(self) -> bool:
        """Whether some branch may still be at work: a session does not end before its branches."""
        return any(not join.drained for join in self.joins)

    @property
    def shown_status(self) -> str:
        """The status as users see it: ``paused`` overlays the status beneath."""
        return "paused" if self.paused and self.status not in TERMINAL else self.status

    @property
    def over(self) -> bool:
        """Whether the session has ended."""
        return self.status in TERMINAL

    def unfinished(self) -> list[Effect]:
        """Return the effects of which nobody knows yet how they ended."""
        return [effect for effect in self.effects if effect.status in ("intended", "unknown")]

    def unknown(self) -> list[Effect]:
        """Return the effects that must be settled."""
        return [effect for effect in self.effects if effect.status == "unknown"]

    def unanswered(self) -> bool:
        """Whether a question of this step waits for its answer."""
        return any(not question.answered for question in self.questions)

    def settling(self) -> bool:
        """Whether the present attempt only asks the tools what happened."""
        return self.issued is not None and self.issued.cause == "settle"


def resting_status(state: State) -> Status:
    """Return the status of an open session from its facts: who has to act next."""
    if state.claim:
        return "running"
    if state.issued:
        return "queued"
    if state.unanswered():
        return "waiting-input"
    if state.tickets:
        return "waiting-human"
    return "waiting-join" if waits_for_join(state) else "queued"


def waits_for_join(state: State) -> bool:
    """Whether branches have to act next: those of this step, or, where all else is done, the last of earlier ones."""
    join = state.joining
    if join is not None and not join.closed:
        return True
    return (state.owed is None or state.ending is not None) and state.undrained()


def a2a_state(state: State) -> str:
    """Return the A2A task state that a client of that protocol is shown (DESIGN §5)."""
    approval = any(ticket.kind in ("approval", "permission", "unmet") for ticket in state.tickets)
    return (
        "auth-required"
        if approval and state.status == "waiting-human" and not state.paused
        else A2A_STATE[state.shown_status]
    )
