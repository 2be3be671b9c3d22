"""Joins: the record of each, and a row for each branch that marked itself (DESIGN §8).

A record keeps how many of its rows have which outcome, so neither marking a row nor telling whether the join
wakes looks at the other rows. One transaction reads a record once and writes it once, however many branches
mark their rows in it.
"""

import sqlite3
from typing import Any

import msgspec

from passdown.broker.stores.joining import UNENDED, WOKEN_MS, JoinClose, JoinPut, JoinRow, JoinSeen, Wake
from passdown.broker.stores.queries import FindJoin, FindRows, JoinRecord, RowOfJoin
from passdown.contracts.codec import encode
from passdown.contracts.ids import session_of

_MAKE = """
INSERT INTO joins (session_id, join_id, version, rewrites, reserved_until, counts, wakes)
VALUES (?, ?, 0, 0, 0, CAST('{}' AS BLOB), CAST('[]' AS BLOB))
"""

#: → j, version, rewrites, closed_at, check_at, counts, wakes
_LOOK_UP = """
SELECT j, version, rewrites, closed_at, check_at, counts, wakes FROM joins WHERE session_id = ? AND join_id = ?
"""

#: A check that is over takes its reservation along.
_WRITE = """
UPDATE joins SET version = ?1, rewrites = ?2, closed_at = ?3, check_at = ?4, counts = ?5, wakes = ?6,
                 reserved_until = iif(?4 IS NULL, 0, reserved_until)
WHERE j = ?7
"""

#: The columns of a RowOfJoin, in its order.
_ROW = "SELECT place, branch, session_id, outcome, written, about FROM join_rows WHERE j = ? AND place = ?"

#: The same of some places.
_ROWS = """
SELECT r.place, r.branch, r.session_id, r.outcome, r.written, r.about FROM joins j JOIN join_rows r ON r.j = j.j
WHERE j.session_id = ? AND j.join_id = ? AND r.place >= ? AND r.place < ? ORDER BY r.place
"""

