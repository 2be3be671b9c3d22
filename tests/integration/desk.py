"""Agents and tools of the test site. What is written outside goes to a journal of its own, one line an arrival."""

import asyncio
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from passdown.agents import (
    Absent,
    Context,
    Done,
    Escalate,
    Found,
    NeedsInput,
    NotDone,
    Pack,
    Question,
    SyncContext,
    agent,
    tool,
)

OUTSIDE = Path(os.environ.get("OUTSIDE", "outside.jsonl"))


def arrivals() -> list[dict[str, Any]]:
    """Return every write that arrived outside, in order."""
    if not OUTSIDE.exists():
        return []
    return [json.loads(line) for line in OUTSIDE.read_text().splitlines()]


def write_outside(tool_name: str, key: str, args: dict[str, Any], *, absorbs: bool = True) -> dict[str, Any]:
    """Write durably outside; a key that is there already is absorbed, but its arrival is kept.

    A line is all of a write: whoever is killed or frozen has written it or not, and the first one of a key counts.
    """
    seen = absorbs and any(one["key"] == key and one["applied"] for one in arrivals())
    one = {"key": key, "tool": tool_name, "args": args, "applied": not seen, "absorbs": absorbs}
    with OUTSIDE.open("a") as file:
        file.write(json.dumps({**one, "pid": os.getpid()}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return {"id": f"r-{key[-6:]}"}


def find(order: str, *, key: str) -> Found | Absent:
    """Tell whether a write with this key arrived."""
    for one in arrivals():
        if one["key"] == key and one["applied"]:
            return Found({"id": f"r-{key[-6:]}"})
    return Absent()


@tool("search.orders")
def search(order: str) -> dict[str, Any]:
    """Look an order up."""
    return {"order": order, "cents": 4200}


@tool("refunds.create", effect=True, scope="refunds:write", verify=find, dedupes=True)
def create_refund(order: str, *, key: str) -> dict[str, Any]:
    """Pay an order back."""
    if order == "broken":
        raise NotDone("the bank refuses this order")
    return write_outside("refunds.create", key, {"order": order})


@tool("mail.send", effect=True, scope="mail", verify=find, dedupes=True)
def send_mail(order: str, *, key: str) -> dict[str, Any]:
    """Tell the customer."""
    return write_outside("mail.send", key, {"order": order})


@agent("searcher", version="1")
def searcher(pack: Pack, ctx: SyncContext) -> Any:
    """Look, and go on."""
    found = ctx.call("search.orders", order=pack.inputs["order"])
    return Done({"cents": found["cents"]})


@agent("writer", version="1")
def writer(pack: Pack, ctx: SyncContext) -> Any:
    """Checkpoint, write, and checkpoint again; goes on from where an earlier attempt stood."""
    snapshot: dict[str, Any] = ctx.snapshot or {}
    refund = snapshot.get("refund")
    if refund is None:
        ctx.checkpoint({"at": "before"})
        refund = ctx.call("refunds.create", order=pack.inputs["order"])
        ctx.checkpoint({"at": "after", "refund": refund})
    return Done({"refund": refund["id"]})


@agent("notifier", version="1")
async def notifier(pack: Pack, ctx: Context) -> Any:
    """Send one mail."""
    sent = await ctx.call("mail.send", order=pack.inputs["order"])
    return Done({"mail": sent["id"]})


@agent("asker")
def asker(pack: Pack, ctx: SyncContext) -> Any:
    """Ask twice, one question after the other, then be done."""
    for number in ("one", "two"):
        if number not in ctx.answers:
            return NeedsInput([Question(id=number, text=f"question {number}?", schema={"type": "string"})])
    return Done({"said": [ctx.answers["one"], ctx.answers["two"]]})


@agent("escalator")
def escalator(pack: Pack, ctx: SyncContext) -> Any:
    """Escalate at first, and do as told afterwards."""
    if not pack.feedback:
        return Escalate("two accounts match", recommended="use the newer one")
    return Done({"used": pack.feedback[-1].text})


@agent("sleeper")
async def sleeper(pack: Pack, ctx: Context) -> Any:
    """Wait a second, as something slow outside would."""
    await asyncio.sleep(1.0)
    return Done({})


@agent("killer")
def killer(pack: Pack, ctx: SyncContext) -> Any:
    """End its own process, always."""
    os.kill(os.getpid(), 9)
    return Done({})


@agent("flaky")
def flaky(pack: Pack, ctx: SyncContext) -> Any:
    """Fail as its inputs say, until the second attempt."""
    if pack.attempt > 1 and not pack.inputs.get("always"):
        return Done({"attempt": pack.attempt})
    kind = pack.inputs["kind"]
    if kind == "junk":
        return {"no": "result"}
    if kind == "SystemExit":
        raise SystemExit(3)
    if kind == "MemoryError":
        raise MemoryError
    if kind == "KeyError":
        raise KeyError("nothing here")
    if kind == "text":
        raise RuntimeError("a \x00 nul, a lone \ud800 surrogate, a \u202e mark, " + "x" * 1_000_000)
    if kind == "oversized":
        return Done({"big": "x" * 100_000})
    raise RuntimeError(kind)


@agent("hog")
def hog(pack: Pack, ctx: SyncContext) -> Any:
    """Hold the interpreter for longer than a lease."""
    ends = time.monotonic() + float(pack.inputs["seconds"])
    total = 0
    while time.monotonic() < ends:
        total += sum(range(10_000))
    return Done({"attempt": pack.attempt})


@agent("waiter")
def waiter(pack: Pack, ctx: SyncContext) -> Any:
    """Wait until a file is there, or until told to stop."""
    gate = Path(pack.inputs["gate"])
    stop = threading.Event()
    while not gate.exists():
        if ctx.cancelled:
            return Done({"told": True})
        stop.wait(0.02)
    return Done({"attempt": pack.attempt})
