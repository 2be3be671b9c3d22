"""The archive: what was removed from a store after its end, in files that outlive it.

::

    ARCHIVE/2026-11-29/20261129T101500123Z-3f9c0d2a.jsonl.gz

Each file is JSON Lines, compressed, and holds the sessions of one batch, or one session with all its branches
and theirs (a tree). It is written under another name, flushed to the disk and renamed, so a file of this form
is whole whenever the power went, and is never written to again; what a killed process left behind (``….part``)
is removed an hour later. A session may be in two files, where a process died before it removed what it had
archived, or two archived at once: both are whole, and say the same. The name of a tree's file ends with what
its session's id and version come to (`tag_of`), so that whoever goes on with it finds it again.

The first line is ``{"kind": "archive", "spec": "passdown.archive/1", "sessions": […]}``, the row of each
session in the file; for a tree ``joins`` names its fan-outs, ``{"joinId", "places"}`` each, from which the ids
of its branches follow (`ids.branch_id`). Then follow, for one session after the other, the lines that
`passdown export` writes (see `exports`) and, byte for byte as they were stored:

* ``state``: the session's state;
* ``logged``: each event of its log, in order;
* ``pack``: what each attempt was given;
* ``page``: a part of a list that lay beside it;
* ``join``: the record of each of its joins, and ``row``: the mark of each of its branches in it;
* ``end``: nothing of the session follows.
"""

import contextlib
import gzip
import os
import secrets
import time
import zlib
from collections.abc import Generator, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, NamedTuple, Self

import msgspec

from passdown.broker.branches import Fan
from passdown.broker.exports import json_line, session_lines
from passdown.broker.stores.base import Loaded
from passdown.broker.stores.queries import SessionRow
from passdown.contracts.codec import digest, encode
from passdown.contracts.errors import ContractError, NotFound, PassdownError, Unavailable

SPEC = "passdown.archive/1"
SUFFIX = ".jsonl.gz"
_PART = ".part"
#: What nobody has written to for so long was left behind by a process that died (seconds).
_ABANDONED_S = 3_600.0
#: More costs much time and saves little: the logs are repetitive.
_LEVEL = 6
#: A tree's file is looked for in the folders from so long before it can have been written on: clocks differ.
_CLOCKS_APART = timedelta(days=1)


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file."""

    kind: str
    spec: str
    sessions: list[SessionRow]
    joins: list[Fan] = []


class _Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of a line: whose it is, and what was stored."""

    kind: str
    session_id: str = ""
    version: int = 0
    state: msgspec.Raw = msgspec.Raw()
    logged: msgspec.Raw = msgspec.Raw()
    pack: msgspec.Raw = msgspec.Raw()


_heads = msgspec.json.Decoder(_Head)
_lines = msgspec.json.Decoder(_Line)


class Entry(NamedTuple):
    """A session in a file of the archive, and the fan-outs of its tree."""

    row: SessionRow
    path: Path
    fans: list[Fan]

    @property
    def branches(self) -> int:
        """How many branches its tree has."""
        return sum(fan.places for fan in self.fans)

    def has_branch(self, session_id: str) -> bool:
        """Whether a session is a branch of its tree."""
        shard = session_id.partition("-")[0]
        return any(
            fan.join_id.startswith(f"{shard}-") and session_id in fan.ids()  # as many digests as branches
            for fan in self.fans
        )


