"""The state of a session, its statuses, and which event may lead where.

The state is folded from the log (`evolve`) and stored beside it; it holds what the next decision needs
and nothing else. What is large or old stays in the log and is referred to by ``seq``.
"""

from typing import Any, Literal

from msgspec import field

from passdown.contracts.codec import Record
from passdown.contracts.events import EndingStatus, Resolution, TicketKind
from passdown.contracts.pack import Cause, EffectStatus, Parent, Resource
from passdown.contracts.plans import Delivery, PlanRef
from passdown.contracts.returns import Return
from passdown.contracts.schema import Schema

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

_RESTING: tuple[Status, ...] = ("queued", "waiting-input", "waiting-human")
_OPEN: tuple[Status, ...] = ("running", *_RESTING)
_ALL: tuple[Status, ...] = (*_OPEN, "done", "refused", "failed", "cancelled", "expired")

Moves = dict[Status, tuple[Status, ...]]


def _stays(*statuses: Status) -> Moves:
    return {status: (status,) for status in statuses}


def _leads(froms: tuple[Status, ...], *targets: Status) -> Moves:
    return dict.fromkeys(froms, targets)


_IDLE: tuple[Status, ...] = ("queued", "waiting-human")
_CLAIM_ENDS = _leads(("running",), *_IDLE)
#: A settle pack that is no longer needed leaves the queue; what else is open shows then.
_PACK_GOES = _leads(("queued",), *_IDLE)
_TICKET_GOES = _leads(("waiting-human",), *_IDLE)

#: Event → status in which it may occur → the statuses that it may leave behind. What is not here is refused.
#: `SessionOpened` opens the log. The diagram in the docs is drawn from this (`diagram`).
TRANSITIONS: dict[str, Moves] = {
    "SessionOpened": {},
    "StageEntered": _stays(*_IDLE),
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
    "ReturnRejected": {**_CLAIM_ENDS, **_stays(*_IDLE)},
    "InputRequested": _leads(_IDLE, "waiting-input"),
    "InputProvided": _leads(("waiting-input",), *_RESTING),
    "Escalated": _stays(*_IDLE),
    "TicketOpened": {**_stays(*_ALL), **_leads(("queued",), *_IDLE)},
    "TicketResolved": {**_stays(*_ALL), **_TICKET_GOES, **_leads(("waiting-input",), *_RESTING)},
    "TicketWithdrawn": {**_stays(*_OPEN), **_TICKET_GOES},
    "Paused": {**_stays(*_OPEN), **_PACK_GOES},
    "Resumed": _stays(*_OPEN),
    "Ending": _stays("running", *_IDLE),
    "Completed": _leads(_IDLE, "done"),
    "Refused": _leads(_IDLE, "refused"),
    "Failed": _leads(("queued",), "failed"),
    "Cancelled": _leads(_OPEN, "cancelled"),
    "Expired": _leads(_OPEN, "expired"),
}


class Issued(Record, frozen=True, kw_only=True):
    """The pack that is in the queue, or claimed. ``tools``: name → digest of its specification."""

    attempt: int
    cause: Cause
    digest: str
    role: str
    delivery: Delivery = "pull"
    lease_ms: int
    solo: bool = False
    priority: int = 0
    tools: dict[str, str] = {}


class ClaimHeld(Record, frozen=True, kw_only=True):
    """The worker that holds the attempt."""

    claim_id: str
    attempt: int
    by: str
    agent: str = ""
    agent_version: str = ""
    model: str = ""


class Snapshot(Record, frozen=True, kw_only=True):
    """The last valid intermediate state of the step."""

    attempt: int
    data: Any
    counters: dict[str, int] = {}


class Approval(Record, frozen=True, kw_only=True):
    """A person's yes to one exact action."""

    ticket_no: int
    by: str
    action: str
    valid_until: int
    spent: bool = False


class Effect(Record, frozen=True, kw_only=True):
    """A row of the ledger (DESIGN §6).

    What is large or old stands in the log only: ``args`` is None then, and ``args_seq`` names its event;
    ``result_out`` says so of the result, which the event ``result_seq`` holds. ``weight`` is what the row
    still holds of these, in bytes. ``claims`` are the claims that intended it, the last one last.
    ``edited`` are a person's arguments, which run in place of ``args``. ``touched`` is the last event on it.
    """

    effect_id: str
    ordinal: int
    step: int
    tool: str
    tool_digest: str
    identity: str
    n: int
    status: EffectStatus
    by: str
    args: dict[str, Any] | None
    args_digest: str
    args_seq: int
    result: Any = None
    result_seq: int | None = None
    result_out: bool = False
    error: str = ""
    weight: int = 0
    claims: list[str] = []
    attempts: int = 0
    repeat: bool = False
    approval: Approval | None = None
    edited: dict[str, Any] | None = None
    edited_identity: str = ""
    touched: int = 0


class Read(Record, frozen=True, kw_only=True):
    """A reading call of this step; ``kept`` where its result stands here."""

    tool: str
    args: Any
    args_digest: str
    result_digest: str
    at: int
    kept: bool = False
    result: Any = None
    fresh_for_ms: int | None = None


class Asked(Record, frozen=True, kw_only=True):
    """A question of this step, and its answer once there is one."""

    attempt: int
    id: str
    text: str
    schema: Schema
    ask: str
    answered: bool = False
    value: Any = None
    by: str = ""


class Ticket(Record, frozen=True, kw_only=True):
    """An open ticket."""

    ticket_no: int
    version: int = 1
    kind: TicketKind
    queue: str
    why: str
    actions: list[Resolution]
    about: str = ""
    action: str = ""
    opened_at: int


class Decided(Record, frozen=True, kw_only=True):
    """How one of the latest tickets ended, and who ended it: whoever comes second is told."""

    ticket_no: int
    by: str
    how: str


class FeedbackItem(Record, frozen=True, kw_only=True):
    """Why an attempt of this step did not count."""

    attempt: int
    kind: str
    text: str


class Owed(Record, frozen=True, kw_only=True):
    """A pack that will be issued once nothing stands in its way, not before ``at``.

    ``lost``: its claim was lost, so `recovery` applies; ``denied``: a person said no, so `on_denied` does.
    """

    cause: Cause
    at: int
    lost: bool = False
    denied: bool = False


class Outcome(Record, frozen=True, kw_only=True):
    """How the session ended."""

    result: str
    output: Any = None
    reason: str = ""
    policy: str = ""


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
    reads: list[Read] = []
    left_out: int = 0
    questions: list[Asked] = []
    feedback: list[FeedbackItem] = []
    tickets: list[Ticket] = []
    tickets_opened: int = 0
    decided: list[Decided] = []
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
    return "waiting-human" if state.tickets else "queued"


def a2a_state(state: State) -> str:
    """Return the A2A task state that a client of that protocol is shown (DESIGN §5)."""
    approval = state.status == "waiting-human" and any(ticket.kind == "approval" for ticket in state.tickets)
    return "auth-required" if approval and not state.paused else A2A_STATE[state.shown_status]
