from typing import Any

import pytest

from passdown.broker.plans import Backoff, Grant, HumanStage, Level, Plan, Returns, Stage, compile_plan
from passdown.contracts import plans as stored
from passdown.contracts.errors import PlanError
from tests.unit.plans.samples import DECISION, said

WRITTEN = Plan(
    name="refund",
    version=3,
    description="Refunds.",
    start="check",
    max_steps=50,
    stages={
        "check": Stage(
            role="analyst",
            goal="Decide.",
            constraints=["be quick"],
            done_when=["decided"],
            inputs={"type": "object"},
            ask="experts",
            tools=["orders.read", Grant(tool="refunds.create", approve="approvers", approval="2h", params={"cents": {"maximum": 5}})],
            scopes=["refunds:write"],
            returns=Returns(schema=DECISION, evidence="required", results=["done", "needs-input", "refused"]),
            risk="high",
            waived="tested by hand",
            lease="90s",
            time_limit="10m",
            deadline="3d",
            max_attempts=5,
            max_entries=7,
            backoff=Backoff(first="2s", factor=3, most="1m"),
            priority=-5,
            next={"field": "decision", "approve": "ask", "deny": "end"},
            on_refused="ask",
            on_denied="end",
            on_failed="fail",
            on_stale="human",
            escalation=["leads", Level(queue="bosses", after="1h30m", hand_over={"type": "string"})],
            recovery="continue",
        ),
        "ask": HumanStage(queue="people", deadline="2d", next="check"),
    },
)  # fmt: skip

STORED = stored.Plan(
    name="refund",
    version=3,
    description="Refunds.",
    start="check",
    max_steps=50,
    stages={
        "check": stored.Stage(
            role="analyst",
            goal="Decide.",
            constraints=["be quick"],
            done_when=["decided"],
            inputs={"type": "object"},
            ask="experts",
            tools=[
                stored.Grant(tool="orders.read"),
                stored.Grant(
                    tool="refunds.create",
                    approve="approvers",
                    approval_seconds=7200.0,
                    params={"cents": {"maximum": 5}},
                ),
            ],
            scopes=["refunds:write"],
            returns=stored.Returns(
                schema=DECISION, evidence="required", results=["done", "needs-input", "refused"]
            ),
            risk="high",
            waived="tested by hand",
            lease_seconds=90.0,
            time_limit_seconds=600.0,
            deadline_seconds=259_200.0,
            max_attempts=5,
            max_entries=7,
            backoff=stored.Backoff(first_seconds=2.0, factor=3.0, most_seconds=60.0),
            priority=-5,
            next=stored.Next(field="decision", cases={"approve": "ask", "deny": "end"}),
            on_refused="ask",
            on_denied="end",
            on_failed="fail",
            on_stale="human",
            escalation=[
                stored.Level(queue="leads"),
                stored.Level(queue="bosses", after_seconds=5400.0, hand_over={"type": "string"}),
            ],
            recovery="continue",
        ),
        "ask": stored.Stage(queue="people", deadline_seconds=172_800.0, next=stored.Next(to="check")),
    },
)


def test_what_is_not_said_is_what_the_stored_form_defaults_to() -> None:
    assert compile_plan(Plan(name="p", start="a", stages={"a": Stage(role="r")})) == stored.Plan(
        name="p", start="a", stages={"a": stored.Stage(role="r")}
    )
    assert compile_plan(Plan(name="p", start="a", stages={"a": HumanStage(queue="q")})).stages[
        "a"
    ] == stored.Stage(queue="q")
    with_parts = Stage(
        role="r", tools=[Grant(tool="t")], escalation=[Level(queue="q")], backoff=Backoff(), returns=Returns()
    )
    assert compile_plan(Plan(name="p", start="a", stages={"a": with_parts})).stages["a"] == stored.Stage(
        role="r", tools=[stored.Grant(tool="t")], escalation=[stored.Level(queue="q")]
    )


def test_every_field_of_the_stored_stage_can_be_said() -> None:
    assert compile_plan(WRITTEN) == STORED
    said_fields = set(Stage.model_fields) | set(HumanStage.model_fields)
    renamed = {"lease_seconds": "lease", "deadline_seconds": "deadline", "time_limit_seconds": "time_limit"}
    assert {renamed.get(name, name) for name in stored.Stage.__struct_fields__} == {*said_fields, "fan_out"}


