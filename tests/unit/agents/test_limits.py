"""Time limits, seen to with a clock that stands still, and with agents that hear nothing."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from passdown.agents import Agent, Context, Done, Pack, SyncContext, agent
from passdown.agents.limits import OverTime, Stuck, TimeLimits, limit_of
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.runtime import Runtime
from passdown.agents.testing import make_pack
from tests.unit.agents.helpers import QUICK, wait_until


class Limits:
    """Time limits with a grace of 5 s, on a clock that is moved; what they did is kept."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: list[str] = []
        self.stuck: list[Stuck] = []
        self.armed: list[float | None] = []
        self.limits = TimeLimits(
            5.0, lambda act: act(), self.stuck.append, self.armed.append, clock=lambda: self.now
        )

    def alone(self) -> None:
        """Let its own thread not begin: it would look as well, at moments of its own."""
        vars(self.limits)["_thread"] = threading.current_thread()

    def begin(self, seconds: float, name: str, *, on_loop: bool = False) -> Any:
        """Begin a run."""
        return self.limits.begin(seconds, lambda: self.told.append(name), on_loop=on_loop)

    def at(self, now: float) -> None:
        """Let it be a later time."""
        self.now = now
        self.limits.look()


@pytest.fixture
def limits() -> Any:
    made = Limits()
    yield made
    made.limits.stop()


def test_a_run_is_told_once_when_its_time_is_up(limits: Limits) -> None:
    limits.alone()
    limits.begin(2.0, "a")
    limits.begin(4.0, "b")
    limits.at(101.9)
    assert limits.told == []
    limits.at(102.0)
    limits.at(103.0)
    assert limits.told == ["a"]
    limits.at(104.0)
    assert limits.told == ["a", "b"]


def test_one_that_ended_in_time_is_not_told(limits: Limits) -> None:
    limits.alone()
    limits.limits.end(limits.begin(2.0, "a"))
    limits.at(200.0)
    assert limits.told == []
    assert limits.stuck == []


def test_one_that_goes_on_for_its_grace_is_stuck_until_it_ends(limits: Limits) -> None:
    limits.alone()
    first = limits.begin(2.0, "a")
    limits.at(102.0)
    limits.at(106.9)
    assert limits.stuck == []
    limits.at(107.0)
    assert limits.stuck == [Stuck(threads=1, loop=False)]
    limits.begin(1.0, "b", on_loop=True)
    limits.at(108.0)
    limits.at(113.0)
    assert limits.stuck[1:] == [Stuck(threads=1, loop=True)]
    limits.limits.end(first)
    limits.begin(1.0, "c", on_loop=True)
    limits.at(114.0)
    limits.at(119.0)
    assert limits.stuck[2:] == [Stuck(threads=0, loop=True)]


def test_the_guard_is_set_for_the_next_that_could_hold_the_interpreter(limits: Limits) -> None:
    limits.alone()
    first = limits.begin(2.0, "a")
    second = limits.begin(1.0, "b")
    limits.begin(9.0, "c")
    assert limits.armed == [12.0, 11.0]
    limits.limits.end(second)
    assert limits.armed[2:] == [12.0]
    limits.at(102.0)
    limits.at(107.0)
    assert limits.armed[3:] == [12.0], "what this thread found to be stuck does not hold the interpreter"
    limits.limits.end(first)
    limits.limits.stop()
    assert limits.armed[4:] == [None]


@pytest.mark.parametrize(
    ("stages", "own", "least"),
    [(None, None, None), (5.0, None, 5.0), (None, 7.0, 7.0), (5.0, 7.0, 5.0), (9.0, 7.0, 7.0)],
)
def test_the_smaller_of_the_stages_limit_and_the_agents_wins(
    stages: float | None, own: float | None, least: float | None
) -> None:
    fields: dict[str, Any] = {} if stages is None else {"time_limit_seconds": stages}
    clerk = agent("clerk", time_limit=own)(lambda _pack, _ctx: Done())
    assert limit_of(make_pack("clerk", **fields), clerk) == least


def test_a_limit_of_centuries_overflows_nothing(limits: Limits) -> None:
    ended = limits.begin(1e18, "a")
    limits.begin(0.0, "b")
    wait_until(lambda: limits.told == ["b"], "the thread still looks")
    limits.limits.end(ended)
    assert math.isfinite(OverTime(1e18).seconds)


class Site:
    """A runtime with agents that wait for an event and hear nothing else."""

    def __init__(self) -> None:
        self.broker = MemoryGateway()
        self.go_on = threading.Event()
        self.stuck: list[Stuck] = []

    def runtime(self, *agents: Agent) -> Runtime:
        """Return a runtime."""
        return Runtime(self.broker, agents=agents, options=QUICK, on_stuck=self.stuck.append)

    def run(self, runtime: Runtime, role: str) -> threading.Thread:
        """Drain a role in a thread."""
        thread = threading.Thread(target=runtime.drain, args=(role,), daemon=True)
        thread.start()
        return thread


def waits_plain(site: Site) -> Agent:
    @agent("clerk")
    def clerk(pack: Pack, ctx: SyncContext) -> Done:
        if pack.attempt == 1:
            site.go_on.wait(20)
        return Done({"attempt": pack.attempt})

    return clerk


def blocks_loop(site: Site) -> Agent:
    @agent("clerk")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        if pack.attempt == 1:
            site.go_on.wait(20)
        return Done({"attempt": pack.attempt})

    return clerk


@pytest.mark.parametrize(
    ("make", "stuck"),
    [(waits_plain, Stuck(threads=1, loop=False)), (blocks_loop, Stuck(threads=0, loop=True))],
)
def test_the_stages_limit_ends_the_attempt_of_one_that_cannot_be_ended(
    make: Callable[[Site], Agent], stuck: Stuck
) -> None:
    """Fault hatchet#1022: its late return is fenced, and its slot is counted until it ends."""
    site = Site()
    session = site.broker.submit(make_pack("clerk", time_limit_seconds=0.05))
    runtime = site.runtime(make(site))
    drain = site.run(runtime, "clerk")

    wait_until(lambda: session.failures == 1, "the attempt is reported as failed")
    assert session.feedback[0].text == "the agent ran longer than its time limit of 0.05 s"
    wait_until(lambda: site.stuck, "it is stuck")
    assert site.stuck == [stuck]
    assert drain.is_alive()
    site.go_on.set()
    drain.join(10)
    other = site.run(runtime, "clerk")
    other.join(10)
    assert session.status == "done"
    assert session.fenced == 1
    runtime.stop(0)


def test_an_agent_that_ends_in_time_is_not_touched() -> None:
    site = Site()
    site.go_on.set()
    session = site.broker.submit(make_pack("clerk", time_limit_seconds=5.0))
    runtime = site.runtime(waits_plain(site))
    site.run(runtime, "clerk").join(10)
    assert (session.status, session.failures) == ("done", 0)
    began = time.monotonic()
    runtime.stop(5)
    assert time.monotonic() - began < 2
