from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.findings import Examined, Finding, may_lose
from passdown.broker.stores.base import DueRequest
from passdown.broker.stores.sqlite import SqliteStore, health
from passdown.broker.stores.sqlite.connections import Place
from tests.conformance.building import Clock, entry, lease, step

ASK = DueRequest(limit=10, reserve_ms=1_000, elapsed_ms=0)
GOOD: dict[str, Any] = {
    "journal": "wal",
    "synchronous": 2,
    "version": 2,
    "size": 4096,
    "asked_at": None,
    "due_at": None,
    "to_tell": 0,
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "a.db", clock=clock)
    yield made
    made.close()


def judged(path: Path, **facts: Any) -> dict[str, Finding]:
    found = health.examine(Place(path), health.Facts(**{**GOOD, **facts}), 1_000)
    return {one.what: one for one in found.findings}


def test_a_store_in_a_file_is_well(store: SqliteStore) -> None:
    assert isinstance(store, Examined)
    assert may_lose(store) == ""
    seen = store.examine()
    assert {one.what: one.level for one in seen.findings} == dict.fromkeys(
        ["store kind", "durability", "disk", "file system"], "green"
    )
    assert (seen.asked_ms, seen.overdue_ms, seen.to_tell) == (None, 0, 0)


def test_it_tells_when_a_tick_looked_and_what_is_overdue(store: SqliteStore, clock: Clock) -> None:
    store.due(ASK)
    store.commit([step("a", dues=[entry(after_ms=5_000)], tell=True)])
    store.commit([step("b", lease=lease(ms=9_000))])
    clock.forward(4_000)
    seen = store.examine()
    assert (seen.asked_ms, seen.overdue_ms, seen.to_tell) == (4_000, 0, 1)
    clock.forward(3_000)
    assert store.examine().overdue_ms == 2_000
    store.due(ASK)
    seen = store.examine()
    assert (seen.asked_ms, seen.overdue_ms) == (0, 2_000), "what a tick reserved is not dealt with yet"


def test_a_store_in_memory_is_said_to_end_with_its_process() -> None:
    store = SqliteStore(":memory:")
    (found,) = store.examine().findings
    store.close()
    assert (found.level, found.what) == ("yellow", "store kind")
    assert "ends with its process" in found.found


def test_what_is_wrong_with_the_database_is_said(tmp_path: Path) -> None:
    assert judged(tmp_path / "a.db", synchronous=1)["durability"].level == "red"
    assert judged(tmp_path / "a.db", journal="delete")["durability"].level == "yellow"
    assert judged(tmp_path / "a.db", version=1)["store kind"].level == "yellow"


@pytest.mark.parametrize(
    ("free", "level"), [(64 * 2**20 - 1, "red"), (2**30 - 1, "yellow"), (2**30, "green")]
)
def test_a_disk_that_fills_up_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: str
) -> None:
    usage = (2**40, 2**40 - free, free)
    monkeypatch.setattr(health.shutil, "disk_usage", lambda _: type("Usage", (), {"free": usage[2]}))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert judged(tmp_path / "a.db")["disk"].level == level


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
nas:/data /data nfs4 rw 0 0
/dev/sdb1 /data/fast\\040disk xfs rw 0 0
share /home/ann fuse.sshfs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/a.db", "ext4"),
        ("/data/a.db", "nfs4"),
        ("/database/a.db", "ext4"),
        ("/data/fast disk/a.db", "xfs"),
        ("/home/ann/a.db", "fuse.sshfs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert health.file_system(Path(path), MOUNTS) == kind
    assert health.file_system(Path(path), "") == ""


@pytest.mark.parametrize(
    ("kind", "level"), [("nfs4", "red"), ("fuse.sshfs", "yellow"), ("9p", "yellow"), ("xfs", "green")]
)
def test_a_network_file_system_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, level: str
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"x / {kind} rw 0 0\n")
    monkeypatch.setattr(health, "_MOUNTS", mounts)
    assert judged(tmp_path / "a.db")["file system"].level == level


def test_looking_writes_nothing(store: SqliteStore, tmp_path: Path) -> None:
    def written() -> list[bytes]:
        return [path.read_bytes() for path in sorted(tmp_path.glob("a.db*")) if path.suffix != ".db-shm"]

    before = written()
    store.examine()
    assert written() == before
