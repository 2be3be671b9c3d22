"""Every transition of a session, as an event (DESIGN §5). Written once, never changed, folded into the state.

A logged event is ``{seq, at, by, prev, event}``: ``seq`` counts from 1 within the session; ``at`` is the
store's clock in milliseconds since the epoch, never decreasing; ``by`` is the principal that acted;
``prev`` is the digest of the logged event before it (empty for the first), which chains the log.
"""

from typing import Any, Literal

from passdown.contracts.codec import Record
from passdown.contracts.join_events import (
    BranchesOpened,
    BranchesTold,
    EventRecord,
    FannedOut,
    JoinConflict,
    JoinDrained,
    Joined,
    JoinShort,
    Reopened,
)
from passdown.contracts.pack import Cause, ListRef, Parent, Resource
from passdown.contracts.plans import Delivery, PlanRef
from passdown.contracts.reserved import ReservedEvent
from passdown.contracts.returns import EvidenceItem, Fence, Question, Return
from passdown.contracts.ticket_events import (
    TicketApproved,
    TicketClaimed,
    TicketCommented,
    TicketEscalated,
    TicketExpired,
    TicketExtended,
    TicketOpened,
    TicketReassigned,
    TicketReleased,
    TicketResolved,
    TicketSnoozed,
    TicketWithdrawn,
    TicketWoken,
)

EndingStatus = Literal["cancelled", "expired", "done", "refused", "failed"]


class SessionOpened(EventRecord, frozen=True, kw_only=True, tag="SessionOpened"):
    """A submit opened the session; ``by`` of this event is its initiator. ``lists`` are those kept beside it."""

    session_id: str
    task_id: str
    task_name: str
    key: str
    plan: PlanRef
    inputs: dict[str, Any]
    resources: list[Resource] = []
    parent: Parent | None = None
    trace: str = ""
    lists: dict[str, ListRef] = {}
    #: Where the session is told of: its outcome to a queue, each change of its status to an exchange.
    reply_to: str = ""
    events_to: str = ""


class StageEntered(EventRecord, frozen=True, kw_only=True, tag="StageEntered"):
    """The session entered a stage; ``reason`` names the move, ``feedback`` what a person wants done better."""

    stage: str
    step: int
    reason: str
    human: bool = False
    deadline: int | None = None  # in store milliseconds
    feedback: str = ""


class PackIssued(EventRecord, frozen=True, kw_only=True, tag="PackIssued"):
    """An attempt was put on its role queue. ``fresh`` starts the count of failures anew, ``from_top`` the work."""

    step: int
    attempt: int
    cause: Cause
    role: str
    delivery: Delivery = "pull"
    digest: str
    bytes: int
    lease_ms: int
    solo: bool = False
    priority: int = 0
    fresh: bool = False
    from_top: bool = False
    tools: dict[str, str] = {}
    changes: list[str] = []
    left_out: int = 0


class Claimed(EventRecord, frozen=True, kw_only=True, tag="Claimed"):
    """A worker holds the attempt until its lease runs out."""

    attempt: int
    claim_id: str
    agent: str = ""
    agent_version: str = ""
    model: str = ""


class ClaimReleased(EventRecord, frozen=True, kw_only=True, tag="ClaimReleased"):
    """The worker handed the attempt back (it shuts down); no failure is counted."""

    claim_id: str
    reason: str


class LeaseLost(EventRecord, frozen=True, kw_only=True, tag="LeaseLost"):
    """The claim's lease ran out, so the attempt counts as failed."""

    claim_id: str
    retry_at: int


class Checkpointed(EventRecord, frozen=True, kw_only=True, tag="Checkpointed"):
    """The worker's intermediate state, valid from here on."""

    claim_id: str
    data: Any
    counters: dict[str, int] = {}


class EffectProposed(EventRecord, frozen=True, kw_only=True, tag="EffectProposed"):
    """A call that a person must see first; ``action`` is the digest that an approval binds to."""

    effect_id: str
    tool: str
    tool_digest: str
    args: dict[str, Any]
    identity: str
    n: int
    action: str
    why: str
    claim_id: str


class EffectIntended(EventRecord, frozen=True, kw_only=True, tag="EffectIntended"):
    """The claim is about to write outside. Recorded before the write (rule 3)."""

    effect_id: str
    tool: str
    tool_digest: str
    args: dict[str, Any]
    identity: str
    n: int
    claim_id: str
    counters: dict[str, int] = {}
    #: Ticket number of the approval that this spends, if one was needed.
    approval: int | None = None


class EffectDone(EventRecord, frozen=True, kw_only=True, tag="EffectDone"):
    """The write happened."""

    effect_id: str
    result: Any = None


class EffectFailed(EventRecord, frozen=True, kw_only=True, tag="EffectFailed"):
    """The tool knows that nothing was written."""

    effect_id: str
    error: str


class EffectUnknown(EventRecord, frozen=True, kw_only=True, tag="EffectUnknown"):
    """Nobody knows whether the write happened."""

    effect_id: str
    why: str


