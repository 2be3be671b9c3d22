import asyncio
import queue
import threading
from typing import Any

import pytest

from passdown.agents import Agent, Context, Done, Fenced, Pack, agent, tool
from passdown.agents.async_run import AsyncRun
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.outcomes import Outcome, Raised, Value
from passdown.agents.testing import make_pack, pack_tool, run_agent
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import Gateway, Taking, Wanted
from tests.unit.agents.helpers import QUICK, Flaky, runtime_of, wait_until


@agent("clerk")
async def clerk(pack: Pack, ctx: Context) -> Done:
    return Done({"thread": threading.current_thread().name})


def run(
    broker: MemoryGateway, gateway: Gateway | None = None, which: Agent = clerk, **options: Any
) -> Outcome:
    quick = QUICK.__class__(**{**vars(QUICK), **options})
    runtime = runtime_of(gateway or broker, which, options=quick)
    (offer,) = broker.take("clerk", 1).offers
    ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    AsyncRun(runtime.runner, offer, lambda: Wanted("clerk", 1), ended.put).start()
    outcome = ended.get(timeout=10)
    assert runtime.renewer.held() == []
    runtime.stop(0)
    return outcome


def test_it_ends_with_what_was_taken_with_the_return():
    broker = MemoryGateway()
    first = broker.submit(make_pack("clerk", session_id="s0-1"))
    second = broker.submit(make_pack("clerk", session_id="s0-2"))
    outcome = run(broker)
    assert isinstance(outcome, Value)
    assert isinstance(outcome.value, Taking)
    assert [one.pack for one in outcome.value.offers] == [second.pack]
    assert getattr(first.given, "output", None) == {"thread": "passdown-loop"}


def test_a_pack_that_is_not_to_run_here_ends_at_once():
    broker = MemoryGateway()
    session = broker.submit(make_pack("clerk", tools=[pack_tool(tool("look")(lambda: 0))]))
    assert run(broker) == Value(None)
    assert session.handed_back == "this worker has no tool look"


@pytest.mark.parametrize("verb", ["claim", "give"])
def test_without_the_store_it_ends_with_that(verb: str):
    broker = MemoryGateway()
    broker.submit(make_pack("clerk"))
    outcome = run(broker, Flaky(broker, {verb: ["before"] * 100_000}).gateway, patience_seconds=0.05)
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, Unavailable)


def test_a_context_that_outlived_its_run_is_fenced():
    kept: list[Context] = []
    errors: list[BaseException] = []

    @agent("clerk")
    async def keeps(pack: Pack, ctx: Context) -> Done:
        kept.append(ctx)
        return Done()

    broker = MemoryGateway()
    broker.submit(make_pack("clerk"))
    run(broker, which=keeps)

    @agent("desk")
    async def uses(pack: Pack, ctx: Context) -> Done:
        try:
            await kept[0].checkpoint({})
        except Fenced as error:
            errors.append(error)
        return Done()

    run_agent(uses, make_pack("desk"))
    assert "its run is over" in str(errors[0])


def test_an_effect_beside_one_that_is_suspended_is_heard_late():
    """One call waits for a person, which ends the claim; the other one still writes, and that is not lost."""
    started, proposed, written = threading.Event(), threading.Event(), list[str]()

    @tool("slow", effect=True)
    def slow(*, key: str) -> str:
        started.set()
        proposed.wait(5)
        written.append("slow")
        return "slow"

    @tool("asks", effect=True)
    def asks(*, key: str) -> str:
        written.append("asks")
        return "asked"

    @agent("clerk")
    async def both(pack: Pack, ctx: Context) -> Done:

        async def asked() -> Any:
            await asyncio.to_thread(started.wait, 5)
            return await ctx.call("asks")

        return Done({"all": list(await asyncio.gather(ctx.call("slow"), asked()))})

    broker = MemoryGateway()
    session = broker.submit(make_pack("clerk", tools=[slow, pack_tool(asks, approve=True)]))
    with runtime_of(broker, both, tools=(slow, asks)) as runtime:
        drain = threading.Thread(target=runtime.drain, args=("clerk",))
        drain.start()
        wait_until(session.open_tickets, "one is proposed")
        assert [one.status for one in session.ledger.values()] == ["unknown", "proposed"]
        proposed.set()
        drain.join(10)
        wait_until(lambda: next(iter(session.ledger.values())).status == "done", "the other one is heard")
        broker.approve(session.name, list(session.ledger)[1])
        runtime.drain("clerk")
    assert session.status == "done"
    assert written == ["slow", "asks"]
