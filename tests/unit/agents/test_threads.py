import asyncio
import threading
from concurrent.futures import wait

import pytest

from passdown.agents.outcomes import Raised, Value
from passdown.agents.threads import LoopThread, Pool


def test_a_pool_runs_what_it_is_given_in_daemon_threads():
    def act() -> tuple[bool, str]:
        return threading.current_thread().daemon, threading.current_thread().name

    assert Pool(2, "test").submit(act).result(5) == Value((True, "test-1"))


def test_a_pool_has_no_more_threads_than_its_size_and_reuses_them():
    pool = Pool(3, "test")
    barrier = threading.Barrier(3)

    def meet() -> str:
        barrier.wait(5)
        return threading.current_thread().name

    first = [pool.submit(meet) for _ in range(3)]
    wait(first, 5)
    names = {
        str(one.result()) for one in [pool.submit(lambda: threading.current_thread().name) for _ in range(20)]
    }
    assert len(names) <= 3
    assert len({str(one.result()) for one in first}) == 3


def test_an_idle_thread_is_used_before_a_new_one():
    pool = Pool(10, "test")
    pool.submit(int).result(5)
    for _ in range(5):
        pool.submit(int).result(5)
    assert pool.threads <= 2


def test_where_the_system_gives_no_more_threads_those_that_there_are_work(monkeypatch: pytest.MonkeyPatch):
    pool, busy = Pool(5, "test"), threading.Event()
    first = pool.submit(lambda: busy.wait(5))

    def no_more(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    second = pool.submit(lambda: 2)
    busy.set()
    assert (first.result(5), second.result(5)) == (Value(True), Value(2))
    with pytest.raises(RuntimeError, match="new thread"):
        Pool(5, "test").submit(lambda: 3)


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(2), StopIteration()])
def test_what_a_job_raises_is_its_outcome(error: BaseException):
    def act() -> None:
        raise error

    pool = Pool(1, "test")
    assert pool.submit(act).result(5) == Raised(error)
    assert pool.submit(lambda: 1).result(5) == Value(1)


def test_a_loop_runs_coroutines_from_other_threads():
    loop = LoopThread("test-loop")

    async def act() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert loop.submit(act).result(5) == Value("test-loop")
    loop.stop()


def test_a_task_that_raises_system_exit_does_not_end_the_loop():
    loop = LoopThread("test-loop")

    async def leave() -> None:
        raise SystemExit(3)

    async def act() -> str:
        task = asyncio.ensure_future(leave())
        await asyncio.wait({task})
        return type(task.exception()).__name__

    assert loop.submit(act).result(5) == Value("SystemExit")
    assert loop.submit(act).result(5) == Value("SystemExit")
    loop.stop()


def test_waiting_for_an_idle_loop_ends_with_its_work():
    loop = LoopThread("test-loop")
    ready = asyncio.Event()
    running = loop.submit(ready.wait)
    loop.wait_idle(0.01)
    assert not running.done()
    loop.loop.call_soon_threadsafe(ready.set)
    loop.wait_idle(5)
    assert running.done()
    loop.stop()


def test_a_loop_that_stops_cancels_what_still_runs():
    loop = LoopThread("test-loop")
    running = loop.submit(lambda: asyncio.sleep(3600))
    loop.stop()
    assert isinstance(running.result(5), Raised)
    assert loop.loop.is_closed()
