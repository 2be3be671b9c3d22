import pytest
from msgspec.structs import replace

from passdown.broker.plans import check_plan, compile_plan
from passdown.broker.plans.check import MOST_STEPS, PLAN_BUDGET
from passdown.contracts.plans import Next, Plan, Stage
from tests.unit.plans.samples import plan_of, said, said_of


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        (
            {"name": "My Plan"},
            "name: 'My Plan' is no name for a plan; use lower-case words joined by - _ or .",
        ),
        ({"version": 0}, "version: 0 is no version; count versions from 1"),
        ({"version": 2**60}, "version: 1152921504606846976 is no version; count versions from 1"),
        ({"max_steps": 0}, f"max_steps: 0 is out of range; from 1 to {MOST_STEPS}"),
        ({"max_steps": -1}, f"max_steps: -1 is out of range; from 1 to {MOST_STEPS}"),
        ({"max_steps": 10**40}, f"max_steps: a huge integer is out of range; from 1 to {MOST_STEPS}"),
        ({"start": "b"}, "start: there is no stage 'b'; there are: a"),
        ({"start": "aa"}, "start: there is no stage 'aa'; did you mean 'a'?"),
        ({"description": "\ud800"}, "description: a string has a lone surrogate"),
        ({"stages": {}}, "stages: there are no stages; declare at least one, [stages.NAME]"),
        ({"stages": {"a": {"role": "r"}, "end": {"role": "r"}}}, "stages.end: 'end' is reserved"),
    ],
)
def test_faults_of_the_plan_as_a_whole(plan: dict[str, object], fault: str) -> None:
    assert any(one.startswith(fault) for one in said(plan_of({}) | plan))


def test_stages_that_no_move_leads_to() -> None:
    plan = plan_of({"next": "b"}, "b", "c", "d")
    plan["stages"]["c"]["next"] = "d"
    assert said(plan) == [
        "stages.c: no move leads here from 'a'; add a move to it, or remove it",
        "stages.d: no move leads here from 'a'; add a move to it, or remove it",
    ]


def test_a_cycle_that_nothing_leads_out_of() -> None:
    plan = plan_of({"next": "b"}, "b", "c")
    plan["stages"]["b"]["next"] = "c"
    plan["stages"]["c"]["next"] = {"done": "b", "refused": "b", "failed": "fail"}
    assert said(plan) == [
        (
            "stages.b.next: no way leads to an end from here: b → c → b;"
            " let one of these stages move to `end`, or to a stage that does"
        )
    ]
    assert said_of({"next": "a"})[0].startswith("stages.a.next: no way leads to an end from here: a → a")
    assert said_of({"next": {"done": "a", "denied": "end"}, "tools": ["t"]}) == []


def test_only_the_cycle_that_keeps_a_session_is_named_not_those_that_lead_to_it() -> None:
    plan = plan_of({"next": {"suggest": ["b", "c"]}}, "b", "c")
    plan["stages"]["b"]["next"] = "a"
    plan["stages"]["c"]["next"] = "c"
    assert [one.partition(": ")[0] for one in said(plan)] == ["stages.c.next"]


def test_a_cycle_with_a_way_out_is_bounded_by_entries_and_steps() -> None:
    plan = plan_of({"next": "b", "max_entries": 3}, "b")
    plan["stages"]["b"]["next"] = {"suggest": ["a", "end"]}
    assert said(plan) == []


def test_a_session_needs_steps_enough_to_reach_an_end() -> None:
    plan = plan_of({"next": "b"}, "b", "c", max_steps=2)
    plan["stages"]["b"]["next"] = "c"
    assert said(plan) == [
        "max_steps: 2 steps are too few: the shortest way to an end has 3 stages; allow at least 3"
    ]
    assert said({**plan, "max_steps": 3}) == []


def test_nothing_is_said_about_what_follows_from_another_fault() -> None:
    assert said_of({"next": 5}, "b") == [
        'stages.a.next: expected a stage or a table of stages, got 5; write next = "stage" or { field = …, value = "stage" }'
    ]
    assert said_of({"next": "nowhere"}) == ["stages.a.next: there is no stage 'nowhere'; there are: a, end"]
    assert said({"name": "p", "stages": {"a": {"role": "r"}, "b": 7}, "start": 5}) == [
        "start: expected a string, got 5",
        "stages.b: expected a table, got 7",
    ]


def test_two_names_too_long_to_tell_apart_are_two_faults_of_one_sentence() -> None:
    plan = plan_of({"next": "b" * 101}, "b" * 101, "b" * 102)
    assert len(said(plan)) == 2  # the second is no name, either, and no move leads to it


def test_a_plan_over_its_budget_names_its_largest_stage() -> None:
    schema = {"type": "object", "description": "x" * 40_000}
    stages = {
        f"s{n}": {"role": "r", "inputs": schema, "next": f"s{n + 1}" if n < 13 else "end"} for n in range(14)
    }
    stages["s7"]["inputs"] = {"type": "object", "description": "x" * 50_000}
    (only,) = said({"name": "p", "start": "s0", "stages": stages})
    assert only.startswith("stages.s7: the plan has 57")
    assert f"and may have {PLAN_BUDGET}" in only


def test_a_stored_plan_is_checked_as_well_however_it_was_made() -> None:
    plan = compile_plan(plan_of({}))
    assert check_plan(plan) == []
    broken = replace(
        plan, spec="passdown.plan/2", stages={"a": Stage(next=Next(to="")), "b": Stage(queue="q", role="r")}
    )
    assert [str(fault) for fault in check_plan(broken)] == [
        "spec: expected 'passdown.plan/1', got 'passdown.plan/2'",
        "stages.a: neither a role nor a queue is named, and no branches; name the `role`, a person's `queue`, or a `fan_out`",
        "stages.a.next: there is no stage ''; there are: a, b, end",
        "stages.b.role: a stage is a role's or a person's; leave out `role` or `queue`",
        "stages.b: no move leads here from 'a'; add a move to it, or remove it",
    ]
    assert isinstance(plan, Plan)
