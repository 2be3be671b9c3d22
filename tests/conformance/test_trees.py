"""Generated histories of trees of fan-outs: whatever happens, in whatever order, joins fire once and nothing is left over.

A history that breaks a rule is shrunk and printed: the plan, what its session is given, and what happened.
"""

import time
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from passdown.broker.stores.base import Store
from passdown.broker.stores.redis import RedisStore
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.plans import FanOut, Grant, Plan, Stage
from tests.conformance.faulty import Fault
from tests.conformance.histories.surroundings import Clock, in_slow_motion
from tests.conformance.trees.happenings import Happening, histories
from tests.conformance.trees.plans import COUNT, LEASE_S, Tree, trees
from tests.conformance.trees.proof import finish
from tests.conformance.trees.world import StoreOf, World
from tests.servers.redis import RedisServer
from tests.soaking import seconds

#: How many histories `make test` runs over SQLite, and over Redis; and how many things happen in one before all heals.
HISTORIES = 200
HISTORIES_ON_REDIS = 15
MOST, LONG = 40, 120
#: The share of SOAK_MINUTES that goes to each store.
SOAK_SHARE = 0.03
#: What histories must reach: where they no longer do they would find no fault in it.
REACHED = {
    "FannedOut",
    "BranchesOpened",
    "JoinShort",
    "Joined",
    "BranchesTold",
    "JoinDrained",
    "Reopened",
    "LeaseLost",
    "Cancelled",
    "Expired",
}

_settings = settings(
    deadline=None,
    print_blob=True,
    # A history is many small draws and much work between them: neither is a sign of a bad strategy here.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@pytest.fixture(autouse=True)
def slow_motion() -> Generator[None]:
    with in_slow_motion():
        yield


def in_memory(clock: Clock) -> Store:
    return SqliteStore(":memory:", clock=clock)


def on_redis(server: RedisServer, shards: int) -> StoreOf:
    """Return what opens a store on an empty server."""

    def opened(clock: Clock) -> Store:
        server.client().flushall()
        return RedisStore(f"{server.url()}?shards={shards}", clock=clock)

    return opened


def run(store_of: StoreOf, tree: Tree, history: list[Happening], *, eager: bool) -> World:
    """Let a history happen to a tree; with `eager`, processes follow up on each commit before the next thing happens."""
    world = World(store_of, tree)
    try:
        for one in history:
            one.happen(world)
            while eager and world.notes:
                world.deliver(world.notes.pop(0), 0)
            world.check()
        finish(world)
    finally:
        world.close()
    return world


def run_many(
    store_of: StoreOf, examples: int, *, most: int = MOST, settled: settings = _settings
) -> Counter[str]:
    """Run so many histories; returns how often which events were seen."""
    seen: Counter[str] = Counter()

    @settings(settled, max_examples=examples)
    @given(trees(), st.sampled_from([True, True, False]), histories(most))
    def every(tree: Tree, eager: bool, history: list[Happening]) -> None:
        seen.update(run(store_of, tree, history, eager=eager).seen)

    every()
    return seen


@pytest.mark.timeout(900)  # about twenty seconds; much longer where it shrinks what it found
def test_rules_01_02_03_06_08_hold_in_every_tree() -> None:
    seen = run_many(in_memory, HISTORIES)
    assert sorted(REACHED - set(seen)) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shards", [1, 4])
def test_rules_01_02_03_06_08_hold_in_trees_over_redis(redis_server: RedisServer, shards: int) -> None:
    seen = run_many(on_redis(redis_server, shards), HISTORIES_ON_REDIS)
    assert "Joined" in seen


class AtCommit:
    """Lets one call to commit fail, the n-th from 0."""

    def __init__(self, number: int, fault: Fault) -> None:
        self._left = number
        self._fault: Fault = fault

    def __call__(self, method: str) -> Fault | None:
        if method != "commit":
            return None
        self._left -= 1
        return self._fault if self._left == -1 else None


def two_levels() -> Tree:
    """Return a tree of two fan-outs that write, disagree, open one branch after another, and call some off."""
    stages = {
        "top": Stage(fan_out=FanOut(each="first", stage="low", merge="merger"), lease_seconds=LEASE_S),
        "low": Stage(
            fan_out=FanOut(
                branches={"a": "leaf", "b": "leaf", "c": "desk"}, at_once=2, need=2, conflict=["by"]
            ),
            lease_seconds=LEASE_S,
        ),
        "leaf": Stage(
            role="leaf", tools=[Grant(tool=COUNT.name)], lease_seconds=LEASE_S, recovery="continue"
        ),
        "desk": Stage(queue="desk"),
    }
    return Tree(Plan(name="tree", start="top", stages=stages), {"n": 1, "first": [1, 2]}, None)


@pytest.mark.parametrize("fault", ["before", "after", pytest.param("stale", marks=pytest.mark.soak)])
def test_rules_01_02_03_a_crash_at_every_commit(fault: Fault) -> None:
    """Whichever commit it is that a process ends at, before it or after it: another one goes on from what is stored."""
    tree, number, failed = two_levels(), 0, True
    while failed:
        world = World(in_memory, tree, patient=False)
        try:
            world.store.plan = AtCommit(number, fault)
            finish(world)
            assert world.state(world.root).status == "done", f"with a fault {fault} at commit {number}"
            assert world.seen["JoinConflict"] == 2
            number, failed = number + 1, bool(world.store.given)
        finally:
            world.close()
    assert number > 30, "there were fewer commits than that"


@pytest.mark.soak
@pytest.mark.parametrize("store", ["sqlite", "redis", "redis with 4 shards"])
def test_rules_01_02_03_06_08_hold_in_many_trees(redis_server: RedisServer, store: str) -> None:
    store_of = in_memory if store == "sqlite" else on_redis(redis_server, 4 if "4" in store else 1)
    phases = settings(_settings, phases=[Phase.generate, Phase.shrink], database=None)
    ends = time.monotonic() + seconds(SOAK_SHARE)
    seen: Counter[str] = Counter()
    while not seen or time.monotonic() < ends:
        seen += run_many(store_of, 50, most=LONG, settled=phases)
    assert sorted(REACHED - set(seen)) == []