class EffectSettled(EventRecord, frozen=True, kw_only=True, tag="EffectSettled"):
    """An unknown effect is known: ``done`` with its result, or ``not-done`` (``repeat``: it may be tried again)."""

    effect_id: str
    status: Literal["done", "not-done"]
    result: Any = None
    repeat: bool = False
    how: Literal["verify", "person"] = "verify"


class ToolCalled(EventRecord, frozen=True, kw_only=True, tag="ToolCalled"):
    """A reading call. ``kept``: its result stands here and may enter later packs of this step; ``error``: it raised."""

    tool: str
    args: Any
    args_digest: str
    result_digest: str
    #: Milliseconds between the call and this commit.
    age_ms: int = 0
    kept: bool = False
    result: Any = None
    error: str = ""
    fresh_for_ms: int | None = None


class ToolDenied(EventRecord, frozen=True, kw_only=True, tag="ToolDenied"):
    """A call that the stage does not grant, or whose arguments do not fit the granted schema."""

    tool: str
    why: str


class Returned(EventRecord, frozen=True, kw_only=True, tag="Returned"):
    """The one accepted return of this attempt; ``kept`` until the step's unknown effects are settled."""

    body: Return
    kept: bool = False
    agent: str = ""
    agent_version: str = ""
    model: str = ""


class ReturnFenced(EventRecord, frozen=True, kw_only=True, tag="ReturnFenced"):
    """A return that did not carry the current fence: recorded, without effect (rule 2)."""

    fence: Fence
    digest: str
    why: str


class ReturnRejected(EventRecord, frozen=True, kw_only=True, tag="ReturnRejected"):
    """The claim ended without a return that counts: it broke its contract, or the agent failed."""

    claim_id: str
    kind: Literal["contract", "error", "unsettled"]
    problem: str
    digest: str = ""
    retry_at: int


class InputRequested(EventRecord, frozen=True, kw_only=True, tag="InputRequested"):
    """Questions wait for ``ask``: the producer, or a human queue."""

    attempt: int
    questions: list[Question]
    ask: str


class InputProvided(EventRecord, frozen=True, kw_only=True, tag="InputProvided"):
    """One question is answered; ``by`` of this event answered it."""

    attempt: int
    id: str
    value: Any


class Escalated(EventRecord, frozen=True, kw_only=True, tag="Escalated"):
    """The machine must not go on; the ticket stands in the same commit."""

    reason: str
    recommended: str = ""
    risks: list[str] = []
    evidence: list[EvidenceItem] = []
    hand_over: Any = None


class Paused(EventRecord, frozen=True, kw_only=True, tag="Paused"):
    """Nothing new is issued until resumed; a pack in the queue was withdrawn. ``until`` in store milliseconds."""

    until: int | None = None
    reason: str = ""


class Resumed(EventRecord, frozen=True, kw_only=True, tag="Resumed"):
    """The session goes on."""


class Ending(EventRecord, frozen=True, kw_only=True, tag="Ending"):
    """The session will end so once its last open effect is settled and its last branch has ended."""

    status: EndingStatus
    reason: str


class Cancelled(EventRecord, frozen=True, kw_only=True, tag="Cancelled"):
    """Somebody called the session off."""

    reason: str


class Expired(EventRecord, frozen=True, kw_only=True, tag="Expired"):
    """A deadline passed."""

    reason: str


class Completed(EventRecord, frozen=True, kw_only=True, tag="Completed"):
    """The plan ran to its end; the outcome is the last output."""


class Refused(EventRecord, frozen=True, kw_only=True, tag="Refused"):
    """The work was refused, and the plan names no move for that."""

    reason: str
    policy: str = ""


class Failed(EventRecord, frozen=True, kw_only=True, tag="Failed"):
    """Attempts are used up, and the plan says to fail. The verb `retry` reopens it."""

    reason: str


WrittenEvent = (
    SessionOpened
    | StageEntered
    | PackIssued
    | Claimed
    | ClaimReleased
    | LeaseLost
    | Checkpointed
    | EffectProposed
    | EffectIntended
    | EffectDone
    | EffectFailed
    | EffectUnknown
    | EffectSettled
    | ToolCalled
    | ToolDenied
    | Returned
    | ReturnFenced
    | ReturnRejected
    | InputRequested
    | InputProvided
    | Escalated
    | TicketOpened
    | TicketClaimed
    | TicketExtended
    | TicketReleased
    | TicketReassigned
    | TicketSnoozed
    | TicketWoken
    | TicketCommented
    | TicketApproved
    | TicketEscalated
    | TicketExpired
    | TicketResolved
    | TicketWithdrawn
    | FannedOut
    | BranchesOpened
    | JoinConflict
    | JoinShort
    | Joined
    | BranchesTold
    | JoinDrained
    | Reopened
    | Paused
    | Resumed
    | Ending
    | Cancelled
    | Expired
    | Completed
    | Refused
    | Failed
)

Event = WrittenEvent | ReservedEvent


class Logged(Record, frozen=True, kw_only=True):
    """An event in its place in the log."""

    seq: int
    at: int
    by: str
    prev: str
    event: Event
