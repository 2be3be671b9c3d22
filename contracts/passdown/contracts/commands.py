"""What can be asked of a session. Each command is idempotent by what it does (DESIGN §4).

``command_id`` derives the id of the act, so that a lost reply can be retried and the same act under
another content is a conflict. Time, new ids and what else `decide` needs come in beside the command.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from passdown.contracts import ids
from passdown.contracts.codec import Record, digest_of
from passdown.contracts.pack import ListRef, Parent, Resource
from passdown.contracts.plans import PlanRef
from passdown.contracts.returns import Fence
from passdown.contracts.ticket_commands import (
    AlertTicket,
    ClaimTicket,
    CommentTicket,
    ExtendTicket,
    ReassignTicket,
    ReleaseTicket,
    SnoozeTicket,
    TicketCommand,
    WakeTicket,
    act_of,
)
from passdown.contracts.ticket_events import Resolution

#: kind:name, for example user:ann, agent:cashier, group:desk, service:shop.
PRINCIPAL_PATTERN = r"^[a-z]+:[^\s:][^\s]{0,119}\Z"
#: `lease` and `restarted` are about a claim, their subject is its id, and they stand beside the state. `restarted`: the
#: store came back from a restart that may have lost its last moments. `join` stands beside the state, too: enough rows of
#: a join are there to look at it. `branches`: branches are to be opened, called off or sent back to. Those of a ticket
#: name it by its number: its claim's lease runs out, it is no longer snoozed, or its next level is due.
DueKind = Literal[
    "deadline",
    "retry-at",
    "resume-at",
    "join-deadline",
    "branches",
    "ticket-lease",
    "ticket-wake",
    "ticket-escalate",
    "lease",
    "restarted",
    "join",
]


class _Command(Record, frozen=True, kw_only=True, tag_field="command"):
    pass


class ToolNote(Record, frozen=True, kw_only=True):
    """A reading call that rides in the claim's next commit; ``result`` only where it is small enough to keep.

    ``error``: why the call raised, in place of a result.
    """

    tool: str
    args: Any
    denied: str = ""
    result_digest: str = ""
    result: Any = None
    kept: bool = False
    error: str = ""
    age_ms: int = 0


class Submit(_Command, frozen=True, kw_only=True, tag="submit"):
    """Open a session of ``plan``; the same key again is the same session."""

    key: Annotated[str, Meta(min_length=1, max_length=200)]
    plan: PlanRef
    inputs: dict[str, Any] = {}
    task_name: Annotated[str, Meta(max_length=200)] = ""
    resources: list[Resource] = []
    trace: str = ""
    #: The queue that the outcome is sent to; empty: nobody asks for it.
    reply_to: str = ""
    #: Lists that are kept beside the session already, by name.
    lists: dict[str, ListRef] = {}


class OpenBranch(_Command, frozen=True, kw_only=True, tag="open-branch"):
    """Open a branch of a fan-out, beginning in ``stage``; again is the same session.

    With ``cancel`` the branch is called off, whether it was opened or not: one that was not is opened as cancelled,
    so that whoever is about to open it finds that it has ended. ``feedback`` is a person's, to whom the branches before
    it were not good enough.
    """

    parent: Parent
    plan: PlanRef
    stage: str
    inputs: dict[str, Any]
    task_id: str
    task_name: str
    resources: list[Resource] = []
    trace: str = ""
    events_to: str = ""
    feedback: str = ""
    cancel: str = ""


class Rework(_Command, frozen=True, kw_only=True, tag="rework"):
    """Reopen a branch that has ended: ticket ``ticket_no`` of its parent sent it back."""

    join_id: str
    ticket_no: int
    feedback: str


class Claim(_Command, frozen=True, kw_only=True, tag="claim"):
    """Hold the attempt whose pack has this digest."""

    fence: Fence
    pack_digest: str
    agent: str = ""
    agent_version: str = ""
    model: str = ""


class Release(_Command, frozen=True, kw_only=True, tag="release"):
    """Hand the attempt back without a failure."""

    fence: Fence
    reason: str = "the worker shuts down"
    notes: list[ToolNote] = []


class Checkpoint(_Command, frozen=True, kw_only=True, tag="checkpoint"):
    """Record intermediate state. ``number`` counts this claim's commits and makes the command's id."""

    fence: Fence
    number: int
    data: Any
    counters: dict[str, int] = {}
    notes: list[ToolNote] = []


class NoteTools(_Command, frozen=True, kw_only=True, tag="note-tools"):
    """Record reading and denied calls by themselves."""

    fence: Fence
    number: int
    notes: list[ToolNote]


class Intend(_Command, frozen=True, kw_only=True, tag="intend"):
    """Ask to write outside. ``counters`` are the run's counters with this call counted in."""

    fence: Fence
    effect_id: str
    tool: str
    args: dict[str, Any]
    counters: dict[str, int] = {}
    after: str | None = None
    notes: list[ToolNote] = []


class Report(_Command, frozen=True, kw_only=True, tag="report"):
    """Say how an intended write ended. ``claim_id`` is of the claim that recorded the intent."""

    effect_id: str
    claim_id: str
    phase: Literal["done", "failed", "unknown"]
    result: Any = None
    error: str = ""


