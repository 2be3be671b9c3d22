"""A plan as it is stored and pinned: `passdown.plan/1`. People write it as TOML or with `passdown.broker.plans`."""

from collections.abc import Container
from typing import Any, Final, Literal

from msgspec import field

from passdown.contracts.codec import Record, digest_of
from passdown.contracts.schema import Schema

PLAN_SPEC: Final = "passdown.plan/1"
#: Where a move leads that ends the session.
END = "end"
#: `on_failed` that fails the session instead of asking a person.
FAIL = "fail"
#: `ask` that leaves a question with whoever submitted the session.
PRODUCER = "producer"
#: The queue of tickets for which no plan names one.
OPERATORS = "operators"
#: The queue of tickets that nobody could take, or that nobody resolved on the last level of their path.
ALERTS = "alerts"

#: `on_short` that merges what is there.
MERGE = "merge"
#: The role of the merges that Passdown does itself: every pool serves it. A registered function is served under
#: `REDUCER` and its name by the pools that have it.
MERGER = "passdown.merge"
REDUCER = "reduce."
#: What a `merge` names that is done by `MERGER`, and what stands before the name of a registered function.
BUILT_IN_MERGES = ("collect", "first", "vote")
REDUCE = "reduce:"
#: More branches than this no fan-out may have, whatever its plan allows.
MOST_BRANCHES = 100_000

ResultName = Literal["done", "needs-input", "refused", "escalate"]
Recovery = Literal["rerun", "continue", "human"]
Risk = Literal["low", "normal", "high"]
Evidence = Literal["none", "optional", "required"]
#: How a branch ended: `failed` also where its time ran out. `late` and `skipped` (it was never opened) are said of rows
#: when they are shown.
BranchOutcome = Literal["done", "refused", "failed", "cancelled"]
Need = Literal["all", "any", "veto"]
#: How packs reach their workers: they take them from the store, or a message brings each (DESIGN §4).
Delivery = Literal["pull", "push"]

ALL_RESULTS: list[ResultName] = ["done", "needs-input", "refused", "escalate"]


class Grant(Record, frozen=True, kw_only=True):
    """What a stage may call. ``approve`` names the queue whose people must see the exact arguments first.

    ``params`` narrows parameters: name → JSON Schema that must hold as well.
    ``approval_seconds`` is how long a given approval stays good; ``approvals`` how many different people must give it.
    """

    tool: str
    approve: str | None = None
    approval_seconds: float = 86_400.0
    approvals: int = 1
    params: dict[str, Any] = {}


class Permit(Record, frozen=True, kw_only=True):
    """A call that the stage denies and that a person of ``queue`` may permit once.

    It is of a tool with effects that the stage does not grant, or that it grants within narrower ``params``; those
    named here are the limits within which a person may permit it.
    """

    tool: str
    queue: str
    approvals: int = 1
    approval_seconds: float = 86_400.0
    params: dict[str, Any] = {}


class People(Record, frozen=True, kw_only=True):
    """Who may take a stage's tickets, and how long they have.

    ``candidates`` are principals (``user:ann``, ``group:legal``); none named: whoever serves the queue. All ``skills``
    are needed; a name in braces is filled in from the session's data, as in a goal. With ``exclude_initiator`` not
    even a question is answered by whoever submitted the session. ``due_seconds`` is what tickets are sorted by;
    ``lease_seconds`` how long a claim lasts without being extended. Delays count in the working hours of ``calendar``.
    """

    candidates: list[str] = []
    skills: list[str] = []
    exclude_initiator: bool = False
    lease_seconds: float = 900.0
    due_seconds: float | None = None
    calendar: str = ""


class Overdue(Record, frozen=True, kw_only=True):
    """What ends a path of escalation that nobody answered: ``after_seconds`` it leads ``to`` a stage, or `fail`."""

    after_seconds: float
    to: str


class Calendar(Record, frozen=True, kw_only=True):
    """Working hours in a time zone (IANA name), and whole days without any (``YYYY-MM-DD``).

    ``hours``: a day (``mon`` … ``sun``) → spans of minutes since local midnight, in order, ``[start, end)``.
    """

    zone: str
    hours: dict[str, list[tuple[int, int]]]
    holidays: list[str] = []


class Subject(Record, frozen=True, kw_only=True):
    """What a session is about, found in its data for the brief: values of ``fields``, and what ``pattern`` finds in text.

    ``fields`` are names as they stand in inputs, arguments, results and answers, at any depth; of a list each item.
    """

    fields: list[str] = []
    pattern: str = ""


class Level(Record, frozen=True, kw_only=True):
    """One level of an escalation path; ``hand_over`` is the schema of what an escalation gives back."""

    queue: str
    after_seconds: float = 0.0
    hand_over: Schema | None = None


class Returns(Record, frozen=True, kw_only=True):
    """What a stage must give back."""

    schema: Schema = True
    evidence: Evidence = "none"
    results: list[ResultName] = field(default_factory=lambda: list(ALL_RESULTS))


class Backoff(Record, frozen=True, kw_only=True):
    """The wait before a retry: ``first_seconds * factor ** (failures - 1)``, at most ``most_seconds``."""

    first_seconds: float = 1.0
    factor: float = 2.0
    most_seconds: float = 300.0


class Next(Record, frozen=True, kw_only=True):
    """Where `done` leads: to one stage, by a field of the output, or where the agent suggests within a list."""

    to: str | None = None
    field: str | None = None
    cases: dict[str, str] = {}
    suggest: list[str] = []


