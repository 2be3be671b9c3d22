"""Doorbells that coalesce lose nothing: a pack that becomes ready in the very moment a drain ends is not left lying.

No tick runs here: it would ring again after a while, and hide what was lost.
"""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from passdown.agents import Done, agent
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.worker import WorkerSpec
from passdown.contracts.codec import encode
from passdown.contracts.plans import Next, Plan
from tests.integration.site import Site, stage
from tests.unit.broker.rig import ROLE, Rig, plan

AGENTS = """
from passdown.agents import Done, agent

@agent("ping")
def ping(pack, ctx):
    return Done({})

@agent("pong")
async def pong(pack, ctx):
    return Done({})
"""

#: Points of a drain, and at which of the times that it comes there somebody else commits.
MOMENTS = [
    *((point, 1) for point in ("before_take", "after_take", "before_claim", "after_claim")),
    *((point, 1) for point in ("before_give", "after_give")),
    *((point, 2) for point in ("before_take", "after_take")),
]


@agent(ROLE)
def plain(pack: Any, ctx: Any) -> Done:
    return Done({})


@agent(ROLE)
async def concurrent(pack: Any, ctx: Any) -> Done:
    return Done({})


def play(one: Any, point: str, nth: int, linger: float) -> tuple[list[str], int]:
    """Let somebody submit at the n-th time that a drain comes to `point`.

    Each bell is answered by one drain, as in a pool; the first is that of the first submit. Returns how the
    sessions stand once no bell is left, and how often a drain came to `point`.
    """
    rig = Rig()
    rig.broker.register(plan())
    sessions = [rig.broker.submit("p")]
    came = 0

    def hook(reached: str, _: object) -> None:
        nonlocal came
        came += reached == point
        if reached == point and came == nth:
            sessions.append(rig.person().submit("p"))

    runtime = Runtime(rig.gateway, agents=[one], hooks=hook, options=Options(linger_seconds=linger))
    bells = rig.bells.rung
    while bells:
        bells.pop()
        if runtime.drain(ROLE):
            bells.append(ROLE)
    runtime.stop(1.0)
    standing = [session.status() for session in sessions]
    rig.broker.close()
    return standing, came


@pytest.mark.parametrize("one", [plain, concurrent], ids=["plain", "async"])
@pytest.mark.parametrize("linger", [0.0, 0.01])
@pytest.mark.parametrize(("point", "nth"), MOMENTS)
def test_a_commit_at_any_moment_of_a_drain_leaves_nothing_lying(
    one: Any, linger: float, point: str, nth: int
) -> None:
    standing, came = play(one, point, nth, linger)
    assert standing == ["done"] * (2 if came >= nth else 1)


def test_these_moments_are_the_ones_around_the_last_take() -> None:
    """With a linger there is a take of its own after the give, which takes along: so all moments are met."""
    for point, nth in MOMENTS:
        _, came = play(plain, point, nth, 0.01)
        assert came >= nth, f"{point} was met {came} times"


def rally() -> Plan:
    """Two roles that hand over to each other."""
    moves = (("a", "ping", "b"), ("b", "pong", "c"), ("c", "ping", "d"))
    stages = {name: stage(role, next=Next(to=after)) for name, role, after in moves}
    return Plan(name="rally", start="a", stages={**stages, "d": stage("pong")})


@pytest.mark.timeout(300)
@pytest.mark.parametrize("moments", [80, pytest.param(200, marks=pytest.mark.soak)])
def test_two_processes_in_many_random_moments(site: Site, tmp_path: Path, moments: int) -> None:
    """Submits meet the ends of drains and of lingering ones, in two workers that ring for each other."""
    module = tmp_path / "rally.py"
    module.write_text(AGENTS)
    site.broker.register(rally())
    spec = WorkerSpec(
        store=site.store, roles=["ping", "pong"], modules=[str(module)], concurrency=2, log_level="warning"
    )
    for _ in range(2):
        site.start("passdown.broker.worker", encode(spec).decode())
    chance = random.Random(11)
    site.broker.submit("rally").result(timeout_s=60)
    for n in range(moments):
        sessions = [site.broker.submit("rally", key=f"{n}-{m}") for m in range(chance.choice((1, 1, 2, 5)))]
        for session in sessions:
            assert session.result(timeout_s=20).result == "done", f"after {n} rounds something is left lying"
        # From the very end of the last drain to beyond its lingering.
        time.sleep(chance.choice((0.0, 0.0, chance.uniform(0, 0.01), chance.uniform(0, 0.08))))
    assert "doorbell" not in site.log()
