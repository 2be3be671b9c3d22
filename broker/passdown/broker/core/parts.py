"""The parts of a session's state: what it issued, who holds it, what it did, what it asked, what it waits for."""

from typing import Any, Literal

from passdown.contracts.codec import Record
from passdown.contracts.join_events import JoinHow
from passdown.contracts.pack import Cause, EffectStatus
from passdown.contracts.plans import Delivery
from passdown.contracts.schema import Schema
from passdown.contracts.ticket_events import NO_NEEDS, Needs, Resolution, TicketKind


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
    """A person's yes to one exact action; where several were needed, ``also`` said so before.

    ``permitted``: it covers a call that the stage denies (`Stage.permits`). ``queue`` is the one on which it was given, and
    ``asked`` the one that the plan named for it, where that is another one.
    """

    ticket_no: int
    by: str
    also: list[str] = []
    action: str
    valid_until: int
    asked: str = ""
    queue: str = ""
    permitted: bool = False
    spent: bool = False


class Effect(Record, frozen=True, kw_only=True):
    """A row of the ledger (DESIGN §6).

    What is large or old stands in the log only: ``args`` is None then, and ``args_seq`` names its event;
    ``result_out`` says so of the result, which the event ``result_seq`` holds. ``weight`` is what the row
    still holds of these, in bytes. ``claims`` are the claims that intended it, the last one last.
    ``edited`` are a person's arguments, which run in place of ``args``. ``void``: it was approved, and that yes is void.
    ``touched`` is the last event on it.
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
    void: bool = False
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


class Holder(Record, frozen=True, kw_only=True):
    """Who holds a ticket, until when (store milliseconds); ``claim_id`` is the token of that lease."""

    by: str
    claim_id: str
    until: int


class Ticket(Record, frozen=True, kw_only=True):
    """An open ticket. Its ``version`` counts what changes who may decide what: not longer leases, nor comments.

    ``stage`` is the one that it was opened in, and ``opened_on`` the queue, once it is in another one. ``approved_by`` are
    those who approved ``action`` by now, of the ``approvals`` that are needed; ``edited`` are its arguments where one of
    them changed them. ``lapses`` counts claims that ran out. ``level`` is that of the stage's escalation path, from 1, whose delay passed last. ``alerted_from`` is the
    queue from which an alert took it, as long as nobody has touched it since.
    """

    ticket_no: int
    version: int = 1
    kind: TicketKind
    queue: str
    why: str
    actions: list[Resolution]
    about: str = ""
    action: str = ""
    opened_at: int
    opened_on: str = ""
    stage: str = ""
    priority: int = 0
    needs: Needs = NO_NEEDS
    approvals: int = 1
    approved_by: list[str] = []
    edited: dict[str, Any] | None = None
    edited_identity: dict[str, Any] | None = None
    lease_ms: int = 0
    holder: Holder | None = None
    lapses: int = 0
    snoozed_until: int | None = None
    level: int = 0
    due_at: int | None = None
    escalate_at: int | None = None
    comments: int = 0

    @property
    def first_queue(self) -> str:
        """The queue that it was opened on."""
        return self.opened_on or self.queue

    alerted_from: str = ""


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

    ``lost``: its claim was lost, so `recovery` applies; ``denied``: a person said no, so `on_denied` does. ``to``: nobody
    resolved a ticket in time, and instead of a pack this stage follows.
    """

    cause: Cause
    at: int
    lost: bool = False
    denied: bool = False
    to: str = ""


class SentBack(Record, frozen=True, kw_only=True):
    """Branches that a person sends back to, by ticket ``ticket_no``, and have not been reopened yet."""

    ticket_no: int
    branches: list[str]
    feedback: str
    by: str


class Join(Record, frozen=True, kw_only=True):
    """A fan-out of this session of which something is still to come.

    Branches before place ``opened`` exist, those before ``opening`` may; ``asked`` is what a person is asked about it.
    Once it is ``closed``, `how` says by what, and ``counted`` rows up to ``upto`` of its record, which ``digest``
    fixes, are merged, or only that of ``branch``. ``told`` is the place up to which the others were called off
    (None: nobody is), ``drained`` that all branches have ended.
    """

    join_id: str
    step: int
    stage: str
    branches: int
    items: str
    opened: int = 0
    opening: int = 0
    deadline: int | None = None
    asked: Literal["", "conflict", "short"] = ""
    sent_back: SentBack | None = None
    closed: bool = False
    how: JoinHow = "enough"
    counted: int = 0
    upto: int = 0
    digest: str = ""
    outcomes: dict[str, int] = {}
    branch: str = ""
    why: str = ""
    to: str = ""
    told: int | None = None
    drained: bool = False
    #: When the last of its events came (store milliseconds).
    at: int = 0

    @property
    def merges(self) -> bool:
        """Whether its branches, or one of them, are merged."""
        return self.closed and self.how in ("enough", "partial", "chosen")


class Outcome(Record, frozen=True, kw_only=True):
    """How the session ended."""

    result: str
    output: Any = None
    reason: str = ""
    policy: str = ""
