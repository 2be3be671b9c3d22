import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from passdown.agents import tool
from passdown.agents.flows import Blocking, Flow, RunTool, drive, drive_async
from passdown.agents.outcomes import Outcome, Raised, Value
from passdown.agents.threads import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(gateway=2, tools=2)
    yield made
    made.loop.stop()


@tool("plain")
def plain(x: int) -> tuple[int, str]:
    return x, threading.current_thread().name


@tool("waits")
async def waits(x: int) -> tuple[int, str]:
    await asyncio.sleep(0)
    return x, threading.current_thread().name


def both(x: int) -> Flow:
    first = yield RunTool(plain, {"x": x})
    second = yield RunTool(waits, {"x": x})
    third = yield Blocking(lambda: threading.current_thread().name)
    return first.value, second.value, third


def test_a_flow_runs_in_a_plain_agents_thread(threads: Threads):
    here = threading.current_thread().name
    assert drive(both(3), threads) == ((3, here), (3, "passdown-loop"), here)


def test_a_flow_runs_on_the_loop_and_blocks_elsewhere(threads: Threads):
    outcome = threads.loop.submit(lambda: drive_async(both(3), threads)).result(5)
    assert outcome == Value(((3, "passdown-tools-1"), (3, "passdown-loop"), "passdown-gateway-1"))


def failing() -> Flow:
    def act() -> None:
        raise KeyError("x")

    try:
        yield Blocking(act)
    except KeyError:
        return "caught"


def test_what_blocking_raises_is_thrown_into_the_flow(threads: Threads):
    assert drive(failing(), threads) == "caught"
    assert threads.loop.submit(lambda: drive_async(failing(), threads)).result(5) == Value("caught")


@tool("leave")
def leave() -> None:
    raise SystemExit(1)


@tool("cancels-itself")
async def cancels_itself() -> None:
    raise asyncio.CancelledError


def one_tool(which: Any) -> Flow:
    outcome: Outcome = yield RunTool(which, {})
    return type(outcome).__name__


@pytest.mark.parametrize("which", [leave, cancels_itself])
def test_what_a_tool_raises_is_an_outcome(threads: Threads, which: Any):
    assert drive(one_tool(which), threads) == "Raised"
    assert threads.loop.submit(lambda: drive_async(one_tool(which), threads)).result(5) == Value("Raised")


def cancel_once(flow: Flow, threads: Threads, entered: asyncio.Event) -> Any:
    async def act() -> object:
        task = asyncio.ensure_future(drive_async(flow, threads))
        await entered.wait()
        task.cancel()
        await asyncio.wait({task})
        return "cancelled" if task.cancelled() else task.result()

    return act


def test_a_cancellation_waits_for_what_was_asked_of_the_broker(threads: Threads):
    entered, may_end = asyncio.Event(), threading.Event()
    seen: list[str] = []

    def act() -> None:
        threads.loop.loop.call_soon_threadsafe(entered.set)
        may_end.wait(5)
        seen.append("committed")

    def flow() -> Flow:
        try:
            yield Blocking(act)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    running = threads.loop.submit(cancel_once(flow(), threads, entered))
    may_end.set()
    assert running.result(5) == Value("cancelled")
    assert seen == ["committed", "cancelled"]


def test_a_plain_tool_that_ends_after_a_cancellation_is_heard_late(threads: Threads):
    entered, may_end, heard = asyncio.Event(), threading.Event(), threading.Event()
    outcomes: list[Outcome] = []

    @tool("slow")
    def slow() -> str:
        threads.loop.loop.call_soon_threadsafe(entered.set)
        may_end.wait(5)
        return "written"

    def late(outcome: Outcome) -> None:
        outcomes.append(outcome)
        heard.set()

    def flow() -> Flow:
        yield RunTool(slow, {}, late)

    assert threads.loop.submit(cancel_once(flow(), threads, entered)).result(5) == Value("cancelled")
    assert outcomes == []
    may_end.set()
    assert heard.wait(5)
    assert outcomes == [Value("written")]


def test_an_async_tool_is_cancelled_with_its_agent(threads: Threads):
    entered = asyncio.Event()

    @tool("slow")
    async def slow() -> None:
        entered.set()
        await asyncio.sleep(3600)

    def flow() -> Flow:
        yield RunTool(slow, {})

    outcome = threads.loop.submit(cancel_once(flow(), threads, entered)).result(5)
    assert outcome == Value("cancelled")
    assert not isinstance(outcome, Raised)
