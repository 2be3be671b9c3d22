"""What an agent author imports (DESIGN §14).

An agent is a function of a pack and a context that returns a result::

    from passdown.agents import Context, Done, Escalate, agent, tool


    @tool(
        "refunds.create",
        scope="refunds:write",
        effect=True,
        identity=["order_id"],
        verify=find_refund,
        dedupes=True,
    )
    def create_refund(order_id: str, cents: int, *, key: str) -> dict: ...


    @agent("cashier")
    async def cashier(pack, ctx: Context) -> Done | Escalate:
        refund = await ctx.call("refunds.create", order_id=pack.inputs["orderId"], cents=pack.inputs["cents"])
        return Done(
            {"refundId": refund["id"]}, evidence=[{"claim": "refund created", "source": refund["url"]}]
        )

`passdown.agents.testing` runs it without a broker.
"""

from passdown.agents.agent import Agent, agent
from passdown.agents.context import Answers, Context, SyncContext
from passdown.agents.errors import EffectUncertain, NotDone, Suspended
from passdown.agents.options import Options
from passdown.agents.port import HookPoint, Hooks
from passdown.agents.reducers import Reducer, reducer
from passdown.agents.registry import Registry, collect
from passdown.agents.results import AgentResult, Done, Escalate, NeedsInput, Question, Refused
from passdown.agents.runtime import Runtime
from passdown.agents.scripted import ScriptedAgent
from passdown.agents.tools import Absent, Found, Tool, Unsure, Verified, tool
from passdown.contracts.errors import (
    BudgetExceeded,
    Conflict,
    ContractError,
    Denied,
    Fenced,
    PassdownError,
    Unavailable,
)
from passdown.contracts.gateway import BranchResult
from passdown.contracts.pack import Pack, PackAnswer, PackEffect, PackJoin
from passdown.contracts.returns import EvidenceItem, Uncertainty

__all__ = [
    "Absent",
    "Agent",
    "AgentResult",
    "Answers",
    "BranchResult",
    "BudgetExceeded",
    "Conflict",
    "Context",
    "ContractError",
    "Denied",
    "Done",
    "EffectUncertain",
    "Escalate",
    "EvidenceItem",
    "Fenced",
    "Found",
    "HookPoint",
    "Hooks",
    "NeedsInput",
    "NotDone",
    "Options",
    "Pack",
    "PackAnswer",
    "PackEffect",
    "PackJoin",
    "PassdownError",
    "Question",
    "Reducer",
    "Refused",
    "Registry",
    "Runtime",
    "ScriptedAgent",
    "Suspended",
    "SyncContext",
    "Tool",
    "Unavailable",
    "Uncertainty",
    "Unsure",
    "Verified",
    "agent",
    "collect",
    "reducer",
    "tool",
]
