"""The archive: what was removed from a store after its end, in files that outlive it.

::

    ARCHIVE/2026-11-29/20261129T101500123Z-3f9c0d2a.jsonl.gz

Each file is JSON Lines, compressed, and holds the sessions of one batch. It is written under another name,
flushed to the disk and renamed, so a file of this form is whole whenever the power went, and is never
written to again; what a killed process left behind (``….part``) is removed an hour later. A session may be
in two files, where a process died before it removed what it had archived, or two archived at once: both are
whole, and say the same.

The first line is ``{"kind": "archive", "spec": "passdown.archive/1", "sessions": […]}``, the row of each
session in the file. Then follow, for one session after the other, the lines that `passdown export` writes
(see `exports`) and, byte for byte as they were stored:

* ``state``: the session's state;
* ``logged``: each event of its log, in order;
* ``pack``: what each attempt was given;
* ``end``: nothing of the session follows.
"""

import contextlib
import gzip
import os
import secrets
import time
import zlib
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple, Self

import msgspec

from passdown.broker.exports import json_line, session_lines
from passdown.broker.stores.base import Loaded
from passdown.broker.stores.queries import SessionRow
from passdown.contracts.codec import encode
from passdown.contracts.errors import ContractError, NotFound, PassdownError, Unavailable

SPEC = "passdown.archive/1"
SUFFIX = ".jsonl.gz"
_PART = ".part"
#: What nobody has written to for so long was left behind by a process that died (seconds).
_ABANDONED_S = 3_600.0
#: More costs much time and saves little: the logs are repetitive.
_LEVEL = 6


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file."""

    kind: str
    spec: str
    sessions: list[SessionRow]


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
    """A session in a file of the archive."""

    row: SessionRow
    path: Path


class Archived(NamedTuple):
    """A session as it was archived; it can be read as if it were still in its store (`logbook.Readable`)."""

    entry: Entry
    state: bytes
    version: int
    logged: list[bytes]
    packs: list[bytes]
    #: Its part of the file, line by line.
    lines: list[bytes]

    def load(self, session_id: str) -> Loaded:
        """Return the state, as a store would."""
        mine = session_id == self.entry.row.session_id
        state, version = (self.state, self.version) if mine else (None, 0)
        return Loaded(state=state, version=version, now=0, catalog=0)

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return logged events in order, from seq `after` + 1."""
        return self.logged[after : after + limit] if session_id == self.entry.row.session_id else []


def archived_lines(row: SessionRow, state: bytes, log: list[bytes], packs: list[bytes]) -> list[bytes]:
    """Return a session's lines. Raises ContractError where its state cannot be read."""

    def line(kind: str, **what: object) -> bytes:
        return json_line({"kind": kind, "sessionId": row.session_id, **what})

    return [
        *session_lines(state, log),
        line("state", version=row.version, state=msgspec.Raw(state)),
        *(line("logged", logged=msgspec.Raw(raw)) for raw in log),
        *(line("pack", pack=msgspec.Raw(raw)) for raw in packs),
        line("end"),
    ]


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
    def writing(self, rows: list[SessionRow]) -> Generator["Writing"]:
        """Yield what writes a file for `rows`; the file appears, whole, where `Writing.finish` was called.

        Raises Unavailable where it cannot be written: then there is no file.
        """
        self.require()
        now = datetime.now(UTC)
        folder = self.folder / f"{now:%Y-%m-%d}"
        name = f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}Z-{secrets.token_hex(4)}{SUFFIX}"
        part = folder / f"{name}{_PART}"
        try:
            folder.mkdir(exist_ok=True)
            _flush_folder(self.folder)
            with part.open("xb") as file, Writing(file, part, folder / name) as writing:
                writing.lines([json_line({"kind": "archive", "spec": SPEC, "sessions": rows})])
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
                yield from (Entry(row, path) for row in reversed(head.sessions))

    def find(self, name: str) -> Archived:
        """Return the session of this id or submit key as it was archived last.

        Raises NotFound; ContractError or Unavailable where it is not found, and a file cannot be read.
        """
        unread: PassdownError | None = None
        for entry in self.entries():
            if isinstance(entry, PassdownError):
                unread = unread or entry
            elif name in (entry.row.session_id, entry.row.key):
                try:
                    found = _read(entry)
                except PassdownError as error:
                    unread = unread or error
                else:
                    if found is not None:
                        return found
        raise unread or NotFound("archived session", name, f"in {self.folder}")


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

    def lines(self, lines: list[bytes]) -> None:
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


def _read(entry: Entry) -> Archived | None:
    """Return a session from its file; None where it was left out of it, since it changed meanwhile."""
    whose = b'"sessionId":' + encode(entry.row.session_id)
    with _opened(entry.path) as all_lines:
        next(all_lines)
        lines = [line for line in all_lines if whose in line]
        found = [(line, _lines.decode(line)) for line in lines]
    found = [(line, read) for line, read in found if read.session_id == entry.row.session_id]
    if not found or found[-1][1].kind != "end":
        return None
    kinds = {kind: [read for _, read in found if read.kind == kind] for kind in ("state", "logged", "pack")}
    (state,) = kinds["state"]
    return Archived(
        entry=entry,
        state=bytes(state.state),
        version=state.version,
        logged=[bytes(one.logged) for one in kinds["logged"]],
        packs=[bytes(one.pack) for one in kinds["pack"]],
        lines=[line for line, _ in found],
    )
