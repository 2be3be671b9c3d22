"""The trivial agent that worker processes of the benchmarks load."""

from passdown.agents import Done, Pack, SyncContext, agent


@agent("clerk")
def clerk(pack: Pack, _ctx: SyncContext) -> Done:
    """Take a pack, give back a result: what the peers' tasks do."""
    return Done({"x": pack.inputs["x"] + 1, "text": pack.inputs["text"][:1000]})


@agent("stepper")
def stepper(pack: Pack, _ctx: SyncContext) -> Done:
    """One of several steps: what it gives is what the next one takes."""
    return Done({"x": pack.inputs["x"] + 1, "text": pack.inputs["text"]})