class Verdict(Record, frozen=True, kw_only=True):
    """What a tool's verify found out about one unknown effect."""

    effect_id: str
    found: Literal["found", "absent", "unsure"]
    result: Any = None
    note: str = ""


class Settle(_Command, frozen=True, kw_only=True, tag="settle"):
    """Give the verdicts of a settle attempt, which ends it."""

    fence: Fence
    verdicts: list[Verdict]


class Give(_Command, frozen=True, kw_only=True, tag="give"):
    """Give a return. ``body`` is the text as it came, so that what does not fit is judged, not lost."""

    fence: Fence
    body: str
    notes: list[ToolNote] = []


class Fail(_Command, frozen=True, kw_only=True, tag="fail"):
    """The agent ended without a return."""

    fence: Fence
    kind: Literal["contract", "error"] = "error"
    problem: str
    notes: list[ToolNote] = []


class Answer(_Command, frozen=True, kw_only=True, tag="answer"):
    """Answer one question; it must be named: a question is (step, attempt, id)."""

    step: int
    attempt: int
    id: str
    value: Any


class SendBack(Record, frozen=True, kw_only=True):
    """The value of a `send-back` of a join's ticket: to which branches, and what they are to do better."""

    branches: Annotated[list[str], Meta(min_length=1, max_length=100)]
    feedback: Annotated[str, Meta(max_length=8192)]


class Resolve(_Command, frozen=True, kw_only=True, tag="resolve"):
    """Decide a ticket. ``value``: arguments (edit), output (complete), feedback (send-back) or stage (redirect).

    Of a join's ticket: the branch (choose); ``{branches: […], feedback}`` (send-back). ``lease`` is the claim under which
    the ticket is held; empty for one that nobody holds, which this decides at once.
    """

    ticket_no: int
    version: int = 1
    lease: str = ""
    resolution: Resolution
    value: Any = None
    note: str = ""


class Cancel(_Command, frozen=True, kw_only=True, tag="cancel"):
    """Call the session off."""

    seen: int
    reason: str = ""


class Pause(_Command, frozen=True, kw_only=True, tag="pause"):
    """Issue nothing new until resumed, or for ``for_ms``."""

    seen: int
    for_ms: int | None = None
    reason: str = ""


class Resume(_Command, frozen=True, kw_only=True, tag="resume"):
    """Go on."""

    seen: int


class Retry(_Command, frozen=True, kw_only=True, tag="retry"):
    """Issue the present step again, with its failures forgotten."""

    seen: int


class Due(_Command, frozen=True, kw_only=True, tag="due"):
    """A due entry came up; ignored unless the state still waits for exactly this."""

    kind: DueKind
    subject: str
    due_at: int


Body = (
    Submit
    | Claim
    | Release
    | Checkpoint
    | NoteTools
    | Intend
    | Report
    | Settle
    | Give
    | Fail
    | Answer
    | Resolve
    | Cancel
    | Pause
    | Resume
    | Retry
    | Due
    | OpenBranch
    | Rework
    | TicketCommand
)


def command_id(session_id: str, body: Body, by: str) -> str:  # noqa: C901, PLR0912 - one case a command
    """Return the id of the act that `body` is: equal for every try of it, whoever lost the reply."""
    match body:
        case Submit():
            act: tuple[object, ...] = ("submit", body.key)
        case Claim() | Release() | Settle():
            act = (type(body).__name__, body.fence.step, body.fence.attempt, body.fence.claim_id)
        case Give() | Fail():
            # With the content in the id a second, different return reaches `decide`, which fences and records it.
            act = (type(body).__name__, body.fence.claim_id, digest_of(body))
        case Checkpoint() | NoteTools():
            act = ("claim-commit", body.fence.claim_id, body.number)
        case Intend():
            act = ("intend", body.fence.claim_id, body.effect_id)
        case Report():
            act = ("report", body.claim_id, body.effect_id, body.phase)
        case Answer():
            act = ("answer", body.step, body.attempt, body.id, by)
        case Resolve():
            act = ("resolve", body.ticket_no, body.version, body.resolution, by)
        case (
            ClaimTicket()
            | ExtendTicket()
            | ReleaseTicket()
            | ReassignTicket()
            | SnoozeTicket()
            | WakeTicket()
            | CommentTicket()
            | AlertTicket()
        ):
            act = act_of(body, by)
        case Cancel() | Pause() | Resume() | Retry():
            act = (type(body).__name__, body.seen)
        case OpenBranch():
            # With the content in the id: whoever calls a branch off again, for another reason, finds that it has
            # ended, as whoever opens it again finds it opened. One that is refused would hold back all behind it.
            verb = "cancel-branch" if body.cancel else "open-branch"
            act = (verb, body.parent.join_id, body.parent.place, digest_of(body))
        case Rework():
            act = ("rework", body.join_id, body.ticket_no)
        case Due():
            act = ("due", body.kind, body.subject, body.due_at)
    return ids.command_id(session_id, *act)
