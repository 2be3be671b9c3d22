"""Stages whose packs are pushed: what a plan must say of them, and may not ask of their workers."""

from pathlib import Path
from typing import Any

import pytest

from passdown.broker.plans import as_text, check_tools, compile_plan, delegate_plan, load_plan
from passdown.broker.plans.check import check_plan
from passdown.contracts.codec import encode
from passdown.contracts.plans import Plan, Stage
from tests.unit.plans.samples import SPECS, plan_of, said_of

PUSH: dict[str, Any] = {"delivery": "push", "lease": "10m"}


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (
            {"delivery": "push"},
            (
                "stages.a.lease: nobody renews the lease of a pack that is pushed: it is a deadline;"
                ' say how long it may take, such as lease = "10m"'
            ),
        ),
        (
            {**PUSH, "tools": ["orders.read"]},
            (
                "stages.a.tools: packs of this stage are pushed, to workers that no tool call can be checked and recorded"
                " for; leave the tools out; or say that these workers use the gateway, too: gateway = true"
            ),
        ),
        (
            {"gateway": True},
            (
                "stages.a.gateway: workers that take their packs always use the gateway;"
                ' leave it out, or set delivery = "push"'
            ),
        ),
        ({"delivery": "post"}, "stages.a.delivery: expected 'pull' or 'push', got 'post'"),
        ({**PUSH, "gateway": "yes"}, "stages.a.gateway: expected true or false, got 'yes'"),
    ],
)
def test_each_fault_has_its_place_and_its_mend(stage: dict[str, Any], said: str) -> None:
    assert said_of(stage) == [said]


def test_a_stage_is_pushed_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('name = "p"\nstart = "a"\n[stages.a]\nrole = "r"\ndelivery = "push"\nlease = "10m"\n')
    plan = load_plan(path)
    assert plan.stages["a"].delivery == "push"
    assert "pushed" in as_text(plan)


def test_a_delegation_is_pushed() -> None:
    plan = delegate_plan("r", "do it", delivery="push", lease="10m")
    assert plan.stages["work"].delivery == "push"


def test_a_person_gets_no_message() -> None:
    assert said_of({"role": None, "queue": "q", "delivery": "push"}) != []
    stored = Plan(name="p", start="a", stages={"a": Stage(queue="q", delivery="push")})
    assert [str(fault) for fault in check_plan(stored)] == [
        "stages.a.delivery: a person's stage has none; leave it out"
    ]


def test_reading_tools_need_the_gateway_and_effects_one_that_does_not_exist_yet() -> None:
    stage = {**PUSH, "gateway": True, "tools": ["orders.read", "refunds.create"]}
    assert said_of(stage) == []
    (fault,) = check_tools(compile_plan(plan_of(stage)), SPECS)
    assert str(fault).startswith(
        "stages.a.tools[1]: 'refunds.create' has effects outside, and the packs of this stage are pushed;"
    )


def test_what_is_not_said_changes_no_digest() -> None:
    """Sessions that were opened before stages could be pushed still find their plans."""
    stored = compile_plan(plan_of({}))
    assert b"delivery" not in encode(stored)
