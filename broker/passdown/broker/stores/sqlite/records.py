"""Drafts, which go with their session, and records by name, which belong to none.

A writing that is refused is told before anything of it is written, and handed back instead of raised: so it stands or
falls alone, and the others of its transaction need not be done again.
"""

import sqlite3
from typing import Any, assert_never

from passdown.broker.stores import records
from passdown.broker.stores.queries import DraftRow, FindDraft, FindRecord, FindRecords, RecordRow
from passdown.broker.stores.records import Draft, RecordPut, Records
from passdown.contracts.errors import Conflict, ContractError, NotFound

#: → the session's number, the draft's version (None: there is none)
_DRAFT_STANDS = """
SELECT s.n, d.version FROM sessions s LEFT JOIN drafts d ON d.n = s.n AND d.ticket_no = ? AND d."by" = ?
WHERE s.session_id = ?
"""

_PUT_DRAFT = 'INSERT OR REPLACE INTO drafts (n, ticket_no, "by", version, at, body) VALUES (?, ?, ?, ?, ?, ?)'

_DROP_DRAFT = 'DELETE FROM drafts WHERE n = ? AND ticket_no = ? AND "by" = ?'

#: The columns of a DraftRow, in its order.
_DRAFT = """
SELECT d.version, d.at, d.body FROM sessions s JOIN drafts d ON d.n = s.n
WHERE s.session_id = ? AND d.ticket_no = ? AND d."by" = ?
"""

_RECORD_STANDS = "SELECT version FROM records WHERE kind = ? AND name = ?"

_PUT_RECORD = "INSERT OR REPLACE INTO records (kind, name, version, body) VALUES (?, ?, ?, ?)"

_DROP_RECORD = "DELETE FROM records WHERE kind = ? AND name = ?"

#: The columns of a RecordRow, in its order.
_RECORD = "SELECT kind, name, version, body FROM records WHERE kind = ? AND name = ?"

_RECORDS = "SELECT kind, name, version, body FROM records WHERE kind = ? AND name > ? ORDER BY name LIMIT ?"

Refused = Conflict | ContractError | NotFound


def put(db: sqlite3.Connection, what: Draft | Records, now: int) -> Refused | None:
    """Write a draft, or records; return why that was refused, where it was."""
    if isinstance(what, Draft):
        return _too_large(f"the draft of {what.by}", what.body) or _put_draft(db, what, now)
    return _too_many(what) or _put_records(db, what.records)


def _too_large(whose: str, body: bytes | None) -> ContractError | None:
    if body is None or len(body) <= records.MOST_BYTES:
        return None
    return ContractError(whose, f"it has {len(body)} bytes, the limit is {records.MOST_BYTES}")


def _too_many(what: Records) -> ContractError | None:
    count = len(what.records)
    if count > records.MOST_RECORDS:
        return ContractError("a writing of records", f"it has {count}, the limit is {records.MOST_RECORDS}")
    return next(filter(None, (_too_large(_name(one), one.body) for one in what.records)), None)


def _put_draft(db: sqlite3.Connection, draft: Draft, now: int) -> Refused | None:
    found = db.execute(_DRAFT_STANDS, (draft.ticket_no, draft.by, draft.session_id)).fetchone()
    if found is None:
        return NotFound("session", draft.session_id)
    n, version = found[0], found[1] or 0
    if draft.expected not in (None, version):
        whose = f"the draft of {draft.by} on ticket {draft.ticket_no} of {draft.session_id}"
        return Conflict(f"{whose} is at version {version}, not {draft.expected}")
    if draft.body is None:
        db.execute(_DROP_DRAFT, (n, draft.ticket_no, draft.by))
    else:
        db.execute(_PUT_DRAFT, (n, draft.ticket_no, draft.by, version + 1, now, draft.body))
    return None


def _put_records(db: sqlite3.Connection, puts: list[RecordPut]) -> Conflict | None:
    """Write all, or none: where one stands at another version, after those before it."""
    stands: dict[tuple[str, str], int] = {}
    for one in puts:
        key = (one.kind, one.name)
        version = stands[key] if key in stands else _version(db, key)
        if version != one.expected:
            return Conflict(f"{_name(one)} is at version {version}, not {one.expected}")
        stands[key] = 0 if one.body is None else version + 1
    for one in puts:
        if one.body is None:
            db.execute(_DROP_RECORD, (one.kind, one.name))
        else:
            db.execute(_PUT_RECORD, (one.kind, one.name, one.expected + 1, one.body))
    return None


def _version(db: sqlite3.Connection, key: tuple[str, str]) -> int:
    found = db.execute(_RECORD_STANDS, key).fetchone()
    return 0 if found is None else found[0]


def _name(one: RecordPut) -> str:
    return f"the {one.kind} {one.name}"


def find(
    db: sqlite3.Connection, query: FindDraft | FindRecord | FindRecords
) -> DraftRow | RecordRow | list[RecordRow] | None:
    """Return a draft, a record, or records of a kind."""
    match query:
        case FindDraft():
            found = db.execute(_DRAFT, (query.session_id, query.ticket_no, query.by)).fetchone()
            return None if found is None else DraftRow(version=found[0], at=found[1], body=found[2])
        case FindRecord():
            found = db.execute(_RECORD, (query.kind, query.name)).fetchone()
            return None if found is None else _record_row(found)
        case FindRecords():
            rows = db.execute(_RECORDS, (query.kind, query.after, query.limit))
            return [_record_row(row) for row in rows]
        case _:
            assert_never(query)


def _record_row(row: Any) -> RecordRow:
    kind, name, version, body = row
    return RecordRow(kind=kind, name=name, version=version, body=body)