class Archived(NamedTuple):
    """A session as it was archived; it can be read as if it were still in its store (`logbook.Readable`)."""

    entry: Entry
    session_id: str
    state: bytes
    version: int
    logged: list[bytes]
    packs: list[bytes]

    def load(self, session_id: str) -> Loaded:
        """Return the state, as a store would."""
        mine = session_id == self.session_id
        state, version = (self.state, self.version) if mine else (None, 0)
        return Loaded(state=state, version=version, now=0, catalog=0)

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return logged events in order, from seq `after` + 1."""
        return self.logged[after : after + limit] if session_id == self.session_id else []


def archived_lines(
    session_id: str, version: int, state: bytes, log: list[bytes], packs: list[bytes]
) -> Iterator[bytes]:
    """Yield a session's lines, all but the last and what lies beside it.

    Raises ContractError, before the first, where its state cannot be read.
    """

    def line(kind: str, **what: object) -> bytes:
        return own_line(session_id, kind, **what)

    yield from session_lines(state, log)
    yield line("state", version=version, state=msgspec.Raw(state))
    for raw in log:
        yield line("logged", logged=msgspec.Raw(raw))
    for raw in packs:
        yield line("pack", pack=msgspec.Raw(raw))


def own_line(session_id: str, kind: str, **what: object) -> bytes:
    """Return a line of a session."""
    return json_line({"kind": kind, "sessionId": session_id, **what})


def tag_of(row: SessionRow) -> str:
    """Return what the name of the file of a tree ends with."""
    return digest(f"{row.session_id}/{row.version}".encode())[:8]


class Archive:
    """A folder of archived sessions. The folder must be there: one that is not may be a disk that is not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return f"the archive {self.folder}"

    def require(self) -> None:
        """Raise Unavailable where the folder is not there."""
        if not self.folder.is_dir():
            raise Unavailable(str(self), "there is no such folder; make it, or mount its disk")

    @contextlib.contextmanager
    def writing(self, rows: list[SessionRow], fans: Iterable[Fan] = ()) -> Generator["Writing"]:
        """Yield what writes a file for `rows`; the file appears, whole, where `Writing.finish` was called.

        `fans` are those of a tree, which has a file of its own. Raises Unavailable where it cannot be written: then
        there is no file.
        """
        self.require()
        now = datetime.now(UTC)
        folder = self.folder / f"{now:%Y-%m-%d}"
        joins = list(fans)
        tag = f"-{tag_of(rows[0])}" if joins else ""
        name = f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}Z-{secrets.token_hex(4)}{tag}{SUFFIX}"
        head = {"kind": "archive", "spec": SPEC, "sessions": rows, **({"joins": joins} if joins else {})}
        part = folder / f"{name}{_PART}"
        try:
            folder.mkdir(exist_ok=True)
            _flush_folder(self.folder)
            with part.open("xb") as file, Writing(file, part, folder / name) as writing:
                writing.lines([json_line(head)])
                yield writing
        except OSError as error:
            raise Unavailable(str(self), f"{error.strerror or error}, at {part}") from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what a process that died left behind half-written."""
        for part in self.folder.glob(f"*/*{SUFFIX}{_PART}"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > _ABANDONED_S:
                    part.unlink()

    def files(self) -> Iterator[Path]:
        """Yield the files, newest first."""
        for folder in sorted(self.folder.glob("????-??-??"), reverse=True):
            yield from sorted(folder.glob(f"*{SUFFIX}"), reverse=True)

    def entries(self) -> Iterator[Entry | PassdownError]:
        """Yield what the files say that they hold, newest file first; for one that cannot be read, why."""
        for path in self.files():
            try:
                head = _head(path)
            except PassdownError as error:
                yield error
            else:
                yield from (Entry(row, path, head.joins) for row in reversed(head.sessions))

    def find(self, name: str) -> Archived:
        """Return the session of this id or submit key, or the branch of this id, as it was archived last.

        Raises NotFound; ContractError or Unavailable where it is not found, and a file cannot be read.
        """
        unread: PassdownError | None = None
        # Whose branch an id is follows from no id: those of all trees are reckoned, so this comes last.
        for wanted in (_is_named, Entry.has_branch):
            for entry in self.entries():
                if isinstance(entry, PassdownError):
                    unread = unread or entry
                elif wanted(entry, name):
                    try:
                        found = read(entry, entry.row.session_id if wanted is _is_named else name)
                    except PassdownError as error:
                        unread = unread or error
                    else:
                        if found is not None:
                            return found
        raise unread or NotFound("archived session", name, f"in {self.folder}")

    def tree_of(self, row: SessionRow, since_ms: int) -> Path | None:
        """Return the newest file with the tree of a session at this version, written after `since_ms` (store clock)."""
        first = f"{datetime.fromtimestamp(since_ms / 1000, UTC) - _CLOCKS_APART:%Y-%m-%d}"
        found = [
            path
            for path in self.folder.glob(f"????-??-??/*-*-{tag_of(row)}{SUFFIX}")
            if path.parent.name >= first
        ]
        for path in sorted(found, reverse=True):
            with contextlib.suppress(PassdownError):
                held = [(one.session_id, one.version) for one in _head(path).sessions]
                if held == [(row.session_id, row.version)]:
                    return path
        return None


class Writing:
    """A file of the archive while it is written."""

    def __init__(self, file: IO[bytes], part: Path, path: Path) -> None:
        self._file = file
        self._zipped = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file)
        self._part = part
        self.path = path
        #: So many bytes were written, before they were compressed.
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Where all went well it is closed already; where not, the file is of no use.
        with contextlib.suppress(OSError):
            self._zipped.close()

    def lines(self, lines: Iterable[bytes]) -> None:
        """Write lines."""
        for line in lines:
            self.size += self._zipped.write(line)

    def complete(self) -> None:
        """Bring all of it to the disk, still under its other name."""
        self._zipped.close()
        self._file.flush()
        os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Give the file its name; after this it outlives a loss of power."""
        self._part.rename(self.path)
        _flush_folder(self.path.parent)


