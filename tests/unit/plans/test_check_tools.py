from typing import Any

import pytest

from passdown.broker.plans import check_tools, compile_plan
from passdown.contracts.tools import ToolSpec
from tests.unit.plans.samples import SPECS, plan_of

UNSURE = ToolSpec(name="wire.send", params={"type": "object"}, effect=True)
ODD = ToolSpec(name="odd", params={"type": "objekt"})
ALL = {**SPECS, UNSURE.name: UNSURE, ODD.name: ODD}


def said_of(stage: dict[str, Any]) -> list[str]:
    found = check_tools(compile_plan(plan_of(stage)), ALL)
    return [f"{'~ ' if fault.severity == 'warning' else ''}{fault}" for fault in found]


def refund(**params: Any) -> dict[str, Any]:
    return {"tools": [{"tool": "refunds.create", "params": params}]}


FAULTS: list[Any] = [
    (
        {"tools": ["orders.raed"]},
        "~ stages.a.tools[0]: 'orders.raed' is not registered yet; register it, or else: did you mean 'orders.read'?",
    ),
    (
        {"tools": ["orders.read", "refunds.create"], "risk": "high"},
        ("stages.a.tools[1]: 'refunds.create' has effects outside, the risk is high, and nobody approves;"
        ' name a queue as `approve`, or say why not: waived = "reason"'),
    ),
    (
        {"tools": ["refunds.create"], "risk": "high", "waived": " "},
        "stages.a.tools[0]: 'refunds.create' has effects outside, the risk is high, and nobody approves;",
    ),
    (
        {"tools": [{"tool": "orders.read", "approve": "people"}]},
        ("stages.a.tools[0].approve: 'orders.read' only reads, and reading calls are never put to a person;"
        " leave it out, or register the tool with effect=True"),
    ),
    (
        {"tools": ["wire.send"]},
        ("stages.a.tools[0]: 'wire.send' has effects outside and no verify, and the stage tries again by itself;"
        ' give the tool a verify, or the stage recovery = "human" or max_attempts = 1'),
    ),
    (
        {"tools": ["refunds.create"], "scopes": []},
        ("stages.a.tools[0]: 'refunds.create' has the scope 'refunds:write', which `scopes` leaves out;"
        " add 'refunds:write' to `scopes`"),
    ),
    (
        {"tools": ["refunds.create"], "scopes": ["refunds:write", "refund:write"]},
        "~ stages.a.scopes[1]: no tool of the stage has the scope 'refund:write'; did you mean 'refunds:write'?",
    ),
    (
        refund(cent={"maximum": 5}),
        "stages.a.tools[0].params.cent: 'refunds.create' has no parameter 'cent'; did you mean 'cents'?",
    ),
    (
        refund(cents={"type": "string"}),
        ("stages.a.tools[0].params.cents: no value fits this and what 'refunds.create' asks for:"
        " it is integer, not string; narrow it less"),
    ),
    (refund(cents=False), "stages.a.tools[0].params.cents: no value fits this and what 'refunds.create' asks for: it must"),
    (
        refund(currency={"enum": ["GBP"]}),
        ("stages.a.tools[0].params.currency: no value fits this and what 'refunds.create' asks for:"
        " it is one of 'EUR', 'USD'; narrow it less"),
    ),
    (
        {"tools": [{"tool": "odd", "params": {"x": {}}}]},
        "~ stages.a.tools[0]: the parameters of 'odd' are registered with a broken schema",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "fault"), FAULTS)
def test_a_fault_of_a_grant(stage: dict[str, Any], fault: str) -> None:
    found = said_of(stage)
    assert len(found) == 1
    assert found[0].startswith(fault)


@pytest.mark.parametrize(
    "stage",
    [
        {},
        {"tools": list(SPECS)},
        {"tools": [{"tool": "refunds.create", "approve": "people"}, "orders.read"], "risk": "high"},
        {"tools": ["refunds.create"], "risk": "high", "waived": "small amounts"},
        {"tools": ["wire.send"], "recovery": "human"},
        {"tools": ["wire.send"], "max_attempts": 1},
        {"tools": ["refunds.create", "orders.read"], "scopes": ["refunds:write"]},
        refund(cents={"maximum": 5000}, currency={"const": "EUR"}),
        refund(currency=False),
    ],
)
def test_a_sound_grant(stage: dict[str, Any]) -> None:
    assert said_of(stage) == []


def test_all_faults_of_all_grants_come_at_once() -> None:
    found = said_of({"tools": ["wire.send", "refunds.create", "nowhere"], "risk": "high", "scopes": ["x"]})
    assert [one.partition(": ")[0].removeprefix("~ ") for one in found] == [
        "stages.a.tools[0]",
        "stages.a.tools[0]",
        "stages.a.tools[1]",
        "stages.a.tools[1]",
        "stages.a.tools[2]",
    ]
