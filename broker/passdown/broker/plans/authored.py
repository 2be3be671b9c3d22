"""Plans as people write them, in Python or as TOML (DESIGN §7, §14).

    Plan(
        name="refund",
        start="check",
        stages={
            "check": Stage(role="analyst", returns=Decision, next={"field": "decision", "yes": "ask", "no": "end"}),
            "ask": HumanStage(queue="refund-approvers", deadline="2d"),
        },
    )

Durations have a unit: ``90s``, ``5m``, ``2h``, ``3d`` (see `durations`). Where a schema is asked for, a
dict, the path of a .json file beside the plan, or a class will do. Names of stages, queues and roles are
lower-case words joined by - _ or . . Nothing here is checked beyond its shape: `compile_plan` does that.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainValidator, Strict, Tag, ValidationError
from pydantic_core import PydanticCustomError

from passdown.broker.plans import wording
from passdown.broker.plans.durations import Duration
from passdown.broker.plans.faults import closest, show
from passdown.broker.plans.schema_source import SchemaSource
from passdown.contracts import plans as stored
from passdown.contracts.errors import PlanError

if TYPE_CHECKING:
    _Model = BaseModel
else:

    class _Raising(type(BaseModel)):
        """Turns pydantic's error into PlanError where a user's code makes a model, and only there.

        Models within models are made without this call, so that the faults of all are gathered first.
        """

        def __call__(cls, **fields: Any) -> Any:
            try:
                return super().__call__(**fields)
            except ValidationError as error:
                faults = wording.faults_of(error, lambda loc: mend_unknown(loc, cls))
                raise PlanError(f"({cls.__name__})", [str(fault) for fault in faults]) from None

    class _Model(BaseModel, metaclass=_Raising):
        pass


class _Authored(_Model):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=False, validate_by_alias=True)


def _wrong(problem: str, mend: str) -> PydanticCustomError:
    return PydanticCustomError("passdown", "{problem}", {"problem": problem, "mend": mend})


def _schema_source(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        raise _wrong(
            f"{show(value)} is no schema", "give a table, the path of a .json file, or a Python class"
        )
    return value


def _next(value: object) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and all(
        isinstance(key, str) for key in cast("Mapping[object, object]", value)
    ):
        return cast("Mapping[str, object]", value)
    if isinstance(value, list | tuple):
        raise _wrong(
            "a list says nothing about which to take", "write { suggest = [...] } to let the agent choose"
        )
    raise _wrong(
        f"expected a stage or a table of stages, got {show(cast(object, value))}",
        'write next = "stage" or { field = …, value = "stage" }',
    )


def _name_or_table(value: Any) -> str:
    return wording.NAME_TAG if isinstance(value, str) else wording.TABLE_TAG


def _role_or_human(value: Any) -> str:
    if isinstance(value, Mapping):
        keys = cast("Mapping[object, object]", value).keys()
        return wording.HUMAN_TAG if "queue" in keys and "role" not in keys else wording.ROLE_TAG
    return wording.HUMAN_TAG if isinstance(value, HumanStage) else wording.ROLE_TAG


def _returns_or_schema(value: Any) -> str:
    return wording.TABLE_TAG if isinstance(value, Returns | Mapping) else wording.NAME_TAG


AnySchema = Annotated[SchemaSource, PlainValidator(_schema_source)]
NextMove = Annotated[str | Mapping[str, str | Sequence[str]], PlainValidator(_next)]
Whole = Annotated[int, Strict()]


class Grant(_Authored):
    """A tool that a stage may call: ``{ tool = "refunds.create", approve = "refund-approvers" }``.

    ``approve`` names the queue whose people see the exact arguments first; ``approval`` is how long their
    approval stays good (a day); ``params`` narrows parameters: name → schema that must hold as well.
    """

    tool: str
    approve: str | None = None
    approval: Duration | None = None
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
    """

    role: str
    ask: str = stored.PRODUCER
    tools: Sequence[ToolGrant] = ()
    scopes: Sequence[str] | None = None
    risk: stored.Risk = "normal"
    waived: str = ""
    delivery: stored.Delivery = "pull"
    gateway: Annotated[bool, Strict()] = False
    lease: Duration = "60s"
    time_limit: Duration | None = None
    max_attempts: Whole = 3
    backoff: Backoff = Backoff()
    on_refused: str | None = None
    on_denied: str | None = None
    on_failed: str | None = None
    recovery: stored.Recovery = "rerun"


class HumanStage(_AnyStage):
    """A stage of a person: a ticket on ``queue``, completed with an output that fits ``returns``.

    ``escalation`` names who gets the ticket next, and ``after`` how long.
    """

    queue: str


AnyStage = Annotated[
    Annotated[Stage, Tag(wording.ROLE_TAG)] | Annotated[HumanStage, Tag(wording.HUMAN_TAG)],
    Discriminator(_role_or_human),
]


class Plan(_Authored):
    """A session's state diagram. ``max_steps`` bounds the stage entries of a session, loops included."""

    name: str
    version: Whole = 1
    description: str = ""
    start: str
    max_steps: Whole = 200
    stages: Mapping[str, AnyStage]


_OWNERS: dict[str | int, type[_Authored]] = {
    "tools": Grant,
    "escalation": Level,
    "returns": Returns,
    "backoff": Backoff,
    wording.ROLE_TAG: Stage,
    wording.HUMAN_TAG: HumanStage,
}


def mend_unknown(loc: wording.Path, within: type[BaseModel] = Plan) -> str:
    """Return what to do about an unknown field at pydantic's location `loc` within a model."""
    owner, name = within, str(loc[-1])
    for part in loc[:-1]:
        owner = _OWNERS.get(part, owner)
    if owner is Stage and name == "queue":
        return "a stage is a role's or a person's: leave out `role` or `queue`"
    if owner is HumanStage and name in Stage.model_fields:
        return "only a stage of a role has it; this is a person's, as it has a `queue`"
    if owner is Returns and name in (
        "type",
        "properties",
        "required",
        "$ref",
        "enum",
        "anyOf",
        "oneOf",
        "allOf",
    ):
        return "a schema stands under `schema`: returns = { schema = { … } }"
    return closest(name, [field.alias or key for key, field in owner.model_fields.items()])
