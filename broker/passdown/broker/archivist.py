"""Retention: sessions that ended long enough ago are archived, then removed. Run as many as you like.

A session is removed only once it stands in a finished file, at the version that was archived. Its submit key
is known for as long again as the settings say: the same submit, sent again, is met by what it was answered.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import structlog

from passdown.broker.archive import Archive, Writing, archived_lines
from passdown.broker.backoff import jittered
from passdown.broker.core.evolve import fold
from passdown.broker.core.state import State
from passdown.broker.logbook import events, read_logged
from passdown.broker.parts import Part
from passdown.broker.settings import NO_ARCHIVE, Settings
from passdown.broker.stores.base import Loaded, Remove, Store
from passdown.broker.stores.queries import FindEnded, FindPack, SessionRow
from passdown.contracts.codec import Record, decode, encode
from passdown.contracts.errors import ContractError, PassdownError
from passdown.contracts.events import PackIssued

#: Between two passes that found no more than they could take (seconds).
_EVERY_S = 60.0
#: A file holds so many bytes at most, before they are compressed, and one session more.
_FILE_BYTES = 64 * 1024 * 1024
#: So many sessions are removed at a time.
_REMOVERS = 8
#: So many sessions that cannot be read are passed over; more would stand in the way of the others.
_MOST_PASSED_OVER = 1_000

_log = structlog.get_logger("passdown.archive")


class Retention(NamedTuple):
    """How long sessions are kept after their end, and their submit keys after that (ms); no folder: no archive."""

    after_ms: int
    keep_keys_ms: int
    folder: Path | None


class Pass(Record, frozen=True, kw_only=True):
    """What one pass did. ``more``: there may be others that can be archived already."""

    removed: int = 0
    #: They changed or went meanwhile, did not fit into the file, or cannot be read.
    left: int = 0
    file: str = ""
    more: bool = False


def retention_of(settings: Settings) -> Retention | None:
    """Return what the settings say; None where sessions are kept for ever. Raises ContractError."""
    if not settings.retention_s:
        return None
    if not settings.archive:
        raise ContractError(
            "setting archive",
            f"retention is set, so name the folder for what is removed, or {NO_ARCHIVE!r} to keep nothing of it",
        )
    folder = None if settings.archive == NO_ARCHIVE else Path(settings.archive)
    return Retention(int(settings.retention_s * 1000), int(settings.keep_keys_s * 1000), folder)


class Archivist:
    """Archives and removes sessions. ``hook`` is told of each point that it passes, for tests."""

    def __init__(
        self,
        store: Store,
        retention: Retention,
        *,
        batch: int = 200,
        every_s: float = _EVERY_S,
        hook: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._retention = retention
        self._archive = Archive(retention.folder) if retention.folder else None
        self._batch = batch
        self._every_s = every_s
        self._hook = hook
        #: Sessions that cannot be read, with the version at which that was said.
        self._passed_over: set[tuple[str, int]] = set()

    def once(self) -> Pass:
        """Archive and remove one batch.

        Raises Unavailable where store or archive are away or full: then nothing was removed that is not archived.
        """
        limit = self._batch + len(self._passed_over)
        query = FindEnded(older_ms=self._retention.after_ms, limit=limit)
        found = cast("list[SessionRow]", self._store.find(query))
        rows = [row for row in found if (row.session_id, row.version) not in self._passed_over]
        if not rows:
            return Pass()
        path, kept = self._write(self._archive, rows) if self._archive else ("", rows)
        self._remove_all(kept)
        left = len(rows) - len(kept)
        more = bool(kept) and (left > 0 or len(found) >= limit)
        return Pass(removed=len(kept), left=left, file=path, more=more)

    def _write(self, archive: Archive, rows: list[SessionRow]) -> tuple[str, list[SessionRow]]:
        """Return the file in which sessions stand, and which they are; no file where none could be read."""
        archive.sweep()
        kept: list[SessionRow] = []
        with archive.writing(rows) as writing:
            for row in rows:
                if self._add(writing, row):
                    kept.append(row)
                    self._hook("after_session")
                if writing.size > _FILE_BYTES:
                    break
            if not kept:
                return "", []
            writing.complete()
            self._hook("before_rename")
            writing.finish()
            self._hook("after_rename")
        return str(writing.path), kept

    def _add(self, writing: Writing, row: SessionRow) -> bool:
        """Write a session into the file; returns whether it is in it, whole and as the row says."""
        loaded = self._store.load(row.session_id)
        if loaded.state is None or loaded.version != row.version:
            return False
        try:
            lines = self._lines(row, loaded)
        except ContractError as error:
            _log.error("archive.unreadable", session=row.session_id, error=str(error))
            if len(self._passed_over) < _MOST_PASSED_OVER:
                self._passed_over.add((row.session_id, row.version))
            return False
        writing.lines(lines)
        return bool(lines)

    def _lines(self, row: SessionRow, loaded: Loaded) -> list[bytes]:
        """Return a session's lines; none where another process has removed it meanwhile.

        Raises ContractError where its log does not give its state (rule 6): it stays, for people to look at.
        """
        stored = loaded.state or b""
        log = list(events(self._store, row.session_id, until=loaded.version))
        packs = [
            self._store.find(FindPack(session_id=row.session_id, step=step, attempt=attempt))
            for step, attempt in _issued(log)
        ]
        if self._store.load(row.session_id).state is None:
            return []
        if encode(fold(map(read_logged, log))) != encode(decode(stored, State, what="state")):
            raise ContractError("log", "folding it does not give the stored state")
        return archived_lines(row, stored, log, [pack for pack in packs if isinstance(pack, bytes)])

    def _remove_all(self, rows: list[SessionRow]) -> None:
        """Remove sessions, some at a time: those who wait for the store together share its round trips and flushes."""
        pool = ThreadPoolExecutor(_REMOVERS, thread_name_prefix="passdown-archivist")
        try:
            for _ in pool.map(self._remove, rows):
                self._hook("after_remove")
        finally:
            pool.shutdown(cancel_futures=True)

    def _remove(self, row: SessionRow) -> None:
        keep_ms = self._retention.keep_keys_ms
        self._store.put(
            Remove(session_id=row.session_id, version=row.version, status=row.status, keep_ms=keep_ms)
        )

    def run(self, stop: threading.Event) -> None:
        """Archive and remove until `stop` is set; whatever goes wrong is said, and tried again for ever."""
        while not stop.is_set():
            more = False
            try:
                done = self.once()
                more = done.more
                if done.removed or done.left:
                    _log.info("archive.pass", **msgspec.to_builtins(done))
            except PassdownError as error:
                _log.warning("archive.failed", error=str(error), again_s=self._every_s)
            except Exception:  # noqa: BLE001 - whatever it is, the others who live in this process must not end
                _log.exception("archive.broken", again_s=self._every_s)
            # Spread, so that several ticks seldom archive the same session twice.
            stop.wait(0 if more else jittered(self._every_s))


def archivist_parts(store: Store, settings: Settings) -> dict[str, Part]:
    """Return what a tick process runs for retention, by name. Raises ContractError."""
    retention = retention_of(settings)
    return {"archivist": Archivist(store, retention)} if retention else {}


def _issued(log: list[bytes]) -> list[tuple[int, int]]:
    """Return step and attempt of every pack that a log says was issued, each once."""
    issued = [event for event in (read_logged(raw).event for raw in log) if isinstance(event, PackIssued)]
    return list(dict.fromkeys((event.step, event.attempt) for event in issued))
