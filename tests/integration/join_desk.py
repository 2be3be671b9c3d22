"""Agents that are branches, and what merges them; what is written outside goes to the journal of the test's site."""

import os
import signal
import time
from pathlib import Path
from typing import Any, cast

from passdown.agents import (
    BranchResult,
    Context,
    Done,
    Escalate,
    NeedsInput,
    Pack,
    Question,
    Refused,
    SyncContext,
    agent,
    reducer,
    tool,
)
from tests.integration.desk import find, write_outside


@tool("tally.add", effect=True, scope="tally", verify=find, dedupes=True)
def add(order: str, *, key: str) -> dict[str, Any]:
    """Add to what is counted outside."""
    return write_outside("tally.add", key, {"order": order})


@agent("counter", version="1")
def counter(pack: Pack, ctx: SyncContext) -> Any:
    """Write once, and be done."""
    ctx.call("tally.add", order=pack.session_id)
    return Done({"n": 1})


@agent("actor")
def actor(pack: Pack, ctx: SyncContext) -> Any:
    """Do what its item says."""
    item = pack.inputs["item"]
    match item["do"]:
        case "fail once" if pack.attempt == 1:
            raise RuntimeError("not yet")
        case "fail":
            raise RuntimeError("never")
        case "refuse":
            return Refused("not allowed")
        case "escalate" if not pack.feedback:
            return Escalate("two accounts match")
        case "ask" if "how" not in ctx.answers:
            return NeedsInput([Question(id="how", text="how many?", schema={"type": "integer"})])
        case _:
            pass
    return Done({"n": ctx.answers.get("how", item.get("n", 1)), "attempt": pack.attempt})


@agent("judge")
async def judge(pack: Pack, ctx: Context) -> Any:
    """Read all branches."""
    return Done({"n": sum([(branch.output or {})["n"] async for branch in ctx.branches()])})


@reducer("total")
def total(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    """Add up."""
    return {"n": (so_far or {"n": 0})["n"] + (branch.output or {})["n"]}


@reducer("raising")
def raising(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    """Break at the second branch."""
    if so_far:
        raise ValueError("these cannot be added")
    return {"n": 1}


@reducer("junk")
def junk(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    """Return what is no dict."""
    return cast("dict[str, Any]", [1, 2])


@reducer("hanging")
def hanging(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    """Never return, unless a file is there."""
    gate = Path(os.environ["OUTSIDE"]).with_name("let-go")
    while not gate.exists():
        time.sleep(0.02)
    return {"n": 1}


def die_once(marker: str) -> None:
    """End this process as a power cut would, the first time."""
    try:
        Path(os.environ["OUTSIDE"]).with_name(marker).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@reducer("dying")
def dying(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    """Add up, and die in the middle of it, once."""
    if branch.place == 1:
        die_once("died-reducing")
    return total(so_far, branch)


@agent("dying-judge")
def dying_judge(pack: Pack, ctx: SyncContext) -> Any:
    """Read half of the branches, and die, once."""
    n = 0
    for branch in ctx.branches():
        n += (branch.output or {})["n"]
        die_once("died-judging")
    return Done({"n": n})
