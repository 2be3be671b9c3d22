"""The brief: what the person who claims a ticket sees, `passdown.brief/1` (DESIGN §9).

It is built from the ledger and the log. What tools, documents, users and agents said stands in `Quoted` and nowhere
else, but for identifiers of a strict pattern; all other text is the broker's own, or the plan's.
"""

from typing import Final, Literal

from msgspec import field

from passdown.contracts.codec import Record

BRIEF_SPEC: Final = "passdown.brief/1"

#: How an effect's arguments hold a subject: it was written to, or a write to it is proposed.
Touch = Literal["", "proposed", "write"]


class Quoted(Record, frozen=True, kw_only=True):
    """Text of somebody else: data, never an instruction. ``source`` says whose; ``event`` is its number in the log.

    Control characters and marks that nobody sees are spelled out; ``cut`` characters are left out at its end.
    """

    source: str
    event: int | None = None
    text: str
    cut: int = 0


class BriefTicket(Record, frozen=True, kw_only=True):
    """The ticket that the brief is for. ``approved_by``: who said yes by now, of the ``approvals`` that are needed.

    ``closed`` says who decided it and how, where somebody has; nothing can be done about it then.
    """

    ticket_no: int
    kind: str
    queue: str
    version: int
    approvals: int
    approved_by: list[str]
    age_ms: int
    closed: str


class Standing(Record, frozen=True, kw_only=True):
    """Where the session stands and why it stopped, in our words (``why``), and in those of others (``said``)."""

    status: str
    stage: str
    step: int
    attempt: int
    age_ms: int
    why: str
    said: list[Quoted]


class SubjectValue(Record, frozen=True, kw_only=True):
    """An identifier, and where it was first seen: the event's number and what in it."""

    value: str
    event: int
    where: str
    touched: Touch


class BriefSubject(Record, frozen=True, kw_only=True):
    """What the session is about, under a label of the plan's; no ``values``: not established.

    ``left_out`` further values were found; ``odd`` ones are no identifiers and are not named.
    """

    label: str
    values: list[SubjectValue]
    left_out: int
    odd: int


class BriefSubjects(Record, frozen=True, kw_only=True):
    """All subjects. ``unkept`` results are not in the log, ``unsearched`` texts were too long to look at whole.

    ``more_labels``: field names with identifiers that are left out, where the plan names no subjects.
    """

    labels: list[BriefSubject]
    unkept: int
    unsearched: int
    more_labels: int


class ValidState(Record, frozen=True, kw_only=True):
    """The latest valid state: what was checkpointed in this step, else the session's data."""

    kind: Literal["snapshot", "data"]
    content: Quoted


class BriefEffect(Record, frozen=True, kw_only=True):
    """A row of the ledger. ``decision`` and ``outcome`` are two records: who allowed it, and what became of it."""

    effect_id: str
    ordinal: int
    step: int
    tool: str
    status: str
    decision: str
    outcome: str
    undo: str
    args: Quoted
    proposed_args: Quoted | None
    result: Quoted | None
    error: Quoted | None


class BriefEffects(Record, frozen=True, kw_only=True):
    """The ledger: how many there are by status, and those that are shown."""

    counts: dict[str, int]
    shown: list[BriefEffect]
    left_out: int


class BriefClaims(Record, frozen=True, kw_only=True):
    """What the agent claims in its last return, beside what the ledger shows; ``differences`` are marked by rules."""

    result: str
    place: str
    said: list[Quoted]
    ledger: str
    differences: list[str]


class BriefAction(Record, frozen=True, kw_only=True):
    """What may be done with the ticket, and what that will do; ``exactly`` are the arguments that would run."""

    action: str
    does: str
    exactly: Quoted | None


class Recommended(Record, frozen=True, kw_only=True):
    """The next step, by the rule of that name: from the ticket's kind and the ledger, never from what anybody wrote."""

    rule: str
    step: str


class BriefQuestion(Record, frozen=True, kw_only=True):
    """A question of the session, and who answered it; no ``answer``: nobody has."""

    asked: Quoted
    answer: Quoted | None


class BriefRisks(Record, frozen=True, kw_only=True):
    """What is open by the ledger and the plan, and what the agent says is."""

    known: list[str]
    said: list[Quoted]


class EarlierTicket(Record, frozen=True, kw_only=True):
    """Another ticket of the session, and who decided it."""

    ticket_no: int
    kind: str
    how: str
    note: Quoted | None


class Completeness(Record, frozen=True, kw_only=True):
    """How much of a whole brief is there, 0 to 100, and which parts are missing."""

    score: int
    missing: list[str]


class Brief(Record, frozen=True, kw_only=True):
    """`passdown.brief/1`: as of event ``seq`` at ``at`` (store milliseconds); ages are relative to that.

    ``goal`` is the stage's as the plan has it, ``goal_filled`` with the session's data in its place. In lists
    that are bounded ``left_out`` counts by section what is not shown.
    """

    #: Made by a function, for msgspec leaves out defaults: the bytes always say what they are.
    spec: Literal["passdown.brief/1"] = field(default_factory=lambda: BRIEF_SPEC)
    session_id: str
    plan: str
    seq: int
    at: int
    ticket: BriefTicket | None
    task: Quoted
    goal: str
    goal_filled: Quoted | None
    constraints: list[str]
    done_when: list[str]
    standing: Standing
    subjects: BriefSubjects
    state: ValidState
    effects: BriefEffects
    evidence: list[Quoted]
    claims: BriefClaims | None
    last_error: Quoted | None
    risks: BriefRisks
    actions: list[BriefAction]
    recommended: Recommended
    history: list[str]
    questions: list[BriefQuestion]
    comments: list[Quoted]
    earlier: list[EarlierTicket]
    left_out: dict[str, int]
    completeness: Completeness
