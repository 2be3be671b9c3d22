"""What SQLite's errors mean to a caller: `Unavailable` where a retry is safe, else the error as it is."""

import sqlite3

from passdown.contracts.errors import Unavailable

_MASK = 0xFF  # the primary code is the low byte of an extended one

#: Primary code → what happened and what helps. Codes that are not here are faults of our own.
_MEANINGS = {
    sqlite3.SQLITE_BUSY: "another process has held the write lock for too long (database is locked)",
    sqlite3.SQLITE_LOCKED: "another connection of this process is in the way (database table is locked)",
    sqlite3.SQLITE_FULL: "the disk or its quota is full; make room",
    sqlite3.SQLITE_IOERR: "disk I/O error; look at the disk, its quota and the limits of this process",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; look at the folder and its permissions",
    sqlite3.SQLITE_READONLY: "the file cannot be written; look at its permissions",
    sqlite3.SQLITE_PERM: "the file cannot be used; look at its permissions",
    sqlite3.SQLITE_PROTOCOL: "the locks of the file do not work here; do not keep it on a network file system",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_CORRUPT: "the database is damaged; restore a backup",
    sqlite3.SQLITE_NOTADB: "the file is no longer a database; restore a backup",
}


def unavailable(what: str, error: BaseException) -> Unavailable | None:
    """Return `error` as what a caller is told, or None where it is no fault of the store's surroundings."""
    if not isinstance(error, sqlite3.Error):
        return None
    code: int = getattr(error, "sqlite_errorcode", 0)
    meaning = _MEANINGS.get(code & _MASK)
    if meaning is None:
        return None
    return Unavailable(what, f"{meaning} [{error.sqlite_errorname}]")
