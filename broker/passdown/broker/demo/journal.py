"""The outside system of the demo: a durable journal of its own, in a file of its own, with nothing of the store.

Every write that reaches it is noted with its key. A key that it applied before is absorbed: noted as an
arrival, applied no second time. `find` is what a tool's `verify` asks.
"""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passdown.contracts.codec import decode_any, encode
from passdown.contracts.ids import session_of

#: How long a write waits for those of other processes (seconds): one may be frozen in the middle of its own.
_BUSY_SECONDS = 120.0

# The plain rollback journal with a flush per write: few writes, several processes, kills at any moment.
_TABLES = """
CREATE TABLE IF NOT EXISTS arrivals (
    n INTEGER PRIMARY KEY, key TEXT NOT NULL, tool TEXT NOT NULL, at_ms INTEGER NOT NULL,
    fate TEXT NOT NULL CHECK (fate IN ('applied', 'absorbed', 'refused'))
) STRICT;
CREATE TABLE IF NOT EXISTS applied (
    key TEXT PRIMARY KEY, tool TEXT NOT NULL, args BLOB NOT NULL, result BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS accidents (session_id TEXT, kind TEXT, PRIMARY KEY (session_id, kind)) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Written:
    """A write that was applied. ``calls``: how often it was applied; ``arrivals``: how often its key came."""

    key: str
    tool: str
    args: Any
    result: Any
    calls: int
    arrivals: int

    @property
    def session_id(self) -> str:
        """The session that it belongs to, which its key names."""
        return session_of(self.key)


class Journal:
    """The journal in a file. Thread-safe, and safe for several processes."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            for table in _TABLES.split(";"):
                self._db.execute(table)

    def apply(self, key: str, tool: str, args: object, result: object) -> Any:
        """Write under `key`; return the result that the first write under it had."""
        with self._transaction() as db:
            known = db.execute("SELECT result FROM applied WHERE key = ?", (key,)).fetchone()
            self._arrive(key, tool, "absorbed" if known else "applied")
            if known:
                return decode_any(known[0], Any, what="journal")
            db.execute("INSERT INTO applied VALUES (?, ?, ?, ?)", (key, tool, encode(args), encode(result)))
            return result

    def refuse(self, key: str, tool: str) -> None:
        """Note a write that was refused: nothing is applied."""
        with self._transaction():
            self._arrive(key, tool, "refused")

    def find(self, key: str) -> Written | None:
        """Return what was applied under `key`, if anything was."""
        return next(iter(self._select("WHERE a.key = ?", key)), None)

    def written(self) -> list[Written]:
        """Return all that was applied, oldest first."""
        return self._select("")

    def fates(self) -> dict[str, int]:
        """Return how many arrivals were applied, absorbed, refused."""
        with self._transaction() as db:
            return dict(db.execute("SELECT fate, count(*) FROM arrivals GROUP BY fate").fetchall())

    def arrange(self, session_id: str, accident: str) -> None:
        """Let an accident happen when this session next writes."""
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO accidents VALUES (?, ?)", (session_id, accident))

    def strikes(self, session_id: str, accident: str) -> bool:
        """Whether an accident was arranged for now; it is for one of all who ask, and only once."""
        with self._transaction() as db:
            gone = db.execute(
                "DELETE FROM accidents WHERE session_id = ? AND kind = ?", (session_id, accident)
            )
            return gone.rowcount == 1

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()

    def _arrive(self, key: str, tool: str, fate: str) -> None:
        row = (key, tool, time.time_ns() // 1_000_000, fate)
        self._db.execute("INSERT INTO arrivals (key, tool, at_ms, fate) VALUES (?, ?, ?, ?)", row)

    def _select(self, where: str, *values: str) -> list[Written]:
        query = f"""
            SELECT a.key, a.tool, a.args, a.result, sum(r.fate = 'applied'), count(*)
            FROM applied a JOIN arrivals r ON r.key = a.key {where}
            GROUP BY a.key ORDER BY min(r.n)
        """  # noqa: S608 - `where` is one of two constants above
        with self._transaction() as db:
            rows = db.execute(query, values).fetchall()
        return [
            Written(
                key=key,
                tool=tool,
                args=decode_any(args, Any, what="journal"),
                result=decode_any(result, Any, what="journal"),
                calls=calls,
                arrivals=arrivals,
            )
            for key, tool, args, result, calls, arrivals in rows
        ]

    @contextlib.contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
