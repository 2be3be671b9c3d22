import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from msgspec.structs import replace

from passdown.agents import (
    Agent,
    Context,
    Done,
    Found,
    Options,
    Pack,
    Runtime,
    SyncContext,
    agent,
    tool,
)
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.memory_session import Session
from passdown.agents.testing import make_pack, pack_tool
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import AgentInfo, Claim
from tests.unit.agents.helpers import QUICK, Flaky, runtime_of, wait_until

Act = Callable[[Any], object]


def plain_agent(act: Act) -> Agent:
    @agent("clerk")
    def clerk(pack: Pack, ctx: SyncContext) -> Done:
        act(ctx)
        return Done()

    return clerk


def async_agent(act: Act) -> Agent:
    @agent("clerk")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        await asyncio.sleep(0)
        act(ctx)
        return Done()

    return clerk


def nothing(_: object) -> None: ...


BOTH = pytest.mark.parametrize("make", [plain_agent, async_agent])


def submit(broker: MemoryGateway, count: int, **options: Any) -> list[Session]:
    return [broker.submit(make_pack("clerk", session_id=f"s0-{n}"), **options) for n in range(count)]


def done(sessions: list[Session]) -> bool:
    return all(one.status == "done" for one in sessions)


@BOTH
def test_a_drain_goes_on_until_the_queue_is_empty(make: Any):
    broker = MemoryGateway()
    sessions = submit(broker, 20)
    with runtime_of(broker, make(nothing)) as runtime:
        assert runtime.drain("clerk") is False
    assert done(sessions)


@BOTH
def test_an_empty_queue_ends_a_drain(make: Any):
    with runtime_of(MemoryGateway(), make(nothing)) as runtime:
        assert runtime.drain("clerk") is False


def test_the_next_pack_comes_with_the_return():
    broker = MemoryGateway()
    submit(broker, 3)
    flaky = Flaky(broker, {})
    with runtime_of(flaky.gateway, plain_agent(nothing)) as runtime:
        runtime.drain("clerk")
    assert flaky.asked == ["take", *["claim", "give"] * 3]


@BOTH
def test_a_queue_that_was_empty_from_the_start_is_not_looked_into_again(make: Any):
    flaky = Flaky(MemoryGateway(), {})
    with runtime_of(flaky.gateway, make(nothing), options=replace_options(linger_seconds=60)) as runtime:
        assert runtime.drain("clerk") is False
    assert flaky.asked == ["take"]


@BOTH
def test_a_drain_lingers_for_what_comes_in_a_moment(make: Any):
    broker = MemoryGateway()
    submit(broker, 1)
    flaky = Flaky(broker, {})
    options = Options(linger_seconds=5)

    class Lingering(Runtime):
        def pause(self, seconds: float) -> None:
            assert seconds == 5
            if len(broker.sessions) == 1:
                broker.submit(make_pack("clerk", session_id="s0-later"))

    with Lingering(flaky.gateway, agents=[make(nothing)], options=options) as runtime:
        runtime.drain("clerk")
    assert len(broker.sessions) == 2
    assert done(list(broker.sessions.values()))


@pytest.mark.parametrize(("make", "least", "most"), [(plain_agent, 20, 20), (async_agent, 6, 6 * 3)])
def test_where_other_roles_wait_a_turn_ends_after_some_takes(make: Any, least: int, most: int):
    """Fault celery/kombu#166: a crowded role must not keep its slot until it is empty."""
    broker = MemoryGateway()
    submit(broker, 60)
    options = replace_options(turn_takes=20, async_slots=3)

    def slow(_: object) -> None:
        time.sleep(0.03)  # so slow that they are taken one at a time

    with runtime_of(broker, make(slow), options=options) as runtime:
        assert runtime.drain("clerk") is True
    assert least <= sum(one.status == "done" for one in broker.sessions.values()) <= most
    assert all(one.status in ("done", "queued") for one in broker.sessions.values())


@BOTH
def test_the_turn_ends_and_says_whether_packs_remain(make: Any):
    broker = MemoryGateway()
    submit(broker, 50)

    def slow(_: object) -> None:
        time.sleep(0.005)

    options = replace_options(turn_seconds=0.05, async_slots=2)
    with runtime_of(broker, make(slow), options=options) as runtime:
        assert runtime.drain("clerk") is True
        assert 0 < sum(one.status == "done" for one in broker.sessions.values()) < 50
        assert all(one.status in ("done", "queued") for one in broker.sessions.values())
        while runtime.drain("clerk"):
            pass
    assert done(list(broker.sessions.values()))


def replace_options(**changes: Any) -> Options:
    return Options(**{**vars(QUICK), **changes})


