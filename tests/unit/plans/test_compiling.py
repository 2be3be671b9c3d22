from typing import Any

import pytest

from passdown.broker.plans import Plan, Stage, compile_plan
from passdown.broker.plans.compiling import compile_whole
from passdown.contracts.codec import digest_of
from passdown.contracts.errors import PlanError
from tests.unit.plans.samples import DECISION, plan_of

TWENTY: dict[str, Any] = {
    "name": "Refund",
    "version": "1",
    "start": "chek",
    "max_steps": 0,
    "fan_out": {},
    "stages": {
        "check": {
            "role": "analyst",
            "returns": {"schema": DECISION},
            "next": {"field": "decision", "approve": "pay", "refuse": "tell"},
            "tools": ["orders.read", "orders.read", {"tool": "x", "aprove": "q"}],
            "lease": 90,
        },
        "pay": {
            "role": "cashier",
            "next": {"field": "decision", "done": "tell"},
            "deadline": "30s",
            "backoff": {"factor": 0},
            "max_attempts": -1,
            "ask": "The Boss",
        },
        "tell": {
            "role": "desk",
            "next": "nowhere",
            "inputs": {"properties": {"a": {"$ref": "https://example.org/a.json"}}, "type": "objekt"},
            "returns": {"schema": {"type": "string"}},
            "escalation": ["leads", "bosses"],
            "on_refused": "fail",
        },
        "ask": {"queue": "people", "tools": ["t"]},
        "loop": {"role": "r", "next": "loop"},
        "end": {},
    },
}

PLACES = [
    "name",
    "version",
    "start",
    "max_steps",
    "fan_out",
    "stages.check.next",
    "stages.check.next.refuse",
    "stages.check.tools[1]",
    "stages.check.tools[2].aprove",
    "stages.check.lease",
    "stages.pay.next.field",
    "stages.pay.deadline",
    "stages.pay.backoff.factor",
    "stages.pay.max_attempts",
    "stages.pay.ask",
    "stages.tell.next",
    "stages.tell.inputs",
    "stages.tell.returns.schema",
    "stages.tell.escalation[1].after",
    "stages.tell.on_refused",
    "stages.ask.tools",
    "stages.loop.next",
    "stages.end",
]


def test_every_fault_of_a_plan_is_said_at_once_with_its_place_and_the_mend() -> None:
    with pytest.raises(PlanError) as caught:
        compile_plan(TWENTY)
    said = [fault.partition(": ")[0] for fault in caught.value.faults]
    assert set(said) == set(PLACES)
    assert len(PLACES) > 20
    assert said.count("stages.tell.inputs") == 2  # a broken type and a remote reference
    assert sorted(said, key=lambda one: one.startswith("stages.")) == said
    assert str(caught.value).startswith(f"plan Refund has {len(said)} faults:\n  1. ")
    assert caught.value.exit_code == 2


def test_faults_stand_in_the_order_of_the_stages() -> None:
    plan = plan_of({"next": "b", "max_attempts": 0}, "b")
    plan["stages"]["b"] = {"role": "r", "max_attempts": 0, "lease": 5}
    with pytest.raises(PlanError) as caught:
        compile_plan(plan)
    assert [fault.partition(": ")[0] for fault in caught.value.faults] == [
        "stages.a.max_attempts",
        "stages.b.lease",
        "stages.b.max_attempts",
    ]


NAMED: list[Any] = [
    ("plans/x.toml", {"name": "p"}, "plans/x.toml"),
    ("", {"name": "p"}, "p"),
    ("", {"name": 5}, "(unnamed)"),
    ("", Plan.model_construct(name="q"), "q"),
    ("", [], "(unnamed)"),
]


@pytest.mark.parametrize(("source", "authored", "name"), NAMED)
def test_the_error_names_the_source_or_the_plan(source: str, authored: Any, name: str) -> None:
    with pytest.raises(PlanError) as caught:
        compile_plan(authored, source=source)
    assert caught.value.plan == name


def test_warnings_come_with_the_plan() -> None:
    plan, found = compile_whole(plan_of({"waived": "because"}))
    assert plan is not None
    assert [(fault.place, fault.severity) for fault in found] == [("stages.a.waived", "warning")]


def test_the_stored_plan_does_not_share_what_the_author_may_change() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"not": {"not": {"minimum": 1.0}}}}}
    plan = compile_plan(Plan(name="p", start="a", stages={"a": Stage(role="r", inputs=schema)}))
    before = digest_of(plan)
    schema["properties"]["a"]["not"]["not"]["maximum"] = 5
    assert digest_of(plan) == before
    assert compile_plan(plan_of({"constraints": ("a", "b")})).stages["a"].constraints == ["a", "b"]
