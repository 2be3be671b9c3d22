"""The commits of one write transaction: decided on one by one, written together.

A commit that does not hold (the version moved on, the command is recorded already) is told by a SELECT
before anything of it is written, so each stands or falls alone without a savepoint. Rows are collected,
and written a table at a time, which costs a fraction of writing them a commit at a time.
"""

import sqlite3
from typing import Any, NamedTuple

from passdown.broker.stores.base import (
    Commit,
    Committed,
    DueEntry,
    Enqueue,
    Full,
    Lease,
    Outcome,
    Repeated,
    Stale,
)
from passdown.broker.stores.queries import TicketRow
from passdown.broker.stores.sqlite import removal, tickets
from passdown.broker.stores.sqlite import statements as sql
from passdown.broker.stores.sqlite.bells import Bells
from passdown.broker.stores.sqlite.depths import Depths
from passdown.broker.stores.sqlite.joins import Joins
from passdown.broker.stores.sqlite.packed import DueKey, decode_dues, join_events
from passdown.contracts.codec import encode

#: A priority is worth this much waiting, so that packs of low priority come up in the end.
PRIORITY_MS = 60_000
#: Due entries that differ by less are one and the same, reckoned twice: the row is left alone.
SAME_MS = 100

#: In this order: what goes before what comes.
_WRITES = (
    sql.UNQUEUE,
    sql.FREE,
    sql.END_LEASE,
    sql.TURN_LEASE,
    sql.DROP_DUE,
    tickets.DROP,
    sql.OPEN_SESSION,
    sql.KEEP_STATUS,
    sql.MOVE_STATUS,
    sql.REFILE,
    sql.LOG,
    sql.ENQUEUE,
    sql.BEGIN_LEASE,
    sql.PUT_DUE,
    tickets.CHANGE,
    tickets.PUT,
    sql.TELL,
)
_TURNED = {"cancel": "cancelled", "tell": "told"}
_NO_DUES = b"[]"
_NO_PACK = (None, None, None, None)


class _Standing(NamedTuple):
    """How a session stands before a commit: a row of LOOK_UP; ``removed`` says how one ended that has none."""

    n: int = 0
    version: int = 0
    status: str | None = None
    task_id: str = ""
    task_name: str = ""
    plan: str = ""
    opened_at: int = 0
    queued_role: str | None = None
    queued_score: int | None = None
    dues: bytes = _NO_DUES
    command_digest: str | None = None
    reply: bytes = b""
    lease_role: str = ""
    lease: str | None = None
    reserved: int = 0
    ticketed: int = 0
    follows: int = 1
    removed: str = ""


_NOBODY = _Standing()


