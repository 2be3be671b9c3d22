"""Retention with real processes: killed at any point, two at once, on a full disk; nothing is lost, nothing stays."""

import gzip
import json
import signal
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from passdown.agents import Done, agent
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.archivist import Archivist, Retention
from passdown.broker.client import Submission
from passdown.broker.core.evolve import fold
from passdown.broker.gateway import DirectGateway
from passdown.broker.logbook import read_logged
from passdown.broker.stores.base import DueRequest
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.codec import encode
from passdown.contracts.errors import Unavailable
from tests.integration.archiving import KEEP_KEYS_MS
from tests.integration.site import Site, one_stage, wait_until
from tests.integration.small_disk import small_disk

#: What stays in a store without sessions: what is registered, and what does not grow with them.
STAYS = {"meta", "documents", "current", "bells"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archive"
    made.mkdir()
    return made


def ended(site: Site, count: int) -> set[str]:
    """Let so many sessions run to their end; return their ids."""

    @agent("clerk")
    def clerk(pack: Any, ctx: Any) -> Done:
        return Done({"n": pack.inputs["n"], "text": "y" * 500})

    site.broker.register(one_stage("p", "clerk"))
    work = [Submission({"n": n, "text": "x" * 500}, key=f"key-{n}") for n in range(count)]
    sessions = site.broker.submit_all("p", work)
    runtime = Runtime(
        DirectGateway(site.broker.app.controller), agents=[clerk], options=Options(linger_seconds=0.0)
    )
    runtime.drain("clerk")
    runtime.stop(1.0)
    return {session.id for session in sessions}


def archive(site: Site, folder: Path, batch: int, *doom: str) -> subprocess.Popen[bytes]:
    """Start a process that archives all that ended."""
    return site.start("tests.integration.archiving", site.store, str(folder), str(batch), *doom)


def in_store(site: Site) -> set[str]:
    found: set[str] = set()
    before = None
    while rows := site.broker.sessions(limit=1000, before=before):
        found |= {row.session_id for row in rows}
        before = rows[-1].session_id
    return found


def in_files(folder: Path) -> Counter[str]:
    """Return how often each session is in a finished file, each time whole (rule 6); none may be torn."""
    found: Counter[str] = Counter()
    for path in folder.glob("*/*.jsonl.gz"):
        by_session: dict[str, list[dict[str, Any]]] = {}
        for line in gzip.decompress(path.read_bytes()).splitlines()[1:]:
            one = json.loads(line)
            by_session.setdefault(one["sessionId"], []).append(one)
        for session_id, lines in by_session.items():
            assert lines[-1]["kind"] == "end"
            log = [encode(one["logged"]) for one in lines if one["kind"] == "logged"]
            (state,) = [one["state"] for one in lines if one["kind"] == "state"]
            assert msgspec.json.decode(encode(fold(map(read_logged, log)))) == state
            assert [one["pack"]["attempt"] for one in lines if one["kind"] == "pack"] == [1]
            found[session_id] += 1
    return found


def rows(path: Path) -> dict[str, int]:
    """Return how many rows each table of a store has that has any."""
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        counts = {name: db.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
    return {name: count for name, count in counts.items() if count and not name.startswith("sqlite_")}


@pytest.mark.parametrize(
    ("point", "count", "most_doubles"),
    [
        ("after_session", 14, 0),
        ("before_rename", 2, 0),
        ("after_rename", 2, 10),
        ("after_remove", 1, 9),
        ("after_remove", 14, 6),
        ("after_remove", 20, 0),
    ],
)
def test_killed_at_any_point_nothing_is_lost(
    site: Site, folder: Path, point: str, count: int, most_doubles: int
) -> None:
    sessions = ended(site, 30)
    doomed = archive(site, folder, 10, point, str(count))
    assert doomed.wait(timeout=60) == -signal.SIGKILL

    archived, left = in_files(folder), in_store(site)
    assert archived.keys() | left == sessions
    double = len(archived.keys() & left)  # archived, and not removed yet
    assert double <= most_doubles
    assert point != "after_rename" or double == most_doubles

    assert archive(site, folder, 10).wait(timeout=60) == 0
    archived = in_files(folder)
    assert archived.keys() == sessions
    assert sum(archived.values()) == len(sessions) + double
    assert in_store(site) == set()


@pytest.mark.parametrize(("many", "batch"), [(600, 25), pytest.param(2_000, 100, marks=pytest.mark.soak)])
def test_two_at_once_archive_many_sessions_and_nothing_is_left_after_their_keys(
    site: Site, folder: Path, many: int, batch: int
) -> None:
    sessions = ended(site, many)
    processes = [archive(site, folder, batch) for _ in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert in_files(folder).keys() == sessions
    assert in_store(site) == set()
    path = site.folder / "passdown.db"
    assert rows(path).keys() == STAYS | {"removed"}
    assert rows(path)["removed"] == len(sessions)

    again = site.broker.submit("p", inputs={"n": 7, "text": "x" * 500}, key="key-7")
    assert again.id in sessions
    now = site.broker.app.store.load("").now
    later = SqliteStore(path, clock=lambda: now + KEEP_KEYS_MS + 60_000)
    for _ in range(3):
        later.due(DueRequest(limit=100, reserve_ms=1_000))
    later.close()
    assert rows(path).keys() == STAYS


def test_on_a_full_disk_nothing_is_removed_and_it_goes_on_once_there_is_room(
    site: Site, tmp_path: Path
) -> None:
    sessions = ended(site, 200)
    with small_disk(tmp_path / "small") as disk:
        archivist = Archivist(site.broker.app.store, Retention(0, KEEP_KEYS_MS, disk.path))
        disk.fill()
        for _ in range(2):
            with pytest.raises(Unavailable, match="No space left on device"):
                archivist.once()
        assert in_store(site) == sessions
        assert list(disk.path.glob("*/*")) == []
        disk.make_room()
        assert archivist.once().removed == 200
        assert in_files(disk.path).keys() == sessions
    assert in_store(site) == set()


def test_a_tick_archives_and_says_so(site: Site, folder: Path) -> None:
    sessions = ended(site, 20)
    with closing(sqlite3.connect(site.folder / "passdown.db")) as db, db:
        db.execute("UPDATE sessions SET updated_at = updated_at - 7200000 WHERE key <> 'key-3'")
    young = site.broker.session("key-3").id
    site.passdown("--set", "retention=1h", "--set", f"archive={folder}", "tick")
    wait_until(lambda: in_store(site) == {young}, "all that are old enough are removed")
    assert in_files(folder).keys() == sessions - {young}
    wait_until(lambda: "archive.pass" in site.log(), "the tick says what it archived")


@pytest.mark.parametrize("command", ["tick", "up"])
def test_a_process_that_would_remove_without_an_archive_does_not_start(site: Site, command: str) -> None:
    process = site.passdown("--set", "retention=1h", command)
    assert process.wait(timeout=30) == 2
    assert "retention is set, so name the folder for what is removed" in site.log()
