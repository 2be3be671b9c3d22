"""Group commit: who leads, who follows, and what befalls the others when something goes wrong."""

import signal
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, cast

import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Committed
from passdown.broker.stores.records import Draft
from passdown.broker.stores.sqlite import SqliteStore
from passdown.broker.stores.sqlite.batch import Batch
from passdown.broker.stores.sqlite.writer import Writer
from passdown.contracts.errors import Conflict, ContractError, Unavailable
from tests.conformance.building import do, done, step


class InterruptedHereError(BaseException):
    """Stands for Ctrl-C or a time limit."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "passdown.db")
    yield store
    store.close()


@pytest.fixture
def writer(store: SqliteStore) -> Writer:
    return vars(store)["_writer"]


class Held:
    """Holds the lead until told to let go, while others come and wait."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._leads = threading.Event()
        self._go = threading.Event()
        self._thread = threading.Thread(target=lambda: writer.run(self._hold))

    def __enter__(self) -> Self:
        self._thread.start()
        self._leads.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._go.set()
        self._thread.join()

    def until_waiting(self, count: int) -> None:
        group: Any = vars(self._writer)["_group"]
        while group.waiting < count:
            threading.Event().wait(0.001)

    def _hold(self, batch: Batch) -> None:
        self._leads.set()
        self._go.wait()


def transactions(store: SqliteStore) -> list[str]:
    """Return a list to which each COMMIT from here on is added."""
    seen: list[str] = []
    db = cast(sqlite3.Connection, vars(vars(store)["_writer"])["_db"])
    db.set_trace_callback(lambda statement: seen.append(statement) if statement == "COMMIT" else None)
    return seen


def all_waiting(
    store: SqliteStore, writer: Writer, pool: ThreadPoolExecutor, steps: list[Any]
) -> list["Future[Any]"]:
    """Bring `steps`, each in a thread, while somebody else leads; let go when all wait."""
    with Held(writer) as held:
        futures = [pool.submit(do, store, one) for one in steps]
        held.until_waiting(len(steps))
    return futures


def test_who_waits_is_written_in_one_transaction(store: SqliteStore, writer: Writer) -> None:
    commits = transactions(store)
    with ThreadPoolExecutor(20) as pool:
        futures = all_waiting(store, writer, pool, [step(f"s0-{n}") for n in range(20)])
        assert all(isinstance(future.result()[0], Committed) for future in futures)
    assert len(commits) == 2  # the one that held the lead, and all the others


def test_a_lone_caller_leads_at_once(store: SqliteStore) -> None:
    commits = transactions(store)
    done(store, step("s0-a"))
    assert len(commits) == 1


def test_a_commit_that_cannot_be_written_falls_alone(store: SqliteStore, writer: Writer) -> None:
    poison = replace(step("s0-poison"), events=[b"{\n}"])
    steps = [step("s0-a"), poison, step("s0-b")]
    with ThreadPoolExecutor(3) as pool:
        one, bad, two = all_waiting(store, writer, pool, steps)
        with pytest.raises(ContractError, match="it has a line break"):
            bad.result()
        assert isinstance(one.result()[0], Committed)
        assert isinstance(two.result()[0], Committed)
    assert [store.load(name).version for name in ("s0-a", "s0-poison", "s0-b")] == [1, 0, 1]


def test_a_put_that_is_refused_falls_alone_and_nobody_else_is_written_again(
    store: SqliteStore, writer: Writer
) -> None:
    done(store, step("s0-a"))
    draft = Draft(session_id="s0-a", ticket_no=1, by="user:ann", body=b"one", expected=7)
    commits = transactions(store)
    with ThreadPoolExecutor(3) as pool:
        with Held(writer) as held:
            refused = pool.submit(store.put, draft)
            steps = [pool.submit(do, store, step(name)) for name in ("s0-b", "s0-c")]
            held.until_waiting(3)
        with pytest.raises(Conflict):
            refused.result()
        assert all(isinstance(future.result()[0], Committed) for future in steps)
    assert len(commits) == 2  # the one that held the lead, and all the others


def test_a_leader_that_is_interrupted_leaves_nobody_waiting(store: SqliteStore, writer: Writer) -> None:
    def interrupted(batch: Batch) -> None:
        raise InterruptedHereError

    def lead() -> None:
        with pytest.raises(InterruptedHereError):
            writer.run(interrupted)

    with ThreadPoolExecutor(4) as pool:
        with Held(writer) as held:
            leading = pool.submit(lead)
            held.until_waiting(1)
            followers = [pool.submit(do, store, step(f"s0-{n}")) for n in range(3)]
            held.until_waiting(4)
        leading.result()
        for follower in followers:
            with pytest.raises(Unavailable, match="interrupted; a retry is safe"):
                follower.result()
    done(store, *(step(f"s0-{n}") for n in range(3)))


def test_a_follower_that_is_interrupted_leaves_the_queue(store: SqliteStore, writer: Writer) -> None:
    def interrupt(*_: object) -> None:
        raise InterruptedHereError

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with Held(writer) as held:
            main = threading.main_thread().ident
            assert main is not None

            def kill() -> None:
                held.until_waiting(1)
                signal.pthread_kill(main, signal.SIGUSR1)

            killer = threading.Thread(target=kill)
            killer.start()
            with pytest.raises(InterruptedHereError):
                do(store, step("s0-gone"))
            killer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert store.load("s0-gone").state is None
    done(store, step("s0-a"))


def test_closing_waits_for_who_came_before_and_refuses_who_came_after(
    store: SqliteStore, writer: Writer
) -> None:
    with ThreadPoolExecutor(3) as pool:
        with Held(writer) as held:
            before = pool.submit(do, store, step("s0-a"))
            held.until_waiting(1)
            closing = pool.submit(store.close)
            held.until_waiting(2)
            after = pool.submit(do, store, step("s0-b"))
            held.until_waiting(3)
        closing.result()
        assert isinstance(before.result()[0], Committed)
        with pytest.raises(Unavailable, match="it was closed here"):
            after.result()
