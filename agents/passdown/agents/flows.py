"""How a verb of the context runs: as a generator of steps, so that one text serves plain and async agents.

A flow yields `Blocking` (a call of the gateway) and gets its value, or its error thrown; it yields
`RunTool` and gets the tool's outcome. Cancelling an async agent throws CancelledError into its flow.
"""

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, assert_never

from passdown.agents.outcomes import Outcome, Raised, Value, capture, capture_async
from passdown.agents.threads import Threads
from passdown.agents.tools import AnyTool


@dataclass(frozen=True, slots=True)
class Blocking:
    """Do `act`, which blocks; it is not interrupted, only what follows it is."""

    act: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run a tool. `late` gets the outcome of a plain tool that ends after its agent was cancelled."""

    tool: AnyTool
    keywords: dict[str, Any]
    late: Callable[[Outcome], None] | None = None


Step = Blocking | RunTool
Flow = Generator[Step, Any, Any]


def drive(flow: Flow, threads: Threads) -> Any:
    """Run a flow in this thread."""
    outcome: Outcome = Value(None)
    while True:
        try:
            step = _advance(flow, outcome)
        except StopIteration as end:
            return end.value
        match step:
            case Blocking():
                outcome = capture(step.act)
            case RunTool():
                outcome = Value(_run_here(step, threads))
            case _:
                assert_never(step)


async def drive_async(flow: Flow, threads: Threads) -> Any:
    """Run a flow on the event loop; what blocks runs in the pools."""
    outcome: Outcome = Value(None)
    while True:
        try:
            step = _advance(flow, outcome)
        except StopIteration as end:
            return end.value
        try:
            outcome = await (
                _block(step, threads) if isinstance(step, Blocking) else _run_there(step, threads)
            )
        except asyncio.CancelledError as error:
            outcome = Raised(error)


def _advance(flow: Flow, outcome: Outcome) -> Step:
    return flow.send(outcome.value) if isinstance(outcome, Value) else flow.throw(outcome.error)


def _run_here(step: RunTool, threads: Threads) -> Outcome:
    tool = step.tool
    if tool.is_async:
        return threads.loop.submit(lambda: tool.fn(**step.keywords)).result()
    return capture(lambda: tool.fn(**step.keywords))


async def _block(step: Blocking, threads: Threads) -> Outcome:
    """Wait for the act to its end, also when cancelled: what was asked of the broker must be known."""
    future = asyncio.wrap_future(threads.gateway.submit(step.act))
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled
    return future.result()


async def _run_there(step: RunTool, threads: Threads) -> Outcome:
    tool = step.tool
    if tool.is_async:
        outcome = await capture_async(lambda: tool.fn(**step.keywords))
        return Value(_own_cancellation(outcome))
    running = threads.tools.submit(lambda: tool.fn(**step.keywords))
    try:
        return Value(await asyncio.shield(asyncio.wrap_future(running)))
    except asyncio.CancelledError:
        late = step.late
        if late is not None:
            running.add_done_callback(lambda ended: threads.gateway.submit(lambda: late(ended.result())))
        raise


def _own_cancellation(outcome: Outcome) -> Outcome:
    """Raise CancelledError where this task was cancelled; a tool may also raise it out of its own affairs."""
    if isinstance(outcome, Raised) and isinstance(outcome.error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise outcome.error
    return outcome
