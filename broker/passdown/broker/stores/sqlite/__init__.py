"""The embedded store: one SQLite file, any number of processes on one machine."""

from passdown.broker.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