class FanOut(Record, frozen=True, kw_only=True):
    """A stage that opens branches, and the contract by which they are joined (DESIGN §8).

    The branches are those of ``branches`` (name → stage in which it begins), or one for each item of the list ``each``
    (a path in the session's data, or the name of a stored list), beginning in ``stage``. A branch gets the
    session's data, or of it only the fields ``give``, but never the list, and its item under the name ``item``,
    in place of what the data have of that name; it is named by the item's field ``key``, or by its place from 0.
    At most ``most`` branches; ``at_once`` of them run at once (0: all).

    ``need`` branches must end with one of the outcomes ``counts``: ``all``, ``any``, a number, or ``veto`` (all, and
    one that refuses ends it at once). ``wait_for_people``: whether a branch that waits for a person is waited
    for. The outputs that count must agree in the fields ``conflict``; ``merge`` makes one of them: ``collect``,
    ``first``, ``vote`` (on the fields ``vote_on``, or on the whole output; more than half must agree),
    ``reduce:NAME``, or a role. ``on_conflict`` and ``on_short`` are a stage, ``fail`` or a human queue, ``on_short``
    also ``merge``.
    """

    branches: dict[str, str] = {}
    each: str = ""
    stage: str = ""
    item: str = "item"
    key: str = ""
    give: list[str] | None = None
    most: int = 1000
    at_once: int = 0
    need: Need | int = "all"
    counts: list[BranchOutcome] = field(default_factory=lambda: ["done"])
    wait_for_people: bool = True
    deadline_seconds: float | None = None
    merge: str = "collect"
    vote_on: list[str] = []
    conflict: list[str] = []
    on_conflict: str | None = None
    on_short: str | None = None

    def merge_role(self) -> str:
        """Return the role whose workers merge."""
        if self.merge in BUILT_IN_MERGES:
            return MERGER
        if self.merge.startswith(REDUCE):
            return REDUCER + self.merge.removeprefix(REDUCE)
        return self.merge

    @property
    def merged_by_role(self) -> bool:
        """Whether a role merges: feedback may change what it makes of the same branches, and of nothing else."""
        return self.merge_role() == self.merge


class Stage(Record, frozen=True, kw_only=True):
    """One stage of a plan (DESIGN §7): a role's, where ``queue`` is named a person's, or a fan-out.

    What else a fan-out's stage says (returns, attempts, lease, moves) is said of the merge of its branches.

    ``gateway`` says of a stage whose packs are pushed that its workers also use the gateway: they may call tools.
    ``time_limit_seconds`` is the longest that one run of the agent may take.
    """

    role: str = ""
    queue: str | None = None
    fan_out: FanOut | None = None
    goal: str = ""
    constraints: list[str] = []
    done_when: list[str] = []
    inputs: Schema | None = None
    ask: str = PRODUCER
    tools: list[Grant] = []
    scopes: list[str] | None = None
    returns: Returns = Returns()
    risk: Risk = "normal"
    waived: str = ""
    delivery: Delivery = "pull"
    gateway: bool = False
    lease_seconds: float = 60.0
    deadline_seconds: float | None = None
    time_limit_seconds: float | None = None
    max_attempts: int = 3
    max_entries: int = 10
    backoff: Backoff = Backoff()
    priority: int = 0
    next: Next = Next()
    on_refused: str | None = None
    on_denied: str | None = None
    on_failed: str | None = None
    on_stale: Literal["continue", "restart-stage", "human"] = "continue"
    escalation: list[Level] = []
    overdue: Overdue | None = None
    people: People = People()
    permits: list[Permit] = []
    recovery: Recovery = "rerun"


class Plan(Record, frozen=True, kw_only=True):
    """`passdown.plan/1`: a session's state diagram, pinned by digest in each session that runs it."""

    #: Made by a function, for msgspec leaves out defaults: the bytes always say what they are.
    spec: Literal["passdown.plan/1"] = field(default_factory=lambda: PLAN_SPEC)
    name: str
    version: int = 1
    description: str = ""
    start: str
    max_steps: int = 200
    calendars: dict[str, Calendar] = {}
    #: What the brief names, under a label of the plan's ("account", "reservation").
    subjects: dict[str, Subject] = {}
    stages: dict[str, Stage]


class PlanRef(Record, frozen=True, kw_only=True):
    """A plan pinned by digest."""

    name: str
    version: int
    digest: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


def plan_ref(plan: Plan) -> PlanRef:
    """Return the reference that pins `plan`."""
    return PlanRef(name=plan.name, version=plan.version, digest=digest_of(plan))


def opens(stage: Stage) -> list[str]:
    """Return the stages in which the branches that a stage opens begin, each once; empty where it is no fan-out."""
    fan_out = stage.fan_out
    if fan_out is None:
        return []
    return list(dict.fromkeys(name for name in (*fan_out.branches.values(), fan_out.stage) if name))


def moves(stage: Stage, stages: Container[str] = ()) -> dict[str, str]:
    """Return each move out of a stage: what causes it → the stage it leads to (or `end`).

    What a join that is short or conflicts leads to is a stage only where it is one of `stages`, those of the
    plan: otherwise it is a queue. Where a stage's branches begin is no move: the session stays (`opens`).
    """
    found: dict[str, str] = {}
    following = stage.next
    if following.to:
        found["done"] = following.to
    for value, target in following.cases.items():
        found[f"{following.field}={value}"] = target
    for target in following.suggest:
        found[f"suggested {target}"] = target
    if stage.overdue is not None and stage.overdue.to != FAIL:
        found["overdue"] = stage.overdue.to
    others = {"refused": stage.on_refused, "denied": stage.on_denied, "failed": stage.on_failed}
    found.update({cause: target for cause, target in others.items() if target and target != FAIL})
    if stage.fan_out is not None:
        unlike = {"conflict": stage.fan_out.on_conflict, "short": stage.fan_out.on_short}
        found.update({cause: target for cause, target in unlike.items() if target and target in stages})
    return found
