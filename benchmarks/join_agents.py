"""What worker processes of the benchmark of joins load: the trivial branch, and the merge, which is Passdown's own."""

from passdown.agents import Done, Pack, SyncContext, agent
from passdown.agents.merging import MERGE_AGENT

__all__ = ["MERGE_AGENT", "judge"]


@agent("judge")
def judge(pack: Pack, _ctx: SyncContext) -> Done:
    """One branch: what the peers' tasks do."""
    return Done({"x": pack.inputs["item"]["x"] + 1})
