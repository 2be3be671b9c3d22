"""What a SQLite store tells about itself: its file, its journal, its disk, and how long its ticks have been silent."""

import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

from passdown.broker.findings import Examination, Finding
from passdown.broker.stores.sqlite import schema
from passdown.broker.stores.sqlite import statements as sql
from passdown.broker.stores.sqlite.connections import Place

#: Free space (bytes) below which commits may soon fail, and below which it should be looked at.
_FREE_RED, _FREE_YELLOW = 64 * 1024**2, 1024**3
_MIB = 1024**2
_MOUNTS = Path("/proc/self/mounts")

#: File systems on which the locks and the shared memory of a write-ahead log do not work between machines.
_NETWORK = frozenset(
    {"afs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
)
#: Those of which nobody knows, for something else stands behind them.
_DOUBTFUL = ("9p", "fuse", "virtiofs")

#: `synchronous` as SQLite counts it: OFF, NORMAL, FULL, EXTRA.
_FULL = 2


class Facts(NamedTuple):
    """What the database says of itself: a row of FACTS."""

    journal: str
    synchronous: int
    version: int
    size: int
    asked_at: int | None
    due_at: int | None
    to_tell: int


def look(db: sqlite3.Connection) -> Facts:
    """Read what the database says of itself."""
    return Facts._make(db.execute(sql.FACTS).fetchone())


def examine(place: Place, facts: Facts, now: int) -> Examination:
    """Judge the facts; `now` is the store's time (ms)."""
    return Examination(
        findings=[_store(place, facts), *([] if place.in_memory else _file(Path(place.path), facts))],
        asked_ms=None if facts.asked_at is None else max(0, now - facts.asked_at),
        overdue_ms=0 if facts.due_at is None else max(0, now - facts.due_at),
        to_tell=facts.to_tell,
    )


def _store(place: Place, facts: Facts) -> Finding:
    found = f"SQLite {sqlite3.sqlite_version}, {place.path}, format {facts.version}, one shard"
    if place.in_memory:
        advice = "work that must outlive the process needs a file: sqlite:///passdown.db"
        return Finding(
            level="yellow", what="store kind", found=f"{found}: ends with its process", advice=advice
        )
    if facts.version != schema.VERSION:
        advice = f"this Passdown writes format {schema.VERSION}: restart the processes on one version"
        return Finding(level="yellow", what="store kind", found=found, advice=advice)
    return Finding(level="green", what="store kind", found=found)


def _file(path: Path, facts: Facts) -> list[Finding]:
    return [_journal(facts), _disk(path, facts), _file_system(path)]


def _journal(facts: Facts) -> Finding:
    found = f"journal {facts.journal.upper()}, synchronous {('OFF', 'NORMAL', 'FULL', 'EXTRA')[facts.synchronous]}"
    if facts.synchronous < _FULL:
        return Finding(
            level="red",
            what="durability",
            found=f"{found}: a loss of power takes acknowledged work along",
            advice="nothing but Passdown sets this: is this build of SQLite altered?",
        )
    if facts.journal != "wal":
        return Finding(
            level="yellow",
            what="durability",
            found=f"{found}: readers and writers wait for each other",
            advice="a write-ahead log does not work on this file system: move the file",
        )
    return Finding(
        level="green", what="durability", found=f"{found}: what is acknowledged outlives a loss of power"
    )


def _disk(path: Path, facts: Facts) -> Finding:
    free = shutil.disk_usage(path.resolve().parent).free
    found = f"{free // _MIB:,} MiB free, the store has {facts.size // _MIB:,} MiB"
    if free < _FREE_RED:
        return Finding(level="red", what="disk", found=found, advice="make room: commits fail on a full disk")
    if free < _FREE_YELLOW:
        return Finding(level="yellow", what="disk", found=found, advice="make room before commits fail")
    return Finding(level="green", what="disk", found=found)


def _file_system(path: Path) -> Finding:
    kind = file_system(path.resolve(), _mounts())
    if kind in _NETWORK:
        return Finding(
            level="red",
            what="file system",
            found=f"{kind}, a network file system",
            advice="move the file to a disk of this machine; for several machines use a Redis store",
        )
    if kind.startswith(_DOUBTFUL):
        return Finding(
            level="yellow",
            what="file system",
            found=f"{kind}, which may be a network file system",
            advice="one machine only may use this file; a disk of its own is safer",
        )
    return Finding(level="green", what="file system", found=kind or "unknown: this system lists no mounts")


def _mounts() -> str:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def file_system(path: Path, mounts: str) -> str:
    """Return the kind of file system on which `path` lies; `mounts` is as in ``/proc/mounts``. Empty: unknown."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        # A space in a name is written in octal there.
        point = fields[1].replace("\\040", " ") if len(fields) > 2 else ""
        if point and len(point) >= len(best) and path.is_relative_to(point):
            best, kind = point, fields[2]
    return kind
