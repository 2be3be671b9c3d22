"""The SQLite store under `synchronous=FULL`: prepared commits by one writer and by 32, against bare transactions."""

import sqlite3
import threading
import time
from pathlib import Path

from figures import at_least, folder, median

from passdown.broker.stores.base import Commit, Committed, DueEntry, Enqueue
from passdown.broker.stores.queries import SessionRow
from passdown.broker.stores.sqlite import SqliteStore

ROUNDS = 5


def prepared(session: str, number: int) -> Commit:
    """Return a commit as a handoff makes it: two events of 400 bytes, a state of 1.5 kB, a pack, a due entry."""
    row = SessionRow(
        session_id=session,
        task_id="t",
        task_name="bench",
        key=session,
        plan="p@1",
        stage="s",
        status="queued",
        version=2,
        opened_at=0,
        updated_at=0,
    )
    return Commit(
        session_id=session,
        command_id=f"{session}-{number}",
        command_digest="d",
        expected=2 * number,
        events=[b"e" * 400] * 2,
        state=b"s" * 1500,
        row=row,
        reply=b'{"reply":"accepted"}',
        queue=Enqueue(role="r", step=1, attempt=number + 1, digest="d", pack=b"p" * 1200),
        dues=[DueEntry(kind="deadline", subject="1", at=number, after_ms=60_000)],
    )


def writers(path: Path, count: int, each: int) -> float:
    """Return commits per second of `count` concurrent writers."""
    store = SqliteStore(str(path))
    work = [[prepared(f"s{count}-{w}", n) for n in range(each)] for w in range(count)]

    def write(commits: list[Commit]) -> None:
        for commit in commits:
            outcomes, _ = store.commit([commit])
            if not isinstance(outcomes[0], Committed):
                raise TypeError(f"a prepared commit was not written: {outcomes[0]}")

    threads = [threading.Thread(target=write, args=(commits,)) for commits in work]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    store.close()
    return count * each / elapsed


def bare(path: Path, rows: int) -> float:
    """Return SQLite's own one-row transactions per second, synchronous and in WAL mode."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, body BLOB)")
    began = time.perf_counter()
    for _ in range(rows):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO bare (body) VALUES (?)", (b"x" * 400,))
        connection.execute("COMMIT")
    elapsed = time.perf_counter() - began
    connection.close()
    return rows / elapsed


def run(quick: bool) -> list[str]:
    """Measure, print, and return what was missed."""
    total = 320 if quick else 1600
    one: list[float] = []
    many: list[float] = []
    limit: list[float] = []
    for _ in range(ROUNDS):
        with folder() as path:
            one.append(writers(path / "one.db", 1, total))
            many.append(writers(path / "many.db", 32, total // 32))
            limit.append(bare(path / "bare.db", total))
    print(
        f"commits/s: one writer {median(one):.0f}, 32 writers {median(many):.0f}; bare rows {median(limit):.0f}"
    )
    print(
        f"against bare one-row transactions: {median(one) / median(limit):.2f} and {median(many) / median(limit):.2f}"
    )
    return at_least("32 writers / one writer", median(many) / median(one), 2.0)
