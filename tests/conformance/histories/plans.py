"""The plans and tools of the world, and what is registered anew in the middle of a history."""

from collections.abc import Callable

from msgspec.structs import replace

from passdown.broker.stores.base import Documents
from passdown.contracts.codec import encode
from passdown.contracts.plans import END, FAIL, Backoff, Grant, Level, Next, Plan, Returns, Stage, plan_ref
from passdown.contracts.schema import Schema
from passdown.contracts.tools import ToolSpec, tool_digest

LEASE_S = 30.0
#: A tool that the worker brings and no stage grants.
NEVER_GRANTED = "everything.delete"
#: A tool that a stage grants and that is not registered when the history starts.
LATE = "late.send"


def _schema(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


_ORDER: Schema = {"type": "string"}
_CENTS: Schema = {"type": "integer", "minimum": 1, "maximum": 10_000}

READ = ToolSpec(name="orders.read", params=_schema(order=_ORDER), fresh_for_seconds=60.0)
#: The outside does not absorb a repeated key: the tool of which rule 3 is about.
PAY = ToolSpec(
    name="pay.send",
    params=_schema(order=_ORDER, cents=_CENTS),
    effect=True,
    scope="pay",
    verifies=True,
)
#: Two calls for one order are the same effect, whatever the amount, and the outside absorbs a repeat.
BOOK = ToolSpec(
    name="book.put",
    params=_schema(order=_ORDER, cents=_CENTS),
    effect=True,
    identity=["order"],
    dedupes=True,
    verifies=True,
)
MAIL = ToolSpec(
    name="mail.send", params=_schema(order=_ORDER), effect=True, dedupes=True, repeatable=True, verifies=True
)
DELETE = ToolSpec(name=NEVER_GRANTED, params=_schema(order=_ORDER), effect=True)
LATE_SPEC = ToolSpec(name=LATE, params=_schema(order=_ORDER), effect=True, dedupes=True)

TOOLS: dict[str, ToolSpec] = {spec.name: spec for spec in (READ, PAY, BOOK, MAIL, DELETE, LATE_SPEC)}

_BACKOFF = Backoff(first_seconds=1.0, factor=3.0, most_seconds=20.0)
_OUTPUT: Schema = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "done": {"type": "array", "items": {"type": "string"}}},
    "required": ["text"],
}
_RETURNS = Returns(schema=_OUTPUT, evidence="optional")


def _stage(role: str, *tools: str | Grant, **more: object) -> Stage:
    grants = [Grant(tool=tool) if isinstance(tool, str) else tool for tool in tools]
    stage = Stage(
        role=role,
        goal="handle {inputs.order}",
        tools=grants,
        returns=_RETURNS,
        lease_seconds=LEASE_S,
        backoff=_BACKOFF,
        escalation=[Level(queue="leads")],
        constraints=["be careful"],
    )
    return replace(stage, **more)


def _human(queue: str, **more: object) -> Stage:
    return replace(Stage(queue=queue, goal="look at {inputs.order}", returns=_RETURNS), **more)


_APPROVED_PAY = Grant(tool="pay.send", approve="approvers", approval_seconds=600.0)
_SMALL_BOOK = Grant(tool="book.put", params={"cents": {"maximum": 5_000}})

SINGLE = Plan(
    name="single",
    start="only",
    stages={"only": _stage("clerk", "orders.read", "pay.send", "book.put", max_attempts=2)},
)
CHAIN = Plan(
    name="chain",
    start="check",
    stages={
        "check": _stage(
            "clerk",
            "orders.read",
            "book.put",
            ask="helpdesk",
            next=Next(field="decision", cases={"approve": "pay", "deny": "tell", "again": "check"}),
            max_entries=3,
            deadline_seconds=172_800.0,
        ),
        "pay": _stage(
            "cashier",
            "pay.send",
            _SMALL_BOOK,
            recovery="continue",
            next=Next(to="tell", suggest=["check", "tell"]),
            on_refused="tell",
            on_failed="tell",
        ),
        "tell": _stage("desk", "orders.read", "mail.send", recovery="human", on_refused=END),
    },
)
#: What needs approval stands beside what does not; a denial leads to a person, or to the end.
APPROVAL = Plan(
    name="approval",
    start="pay",
    stages={
        "pay": _stage(
            "cashier",
            "book.put",
            _APPROVED_PAY,
            "mail.send",
            recovery="continue",
            on_denied="review",
            next=Next(to="tell"),
            deadline_seconds=172_800.0,
        ),
        "tell": _stage("desk", Grant(tool="mail.send", approve="approvers"), on_denied=END),
        "review": _human("reviewers", next=Next(to="tell")),
    },
)
#: Two calls of the approved tool are one effect whatever the amount: the approval is of one amount only.
STRICT = Plan(
    name="strict",
    start="act",
    stages={
        "act": _stage("clerk", replace(_APPROVED_PAY, tool="book.put"), "pay.send", next=Next(to="review")),
        "review": _human("reviewers", next=Next(to="tell")),
        "tell": _stage("desk", "mail.send", ask="helpdesk"),
    },
)
#: Everything that ends a session badly: attempts used up, loops, a deadline.
FRAGILE = Plan(
    name="fragile",
    start="try",
    stages={
        "try": _stage(
            "clerk",
            "book.put",
            "mail.send",
            max_attempts=2,
            on_failed="again",
            on_refused="try",
            max_entries=2,
            deadline_seconds=120.0,
            recovery="continue",
        ),
        "again": _stage("desk", "pay.send", max_attempts=1, on_failed=FAIL, deadline_seconds=600.0),
    },
)
WAITING = Plan(
    name="waiting",
    start="wait",
    stages={
        "wait": _stage("clerk", LATE, ask="helpdesk", next=Next(to="wait2")),
        "wait2": _stage("desk", "mail.send", scopes=["none"], deadline_seconds=86_400.0),
    },
)

PLANS: list[Plan] = [SINGLE, CHAIN, APPROVAL, STRICT, FRAGILE, WAITING]


def without(plan: Plan, tool: str) -> Plan:
    """Return the next version of `plan` with a tool withdrawn and a constraint added."""
    stages = {
        name: replace(
            stage,
            tools=[grant for grant in stage.tools if grant.tool != tool],
            constraints=[*stage.constraints, "be quick"],
        )
        for name, stage in plan.stages.items()
    }
    return replace(plan, version=plan.version + 1, stages=stages)


def documents(plans: list[Plan], tools: list[ToolSpec]) -> Documents:
    """Return what registers these."""
    return Documents(
        plans=[(plan_ref(plan), encode(plan)) for plan in plans],
        tools=[(tool_digest(spec), spec) for spec in tools],
    )


def _tightened() -> ToolSpec:
    return replace(PAY, params=_schema(order=_ORDER, cents={"type": "integer", "maximum": 50}))


#: Registrations in the middle of a history.
NEWS: dict[str, Callable[[], Documents]] = {
    "pay withdrawn": lambda: documents([without(SINGLE, PAY.name), without(CHAIN, PAY.name)], []),
    "approval withdrawn": lambda: documents([without(APPROVAL, PAY.name)], []),
    "late tool": lambda: documents([], [LATE_SPEC]),
    "again": lambda: documents(PLANS, [READ, PAY, BOOK, MAIL]),
    "another text": lambda: documents([], [replace(BOOK, description="books an order")]),
    "no longer absorbs": lambda: documents([], [replace(BOOK, dedupes=False)]),
    "only reads": lambda: documents([], [replace(MAIL, effect=False)]),
    "narrower": lambda: documents([], [_tightened()]),
}
