import asyncio
import threading
import time
from typing import Any

import pytest

from passdown.agents import Agent, Context, Done, Fenced, Pack, SyncContext, agent, tool
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.memory_session import Session
from passdown.agents.port import HookPoint
from passdown.agents.runtime import Runtime
from passdown.agents.testing import make_pack
from passdown.contracts.errors import ContractError
from tests.unit.agents.helpers import Flaky, runtime_of, wait_until


@tool("pay", effect=True)
def pay(*, key: str) -> str:
    return "paid"


@agent("clerk")
def clerk(pack: Pack, ctx: SyncContext) -> Done:
    ctx.checkpoint({"at": 1})
    return Done({"is": ctx.call("pay")})


@agent("desk")
async def desk(pack: Pack, ctx: Context) -> Done:
    await ctx.checkpoint({"at": 1})
    return Done({"is": await ctx.call("pay")})


def test_a_start_publishes_the_tools():
    broker = MemoryGateway()
    flaky = Flaky(broker, {"register_tools": ["before", "after"]})
    runtime = runtime_of(flaky.gateway, clerk, tools=(pay,))
    runtime.start()
    assert broker.registered == {"pay": pay.spec}
    runtime.stop()


def test_two_agents_of_one_role_are_an_error():
    @agent("clerk")
    def other(pack: Pack, ctx: SyncContext) -> Done:
        return Done()

    with pytest.raises(ContractError, match="two of them"):
        runtime_of(MemoryGateway(), clerk, other)


@pytest.mark.parametrize("which", [clerk, desk])
def test_hooks_are_called_around_each_act(which: Agent):
    broker, seen = MemoryGateway(), list[tuple[HookPoint, str]]()
    pack = make_pack(which.role, tools=[pay])
    broker.submit(pack)

    def hooks(point: HookPoint, at: Pack | None) -> None:
        seen.append((point, at.session_id if at else ""))

    with runtime_of(broker, which, tools=(pay,), hooks=hooks) as runtime:
        runtime.drain(which.role)
    acts = ["claim", "checkpoint", "intent", "write", "report", "give"]
    told = [point for point, session in seen if session == pack.session_id]
    assert told == [f"{when}_{act}" for act in acts for when in ("before", "after")]
    # A drain with slots to spare may look for more while the agent runs.
    taken = [point for point, session in seen if not session]
    assert taken[:2] == ["before_take", "after_take"]
    assert set(taken) == {"before_take", "after_take"}


def running(runtime: Runtime, role: str) -> threading.Thread:
    thread = threading.Thread(target=runtime.drain, args=(role,), daemon=True)
    thread.start()
    return thread


def holding(broker: MemoryGateway, count: int = 1) -> list[Session]:
    return [broker.submit(make_pack("clerk", session_id=f"s0-{n}")) for n in range(count)]


def test_a_stop_waits_for_what_runs_and_takes_nothing_new():
    broker, started, go_on = MemoryGateway(), threading.Event(), threading.Event()
    first, second = holding(broker, 2)

    @agent("clerk")
    def slow(pack: Pack, ctx: SyncContext) -> Done:
        started.set()
        go_on.wait(10)
        return Done()

    runtime = runtime_of(broker, slow)
    thread = running(runtime, "clerk")
    assert started.wait(5)
    stopping = threading.Thread(target=runtime.stop, args=(10,))
    stopping.start()
    wait_until(lambda: runtime.stopping, "it is stopping")
    go_on.set()
    stopping.join(10)
    thread.join(10)
    assert (first.status, second.status) == ("done", "queued")
    assert runtime.drain("clerk") is False


def test_a_stop_releases_a_plain_agent_that_does_not_end_in_time():
    broker, started, go_on, seen = MemoryGateway(), threading.Event(), threading.Event(), list[str]()
    (session,) = holding(broker)

    @agent("clerk")
    def stuck(pack: Pack, ctx: SyncContext) -> Done:
        started.set()
        go_on.wait(10)
        try:
            ctx.checkpoint({})
        except Fenced as error:
            seen.append(error.why)
        return Done()

    runtime = runtime_of(broker, stuck)
    thread = running(runtime, "clerk")
    assert started.wait(5)
    runtime.stop(0.01)
    assert (session.status, session.failures, session.pack.attempt) == ("queued", 0, 2)
    go_on.set()
    thread.join(10)
    assert seen == ["the worker shuts down"]
    assert session.fenced == 1


