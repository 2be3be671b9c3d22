"""Agents and tools of the sessions that flow while servers die: each takes its time, so that harm meets it at work."""

import asyncio
import threading
from typing import Any

from passdown.agents import Context, Done, Pack, SyncContext, agent, tool
from tests.integration.desk import find, write_outside

#: How long each step of the work takes (seconds).
STEP_S = 0.05


def pause() -> None:
    """Let a step's time go by. Under `faketime` a sleep fails, and a wait does not."""
    threading.Event().wait(STEP_S)


@tool("orders.find")
def find_order(order: str) -> dict[str, Any]:
    """Look an order up."""
    return {"order": order, "cents": 4200}


@tool("refunds.pay", effect=True, scope="refunds", verify=find, dedupes=True)
def pay(order: str, *, key: str) -> dict[str, Any]:
    """Pay back: the bank absorbs a repeated key, and tells whether it knows one."""
    pause()
    paid = write_outside("refunds.pay", key, {"order": order})
    pause()
    return paid


@tool("letters.post", effect=True, scope="letters")
def post(order: str, *, key: str) -> dict[str, Any]:
    """Write on paper: a letter that goes twice arrives twice, and nobody can look whether it went."""
    posted = write_outside("letters.post", key, {"order": order}, absorbs=False)
    pause()
    pause()
    return posted


@agent("finder", version="1")
def finder(pack: Pack, ctx: SyncContext) -> Any:
    """Look, and go on."""
    pause()
    return Done({"cents": ctx.call("orders.find", order=pack.inputs["order"])["cents"]})


@agent("payer", version="1")
def payer(pack: Pack, ctx: SyncContext) -> Any:
    """Checkpoint, pay, and checkpoint again; goes on from where an earlier attempt stood."""
    snapshot: dict[str, Any] = ctx.snapshot or {}
    paid: Any = snapshot.get("paid")
    if paid is None:
        ctx.checkpoint({"at": "before"})
        paid = ctx.call("refunds.pay", order=pack.inputs["order"])
        ctx.checkpoint({"at": "after", "paid": paid})
    return Done({"refund": paid["id"]})


@agent("poster", version="1")
async def poster(pack: Pack, ctx: Context) -> Any:
    """Post one letter."""
    posted = await ctx.call("letters.post", order=pack.inputs["order"])
    await asyncio.sleep(STEP_S)
    return Done({"letter": posted["id"]})
