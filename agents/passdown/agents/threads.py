"""The threads of a worker process: one event loop for all async agents, and bounded pools for what blocks.

All are daemon threads: a tool that hangs keeps its thread, never the process from ending.
"""

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from typing import Any

import structlog

from passdown.agents.outcomes import Outcome, Raised, capture, capture_async, summary

_log = structlog.get_logger("passdown.agents")

#: How long cancelled tasks have to end when the loop does.
_LAST_SECONDS = 1.0


class Pool:
    """At most `size` daemon threads, started as they are needed. What a job raises is its outcome."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: queue.SimpleQueue[tuple[Future[Outcome], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        #: How many threads were started.
        self.threads = 0
        self._idle = 0

    def submit(self, act: Callable[[], Any]) -> "Future[Outcome]":
        """Run `act` in a thread of the pool; the future never fails, it holds the outcome."""
        future: Future[Outcome] = Future()
        future.set_running_or_notify_cancel()
        self._jobs.put((future, act))
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self.threads < self._size:
                self._start()
        return future

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}-{self.threads + 1}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The system gives no more threads: those that there are do the work, or nobody can.
            if not self.threads:
                raise
        else:
            self.threads += 1

    def _work(self) -> None:
        while True:
            future, act = self._jobs.get()
            outcome = capture(act)
            # Idle before it is heard of, so that whoever waited for it and submits anew needs no new thread.
            with self._lock:
                self._idle += 1
            future.set_result(outcome)


class LoopThread:
    """An event loop in a daemon thread of its own, started when it is first needed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        #: What runs, with its tasks: the loop itself holds them only weakly.
        self._open: dict[Future[Outcome], asyncio.Task[Outcome] | None] = {}
        self._stopping = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop

    def submit(self, act: Callable[[], Awaitable[Any]]) -> "Future[Outcome]":
        """Run the coroutine that `act` makes on the loop; the future holds its outcome."""
        future: Future[Outcome] = Future()
        future.set_running_or_notify_cancel()
        loop = self.loop

        def start() -> None:
            task = loop.create_task(capture_async(act))
            self._open[future] = task
            task.add_done_callback(ended)

        def ended(task: asyncio.Task[Outcome]) -> None:
            self._open.pop(future, None)
            future.set_result(Raised(asyncio.CancelledError()) if task.cancelled() else task.result())

        self._open[future] = None
        loop.call_soon_threadsafe(start)
        return future

    def wait_idle(self, seconds: float) -> None:
        """Wait at most `seconds` for all that was submitted."""
        wait(list(self._open), seconds)

    def stop(self) -> None:
        """End the loop; what still runs on it is cancelled, and dropped where it does not end soon."""
        with self._lock:
            self._stopping = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(2 * _LAST_SECONDS)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._stopping:
            outcome = capture(loop.run_forever)
            if isinstance(outcome, Raised):  # by a task that an agent made: the others go on
                _log.warning("the event loop goes on", action="loop-left", error=summary(outcome.error))
        capture(lambda: loop.run_until_complete(asyncio.sleep(0)))
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            capture(lambda: loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_SECONDS)))
        capture(loop.close)


class Threads:
    """What one worker process runs on: the loop, threads for gateway calls, threads for plain tools."""

    def __init__(self, *, gateway: int, tools: int) -> None:
        self.gateway = Pool(gateway, "passdown-gateway")
        self.tools = Pool(tools, "passdown-tools")
        self.loop = LoopThread("passdown-loop")
