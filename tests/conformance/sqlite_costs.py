"""What an act costs a `SqliteStore`, counted in steps of SQLite's own machine: the same on every computer."""

import sqlite3
from collections.abc import Callable
from typing import cast

from passdown.broker.stores.sqlite import SqliteStore


def connection(store: SqliteStore) -> sqlite3.Connection:
    """Return the connection of the store; in memory it has one only."""
    store.commit([])
    return cast(sqlite3.Connection, vars(vars(store)["_writer"])["_db"])


def steps(store: SqliteStore, act: Callable[[], object]) -> int:
    """Return how many steps SQLite's machine takes for `act`."""
    db, taken = connection(store), 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    db.set_progress_handler(count, 1)
    act()
    db.set_progress_handler(None, 1)
    return taken


def statements(store: SqliteStore, act: Callable[[], object]) -> list[str]:
    """Return the statements that `act` runs."""
    db = connection(store)
    run: list[str] = []
    db.set_trace_callback(run.append)
    act()
    db.set_trace_callback(None)
    return run
