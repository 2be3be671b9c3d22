"""A role whose sessions are branches, and what merges them."""

from typing import Any

from passdown.agents import BranchResult, Context, Done, Pack, SyncContext, agent, reducer


@agent("counter")
def counter(pack: Pack, ctx: SyncContext) -> Done:
    """Give back the number of the branch."""
    return Done({"n": pack.inputs["item"]})


@reducer("total")
def total(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    """Add up."""
    return {"n": (so_far or {"n": 0})["n"] + (branch.output or {})["n"]}


@agent("judge")
async def judge(pack: Pack, ctx: Context) -> Done:
    """Read all branches."""
    return Done({"n": sum([(branch.output or {})["n"] async for branch in ctx.branches()])})
