"""The stored plan: what it says by default, its reference, its moves. Authoring and checking: tests/unit/plans."""

from typing import Any

import pytest

from passdown.contracts.codec import decode, digest_of, encode
from passdown.contracts.plans import END, FAIL, Next, Plan, PlanRef, Returns, Stage, moves, plan_ref
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


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"start": None}, "/start"),
    ({"stages": {"a": {"role": 1}}}, "/stages/a/role"),
    ({"stages": {"a": {"recovery": "pray"}}}, "/stages/a/recovery"),
    ({"stages": {"a": {"retries": 3}}}, "/stages/a/retries"),
    ({"stages": {"a": {}, "b": {"tools": [{"tool": "t", "params": []}]}}}, "/stages/b/tools/0/params"),
    ({"spec": "passdown.plan/2"}, "/spec"),
]


@pytest.mark.parametrize(("changes", "pointer"), MISFITS)
def test_what_does_not_fit_is_named(changes: dict[str, Any], pointer: str) -> None:
    data = raw({"name": "p", "start": "a", "stages": {}, **changes})
    assert refused(lambda: decode(data, Plan, what="plan")).pointer == pointer
