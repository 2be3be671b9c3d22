"""One write transaction at a time, for as many callers as wait: group commit, led by one of them (`grouping`).

Checkpoints (copying the log into the database) happen here too, not by SQLite's own rule but while this
connection holds the write lock: before SQLite 3.51.3 a commit that starts the log anew while another
connection checkpoints can make committed pages vanish (https://sqlite.org/wal.html, "The WAL-Reset Bug"),
and most machines have an older one.
"""

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from passdown.broker.stores.grouping import Group, Interrupted
from passdown.broker.stores.sqlite import connections
from passdown.broker.stores.sqlite.batch import Batch
from passdown.broker.stores.sqlite.connections import Place
from passdown.broker.stores.sqlite.depths import Depths
from passdown.broker.stores.sqlite.faults import unavailable
from passdown.contracts.errors import Unavailable

T = TypeVar("T")

#: After so many rows written here the log is copied into the database; a row is about a page, 8 KiB.
CHECKPOINT_ROWS = 1000

_LOOK_AGAIN_SECONDS = (0.0002, 0.0008)


class _Ended(NamedTuple):
    """How one caller's work ended: with a result, or with what it raised."""

    result: Any = None
    error: Exception | None = None


_Work = Callable[[Batch], Any]


class Writer:
    """The one writing connection of a process. Thread-safe."""

    def __init__(self, place: Place, clock: Callable[[sqlite3.Connection], int]) -> None:
        self._place = place
        self._clock = clock
        self._db: sqlite3.Connection | None = None
        self._pump: sqlite3.Connection | None = None
        self._rows_at_checkpoint = 0
        self._depths = Depths()
        self._group: Group[_Work, _Ended] = Group(self._execute, self._checkpoint_if_due)

    def run(self, work: Callable[[Batch], T]) -> T:
        """Do `work` in a transaction, perhaps with that of others, and return what it returns.

        Raises Unavailable where the transaction could not be written: then nothing of it was (only a disk
        that fails at the very end leaves that open). What else `work` raises undoes its own work alone.
        """
        try:
            ended = self._group.run(work)
        except Interrupted as error:
            raise Unavailable(
                self._place.what, "the thread that wrote for this one was interrupted"
            ) from error
        if ended.error is not None:
            raise ended.error
        return cast(T, ended.result)

    def pause(self) -> None:
        """Wait until nobody writes, close the connection, and let nobody write until `resume`."""
        self._group.hold()
        self._disconnect()

    def resume(self) -> None:
        """Let callers write again, on a new connection."""
        self._group.let_go()

    def abandon(self) -> None:
        """Leave the connection alone for ever: it belongs to the process that this one was forked from."""
        connections.abandon(self._db, self._pump)
        self._db = self._pump = None

    def leads_here(self) -> bool:
        """Return whether this very thread is in the middle of a transaction."""
        return self._group.leads_here()

    # -- the transaction ---------------------------------------------------------------------------------

    def _execute(self, works: Sequence[_Work]) -> list[_Ended]:
        try:
            return [_Ended(result) for result in self._transact(works)]
        except Exception as error:  # noqa: BLE001 - each caller gets it
            fault = unavailable(self._place.what, error)
            if fault is None and len(works) > 1:
                # One of them brought something that cannot be written; the others must not fall with it.
                return [self._execute([work])[0] for work in works]
            if fault is not None:
                fault.__cause__ = error
            return [_Ended(error=fault or error) for _ in works]

    def _transact(self, works: Sequence[_Work]) -> list[Any]:
        db = self._db or self._connect()
        try:
            self._begin(db)
            batch = Batch(db, self._clock(db), self._depths)
            results = [work(batch) for work in works]
            batch.flush()
            db.execute("COMMIT")
        except BaseException:
            self._undo(db)
            raise
        return results

    def _begin(self, db: sqlite3.Connection) -> None:
        """Take the write lock, which one process holds at a time.

        SQLite's own waiting sleeps longer and longer, so that those who came late overtake: among eight busy
        processes some waited for seconds. Looking again every half a millisecond gives each its turn.
        """
        until = 0.0
        while True:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                until = until or now + connections.BUSY_SECONDS
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or now > until:
                    raise
                time.sleep(random.uniform(*_LOOK_AGAIN_SECONDS))  # noqa: S311 - spreads those who wait
            else:
                return

    def _undo(self, db: sqlite3.Connection) -> None:
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            if not self._place.in_memory:
                self._disconnect()

    def _connect(self) -> sqlite3.Connection:
        self._db = self._place.open()
        self._db.execute("PRAGMA busy_timeout = 0")  # see _begin
        self._rows_at_checkpoint = 0
        return self._db

    def _disconnect(self) -> None:
        for db in (self._pump, self._db):
            if db is not None:
                with contextlib.suppress(sqlite3.Error):
                    db.close()
        self._db = self._pump = None

    # -- checkpoints -------------------------------------------------------------------------------------

    def _checkpoint_if_due(self) -> None:
        db = self._db
        if (
            db is None
            or db.total_changes - self._rows_at_checkpoint < CHECKPOINT_ROWS
            or self._place.in_memory
        ):
            return
        self._rows_at_checkpoint = db.total_changes
        # A checkpoint that fails loses nothing: the log still has it all, and the next one copies it.
        with contextlib.suppress(sqlite3.Error, Unavailable):
            if self._pump is None:
                self._pump = self._place.open()
            self._begin(db)
            try:
                self._pump.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            finally:
                db.execute("ROLLBACK")
