"""Retention: sessions that ended long enough ago are archived, then removed. Run as many as you like.

A session is removed only once it stands in a finished file, at the version that was archived; one with branches goes
with all of them (`trees`). Its submit key is known for as long again as the settings say: the same submit, sent
again, is met by what it was answered.
"""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import structlog

from passdown.broker.archive import Archive, Writing
from passdown.broker.backoff import jittered
from passdown.broker.branches import Branches, Fan
from passdown.broker.gathering import write_session
from passdown.broker.parts import Part
from passdown.broker.settings import NO_ARCHIVE, Settings
from passdown.broker.stores.base import Remove, Store
from passdown.broker.stores.queries import FindEnded, SessionRow
from passdown.broker.trees import REMOVERS, Trees
from passdown.contracts.codec import Record
from passdown.contracts.errors import ContractError, PassdownError

#: Between two passes that found no more than they could take (seconds).
_EVERY_S = 60.0
#: A file of sessions without branches holds so many bytes at most, before they are compressed, and one session more.
_FILE_BYTES = 64 * 1024 * 1024
#: A pass ends after so many branches, so that what is found by then is looked at anew.
_PASS_BRANCHES = 20_000
#: So many sessions that cannot be read, or have branches at work, are passed over; more would stand in the way of the
#: others.
_MOST_PASSED_OVER = 1_000
#: A session of which some branch is at work is looked at again after so long (seconds).
_AGAIN_S = 600.0

_log = structlog.get_logger("passdown.archive")


class Retention(NamedTuple):
    """How long sessions are kept after their end, and their submit keys after that (ms); no folder: no archive."""

    after_ms: int
    keep_keys_ms: int
    folder: Path | None


class Pass(Record, frozen=True, kw_only=True):
    """What one pass did. ``more``: there may be others that can be archived already."""

    removed: int = 0
    #: Those of the sessions that were removed.
    branches: int = 0
    #: They changed or went meanwhile, did not fit into the file, have branches at work, or cannot be read.
    left: int = 0
    files: list[str] = []
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
        self._branches = Branches(store)
        self._trees = Trees(
            store,
            self._branches,
            self._archive,
            after_ms=retention.after_ms,
            keep_ms=retention.keep_keys_ms,
            hook=hook,
        )
        #: Sessions that stay, with the version at which that was said, and until when they are passed over (monotonic).
        self._passed_over: dict[tuple[str, int], float] = {}

    def once(self, stop: threading.Event | None = None) -> Pass:
        """Archive and remove one batch.

        Raises Unavailable where store or archive are away or full: then nothing was removed that is not archived.
        """
        now = time.monotonic()
        self._passed_over = {one: until for one, until in self._passed_over.items() if until > now}
        limit = self._batch + len(self._passed_over)
        query = FindEnded(older_ms=self._retention.after_ms, limit=limit)
        found = cast("list[SessionRow]", self._store.find(query))
        rows = [row for row in found if (row.session_id, row.version) not in self._passed_over]
        if not rows:
            return Pass()
        if self._archive:
            self._archive.sweep()
        alone, trees = self._sorted(rows)
        path, kept = self._write(self._archive, alone) if self._archive else ("", alone)
        self._remove_all(kept)
        felled = self._fell(trees, stop)
        removed = len(kept) + felled.removed
        left = len(rows) - removed
        more = removed > 0 and (left > 0 or len(found) >= limit)
        files = [path, *felled.files] if path else felled.files
        return Pass(removed=removed, branches=felled.branches, left=left, files=files, more=more)

    def _sorted(self, rows: list[SessionRow]) -> tuple[list[SessionRow], list[tuple[SessionRow, list[Fan]]]]:
        """Return those without branches, and those with, and their fan-outs."""
        alone: list[SessionRow] = []
        trees: list[tuple[SessionRow, list[Fan]]] = []
        for row in rows:
            try:
                fans = self._branches.fans(row.session_id, self._store.load(row.session_id))
            except ContractError as error:
                self._pass_over(row, str(error))
                continue
            if any(fan.places for fan in fans):
                trees.append((row, fans))
            else:
                alone.append(row)
        return alone, trees

    def _fell(self, trees: list[tuple[SessionRow, list[Fan]]], stop: threading.Event | None) -> Pass:
        """Archive and remove one tree after the other."""
        removed = branches = 0
        files: list[str] = []
        for row, fans in trees:
            if branches >= _PASS_BRANCHES:
                break
            done = self._trees.fell(row, fans, stop.is_set if stop else lambda: False)
            files += [done.file] if done.file else []
            removed += not done.stays
            branches += done.branches
            if done.for_good:
                self._pass_over(row, done.stays)
            elif done.stays:
                _log.info("archive.tree_stays", session=row.session_id, why=done.stays, again_s=_AGAIN_S)
                self._pass_over_for(row, _AGAIN_S)
        return Pass(removed=removed, branches=branches, files=files)

    def _write(self, archive: Archive, rows: list[SessionRow]) -> tuple[str, list[SessionRow]]:
        """Return the file in which sessions stand, and which they are; no file where none could be read."""
        if not rows:
            return "", []
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
        try:
            return write_session(self._store, writing, row.session_id, row.version)
        except ContractError as error:
            self._pass_over(row, str(error))
            return False

    def _pass_over(self, row: SessionRow, why: str) -> None:
        """Leave a session that cannot be read for people to look at."""
        _log.error("archive.unreadable", session=row.session_id, error=why)
        self._pass_over_for(row, math.inf)

    def _pass_over_for(self, row: SessionRow, seconds: float) -> None:
        if len(self._passed_over) < _MOST_PASSED_OVER:
            self._passed_over[(row.session_id, row.version)] = time.monotonic() + seconds

    def _remove_all(self, rows: list[SessionRow]) -> None:
        """Remove sessions, some at a time: those who wait for the store together share its round trips and flushes."""
        pool = ThreadPoolExecutor(REMOVERS, thread_name_prefix="passdown-archivist")
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
                done = self.once(stop)
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