@BOTH
def test_it_rings_on_once_and_at_once_where_more_remain(make: Any):
    broker = MemoryGateway()
    submit(broker, 5)
    rung: list[tuple[str, int]] = []

    def ring(role: str) -> None:
        rung.append((role, sum(one.status == "done" for one in broker.sessions.values())))
        raise OSError("no bell")

    with runtime_of(broker, make(nothing), options=replace_options(async_slots=1)) as runtime:
        runtime.drain("clerk", ring)
    assert rung == [("clerk", 0)]
    assert done(list(broker.sessions.values()))


def test_async_agents_run_by_the_hundred():
    broker = MemoryGateway()
    sessions = submit(broker, 500)

    @agent("clerk")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        await asyncio.sleep(1)
        return Done()

    with runtime_of(broker, clerk, options=Options()) as runtime:
        began = time.monotonic()
        runtime.drain("clerk")
        took = time.monotonic() - began
    assert done(sessions)
    assert took < 5


def test_no_more_async_agents_run_at_once_than_there_are_slots():
    broker = MemoryGateway()
    sessions = submit(broker, 30)
    running: list[int] = [0]
    most: list[int] = [0]

    @agent("clerk")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0.005)
        running[0] -= 1
        return Done()

    with runtime_of(broker, clerk, options=replace_options(async_slots=4)) as runtime:
        runtime.drain("clerk")
    assert done(sessions)
    assert most == [4]


def test_free_slots_are_filled_while_a_long_agent_runs():
    broker = MemoryGateway()
    (long,) = submit(broker, 1)
    release = threading.Event()

    @agent("clerk")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        while pack.session_id == long.name and not release.is_set():  # noqa: ASYNC110  (the event is another thread's)
            await asyncio.sleep(0.001)
        return Done()

    with runtime_of(broker, clerk) as runtime:
        thread = threading.Thread(target=runtime.drain, args=("clerk",))
        thread.start()
        wait_until(lambda: long.status == "running", "the long one runs")
        late = broker.submit(make_pack("clerk", session_id="s0-late"))
        wait_until(lambda: late.status == "done", "the late one is taken")
        assert long.status == "running"
        release.set()
        thread.join(10)
    assert long.status == "done"