def _flush_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _opened(path: Path) -> Generator[Iterator[bytes]]:
    """Yield the lines of a file. Raises ContractError where it is damaged, Unavailable where it cannot be read."""
    try:
        with gzip.open(path, "rb") as file:
            yield iter(file)
    except (EOFError, gzip.BadGzipFile, zlib.error, msgspec.MsgspecError) as error:
        raise ContractError(f"the archive file {path}", f"it is damaged: {error}") from error
    except OSError as error:
        raise Unavailable(f"the archive file {path}", error.strerror or str(error)) from error


def _head(path: Path) -> _Head:
    with _opened(path) as lines:
        head = _heads.decode(next(lines, b""))
        if head.spec != SPEC:
            raise ContractError(
                f"the archive file {path}", f"it is {head.spec!r}, and this version reads {SPEC}"
            )
        return head


def _is_named(entry: Entry, name: str) -> bool:
    return name in (entry.row.session_id, entry.row.key)


def read(entry: Entry, session_id: str) -> Archived | None:
    """Return a session from its file; None where it was left out of it, since it changed meanwhile.

    Raises ContractError where the file is damaged, wherever that is, Unavailable where it cannot be read.
    """
    found = None
    for one in _whole(entry, _lines_in(entry.path, session_id)):
        found = one
    return found


def read_tree(entry: Entry) -> Iterator[Archived]:
    """Yield each session of a tree's file, one at a time in memory. Raises as `read` does."""
    yield from _whole(entry, _lines_in(entry.path))


def lines_of(archived: Archived) -> Iterator[bytes]:
    """Yield a session's lines as they stand in its file, what lay beside it included. Raises as `read` does."""
    for _, line in _lines_in(archived.entry.path, archived.session_id):
        yield line


def _lines_in(path: Path, session_id: str = "") -> Iterator[tuple[_Line, bytes]]:
    """Yield the lines of a file, or those of one of its sessions, read and as they stand there."""
    whose = b'"sessionId":' + encode(session_id) if session_id else b""
    with _opened(path) as lines:
        next(lines, b"")
        for line in lines:
            if whose not in line:
                continue
            found = _lines.decode(line)
            if session_id in ("", found.session_id):
                yield found, line


def _whole(entry: Entry, lines: Iterable[tuple[_Line, bytes]]) -> Iterator[Archived]:
    """Yield each session whose lines are all there: one after the other, each up to its end."""
    session_id = ""
    kinds: dict[str, list[_Line]] = {}
    for line, _ in lines:
        if line.session_id != session_id:
            session_id = line.session_id
            kinds = {"state": [], "logged": [], "pack": []}
        if line.kind == "end":
            yield _archived(entry, session_id, kinds)
        elif line.kind in kinds:
            kinds[line.kind].append(line)


def _archived(entry: Entry, session_id: str, kinds: dict[str, list[_Line]]) -> Archived:
    if len(kinds["state"]) != 1:
        problem = f"it has {len(kinds['state'])} states of {session_id}"
        raise ContractError(f"the archive file {entry.path}", problem)
    (state,) = kinds["state"]
    return Archived(
        entry=entry,
        session_id=session_id,
        state=bytes(state.state),
        version=state.version,
        logged=[bytes(one.logged) for one in kinds["logged"]],
        packs=[bytes(one.pack) for one in kinds["pack"]],
    )
