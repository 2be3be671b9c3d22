from typing import Any

import pytest

from passdown.broker.plans import Grant, HumanStage, Plan, Stage
from passdown.broker.plans.reading import read_plan


def test_what_has_the_right_shape_is_read_whole() -> None:
    authored = {"name": "p", "start": "a", "stages": {"a": {"role": "r", "lease": "5m"}, "b": {"queue": "q"}}}
    reading = read_plan(authored)
    assert reading.faults == []
    assert reading.unsure == set()
    assert reading.plan == Plan(
        name="p", start="a", stages={"a": Stage(role="r", lease="5m"), "b": HumanStage(queue="q")}
    )
    assert reading.plan is not None
    assert read_plan(reading.plan).plan == reading.plan


def test_what_has_not_is_cut_out_and_its_place_is_unsure() -> None:
    authored: dict[str, Any] = {
        "name": 5,
        "start": "a",
        "stages": {
            "a": {"role": "r", "lease": 90, "risk": "high", "bogus": 1},
            "b": {"goal": "has no role", "priority": 3},
            "c": "no stage",
            "d": {"role": "r", "tools": ["t", {"tool": "u", "aprove": "q"}]},
            "e": {"role": "r", "tools": ["t", 5], "escalation": ["q", {"after": "5m"}]},
            "f": {"queue": 5, "priority": 4},
        },
    }
    reading = read_plan(authored)
    assert reading.plan is not None
    assert reading.unsure == {
        "name",
        "stages.a.lease",
        "stages.a.bogus",
        "stages.b.role",
        "stages.c",
        "stages.d.tools[1].aprove",
        "stages.e.tools",
        "stages.e.escalation",
        "stages.f.queue",
    }
    assert len(reading.faults) == 9
    stages = reading.plan.stages
    assert list(stages) == list("abcdef")
    assert stages["a"] == Stage(role="r", risk="high")
    assert stages["b"].priority == 3
    assert stages["d"] == Stage(role="r", tools=["t", Grant(tool="u")])
    assert stages["e"].escalation == ()
    assert stages["f"].priority == 4
    assert authored["stages"]["a"]["bogus"] == 1  # the author's data is left alone


def test_a_stage_that_is_a_roles_and_a_persons_is_read_on_as_a_roles() -> None:
    reading = read_plan(
        {"name": "p", "start": "a", "stages": {"a": {"role": "r", "queue": "q", "priority": 3}}}
    )
    assert reading.plan == Plan(name="p", start="a", stages={"a": Stage(role="r", priority=3)})
    assert len(reading.faults) == 1


@pytest.mark.parametrize(
    "authored", [{"name": "p", "start": "a"}, {"stages": 5}, {"stages": {5: {"role": "r"}, "a": {}}}, {}]
)
def test_a_plan_without_stages_cannot_be_made_out(authored: dict[str, Any]) -> None:
    reading = read_plan(authored)
    assert reading.plan is None
    assert reading.faults


@pytest.mark.parametrize("authored", [None, 5, "plan", [1]])
def test_what_is_no_table_is_no_plan(authored: Any) -> None:
    (fault,) = read_plan(authored).faults
    assert str(fault).startswith("plan: a plan is a table, not ")


def test_a_plan_of_too_many_stages_is_not_looked_at() -> None:
    plan: dict[str, Any] = {"name": 5, "start": "s0", "stages": {f"s{n}": {} for n in range(501)}}
    assert [str(fault) for fault in read_plan(plan).faults] == ["stages: 501 stages; a plan may have 500"]


def test_a_plan_that_was_changed_after_it_was_made_is_read_anew() -> None:
    plan = Plan(name="p", start="a", stages={"a": Stage(role="r")})
    plan.stages["b"] = 5  # pyright: ignore[reportIndexIssue]
    assert [str(fault) for fault in read_plan(plan).faults] == ["stages.b: expected a table, got 5"]
    unchecked = Plan.model_construct(name="p", start="a", stages={"a": Stage.model_construct(role=5)})
    assert [str(fault) for fault in read_plan(unchecked).faults] == [
        "stages.a.role: expected a string, got 5"
    ]