class Batch:
    """One write transaction: its connection, its time (store milliseconds), its bells and joins, its pending rows."""

    def __init__(self, db: sqlite3.Connection, now: int, depths: Depths) -> None:
        self._depths = depths
        self.now = now
        self.bells = Bells(db, now)
        self._joins = Joins(db, now)
        self._db = db
        self._cursor = db.cursor()
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._touched: set[str] = set()
        self._last_number = -1

    def settled(self) -> sqlite3.Connection:
        """Return the connection, with everything written that was pending."""
        if self._touched:
            self.flush()
        return self._db

    def move(self, now: int) -> None:
        """Go on at another time: the store's clock jumped, and what is pending is written."""
        self.now = now
        self.bells = Bells(self._db, now)
        self._joins = Joins(self._db, now)

    def flush(self) -> None:
        """Write what is pending."""
        rows = self._rows
        if rows:
            run = self._cursor.executemany
            for statement in _WRITES:
                if statement in rows:
                    run(statement, rows[statement])
            rows.clear()
        self._touched.clear()
        self.bells.flush()
        self._joins.flush()

    def add(self, commit: Commit, *, taking: str = "") -> Outcome:
        """Decide on a commit and collect its rows. ``taking`` is the role that the same call takes from.

        That role is not rung for: the take reads the queue after this, and says whether packs remain.
        """
        session_id = commit.session_id
        if session_id in self._touched:
            self.flush()
        sought = {"prev": commit.prev.encode(), "command_id": commit.command_id, "session_id": session_id}
        row = self._cursor.execute(sql.LOOK_UP, sought).fetchone()
        was = _Standing(*row) if row else self._nobody(commit)
        if was.command_digest is not None:
            if was.command_digest == commit.command_digest:
                return Repeated(reply=was.reply)
            return Stale(version=was.version, clash=True)
        if was.version != commit.expected or was.removed or not was.follows or self._catalog_moved_on(commit):
            return Stale(version=was.version)
        full = self._full(commit)
        if full is not None:
            return full
        self._touched.add(session_id)
        if commit.join is not None and self._joins.refuses(commit.join):
            return Stale(version=was.version)
        self._write(was.n or self._next_number(), was, commit)
        version = commit.expected + len(commit.events)
        ring = self._ring(was, commit, taking)
        return Committed(version=version, now=self.now, ring=ring, woke=self._woke(commit))

    def _nobody(self, commit: Commit) -> _Standing:
        """Return how a session stands that has no row: it was never opened, or it was removed after its end."""
        left = self._cursor.execute(removal.LEFT_OF, (commit.session_id,)).fetchone()
        if left is None:
            return _NOBODY
        status, command_id, digest, reply = left
        if command_id != commit.command_id:
            return _Standing(removed=status)
        return _Standing(removed=status, command_digest=digest, reply=reply)

    def _catalog_moved_on(self, commit: Commit) -> bool:
        known = commit.catalog
        return known is not None and self._cursor.execute(sql.CATALOG_VERSION).fetchone()[0] != known

    def _full(self, commit: Commit) -> Full | None:
        queue = commit.queue
        if not commit.room or commit.expected or not isinstance(queue, Enqueue):
            return None
        waiting = self._depths.room(self._db, queue.role, self.now, commit.room)
        return None if waiting is None else Full(role=queue.role, waiting=waiting)

    def _write(self, n: int, was: _Standing, commit: Commit) -> None:
        role, score, dues = was.queued_role, was.queued_score, was.dues
        if commit.queue is not None:
            if role is not None:
                self._row(sql.UNQUEUE, (role, score, n))
            if was.reserved:
                self._row(sql.FREE, (n,))
            role, score = self._enqueue(n, commit)
        if commit.dues is not None and (commit.dues or dues != _NO_DUES):
            dues = self._replace_dues(n, dues, commit.dues)
        self._write_session(n, was, commit, (role, score, dues))
        self._write_log(n, commit)
        if commit.lease is not None:
            self._write_lease(n, was.lease, commit)
        if commit.tickets is not None and (commit.tickets or was.ticketed):
            self._replace_tickets(n, commit.tickets)
        if commit.tell:
            self._row(sql.TELL, (n, self.now, commit.expected + len(commit.events)))

    def _write_session(
        self, n: int, was: _Standing, commit: Commit, keys: tuple[str | None, int | None, bytes]
    ) -> None:
        row = commit.row
        version = commit.expected + len(commit.events)
        place = (row.stage, version, row.updated_at, *keys, commit.state)
        if not was.n:
            filed = (
                commit.session_id,
                row.task_id,
                row.task_name,
                row.key,
                row.plan,
                row.opened_at,
                row.parent,
            )
            self._row(sql.OPEN_SESSION, (*filed, *place, row.status, n))
            return
        if row.status == was.status:
            self._row(sql.KEEP_STATUS, (*place, n))
        else:
            self._row(sql.MOVE_STATUS, (*place, row.status, n))
        filed = (row.task_id, row.task_name, row.plan, row.opened_at)
        if filed != (was.task_id, was.task_name, was.plan, was.opened_at):
            self._row(sql.REFILE, (*filed, n))

    def _write_log(self, n: int, commit: Commit) -> None:
        events = commit.events
        queue = commit.queue
        if queue is None or queue == "withdraw":
            issued = _NO_PACK
        else:
            issued = (queue.step, queue.attempt, queue.digest, queue.pack)
        version = commit.expected + len(events)
        act = (n, version, commit.command_id, commit.command_digest, commit.reply, join_events(events))
        self._row(sql.LOG, (*act, *issued))

    def _enqueue(self, n: int, commit: Commit) -> tuple[str | None, int | None]:
        """Queue the commit's pack, if it has one; return its place."""
        queue = commit.queue
        if queue is None or queue == "withdraw":
            return None, None
        now = self.now
        score = now - queue.priority * PRIORITY_MS
        place = (queue.role, score, n)
        what = (queue.step, queue.attempt, commit.command_id, commit.row.task_id, int(queue.solo))
        self._row(sql.ENQUEUE, (*place, *what, now, now))
        return queue.role, score

    def _write_lease(self, n: int, held: str | None, commit: Commit) -> None:
        lease = commit.lease
        if isinstance(lease, Lease):
            whose = (n, lease.claim_id, lease.role, commit.row.task_id)
            self._row(sql.BEGIN_LEASE, (*whose, self.now + lease.lease_ms, lease.lease_ms))
        elif held is None or lease is None:
            return
        elif lease == "end":
            self._row(sql.END_LEASE, (n,))
        else:
            self._row(sql.TURN_LEASE, (_TURNED[lease], n))

    def _replace_dues(self, n: int, standing: bytes, dues: list[DueEntry]) -> bytes:
        """Write what differs from what stands; return what the session's row says of it from here on."""
        before = {(kind, subject): (at, due) for kind, subject, at, due in decode_dues(standing)}
        after: list[DueKey] = []
        for entry in {(entry.kind, entry.subject): entry for entry in dues}.values():
            due_at = self.now + entry.after_ms
            was = before.pop((entry.kind, entry.subject), None)
            if was is not None and was[0] == entry.at and self._same_time(was[1], due_at):
                due_at = was[1]
            else:
                if was is not None:
                    self._row(sql.DROP_DUE, (was[1], n, entry.kind, entry.subject))
                self._row(sql.PUT_DUE, (due_at, n, entry.kind, entry.subject, entry.at, entry.after_ms))
            after.append((entry.kind, entry.subject, entry.at, due_at))
        for (kind, subject), (_, due_at) in before.items():
            self._row(sql.DROP_DUE, (due_at, n, kind, subject))
        return encode(after)

    def _same_time(self, before: int, after: int) -> bool:
        return abs(before - after) <= SAME_MS or (before <= self.now and after <= self.now)

    def _replace_tickets(self, n: int, rows: list[TicketRow]) -> None:
        before: dict[int, tickets.Columns] = {
            columns[1]: columns for columns in self._cursor.execute(tickets.OF_SESSION, (n,))
        }
        for ticket in rows:
            was = before.pop(ticket.ticket_no, None)
            columns = tickets.columns_of(ticket)
            if was != columns:
                self._row(*tickets.written(n, was, columns))
        for ticket_no in before:
            self._row(tickets.DROP, (n, ticket_no))

    def _ring(self, was: _Standing, commit: Commit, taking: str) -> list[str]:
        """Return the roles to ring for: one with a new pack, and one in which room was made for another."""
        queue = commit.queue
        filled = "" if queue is None or queue == "withdraw" else queue.role
        ring = [filled] if filled else []
        if commit.lease in ("end", "tell") and was.lease in ("held", "cancelled"):
            ring.append(was.lease_role)
        if queue is not None and was.reserved and was.queued_role and not isinstance(commit.lease, Lease):
            ring.append(was.queued_role)
        rung: list[str] = []
        for role in ring:
            if role != taking and self.bells.silent(role) and (role == filled or self._ready(role)):
                self.bells.ring(role)
                rung.append(role)
        return rung

    def _woke(self, commit: Commit) -> list[str]:
        """Write what the commit says of joins; return those that must be looked at by it."""
        woke: list[str] = []
        if commit.join is not None and self._joins.put(commit.join):
            woke.append(commit.join.join_id)
        if commit.join_row is not None and self._joins.mark(commit.join_row):
            woke.append(commit.join_row.join_id)
        return woke

    def _ready(self, role: str) -> bool:
        return bool(self._cursor.execute(sql.READY, {"role": role, "now": self.now}).fetchone()[0])

    def _next_number(self) -> int:
        if self._last_number < 0:
            self._last_number = self._cursor.execute(sql.LAST_NUMBER).fetchone()[0]
        self._last_number += 1
        return self._last_number

    def _row(self, statement: str, row: tuple[Any, ...]) -> None:
        rows = self._rows.get(statement)
        if rows is None:
            self._rows[statement] = [row]
        else:
            rows.append(row)
