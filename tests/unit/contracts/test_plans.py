"""The stored plan: what it says by default, its reference, its moves. Authoring and checking: tests/unit/plans."""

from typing import Any

import pytest

from passdown.contracts.codec import decode, digest_of, encode
from passdown.contracts.plans import (
    END,
    FAIL,
    MERGER,
    FanOut,
    Next,
    Plan,
    PlanRef,
    Returns,
    Stage,
    moves,
    opens,
    plan_ref,
)
from tests.unit.contracts.helpers import raw, refused


def test_a_plan_is_read_back_and_named_by_its_digest() -> None:
    plan = Plan(name="refund", version=2, start="check", stages={"check": Stage(role="analyst")})
    assert decode(encode(plan), Plan) == plan
    assert plan_ref(plan) == PlanRef(name="refund", version=2, digest=digest_of(plan))
    assert str(plan_ref(plan)) == "refund@2"


def test_defaults_are_left_out_so_that_new_ones_change_no_digest() -> None:
    plan = Plan(name="p", start="a", stages={"a": Stage(role="r")})
    assert encode(plan) == b'{"spec":"passdown.plan/1","name":"p","start":"a","stages":{"a":{"role":"r"}}}'
    assert digest_of(plan) == "b9eda4ab0f3188a3ba776e6a191ac47ea01bd2d58981eaca869e81875c815541"


def test_the_order_of_stages_does_not_matter() -> None:
    one, other = Stage(role="a"), Stage(role="b")
    first = Plan(name="p", start="a", stages={"a": one, "b": other})
    assert digest_of(first) == digest_of(Plan(name="p", start="a", stages={"b": other, "a": one}))


def test_each_stage_has_results_of_its_own() -> None:
    first, second = Returns(), Returns()
    first.results.append("done")
    assert second.results == ["done", "needs-input", "refused", "escalate"]


@pytest.mark.parametrize(
    ("stage", "found"),
    [
        (Stage(), {}),
        (Stage(next=Next(to="b")), {"done": "b"}),
        (Stage(next=Next(field="d", cases={"x": "b", "y": END})), {"d=x": "b", "d=y": END}),
        (Stage(next=Next(suggest=["b", "c"])), {"suggested b": "b", "suggested c": "c"}),
        (Stage(on_refused="b", on_denied="c", on_failed="d"), {"refused": "b", "denied": "c", "failed": "d"}),
        (Stage(on_failed=FAIL), {}),
    ],
)
def test_the_moves_out_of_a_stage(stage: Stage, found: dict[str, str]) -> None:
    assert moves(stage) == found


def test_a_join_leads_to_stages_of_its_plan_and_to_queues_which_are_no_moves() -> None:
    fan_out = FanOut(branches={"x": "b", "y": "b", "z": "c"}, on_conflict="b", on_short="people")
    stage = Stage(fan_out=fan_out, next=Next(to="c"), on_failed="b")
    assert moves(stage, ["b", "c"]) == {"done": "c", "failed": "b", "conflict": "b"}
    assert moves(stage) == {"done": "c", "failed": "b"}
    assert opens(stage) == ["b", "c"]
    assert opens(Stage(fan_out=FanOut(each="items", stage="b"))) == ["b"]
    assert opens(Stage(role="r")) == []


@pytest.mark.parametrize(
    ("merge", "role"),
    [
        ("collect", MERGER),
        ("first", MERGER),
        ("vote", MERGER),
        ("reduce:sum.up", "reduce.sum.up"),
        ("ann", "ann"),
    ],
)
def test_a_merge_is_issued_under_a_role(merge: str, role: str) -> None:
    assert FanOut(merge=merge).merge_role() == role


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"start": None}, "/start"),
    ({"stages": {"a": {"role": 1}}}, "/stages/a/role"),
    ({"stages": {"a": {"recovery": "pray"}}}, "/stages/a/recovery"),
    ({"stages": {"a": {"retries": 3}}}, "/stages/a/retries"),
    ({"stages": {"a": {}, "b": {"tools": [{"tool": "t", "params": []}]}}}, "/stages/b/tools/0/params"),
    ({"stages": {"a": {"fanOut": {"need": "most"}}}}, "/stages/a/fanOut/need"),
    ({"stages": {"a": {"fanOut": {"counts": ["late"]}}}}, "/stages/a/fanOut/counts/0"),
    ({"spec": "passdown.plan/2"}, "/spec"),
]


@pytest.mark.parametrize(("changes", "pointer"), MISFITS)
def test_what_does_not_fit_is_named(changes: dict[str, Any], pointer: str) -> None:
    data = raw({"name": "p", "start": "a", "stages": {}, **changes})
    assert refused(lambda: decode(data, Plan, what="plan")).pointer == pointer
