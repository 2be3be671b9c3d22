"""Writing what belongs to no session's commit: documents, quarantined messages, counts, pages, drafts, records, what was told and seen, removal."""

import sqlite3
from typing import assert_never

from passdown.broker.stores import base
from passdown.broker.stores.base import Count, Documents, Drop, Put, Quarantine, Remove, Told
from passdown.broker.stores.joining import JoinSeen, Page
from passdown.broker.stores.records import Draft, Records
from passdown.broker.stores.sqlite import joins, records, removal
from passdown.broker.stores.sqlite import statements as sql
from passdown.broker.stores.sqlite.batch import Batch
from passdown.contracts.codec import encode

#: What is never refused.
_Kept = Documents | Quarantine | Count | Drop | Told | Remove | JoinSeen | Page


def put(batch: Batch, what: Put) -> records.Refused | None:
    """Keep what was brought; return why it was refused, where it was: then nothing of it is written."""
    db = batch.settled()
    if isinstance(what, Draft | Records):
        return records.put(db, what, batch.now)
    _keep(db, what, batch.now)
    return None


def _keep(db: sqlite3.Connection, what: _Kept, now: int) -> None:
    match what:
        case Documents():
            _register(db, what)
        case Quarantine():
            db.execute(sql.NEXT_QUARANTINE)
            db.execute(sql.ADD_QUARANTINE, (now, what.source, what.reason, what.body))
            db.execute(sql.BOUND_QUARANTINE, (base.MOST_QUARANTINED,))
        case Drop():
            db.execute(sql.DROP_QUARANTINE, (what.id,))
        case Count():
            db.execute(sql.COUNT, (what.session_id, what.name))
        case Told():
            _told(db, what, now)
        case Remove():
            _remove(db, what, now)
        case JoinSeen():
            joins.seen(db, what)
        case Page():
            db.execute(sql.PUT_PAGE, (what.session_id, what.name, what.number, what.body))
            db.execute(removal.NOTE_UNOPENED, (what.session_id, now))
        case _:
            assert_never(what)


def _told(db: sqlite3.Connection, what: Told, now: int) -> None:
    """Note up to where a log was told; where that is not all of it, the session is due for telling at once."""
    seen = {"session": what.session_id, "seq": what.seq, "now": now}
    db.execute(sql.TOLD, seen)
    db.execute(sql.DROP_TELLING, seen)
    db.execute(sql.TELL_ON, seen)


def _remove(db: sqlite3.Connection, what: Remove, now: int) -> None:
    """Remove a session that rests at that version, and keep the command that opened it for a while."""
    found = db.execute(removal.REMOVABLE, (what.session_id, what.version)).fetchone()
    if found is None:
        return
    (n,) = found
    kept = (what.session_id, what.status, now + what.keep_ms, what.keep_ms, n)
    db.execute(removal.KEEP_OPENING, kept)
    for statement in removal.REMOVE_BESIDE:
        db.execute(statement, (what.session_id,))
    for statement in removal.REMOVE:
        db.execute(statement, (n,))


def _register(db: sqlite3.Connection, documents: Documents) -> None:
    """Keep documents by digest and make them current; the catalog rises where a name changed its meaning."""
    named = [("plan", str(ref), ref.digest, body) for ref, body in documents.plans]
    named += [("tool", spec.name, digest, encode(spec)) for digest, spec in documents.tools]
    changed = 0
    for kind, name, digest, body in named:
        db.execute(sql.ADD_DOCUMENT, (digest, body))
        changed += db.execute(sql.MAKE_CURRENT, (kind, name, digest)).rowcount
    if changed:
        db.execute(sql.RAISE_CATALOG)
