"""Plans as people write them, in Python or as TOML (DESIGN §7, §14).

    Plan(
        name="refund",
        start="check",
        stages={
            "check": Stage(role="analyst", returns=Decision, next={"field": "decision", "yes": "ask", "no": "end"}),
            "ask": HumanStage(queue="refund-approvers", deadline="2d"),
        },
    )

A stage that opens branches is a `FanOut`; in TOML it has a table `fan_out`, and as `join` what Python says in a `Join`:

    [stages.review]
    fan_out = { each = "documents", stage = "judge", key = "id", at_once = 8 }
    join = { need = 2, deadline = "1h", merge = "vote", vote_on = ["verdict"], on_short = "reviewers" }

Durations have a unit: ``90s``, ``5m``, ``2h``, ``3d`` (see `durations`). Where a schema is asked for, a
dict, the path of a .json file beside the plan, or a class will do. Names of stages, queues and roles are
lower-case words joined by - _ or . . Nothing here is checked beyond its shape: `compile_plan` does that.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, Discriminator, Field, PlainValidator, Strict, Tag

from passdown.broker.plans import values, wording
from passdown.broker.plans.durations import Duration
from passdown.broker.plans.faults import closest
from passdown.broker.plans.people import AnySubject, Calendar, Overdue, People, Subject
from passdown.broker.plans.schema_source import SchemaSource
from passdown.broker.plans.shape import Authored, Flag, Whole
from passdown.contracts import plans as stored


class _Authored(Authored):
    @classmethod
    def mend_unknown(cls, loc: wording.Path) -> str:
        return mend_unknown(loc, cls)


def _name_or_table(value: Any) -> str:
    return wording.NAME_TAG if isinstance(value, str) else wording.TABLE_TAG


def _kind_of_stage(value: Any) -> str:
    if isinstance(value, Mapping):
        keys = cast("Mapping[object, object]", value).keys()
        if "fan_out" in keys:
            return wording.FAN_OUT_TABLE_TAG
        return wording.HUMAN_TAG if "queue" in keys and "role" not in keys else wording.ROLE_TAG
    match value:
        case HumanStage():
            return wording.HUMAN_TAG
        case FanOut():
            return wording.FAN_OUT_TAG
        case FanOutTable():
            return wording.FAN_OUT_TABLE_TAG
        case _:
            return wording.ROLE_TAG


def _returns_or_schema(value: Any) -> str:
    return wording.TABLE_TAG if isinstance(value, Returns | Mapping) else wording.NAME_TAG


AnySchema = Annotated[SchemaSource, PlainValidator(values.schema)]
NextMove = Annotated[str | Mapping[str, str | Sequence[str]], PlainValidator(values.next_moves)]
Branches = Annotated[Mapping[str, str] | Sequence[tuple[str, str]], PlainValidator(values.branches)]
Need = Annotated[stored.Need | int, PlainValidator(values.need)]


class Grant(_Authored):
    """A tool that a stage may call: ``{ tool = "refunds.create", approve = "refund-approvers" }``.

    ``approve`` names the queue whose people see the exact arguments first; ``approvals`` is how many different people
    must approve; ``approval`` is how long that stays good (a day); ``params`` narrows parameters: name → schema
    that must hold as well.
    """

    tool: str
    approve: str | None = None
    approvals: Whole = 1
    approval: Duration | None = None
    params: Mapping[str, AnySchema] = {}


class Permit(_Authored):
    """A call that the stage does not grant, and that people of ``queue`` may permit, each time anew.

    It is of a tool with effects that the stage does not grant, or grants within narrower ``params``; those here bound
    what may be permitted. ``approvals`` and ``approval`` are as in a `Grant`.
    """

    tool: str
    queue: str
    approvals: Whole = 1
    approval: Duration = "1d"
    params: Mapping[str, AnySchema] = {}


class Level(_Authored):
    """One level of an escalation path, ``after`` the ticket was opened; ``hand_over`` is what is given back."""

    queue: str
    after: Duration = "0s"
    hand_over: AnySchema | None = None


class Returns(_Authored):
    """What a stage must give back: ``schema`` is that of the output of `done`; ``results`` are those allowed."""

    schema_: AnySchema = Field(default=True, alias="schema")
    evidence: stored.Evidence = "none"
    results: Sequence[stored.ResultName] = tuple(stored.ALL_RESULTS)


class Backoff(_Authored):
    """The wait before a retry: ``first``, then ``factor`` times as long each time, up to ``most``."""

    first: Duration = "1s"
    factor: Annotated[float, Strict(), Field(allow_inf_nan=False)] = 2.0
    most: Duration = "5m"


ToolGrant = Annotated[
    Annotated[str, Tag(wording.NAME_TAG)] | Annotated[Grant, Tag(wording.TABLE_TAG)],
    Discriminator(_name_or_table),
]
EscalationLevel = Annotated[
    Annotated[str, Tag(wording.NAME_TAG)] | Annotated[Level, Tag(wording.TABLE_TAG)],
    Discriminator(_name_or_table),
]
ReturnsOrSchema = Annotated[
    Annotated[Returns, Tag(wording.TABLE_TAG)] | Annotated[AnySchema, Tag(wording.NAME_TAG)],
    Discriminator(_returns_or_schema),
]


class _AnyStage(_Authored):
    goal: str = ""
    constraints: Sequence[str] = ()
    done_when: Sequence[str] = ()
    inputs: AnySchema | None = None
    returns: ReturnsOrSchema = Returns()
    deadline: Duration | None = None
    max_entries: Whole = 10
    priority: Whole = 0
    next: NextMove | None = None
    on_stale: Literal["continue", "restart-stage", "human"] = "continue"
    escalation: Sequence[EscalationLevel] = ()
    overdue: Overdue | None = None
    people: People = People()


class Stage(_AnyStage):
    """A stage of a role: a worker of that role gets its pack.

    ``next`` is a stage, ``{ field = "decision", approve = "pay", deny = "end" }`` (by a field of the
    output), ``{ suggest = ["a", "b"] }`` (the agent chooses within the list; with ``done = "a"`` for when
    it does not), or ``{ done = "a", refused = "b" }`` (by result); without it the session ends.
    ``on_failed`` may be ``fail``; any move may lead to ``end``. ``deadline`` counts from the entry into the
    stage and is longer than the ``lease``, within which a worker must show that it is alive. ``time_limit``
    is the longest that one run of the agent may take; one that takes longer is a failed attempt.

    ``delivery = "push"`` brings each pack as a message on a queue, for workers that may not reach the store.
    They cannot renew a lease: it is stated, and is their deadline. ``gateway`` says that they also use the
    gateway, and so may call ``tools``.

    ``people`` says who may take the tickets of the stage (see `people`), ``permits`` which calls they may permit that
    the stage does not grant.
    """

    role: str
    ask: str = stored.PRODUCER
    tools: Sequence[ToolGrant] = ()
    scopes: Sequence[str] | None = None
    risk: stored.Risk = "normal"
    waived: str = ""
    delivery: stored.Delivery = "pull"
    gateway: Flag = False
    lease: Duration = "60s"
    time_limit: Duration | None = None
    max_attempts: Whole = 3
    backoff: Backoff = Backoff()
    on_refused: str | None = None
    on_denied: str | None = None
    on_failed: str | None = None
    permits: Sequence[Permit] = ()
    recovery: stored.Recovery = "rerun"


class HumanStage(_AnyStage):
    """A stage of a person: a ticket on ``queue``, completed with an output that fits ``returns``.

    ``escalation`` names who gets the ticket next, and ``after`` how long; ``overdue`` where it leads when nobody
    resolved it in the end. ``people`` says who may take it (see `people`).
    """

    queue: str


class Join(_Authored):
    """When the branches of a fan-out are enough, and how one result is made of them.

    ``need``: ``all``, ``any``, a number, or ``veto`` (all, and the first that refuses ends it), of branches that
    end with one of the outcomes ``counts`` (``done``, ``refused``, ``failed``, ``cancelled``). A branch that waits
    for a person is waited for, unless ``wait_for_people`` is false. ``deadline`` counts from the entry into the
    stage.

    ``merge``: ``collect``, ``first``, ``vote`` (more than half must agree in the fields ``vote_on``, or in the whole
    output), ``reduce:NAME`` (a registered function), or a role, whose worker merges. The outputs must agree in the
    fields ``conflict``. Where they do not, or no vote has a majority, ``on_conflict`` says what follows; where
    branches cannot become enough any more, or in time, ``on_short`` does: a stage, ``fail``, or a human queue,
    and for ``on_short`` also ``merge`` (of what is there). What is left out is put to people (the first of the
    stage's ``escalation``).
    """

    need: Need = "all"
    counts: Sequence[stored.BranchOutcome] = ("done",)
    wait_for_people: Flag = True
    deadline: Duration | None = None
    merge: str = "collect"
    vote_on: Sequence[str] = ()
    conflict: Sequence[str] = ()
    on_conflict: str | None = None
    on_short: str | None = None


class Opens(_Authored):
    """Which branches a fan-out opens: the table `fan_out` of a stage in TOML, fields of `FanOut` in Python.

    ``branches`` names each and the stage in which it begins; or there is one ``each`` item of a list (a path in the
    session's data, or a stored list), beginning in ``stage``. A branch gets the session's data, or only the
    fields ``give``, and its ``item`` under that name; the item's field ``key`` names it (its place, from 0, where
    that is left out). A list of more than ``most`` items is refused; ``at_once`` branches run at once (0: all).
    """

    branches: Branches = {}
    each: str = ""
    stage: str = ""
    item: str = "item"
    key: str = ""
    give: Sequence[str] | None = None
    most: Whole = 1000
    at_once: Whole = 0


class _Joined(_AnyStage):
    """What a fan-out says besides its branches: all but the join itself is about the merge."""

    join: Join = Join()
    tools: Sequence[ToolGrant] = ()
    lease: Duration = "60s"
    time_limit: Duration | None = None
    max_attempts: Whole = 3
    backoff: Backoff = Backoff()
    on_refused: str | None = None
    on_failed: str | None = None


class FanOut(Opens, _Joined):
    """A stage that opens branches, each a session of its own, joins them, and merges what they give back.

        FanOut(each="documents", stage="judge", join=Join(need=2, merge="vote"), next="tell")

    A branch goes from stage to stage until one leads to ``end``; then it is done, and the join sees its last
    output. ``returns``, ``next``, ``lease``, ``max_attempts``, … are about the merge; ``tools`` are for a role that
    merges. ``deadline`` counts from the entry into the stage, branches and merge together.
    """


class FanOutTable(_Joined):
    """A `FanOut` as TOML says it."""

    fan_out: Opens


AnyStage = Annotated[
    Annotated[Stage, Tag(wording.ROLE_TAG)]
    | Annotated[HumanStage, Tag(wording.HUMAN_TAG)]
    | Annotated[FanOut, Tag(wording.FAN_OUT_TAG)]
    | Annotated[FanOutTable, Tag(wording.FAN_OUT_TABLE_TAG)],
    Discriminator(_kind_of_stage),
]


class Plan(_Authored):
    """A session's state diagram. ``max_steps`` bounds the stage entries of a session, loops included.

    ``calendars`` are working hours that the ``people`` of stages name; ``subjects`` what the brief names, under labels of
    the plan's own: ``account = "user_id"``, a list of fields, or a `Subject`.
    """

    name: str
    version: Whole = 1
    description: str = ""
    start: str
    max_steps: Whole = 200
    calendars: Mapping[str, Calendar] = {}
    subjects: Mapping[str, AnySubject] = {}
    stages: Mapping[str, AnyStage]


_OWNERS: dict[str | int, type[Authored]] = {
    "tools": Grant,
    "permits": Permit,
    "people": People,
    "overdue": Overdue,
    "calendars": Calendar,
    "subjects": Subject,
    "escalation": Level,
    "returns": Returns,
    "backoff": Backoff,
    "fan_out": Opens,
    "join": Join,
    wording.ROLE_TAG: Stage,
    wording.HUMAN_TAG: HumanStage,
    wording.FAN_OUT_TABLE_TAG: FanOutTable,
}


def as_table(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that were `given` of a fan-out as TOML would say them."""
    opened = {name: value for name, value in given.items() if name in Opens.model_fields}
    return {"fan_out": opened, **{name: value for name, value in given.items() if name not in opened}}


def mend_unknown(loc: wording.Path, within: type[Authored] = Plan) -> str:
    """Return what to do about an unknown field at pydantic's location `loc` within a model."""
    owner, name = within, str(loc[-1])
    for part in loc[:-1]:
        owner = _OWNERS.get(part, owner)
    return _misplaced(owner, name) or closest(name, owner.fields_written())


def _misplaced(owner: type[BaseModel], name: str) -> str:
    """Return what to do about a field that is known elsewhere; empty where it is not."""
    if owner in (Stage, HumanStage) and name in (*Opens.model_fields, "join") and name != "stage":
        return "only a fan-out has it, which is a stage with a table `fan_out`"
    if owner is Stage and name == "queue":
        return "a stage is a role's or a person's: leave out `role` or `queue`"
    if owner is HumanStage and name in Stage.model_fields:
        return "only a stage of a role has it; this is a person's, as it has a `queue`"
    if owner is Returns and name in _OF_SCHEMAS:
        return "a schema stands under `schema`: returns = { schema = { … } }"
    return _misplaced_in_fan_out(name) if owner in (FanOut, FanOutTable, Opens, Join) else ""


def _misplaced_in_fan_out(name: str) -> str:
    if name == "role":
        return 'a fan-out has no worker but for its merge: join = { merge = "the role" }'
    if name == "queue":
        return "a fan-out is no person's stage: leave out `queue` or `fan_out`"
    if name in Join.model_fields:
        return "it stands under `join`"
    if name in Opens.model_fields:
        return "it stands under `fan_out`"
    if name in _Joined.model_fields:
        return "it stands in the stage itself"
    return "only a stage of a role has it" if name in Stage.model_fields else ""


_OF_SCHEMAS = ("type", "properties", "required", "$ref", "enum", "anyOf", "oneOf", "allOf")
