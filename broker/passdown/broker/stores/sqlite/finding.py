"""Reading: everything that a store is asked and that changes nothing."""

import sqlite3
from typing import Any, assert_never

from passdown.broker.stores import base, queries
from passdown.broker.stores.sqlite import joins, records, removal, tickets
from passdown.broker.stores.sqlite import statements as sql
from passdown.broker.stores.sqlite.packed import split_events


def load(
    db: sqlite3.Connection, session_id: str, command_id: str, command_digest: str, now: int
) -> base.Loaded:
    """Return the session's state; with an empty digest any content of the command is taken for the same."""
    catalog, state, version, digest, reply = db.execute(sql.LOAD, (session_id, command_id)).fetchone()
    removed = ""
    if state is None:
        removed, first, *recorded = db.execute(removal.LEFT_OF, (session_id,)).fetchone() or (
            "",
            "",
            None,
            None,
        )
        if first == command_id:
            digest, reply = recorded
    clash = digest is not None and command_digest not in ("", digest)
    return base.Loaded(
        state=state,
        version=version or 0,
        now=now,
        catalog=catalog,
        reply=None if clash else reply,
        clash=clash,
        removed=removed,
    )


def events(db: sqlite3.Connection, session_id: str, after: int, limit: int) -> list[bytes]:
    """Return logged events in order, from the one after `after`."""
    found: list[bytes] = []
    # No row has less than one event, so `limit` rows are enough; the first may begin before `after`.
    for version, lines in db.execute(sql.EVENTS, (session_id, after, limit)):
        of_commit = split_events(lines)
        found += of_commit[max(0, len(of_commit) - (version - after)) :]
        if len(found) >= limit:
            break
    return found[:limit]


def find(db: sqlite3.Connection, query: queries.Query, now: int) -> queries.Found:
    """Answer a query."""
    match query:
        case queries.FindSessions() | queries.FindEnded():
            return _sessions(db, query, now)
        case queries.FindTickets() | queries.FindLanes() | queries.FindOffered():
            return tickets.find(db, query)
        case queries.FindDraft() | queries.FindRecord() | queries.FindRecords():
            return records.find(db, query)
        case queries.FindQueues():
            return _queues(db, now)
        case queries.FindCatalog():
            return _catalog(db)
        case queries.FindDocument() | queries.FindPack() | queries.FindPage():
            return _body(db, query)
        case queries.FindBeside():
            return _beside(db, query.session_id, now)
        case queries.FindQuarantine():
            return _quarantined(db, query)
        case queries.FindJoin() | queries.FindRows():
            return joins.find(db, query)
        case _:
            assert_never(query)


def _sessions(
    db: sqlite3.Connection, query: queries.FindSessions | queries.FindEnded, now: int
) -> list[queries.SessionRow]:
    if isinstance(query, queries.FindSessions):
        return _search(db, query)
    rows = db.execute(removal.ENDED_SINCE, (now - query.older_ms, query.limit))
    return [_session_row(row) for row in rows]


def _search(db: sqlite3.Connection, query: queries.FindSessions) -> list[queries.SessionRow]:
    """Newest first; those opened in the same millisecond in the order in which they were written."""
    # The indexes have no branches, and serve only who says that none is sought, on both sides of an OR.
    wheres = ["s.parent = ''"]
    values: list[object] = []
    # A plus keeps SQLite from an index: a task has the fewest sessions, and the statuses that people look for
    # have fewer than a plan.
    if query.task is not None:
        wheres.append("((s.task_id = ? AND s.parent = '') OR (s.task_name = ? AND s.parent = ''))")
        values += [query.task, query.task]
    if query.status is not None:
        wheres.append("+s.status = ?" if values else "s.status = ?")
        values.append(query.status)
    if query.plan is not None:
        wheres.append("+s.plan = ?" if values else "s.plan = ?")
        values.append(query.plan)
    if query.before is not None:
        place = db.execute(sql.SESSION_PLACE, (query.before,)).fetchone()
        if place is None:
            return []
        wheres.append("(s.opened_at, s.n) < (?, ?)")
        values += place
    rows = db.execute(
        f"{sql.SESSION_ROW} WHERE {' AND '.join(wheres)} ORDER BY s.opened_at DESC, s.n DESC LIMIT ?",
        [*values, query.limit],
    )
    return [_session_row(row) for row in rows]


def _session_row(row: Any) -> queries.SessionRow:
    return queries.SessionRow(**dict(zip(queries.SessionRow.__struct_fields__[:-1], row, strict=True)))


def _queues(db: sqlite3.Connection, now: int) -> list[queries.QueueRow]:
    running: dict[str, int] = dict(db.execute(sql.RUNNING).fetchall())
    rows = [
        queries.QueueRow(
            role=role,
            ready=ready,
            reserved=reserved,
            running=running.pop(role, 0),
            oldest_ms=max(0, now - oldest),
        )
        for role, ready, reserved, oldest in db.execute(sql.QUEUES, {"now": now})
    ]
    rows += [
        queries.QueueRow(role=role, ready=0, reserved=0, running=n, oldest_ms=0)
        for role, n in running.items()
    ]
    return sorted(rows, key=lambda row: row.role)


def _catalog(db: sqlite3.Connection) -> queries.Catalog:
    """The version is read first: it is never newer than the names that come with it."""
    version: int = db.execute(sql.CATALOG_VERSION).fetchone()[0]
    names: dict[str, dict[str, str]] = {"plan": {}, "tool": {}}
    for kind, name, digest in db.execute(sql.CURRENT):
        names[kind][name] = digest
    return queries.Catalog(version=version, plans=names["plan"], tools=names["tool"])


def _beside(db: sqlite3.Connection, session_id: str, now: int) -> queries.Beside:
    runs_out, why = db.execute(sql.BESIDE, (session_id,)).fetchone() or (None, None)
    return queries.Beside(
        lease_left_ms=None if runs_out is None else max(0, runs_out - now),
        handed_back=why or "",
        counts=dict(db.execute(sql.COUNTS, (session_id,)).fetchall()),
    )


def _quarantined(db: sqlite3.Connection, query: queries.FindQuarantine) -> list[queries.QuarantineRow]:
    rows = db.execute(sql.QUARANTINED, (query.id, query.limit))
    return [queries.QuarantineRow(id=id_, at=at, source=s, reason=r, body=b) for id_, at, s, r, b in rows]


def _body(
    db: sqlite3.Connection, query: queries.FindDocument | queries.FindPack | queries.FindPage
) -> bytes | None:
    match query:
        case queries.FindDocument():
            row = db.execute(sql.DOCUMENT, (query.digest,)).fetchone()
        case queries.FindPack():
            row = db.execute(sql.PACK, (query.session_id, query.step, query.attempt)).fetchone()
        case queries.FindPage():
            row = db.execute(sql.PAGE, (query.session_id, query.name, query.number)).fetchone()
        case _:
            assert_never(query)
    return None if row is None else row[0]
