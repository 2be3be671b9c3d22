"""The public API as its users type it. Checked by pyright in strict mode, and never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Mapping
from typing import Any, Literal, assert_type

from msgspec import Struct
from pydantic import BaseModel

from passdown.agents import (
    Absent,
    Agent,
    AgentResult,
    BranchResult,
    Context,
    Denied,
    Done,
    EffectUncertain,
    Escalate,
    Fenced,
    Found,
    NeedsInput,
    NotDone,
    Options,
    Pack,
    PackJoin,
    Question,
    Reducer,
    Refused,
    Registry,
    Runtime,
    ScriptedAgent,
    SyncContext,
    Tool,
    Unsure,
    Verified,
    agent,
    collect,
    reducer,
    tool,
)
from passdown.agents.scripted import Call, Finish, Input
from passdown.agents.testing import Approve, MemoryGateway, Outcome, make_pack, run_agent


class Refund(Struct):
    id: str


class Amount(BaseModel):
    cents: int


def find_refund(order_id: str, *, key: str) -> Verified:
    if key:
        return Found({"id": order_id})
    return Absent() if order_id else Unsure("no order")


@tool(
    "refunds.create",
    scope="refunds:write",
    effect=True,
    identity=["order_id"],
    verify=find_refund,
    dedupes=True,
)
def create_refund(order_id: str, cents: int, *, key: str) -> Refund:
    return Refund(f"{order_id}{cents}{key}")


@tool("orders.read", fresh_for="5m")
async def read_order(order_id: str, kind: Literal["full", "short"] = "short") -> dict[str, Any]:
    return {"id": order_id, "kind": kind}


@agent("cashier", version="1", model="none", time_limit="10m")
async def cashier(pack: Pack, ctx: Context) -> Done | Escalate:
    try:
        refund = await ctx.call("refunds.create", order_id=pack.inputs["orderId"], cents=5)
    except (NotDone, Denied, EffectUncertain, Fenced) as error:
        return Escalate(str(error), risks=["double"], hand_over=Amount(cents=5))
    await ctx.checkpoint({"refund": refund})
    ctx.log.info("paid", cancelled=ctx.cancelled, deadline=ctx.deadline)
    return Done({"refundId": refund["id"]}, evidence=[{"claim": "refund created", "source": refund["url"]}])


@agent("judge")
def judge(pack: Pack, ctx: SyncContext) -> AgentResult:
    answers: Mapping[str, Any] = ctx.answers
    if "sure" not in answers:
        return NeedsInput([Question("sure", "Sure?", schema=bool)], uncertainty=0.5)
    ctx.checkpoint(Refund("r"))
    found: Any = ctx.call("orders.read", after=None, order_id="o")
    return Refused("no", policy="p", usage={"n": 1}) if found else Done(Refund("r"), next_step="desk")


@agent("foreman")
async def foreman(pack: Pack, ctx: Context) -> Done:
    join: PackJoin | None = pack.join
    outputs = [branch.output async for branch in ctx.branches() if branch.outcome == "done"]
    return Done({"outputs": outputs, "of": join.branches if join else 0})


@agent("warden")
def warden(pack: Pack, ctx: SyncContext) -> Done:
    for branch in ctx.branches():
        assert_type(branch, BranchResult)
    return Done()


@reducer("total")
def total(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    cents: int = so_far["cents"] if so_far else 0
    return {"cents": cents + (branch.output or {})["cents"]}


@reducer("names", version="1", time_limit="1m")
async def names(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    return {**(so_far or {}), branch.branch: branch.reason}


assert_type(total, Reducer[dict[str, Any]])
assert_type(total(None, BranchResult(branch="a", place=0, outcome="done")), dict[str, Any])
assert_type(cashier, Agent)
assert_type(create_refund("o", 5, key="k"), Refund)
create_refund.spec.params  # noqa: B018
any_tool: Tool[..., Any] = read_order

registry: Registry = collect("shop.agents", into=Registry([cashier, judge, total, names, create_refund]))
runtime = Runtime(
    MemoryGateway(),
    agents=[*registry.agents.values(), total],
    tools=registry.tools.values(),
    options=Options(turn_seconds=10, async_slots=100),
    hooks=lambda point, pack: None if pack else print(point),  # noqa: T201
)
more: bool = runtime.drain("cashier", ring=lambda role: print(role))  # noqa: T201, PLW0108

outcome: Outcome = run_agent(
    ScriptedAgent("cashier", [Call("orders.read", {"order_id": Input("orderId")}), Finish(Done({}))]),
    make_pack("cashier", tools=[read_order, create_refund], inputs={"orderId": "4711"}, returns=Refund),
    tools=[read_order, create_refund],
    people={"refunds.create": Approve()},
    crash=("after_write", 1),
)

run_agent(foreman, make_pack("foreman"), branches=[{"risk": "low"}])
run_agent(total, branches=[BranchResult(branch="a", place=0, outcome="done", output={"cents": 1})])


# What must not type


@agent("wrong")  # pyright: ignore[reportArgumentType]
def returns_junk(pack: Pack, ctx: SyncContext) -> int:
    return 1


@agent("wrong")  # pyright: ignore[reportArgumentType]
async def takes_the_plain_context(pack: Pack, ctx: SyncContext) -> Done:
    return Done()


create_refund("o", cents="many", key="k")  # pyright: ignore[reportArgumentType]
create_refund("o", 5)  # pyright: ignore[reportCallIssue]


@reducer("wrong")  # pyright: ignore[reportArgumentType]
def folds_to_junk(so_far: dict[str, Any] | None, branch: BranchResult) -> int:
    return 1


@reducer("wrong")  # pyright: ignore[reportArgumentType]
def takes_no_start(so_far: dict[str, Any], branch: BranchResult) -> dict[str, Any]:
    return so_far
