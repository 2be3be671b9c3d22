"""Writing what belongs to no session's commit: documents, quarantined messages, counts."""

import sqlite3
from typing import assert_never

from passdown.broker.stores.base import Count, Documents, Put, Quarantine
from passdown.broker.stores.sqlite import statements as sql
from passdown.broker.stores.sqlite.batch import Batch
from passdown.contracts.codec import encode


def put(batch: Batch, what: Put) -> None:
    """Keep what was brought."""
    db = batch.settled()
    match what:
        case Documents():
            _register(db, what)
        case Quarantine():
            db.execute(sql.ADD_QUARANTINE, (batch.now, what.source, what.reason, what.body))
        case Count():
            db.execute(sql.COUNT, (what.session_id, what.name))
        case _:
            assert_never(what)


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