def test_in_python_the_faults_of_one_model_come_at_once_where_it_is_made() -> None:
    with pytest.raises(PlanError) as caught:
        Stage(role=5, fan_out={}, lease=90)  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert caught.value.plan == "(Stage)"
    assert sorted(fault.partition(":")[0] for fault in caught.value.faults) == ["fan_out", "lease", "role"]


SHAPES: list[Any] = [
    (
        {"bogus": 1},
        "bogus: unknown field; there are: name, version, description, start, max_steps, calendars, subjects, stages",
    ),
    ({"stages": {"a": {"role": "r", "fan_in": {}}}}, "stages.a.fan_in: unknown field; there are: "),
    (
        {"stages": {"a": {"role": "r", "donewhen": []}}},
        "stages.a.donewhen: unknown field; did you mean 'done_when'?",
    ),
    (
        {"stages": {"a": {"role": "r", "queue": "q"}}},
        "stages.a.queue: unknown field; a stage is a role's or a person's: leave out `role` or `queue`",
    ),
    (
        {"stages": {"a": {"queue": "q", "tools": ["t"]}}},
        "stages.a.tools: unknown field; only a stage of a role has it; this is a person's, as it has a `queue`",
    ),
    (
        {"stages": {"a": {"role": "r", "returns": {"type": "object"}}}},
        "stages.a.returns.type: unknown field; a schema stands under `schema`: returns = { schema = { … } }",
    ),
    (
        {"stages": {"a": {}}},
        "stages.a: 'role' is missing; name the role, the `queue` of a person's stage, or a `fan_out`",
    ),
    ({"stages": {"a": 5}}, "stages.a: expected a table, got 5"),
    ({"stages": 5}, "stages: expected a table, got 5"),
    ({"version": "1"}, "version: expected an integer, got '1'"),
    ({"version": 1.5}, "version: expected an integer, got 1.5"),
    ({"version": True}, "version: expected an integer, got true"),
    ({"name": 5}, "name: expected a string, got 5"),
    ({"name": None}, "name: expected a string, got nothing"),
    (
        {"stages": {"a": {"role": "r", "risk": "hi"}}},
        "stages.a.risk: expected 'low', 'normal' or 'high', got 'hi'",
    ),
    ({"stages": {"a": {"role": "r", "tools": "t"}}}, "stages.a.tools: expected a list, got 't'"),
    ({"stages": {"a": {"role": "r", "tools": [5]}}}, "stages.a.tools[0]: expected a table, got 5"),
    ({"stages": {"a": {"role": "r", "tools": [{}]}}}, "stages.a.tools[0]: 'tool' is missing; add it"),
    (
        {"stages": {"a": {"role": "r", "tools": [{"tool": "t", "aprove": "q"}]}}},
        "stages.a.tools[0].aprove: unknown field; did you mean 'approve'?",
    ),
    ({"stages": {"a": {"role": "r", "scopes": {"x"}}}}, "stages.a.scopes: expected a list, got a set"),
    (
        {"stages": {"a": {"role": "r", "inputs": 3}}},
        "stages.a.inputs: 3 is no schema; give a table, the path of a .json file, or a Python class",
    ),
    (
        {"stages": {"a": {"role": "r", "backoff": {"factor": float("inf")}}}},
        "stages.a.backoff.factor: expected a finite number, got inf",
    ),
    (
        {"stages": {"a": {"role": "r", "next": ["a"]}}},
        "stages.a.next: a list says nothing about which to take; write { suggest = [...] } to let the agent choose",
    ),
    (
        {"stages": {"a": {"role": "r", "next": 5}}},
        'stages.a.next: expected a stage or a table of stages, got 5; write next = "stage" or { field = …, value = "stage" }',
    ),
    (
        {"stages": {"a": {"role": "r", "goal": "\ud800"}}},
        "stages.a.goal: a string has a lone surrogate",
    ),
]


@pytest.mark.parametrize(("authored", "fault"), SHAPES)
def test_faults_of_shape_are_said_in_our_words(authored: dict[str, object], fault: str) -> None:
    plan = {"name": "p", "start": "a", "stages": {"a": {"role": "r"}}, **authored}
    found = said(plan)
    assert len(found) == 1
    assert found[0].startswith(fault)