_WRITE_ROW = """
INSERT OR REPLACE INTO join_rows (j, place, branch, session_id, outcome, written, about)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""

_SEEN = """
UPDATE joins SET check_at = NULL, reserved_until = 0 WHERE session_id = ? AND join_id = ? AND version <= ?
"""

#: Joins whose check has come. → j, session_id, 'join', join_id, version, check_at
DUE_NOW = """
SELECT j, session_id, 'join', join_id, version, check_at FROM joins
WHERE check_at <= :now AND reserved_until <= :now ORDER BY check_at, j LIMIT :limit
"""

RESERVE = "UPDATE joins SET reserved_until = ? WHERE j = ?"

_wakes = msgspec.json.Decoder(list[Wake])
_counts = msgspec.json.Decoder(dict[str, int])


class _Join:
    """A record as one transaction sees it: made from a row of _LOOK_UP."""

    def __init__(self, found: Any) -> None:
        self.j: int
        self.version: int
        self.rewrites: int
        self.closed_at: int | None
        self.check_at: int | None
        self.j, self.version, self.rewrites, self.closed_at, self.check_at, counts, wakes = found
        self.counts = _counts.decode(counts)
        self.wakes = _wakes.decode(wakes)
        self.changed = False
        #: The rows that were written in this transaction, by place.
        self.rows: dict[int, RowOfJoin] = {}

    def woken(self) -> bool:
        """Return whether one of its wakes holds."""
        counts = self.counts
        return any(sum(counts.get(one, 0) for one in wake.outcomes) >= wake.at for wake in self.wakes)

    def closes(self, close: JoinClose) -> bool:
        """Return whether it may be closed so: on rows that stand as they were read, and not in two ways."""
        as_read = close.rewrites == self.rewrites and close.upto <= self.version
        return as_read and self.closed_at in (None, close.upto)

    def write(self, row: JoinRow, was: RowOfJoin | None) -> bool:
        """Write a row over the one before it, unless that stays; return whether it was written."""
        if was is not None:
            closed_on = self.closed_at is not None and was.order <= self.closed_at
            kept = closed_on and was.outcome not in UNENDED
            if kept or (was.outcome, was.about) == (row.outcome, row.about):
                return False
            # Nothing is decided on a row whose branch has not ended: it must keep nobody from closing the join.
            self.rewrites += was.outcome not in UNENDED
            self._count(was.outcome, -1)
        self._count(row.outcome, 1)
        self.version += 1
        self.rows[row.place] = RowOfJoin(
            place=row.place,
            branch=row.branch,
            session_id=row.session_id,
            outcome=row.outcome,
            order=self.version,
            about=row.about,
        )
        return True

    def _count(self, outcome: str, by: int) -> None:
        count = self.counts.pop(outcome, 0) + by
        if count:
            self.counts[outcome] = count


class Joins:
    """The joins as one transaction sees them; changes are written by `flush`."""

    def __init__(self, db: sqlite3.Connection, now: int) -> None:
        self._db = db
        self._now = now
        self._known: dict[str, _Join | None] = {}

    def refuses(self, put: JoinPut) -> bool:
        """Return whether the join cannot be closed as `put` says."""
        if put.close is None:
            return False
        join = self._join(put.join_id)
        if join is None:
            return put.close != JoinClose(upto=0, rewrites=0)
        return not join.closes(put.close)

    def put(self, put: JoinPut) -> bool:
        """Make or change a join; return whether it is woken."""
        join = self._join(put.join_id)
        if join is None:
            join = self._make(put.join_id)
        else:
            join.version += 1
        join.changed = True
        join.wakes = put.wakes
        if put.close is not None:
            join.closed_at = put.close.upto
        woken = join.woken()
        if not woken:
            join.check_at = None
        elif join.check_at is None:
            join.check_at = self._now + WOKEN_MS
        return woken

    def mark(self, row: JoinRow) -> bool:
        """Write a branch's row, where there is such a join; return whether the join is woken by it."""
        join = self._join(row.join_id)
        if join is None or not join.write(row, join.rows.get(row.place) or self._row(join.j, row.place)):
            return False
        join.changed = True
        woken = join.woken()
        if woken and join.check_at is None:
            join.check_at = self._now + WOKEN_MS
        return woken

    def flush(self) -> None:
        """Write what changed, and forget the rest: others may write next."""
        for join in self._known.values():
            if join is not None and join.changed:
                self._write(join)
        self._known.clear()

    def _join(self, join_id: str) -> _Join | None:
        if join_id not in self._known:
            found = self._db.execute(_LOOK_UP, (session_of(join_id), join_id)).fetchone()
            self._known[join_id] = None if found is None else _Join(found)
        return self._known[join_id]

    def _make(self, join_id: str) -> _Join:
        names = (session_of(join_id), join_id)
        self._db.execute(_MAKE, names)
        made = self._known[join_id] = _Join(self._db.execute(_LOOK_UP, names).fetchone())
        return made

    def _row(self, j: int, place: int) -> RowOfJoin | None:
        found = self._db.execute(_ROW, (j, place)).fetchone()
        return None if found is None else _row_of_join(found)

    def _write(self, join: _Join) -> None:
        rows = [
            (join.j, row.place, row.branch, row.session_id, row.outcome, row.order, row.about)
            for row in join.rows.values()
        ]
        if rows:
            self._db.executemany(_WRITE_ROW, rows)
        stands = (join.version, join.rewrites, join.closed_at, join.check_at)
        self._db.execute(_WRITE, (*stands, encode(join.counts), encode(join.wakes), join.j))


def seen(db: sqlite3.Connection, what: JoinSeen) -> None:
    """End the check of a join that has no later rows."""
    db.execute(_SEEN, (session_of(what.join_id), what.join_id, what.version))


def find(db: sqlite3.Connection, query: FindJoin | FindRows) -> JoinRecord | list[RowOfJoin] | None:
    """Return how a join stands, or rows of it."""
    return _rows(db, query) if isinstance(query, FindRows) else _record(db, query.join_id)


def _record(db: sqlite3.Connection, join_id: str) -> JoinRecord | None:
    found = db.execute(_LOOK_UP, (session_of(join_id), join_id)).fetchone()
    if found is None:
        return None
    join = _Join(found)
    return JoinRecord(
        join_id=join_id,
        version=join.version,
        rewrites=join.rewrites,
        counts=join.counts,
        closed_at=join.closed_at,
    )


def _rows(db: sqlite3.Connection, query: FindRows) -> list[RowOfJoin]:
    places = (query.first, query.first + query.places)
    found = db.execute(_ROWS, (session_of(query.join_id), query.join_id, *places))
    return [_row_of_join(row) for row in found]


def _row_of_join(row: Any) -> RowOfJoin:
    return RowOfJoin(**dict(zip(RowOfJoin.__struct_fields__, row, strict=True)))
