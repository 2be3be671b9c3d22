"""Opening the database, and the connections for reading."""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from passdown.broker.stores.sqlite import schema
from passdown.broker.stores.sqlite.faults import unavailable
from passdown.contracts.errors import ContractError, Unavailable

T = TypeVar("T")

MEMORY = ":memory:"
#: How long a write waits for those of other processes, in seconds.
BUSY_SECONDS = 60.0
#: How many connections for reading are kept open while nobody reads.
IDLE_READERS = 8
#: STRICT tables came with this version.
_OLDEST_SQLITE = (3, 37, 0)

_PRAGMAS = (
    # An acknowledged commit survives the loss of power, not only that of the process.
    "PRAGMA synchronous = FULL",
    # Checkpoints are the writer's; see there for the reason.
    "PRAGMA wal_autocheckpoint = 0",
    # Some builds overwrite what is deleted with zeros, which doubles the pages that a commit writes.
    "PRAGMA secure_delete = OFF",
    "PRAGMA cache_size = -32768",  # KiB
    "PRAGMA temp_store = MEMORY",
    "PRAGMA trusted_schema = OFF",
)

#: Connections that must be neither used nor closed here, so that nothing collects them as garbage.
_ABANDONED: list[object] = []


def abandon(*connections: sqlite3.Connection | None) -> None:
    """Leave connections alone for ever: they belong to the process that this one was forked from."""
    _ABANDONED.extend(connections)


class Place:
    """Where a store is kept: a path, or ``:memory:``."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.in_memory = self.path == MEMORY
        self.what = f"the store {self.path}"
        #: Why nothing is to be opened any more.
        self.closed = ""

    def open(self) -> sqlite3.Connection:
        """Open a connection, and make or upgrade the tables where need be.

        Raises ContractError for a file that is not ours or is of a newer version, Unavailable where the
        file cannot be used now.
        """
        if self.closed:
            raise Unavailable(self.what, self.closed)
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise ContractError(
                "SQLite", f"it is {sqlite3.sqlite_version}, and 3.37 is the oldest that will do"
            )
        try:
            # The writer and each reader go from thread to thread, but never serve two at once.
            db = sqlite3.connect(
                self.path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
        except sqlite3.Error as error:
            raise unavailable(self.what, error) or error from error
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        try:
            # Looked at before anything is written: even changing the journal's mode would alter the file.
            if schema.identify(db, self.what) == 0:
                db.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
            self._use_wal(db)
            for pragma in _PRAGMAS:
                db.execute(pragma)
            schema.migrate(db, self.what)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
                raise ContractError(self.what, "it is not a database; name another file") from error
            raise unavailable(self.what, error) or error from error

    def _use_wal(self, db: sqlite3.Connection) -> None:
        """Turn the write-ahead log on; SQLite does not wait by itself while others do the same."""
        if self.in_memory:
            return
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.001)
            else:
                return


class Readers:
    """Connections for reading, as many as there are threads reading at one time."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.forget_callers()

    def forget_callers(self) -> None:
        """Start with nobody reading: in a forked process the threads that read are gone."""
        self._state = threading.Condition(threading.Lock())
        self._idle: list[sqlite3.Connection] = []
        self._out = 0
        self._paused = False

    def run(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `query` reads; raises Unavailable."""
        db = self._borrow()
        try:
            return query(db)
        except sqlite3.Error as error:
            raise unavailable(self._place.what, error) or error from error
        finally:
            self._give_back(db)

    def pause(self) -> None:
        """Close all connections and lend none until `resume`; waits for those that read."""
        with self._state:
            self._paused = True
            self._state.wait_for(lambda: self._out == 0)
            while self._idle:
                self._idle.pop().close()

    def resume(self) -> None:
        """Lend connections again."""
        with self._state:
            self._paused = False
            self._state.notify_all()

    def abandon(self) -> None:
        """Leave the connections alone for ever; `forget_callers` follows."""
        abandon(*self._idle)

    def _borrow(self) -> sqlite3.Connection:
        with self._state:
            if self._paused:
                self._state.wait_for(lambda: not self._paused)
            self._out += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._place.open()
        except BaseException:
            self._lent_one_less()
            raise

    def _give_back(self, db: sqlite3.Connection) -> None:
        with self._state:
            keep = len(self._idle) < IDLE_READERS
            if keep:
                self._idle.append(db)
        if not keep:
            with contextlib.suppress(sqlite3.Error):
                db.close()
        self._lent_one_less()

    def _lent_one_less(self) -> None:
        with self._state:
            self._out -= 1
            if self._paused:
                self._state.notify_all()
