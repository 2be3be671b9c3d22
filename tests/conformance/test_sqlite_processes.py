"""Several processes on one file, processes that are killed, and processes that fork."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.stores.queries import FindSessions
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import Conflict
from tests.conformance.building import done, events_of, step
from tests.conformance.suite_drafts import write
from tests.conformance.suite_tickets import offered
from tests.soaking import scaled

ROOT = Path(__file__).parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "passdown.db"


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    """Start what `sqlite_process.py` can do; end what still runs."""
    started: list[subprocess.Popen[str]] = []

    def start(what: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [
            sys.executable,
            "-W",
            "error",
            "-m",
            "tests.conformance.sqlite_process",
            what,
            str(path),
            *arguments,
        ]
        started.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def said(process: "subprocess.Popen[str]") -> list[Any]:
    """Wait for the end of a process, which must be a good one, and return what it said."""
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    return [json.loads(line) for line in out.splitlines()]


def assert_sound(path: Path) -> None:
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def test_two_processes_see_each_others_writes(start: Start, path: Path) -> None:
    store = SqliteStore(path)
    done(store, step("s0-parent"))
    assert said(start("one", "s0-child")) == [1]
    assert store.load("s0-child").version == 1
    assert offered(store, "leads") == ["s0-child/1"]
    with pytest.raises(Conflict):
        write(store, b"anew", session="s0-child", expected=0)
    done(store, step("s0-child", 1))
    store.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("whole_seconds", [3, pytest.param(60, marks=pytest.mark.soak)])
def test_eight_processes_that_read_and_then_write_never_hear_of_a_lock(
    start: Start, path: Path, whole_seconds: int
) -> None:
    # FAULTS 98: deferred transactions fail at the upgrade of their lock, whatever the time-out.
    seconds = scaled(whole_seconds, at_least=3)
    processes = [start("hammer", f"p{n}", str(seconds)) for n in range(8)]
    written = [said(process)[0] for process in processes]
    store = SqliteStore(path)
    versions = {row.session_id: store.load(row.session_id).version for row in sessions(store)}
    assert sum(written) == sum(versions.values())
    assert min(written) > 0
    for name, version in versions.items():
        assert store.events(name, limit=10**6) == events_of(name, 1, version)
    store.close()
    assert_sound(path)


def sessions(store: SqliteStore) -> list[Any]:
    rows = store.find(FindSessions())
    assert isinstance(rows, list)
    return list(rows)


@pytest.mark.parametrize("acknowledged", [1, 7, 60])
def test_what_was_acknowledged_survives_kill_9(start: Start, path: Path, acknowledged: int) -> None:
    processes = [start("endless", f"s0-{n}") for n in range(2)]
    last: dict[int, int] = {}
    for _ in range(acknowledged):
        for n, process in enumerate(processes):
            assert process.stdout is not None
            last[n] = json.loads(process.stdout.readline())
    for n, process in enumerate(processes):
        os.kill(process.pid, signal.SIGKILL)
        for line in process.communicate()[0].splitlines():
            if line.endswith(("0", "2", "4", "6", "8")):
                last[n] = max(last[n], json.loads(line))
    store = SqliteStore(path)
    for n, version in last.items():
        kept = store.load(f"s0-{n}").version
        assert kept >= version
        assert store.events(f"s0-{n}", limit=10**6) == events_of(f"s0-{n}", 1, kept)
        done(store, step(f"s0-{n}", kept))
    store.close()
    assert_sound(path)


def test_a_process_that_may_write_no_more_says_so_and_goes_on_once_it_may(start: Start, path: Path) -> None:
    (version, loaded, error), after = said(start("limited"))
    assert version == loaded > 0
    assert "disk" in error
    assert "a retry is safe" in error
    assert after == version + 1
    assert_sound(path)


def test_a_fork_leaves_both_sides_with_a_store_that_works(start: Start, path: Path) -> None:
    assert said(start("fork")) == [[[0] * 5, []]]
    store = SqliteStore(path)
    assert [store.load(f"s0-child-{n}").version for n in range(5)] == [2] * 5
    store.close()
    assert_sound(path)


def test_a_store_in_memory_stays_with_the_process_that_forked(start: Start) -> None:
    refused, version = said(start("fork-memory"))
    assert "it was open in the process that this one was forked from" in refused
    assert version == 1
