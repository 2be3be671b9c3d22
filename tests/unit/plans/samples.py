"""Plans to test with, and what is said about them."""

from typing import Any

from passdown.broker.plans.compiling import compile_whole
from passdown.contracts.tools import ToolSpec

DECISION: dict[str, Any] = {
    "type": "object",
    "properties": {"decision": {"enum": ["approve", "deny"]}, "rule": {"type": "string"}},
    "required": ["decision"],
}

REFUND_TOML = """\
name = "refund"
version = 1
start = "check"

[stages.check]
role = "analyst"
goal = "Decide whether order {inputs.orderId} may be refunded under the policy."
done_when = ["a decision and the rule it rests on"]
tools = ["orders.read"]
recovery = "rerun"
returns = { schema = "schemas/decision.json", evidence = "required" }
next = { field = "decision", approve = "pay", deny = "tell" }

[stages.pay]
role = "cashier"
tools = [{ tool = "refunds.create", approve = "refund-approvers" }]
recovery = "continue"
risk = "high"
next = "tell"

[stages.tell]
role = "desk"
goal = "Tell the customer what was decided and done."
tools = ["mail.send"]
recovery = "continue"
"""

SPECS = {
    spec.name: spec
    for spec in (
        ToolSpec(name="orders.read", params={"type": "object", "properties": {"id": {"type": "string"}}}),
        ToolSpec(
            name="refunds.create",
            params={
                "type": "object",
                "properties": {"cents": {"type": "integer"}, "currency": {"enum": ["EUR", "USD"]}},
                "required": ["cents"],
            },
            effect=True,
            scope="refunds:write",
            verifies=True,
        ),
        ToolSpec(name="mail.send", params={"type": "object"}, effect=True, scope="mail:send", verifies=True),
    )
}


def plan_of(stage: dict[str, Any], *more: str, **plan: Any) -> dict[str, Any]:
    """Return an authored plan of the stage `a`, which is `stage`, and of stages that `a` is free to move to."""
    others = {name: {"role": "other"} for name in more}
    return {"name": "p", "start": "a", "stages": {"a": {"role": "worker", **stage}, **others}, **plan}


def said(authored: Any) -> list[str]:
    """Return all that is said about a plan; warnings with a ~ before them."""
    return [f"{'~ ' if fault.severity == 'warning' else ''}{fault}" for fault in compile_whole(authored)[1]]


def said_of(stage: dict[str, Any], *more: str, **plan: Any) -> list[str]:
    """Return all that is said about a plan whose stage `a` is `stage`."""
    return said(plan_of(stage, *more, **plan))
