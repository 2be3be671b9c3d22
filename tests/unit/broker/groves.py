"""Sessions with branches, and theirs, for whoever tests what becomes of whole trees: three levels deep."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from passdown.agents import Agent, Done, agent
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.archive import Archive, Entry, read_tree
from passdown.broker.branches import Branches
from passdown.broker.client import Broker, Session
from passdown.broker.gateway import DirectGateway
from passdown.broker.joins.followups import FollowUps
from passdown.broker.joins.service import JoinService
from passdown.broker.stores.base import Store
from passdown.broker.tick import Tick
from passdown.contracts.plans import Backoff, FanOut, Plan, Stage

#: The list that is kept beside a session.
REGIONS = "regions"


@agent("judge")
def judge(pack: Any, ctx: Any) -> Done:
    """Judge a document; one with ``bad`` makes it raise."""
    if pack.inputs["doc"].get("bad"):
        raise RuntimeError("no")
    return Done({"verdict": pack.inputs["doc"]["id"]})


@agent("merger")
def merger(pack: Any, ctx: Any) -> Done:
    """Merge nothing."""
    return Done({"merged": True})


@agent("merger")
def no_merger(pack: Any, ctx: Any) -> Done:
    """Merge the documents of a region, and fail to merge regions."""
    if pack.parent is None:
        raise RuntimeError("no")
    return Done({"merged": True})


def grove() -> Plan:
    """Return a plan that opens a branch for each region, which opens one for each of its documents."""
    quick: dict[str, Any] = {"backoff": Backoff(first_seconds=0.0), "max_attempts": 1}
    return Plan(
        name="grove",
        start="spread",
        stages={
            "spread": Stage(
                fan_out=FanOut(each=REGIONS, item="region", stage="region", merge="merger"),
                on_failed="fail",
                **quick,
            ),
            "region": Stage(
                fan_out=FanOut(
                    each="region.docs",
                    item="doc",
                    stage="judge",
                    key="id",
                    counts=["done", "failed"],
                    merge="merger",
                ),
                **quick,
            ),
            "judge": Stage(role="judge", on_failed="fail", **quick),
        },
    )


def regions(*sizes: int, bad: int | None = None) -> list[dict[str, Any]]:
    """Return so many regions with so many documents each; `bad` is the one in each that cannot be judged."""
    return [
        {"name": f"r{n}", "docs": [{"id": f"d{k}", "bad": k == bad} for k in range(size)]}
        for n, size in enumerate(sizes)
    ]


def work(broker: Broker, session: Session, *, clock: Any = None, merges: Agent = merger) -> None:
    """Let agents and tick work until a session ends; `clock` is the store's, where it must be moved on."""
    controller = broker.app.controller
    if clock is None and controller.afterwards is None:
        controller.afterwards = FollowUps(JoinService(controller))
    runtime = Runtime(DirectGateway(controller), agents=[judge, merges], options=Options(linger_seconds=0.0))
    tick = Tick(controller)
    ends = time.monotonic() + 60
    while not session.state().over:
        assert time.monotonic() < ends, f"it never ends: {session.state()}"
        swept = tick.once()
        for role in ("judge", "merger"):
            runtime.drain(role)
        if clock is not None and not swept.done:
            clock.forward(300)
    runtime.stop(1.0)


def tree_in(store: Store, session_id: str) -> list[str]:
    """Return the ids of a session and all its branches that are there."""
    return [one.session_id for one in Branches(store).tree(session_id)]


def in_archive(folder: Path, session_id: str) -> Counter[str]:
    """Return how often each session of a tree is in a finished file."""
    found: Counter[str] = Counter()
    for entry in Archive(folder).entries():
        assert isinstance(entry, Entry)
        if entry.row.session_id == session_id:
            found.update(one.session_id for one in read_tree(entry))
    return found
