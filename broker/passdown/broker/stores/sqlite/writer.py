"""One write transaction at a time, for as many callers as wait: group commit, led by one of them.

A caller that finds nobody writing leads: it runs what all waiting callers brought in one transaction, and
hands the lead to one of those that came meanwhile. So a lone caller pays for no thread switch, and many
share the price of one flush to the disk.

Checkpoints (copying the log into the database) happen here too, not by SQLite's own rule but while this
connection holds the write lock: before SQLite 3.51.3 a commit that starts the log anew while another
connection checkpoints can make committed pages vanish (https://sqlite.org/wal.html, "The WAL-Reset Bug"),
and most machines have an older one.
"""

import contextlib
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from passdown.broker.stores.sqlite import connections
from passdown.broker.stores.sqlite.batch import Batch
from passdown.broker.stores.sqlite.connections import Place
from passdown.broker.stores.sqlite.depths import Depths
from passdown.broker.stores.sqlite.faults import unavailable
from passdown.contracts.errors import Unavailable

T = TypeVar("T")

#: How many callers' work one transaction holds at most: a bound on how long it takes.
MOST_JOBS = 256
#: After so many rows written here the log is copied into the database; a row is about a page, 8 KiB.
CHECKPOINT_ROWS = 1000

_LOOK_AGAIN_SECONDS = (0.0002, 0.0008)
_LOOK_SECONDS = 1.0


class _Job(Generic[T]):
    """What one caller wants done, and how it ended. An exclusive one leads, and does its work itself."""

    __slots__ = ("error", "exclusive", "gate", "leads", "result", "settled", "work")

    def __init__(self, work: Callable[[Batch], T], *, exclusive: bool = False) -> None:
        self.work = work
        self.exclusive = exclusive
        self.gate: threading.Lock | None = None
        self.leads = False
        self.settled = False
        self.result: object = None
        self.error: BaseException | None = None

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return cast(T, self.result)

    def succeed(self, result: object) -> None:
        self.result = result
        self.settled = True

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.settled = True


class Writer:
    """The one writing connection of a process. Thread-safe."""

    def __init__(self, place: Place, clock: Callable[[sqlite3.Connection], int]) -> None:
        self._place = place
        self._clock = clock
        self._db: sqlite3.Connection | None = None
        self._pump: sqlite3.Connection | None = None
        self._rows_at_checkpoint = 0
        self._depths = Depths()
        self.forget_callers()

    def forget_callers(self) -> None:
        """Start with nobody waiting: in a forked process the threads that waited are gone."""
        self._mutex = threading.Lock()
        self._waiting: deque[_Job[Any]] = deque()
        self._led = False
        self._leader = 0

    def run(self, work: Callable[[Batch], T]) -> T:
        """Do `work` in a transaction, perhaps with that of others, and return what it returns.

        Raises Unavailable where the transaction could not be written: then nothing of it was (only a disk
        that fails at the very end leaves that open). What else `work` raises undoes its own work alone.
        """
        job = _Job(work)
        self._enlist(job)
        if job.leads:
            self._lead(job)
        return job.outcome()

    def pause(self) -> None:
        """Wait until nobody writes, close the connection, and let nobody write until `resume`."""
        self._enlist(_Job[None](lambda _: None, exclusive=True))
        self._disconnect()

    def resume(self) -> None:
        """Let callers write again, on a new connection."""
        self._hand_over()

    def abandon(self) -> None:
        """Leave the connection alone for ever: it belongs to the process that this one was forked from."""
        connections.abandon(self._db, self._pump)
        self._db = self._pump = None

    def leads_here(self) -> bool:
        """Return whether this very thread is in the middle of a transaction."""
        return self._leader == threading.get_ident()

    # -- leading and following ---------------------------------------------------------------------------

    def _enlist(self, job: _Job[Any]) -> None:
        """Take the lead, or wait until the job is done or the lead is handed over."""
        with self._mutex:
            if not self._led:
                self._led = job.leads = True
                return
            job.gate = gate = threading.Lock()
            gate.acquire()
            self._waiting.append(job)
        try:
            # The time-out is for a leader that was interrupted in the very moment of waking the others.
            while not gate.acquire(timeout=_LOOK_SECONDS) and not job.settled:
                continue
        except BaseException:
            # Interrupted (Ctrl-C, a time limit): nobody must wait for this caller from here on.
            self._withdraw(job)
            raise

    def _withdraw(self, job: _Job[Any]) -> None:
        with self._mutex:
            if job in self._waiting:
                self._waiting.remove(job)
        if job.leads:
            self._hand_over()

    def _lead(self, own: _Job[Any]) -> None:
        jobs = [own]
        try:
            self._leader = threading.get_ident()
            if self._waiting:
                self._gather(jobs)
            self._execute(jobs)
        finally:
            try:
                self._dismiss(jobs)
                self._checkpoint_if_due()
            finally:
                self._leader = 0
                self._hand_over()

    def _gather(self, jobs: list[_Job[Any]]) -> None:
        with self._mutex:
            waiting = self._waiting
            while waiting and len(jobs) < MOST_JOBS and not waiting[0].exclusive:
                jobs.append(waiting.popleft())

    def _dismiss(self, jobs: list[_Job[Any]]) -> None:
        for job in jobs:
            if not job.settled:
                job.fail(Unavailable(self._place.what, "the thread that wrote for this one was interrupted"))
        for job in jobs:
            if job.gate is not None and not job.leads:
                job.gate.release()

    def _hand_over(self) -> None:
        with self._mutex:
            if not self._waiting:
                self._led = False
                return
            heir = self._waiting.popleft()
            heir.leads = True
            cast(threading.Lock, heir.gate).release()

    # -- the transaction ---------------------------------------------------------------------------------

    def _execute(self, jobs: list[_Job[Any]]) -> None:
        try:
            self._transact(jobs)
        except Exception as error:  # noqa: BLE001 - each caller gets it
            if unavailable(self._place.what, error) is None and len(jobs) > 1:
                # One of them brought something that cannot be written; the others must not fall with it.
                for job in jobs:
                    self._execute([job])
                return
            for job in jobs:
                fault = unavailable(self._place.what, error)
                if fault is not None:
                    fault.__cause__ = error
                job.fail(fault or error)

    def _transact(self, jobs: list[_Job[Any]]) -> None:
        db = self._db or self._connect()
        try:
            self._begin(db)
            batch = Batch(db, self._clock(db), self._depths)
            results = [job.work(batch) for job in jobs]
            batch.flush()
            db.execute("COMMIT")
        except BaseException:
            self._undo(db)
            raise
        for job, result in zip(jobs, results, strict=True):
            job.succeed(result)

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