@BOTH
def test_a_solo_pack_runs_alone(make: Any):
    broker = MemoryGateway()
    others = submit(broker, 6)
    solo = broker.submit(make_pack("clerk", session_id="s0-solo"), solo=True)
    neighbours: list[int] = []

    def act(ctx: Any) -> None:
        running = sum(one.status == "running" for one in broker.sessions.values())
        if ctx.pack.session_id == solo.name:
            neighbours.append(running)

    with runtime_of(
        broker, make(act), options=replace_options(async_slots=3, solo_wait_seconds=5)
    ) as runtime:
        threads = [threading.Thread(target=runtime.drain, args=("clerk",)) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(10)
        runtime.drain("clerk")
    assert neighbours == [1]
    assert done([*others, solo])


def test_a_solo_pack_that_cannot_be_alone_is_handed_back():
    broker = MemoryGateway()
    submit(broker, 1)
    release = threading.Event()

    with runtime_of(broker, plain_agent(lambda _: release.wait(10))) as runtime:
        thread = threading.Thread(target=runtime.drain, args=("clerk",))
        thread.start()
        wait_until(lambda: runtime.gate.inside == 1, "a neighbour runs")
        solo = broker.submit(make_pack("clerk", session_id="s0-solo"), solo=True)
        runtime.drain("clerk")
        assert (solo.status, solo.handed_back) == (
            "queued",
            "a pack that must run alone and others met in one worker",
        )
        release.set()
        thread.join(10)


@tool("pay", effect=True, verify=lambda key: Found({"k": key}))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
def pay(*, key: str) -> None:
    raise KeyError("never heard of again")


@BOTH
def test_settling_runs_no_agent(make: Any):
    runs: list[int] = []

    def act(ctx: Any) -> None:
        runs.append(ctx.pack.attempt)

    broker = MemoryGateway()
    session = broker.submit(make_pack("clerk", tools=[pay]))

    @agent("clerk")
    def first(pack: Pack, ctx: SyncContext) -> Done:
        ctx.call("pay")
        return Done()

    with runtime_of(broker, first, tools=(pay,)) as runtime:
        (offer,) = broker.take("clerk", 1).offers
        runtime.runner.run(offer, lambda: None)
    assert session.pack.cause == "settle"
    with runtime_of(broker, make(act), tools=(pay,)) as runtime:
        runtime.drain("clerk")
    assert runs == [3]
    assert session.status == "done"
    assert [one.result for one in session.ledger.values()] == [{"k": next(iter(session.ledger))}]


def test_a_worker_without_the_agent_can_still_settle():
    broker = MemoryGateway()
    session = broker.submit(make_pack("clerk", tools=[pay]))

    @agent("clerk")
    def first(pack: Pack, ctx: SyncContext) -> Done:
        ctx.call("pay")
        return Done()

    with runtime_of(broker, first, tools=(pay,)) as runtime:
        (offer,) = broker.take("clerk", 1).offers
        runtime.runner.run(offer, lambda: None)
    with runtime_of(broker, tools=(pay,)) as runtime:
        runtime.drain("clerk")
    assert session.causes == ["first", "settle", "retry"]
    assert session.handed_back == "this worker has no agent for role clerk"


@BOTH
def test_a_pack_that_does_not_fit_is_handed_back_and_others_run(make: Any):
    broker = MemoryGateway()
    strange = replace(pack_tool(pay), digest="0" * 64)
    misfit = broker.submit(make_pack("clerk", session_id="s0-misfit", tools=[strange]))
    others = submit(broker, 3)
    with runtime_of(broker, make(nothing), tools=(pay,)) as runtime:
        runtime.drain("clerk")
    assert done(others)
    assert (misfit.status, misfit.failures, misfit.claim_id) == ("queued", 0, "")
    assert "tool pay differs in" in misfit.handed_back


@BOTH
def test_one_failing_agent_does_not_end_the_drain(make: Any):
    def act(ctx: Any) -> None:
        if ctx.pack.session_id == "s0-1":
            raise KeyError("x")

    broker = MemoryGateway()
    sessions = submit(broker, 4, max_attempts=2)
    with runtime_of(broker, make(act)) as runtime:
        runtime.drain("clerk")
        assert [one.status for one in sessions if one is not sessions[1]] == ["done"] * 3
        # Its second attempt is taken in the same turn, unless the first one ends after the drain has lingered.
        runtime.drain("clerk")
    assert sessions[1].status == "failed"


@BOTH
@pytest.mark.parametrize("verb", ["take", "claim", "checkpoint", "give", "fail"])
def test_where_the_store_stays_away_the_drain_ends_and_says_so(make: Any, verb: str):
    def act(ctx: Any) -> Any:
        if verb == "fail":
            raise KeyError("x")
        return ctx.checkpoint({}) if verb == "checkpoint" else None

    if make is async_agent and verb == "checkpoint":

        @agent("clerk")
        async def clerk(pack: Pack, ctx: Context) -> Done:
            await ctx.checkpoint({})
            return Done()
    else:
        clerk = make(act)
    broker = MemoryGateway()
    submit(broker, 3)
    flaky = Flaky(broker, {verb: ["before"] * 100_000})
    with structlog.testing.capture_logs() as lines:
        runtime = runtime_of(flaky.gateway, clerk, options=replace_options(patience_seconds=0.05))
        assert runtime.drain("clerk") is False
    assert "drain-ended" in [line.get("action") for line in lines]
    assert runtime.renewer.held() == []
    runtime.stop(0)


@BOTH
def test_a_bug_in_the_gateway_does_not_escape(make: Any):
    class Broken(MemoryGateway):
        def claim(self, pack: Pack, claim_id: str, agent: AgentInfo) -> Claim:
            raise RuntimeError("a bug")

    broker = Broken()
    submit(broker, 2)
    with structlog.testing.capture_logs() as lines, runtime_of(broker, make(nothing)) as runtime:
        assert runtime.drain("clerk") is False
    assert "run-failed" in [line.get("action") for line in lines]


def test_a_verdict_whose_reply_is_lost_is_given_once():
    broker = MemoryGateway()
    session = broker.submit(make_pack("clerk", tools=[pay]))
    flaky = Flaky(broker, {"settle": ["after", "before"], "fail": ["after"]})

    @agent("clerk")
    def first(pack: Pack, ctx: SyncContext) -> Done:
        if pack.attempt == 1:
            ctx.call("pay")
        return Done()

    with runtime_of(flaky.gateway, first, tools=(pay,)) as runtime:
        runtime.drain("clerk")
    assert session.status == "done"
    assert flaky.asked.count("settle") == 3
    assert session.failures == 1


def test_unavailable_is_what_an_agent_meets_too():
    seen: list[BaseException] = []

    def act(ctx: Any) -> None:
        for _ in range(2):
            try:
                ctx.checkpoint({})
            except Unavailable as error:
                seen.append(error)

    broker = MemoryGateway()
    (session,) = submit(broker, 1)
    flaky = Flaky(broker, {"checkpoint": ["before"] * 100_000})
    with runtime_of(
        flaky.gateway, plain_agent(act), options=replace_options(patience_seconds=0.05)
    ) as runtime:
        runtime.drain("clerk")
    assert len(seen) == 2
    assert session.status == "done"