def test_a_stop_cancels_and_releases_async_agents():
    broker, seen = MemoryGateway(), list[str]()
    sessions = holding(broker, 20)

    @agent("clerk")
    async def stuck(pack: Pack, ctx: Context) -> Done:
        try:
            await asyncio.sleep(3600)
        finally:
            seen.append(pack.session_id)
        return Done()

    runtime = runtime_of(broker, stuck)
    thread = running(runtime, "clerk")
    wait_until(lambda: all(one.status == "running" for one in sessions), "all run")
    began = time.monotonic()
    runtime.stop(0.01)
    thread.join(10)
    assert time.monotonic() - began < 2
    assert {(one.status, one.failures) for one in sessions} == {("queued", 0)}
    assert len(seen) == 20


def test_an_effect_that_a_stop_cuts_off_is_unknown():
    broker, started = MemoryGateway(), threading.Event()

    @tool("slow", effect=True)
    async def slow(*, key: str) -> None:
        started.set()
        await asyncio.sleep(3600)

    @agent("clerk")
    async def waits(pack: Pack, ctx: Context) -> Done:
        await ctx.call("slow")
        return Done()

    session = broker.submit(make_pack("clerk", tools=[slow]))
    runtime = runtime_of(broker, waits, tools=(slow,))
    thread = running(runtime, "clerk")
    assert started.wait(5)
    runtime.stop(0.01)
    thread.join(10)
    assert [one.status for one in session.ledger.values()] == ["unknown"]
    assert session.pack.cause == "settle"


def test_a_release_that_is_refused_does_not_stop_the_others():
    broker, started = MemoryGateway(), threading.Barrier(3)
    sessions = holding(broker, 2)
    go_on = threading.Event()

    @agent("clerk")
    def stuck(pack: Pack, ctx: SyncContext) -> Done:
        started.wait(5)
        go_on.wait(10)
        return Done()

    flaky = Flaky(broker, {"release": ["before"]})
    runtime = runtime_of(flaky.gateway, stuck)
    threads = [running(runtime, "clerk") for _ in range(2)]
    started.wait(5)
    runtime.stop(0.01)
    assert sorted(one.status for one in sessions) == ["queued", "running"]
    go_on.set()
    for one in threads:
        one.join(10)


def test_what_is_claimed_while_the_worker_shuts_down_is_released():
    broker = MemoryGateway()
    (session,) = holding(broker)
    runtime = runtime_of(broker, clerk)
    runtime.runner.hurry.set()
    (offer,) = broker.take("clerk", 1).offers
    assert runtime.runner.run(offer, lambda: None) is None
    assert (session.status, session.failures, session.pack.attempt) == ("queued", 0, 2)
    assert runtime.renewer.held() == []


def test_leases_are_renewed_while_an_agent_runs_long():
    broker = MemoryGateway()
    session = broker.submit(make_pack("clerk", lease_seconds=0.03))
    flaky = Flaky(broker, {"renew": ["before", "after"]})

    @agent("clerk")
    def long(pack: Pack, ctx: SyncContext) -> Done:
        wait_until(lambda: flaky.asked.count("renew") >= 5, "the lease is renewed")
        return Done()

    with runtime_of(flaky.gateway, long) as runtime:
        runtime.drain("clerk")
        assert runtime.renewer.held() == []
    assert session.status == "done"


def test_a_runtime_serves_many_drains_at_once():
    broker = MemoryGateway()
    for role in ("clerk", "desk"):
        for n in range(50):
            broker.submit(make_pack(role, session_id=f"s0-{role}-{n}", tools=[pay]))
    with runtime_of(broker, clerk, desk, tools=(pay,)) as runtime:
        threads = [threading.Thread(target=runtime.drain, args=(role,)) for role in ("clerk", "desk") * 4]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
    assert all(one.status == "done" and one.writes == ["pay"] for one in broker.sessions.values())


def test_keyword_errors_of_pools_do_not_matter_to_the_loop():
    """An agent's own task that raises SystemExit must not end the loop that hundreds share."""
    broker = MemoryGateway()
    sessions = holding(broker, 10)

    @agent("clerk")
    async def leaves(pack: Pack, ctx: Context) -> Done:
        async def leave() -> None:
            raise SystemExit(1)

        if pack.session_id == "s0-3" and pack.attempt == 1:
            await asyncio.ensure_future(leave())
        await asyncio.sleep(0.01)
        return Done()

    with runtime_of(broker, leaves) as runtime:
        runtime.drain("clerk")
    assert [one.status for one in sessions] == ["done"] * 10
    failed: Any = sessions[3].feedback
    assert failed[0].text.startswith("SystemExit")
