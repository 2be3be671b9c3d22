"""Tickets: a row for each open one, and the lanes in which those that may be claimed are on offer (DESIGN §9).

Those on offer stand in an index of their own by lane and order, which is where the next one is found: neither the
names of the lanes nor the first tickets of each are looked for among all. A ticket that is held or snoozed is not in it.
"""

import contextlib
import heapq
import sqlite3
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any, assert_never

import msgspec

from passdown.broker.stores.queries import FindLanes, FindOffered, FindTickets, LaneRow, TicketRow
from passdown.contracts.codec import encode

#: By these a ticket is filed; a claim changes none of them.
_FILED = ("session_id", "ticket_no", "queue", "opened_at")
_MOVING = (
    "version",
    "kind",
    "why",
    "about",
    "priority",
    "due_at",
    "holder",
    "until",
    "level",
    "lapses",
    "lane",
    "order",
    "excluded",
)
_FIELDS = (*_FILED, *_MOVING)

#: A ticket as a row of the table: the values of `_FIELDS`.
Columns = tuple[Any, ...]

#: The columns of `_FIELDS`, in their order.
_TICKET = """
SELECT t.session_id, t.ticket_no, t.queue, t.opened_at, t.version, t.kind, t.why, t.about, t.priority, t.due_at,
       t.holder, t.until, t.level, t.lapses, t.lane, t."order", t.excluded
FROM tickets t
"""

OF_SESSION = f"{_TICKET} WHERE t.n = ?"

#: The columns, and the session's number.
PUT = """
INSERT OR REPLACE INTO tickets (session_id, ticket_no, queue, opened_at, version, kind, why, about, priority, due_at,
                                holder, until, level, lapses, lane, "order", excluded, n)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

#: Those of `_MOVING`, and which ticket: the indexes of what it is filed by are not written.
CHANGE = """
UPDATE tickets SET version = ?, kind = ?, why = ?, about = ?, priority = ?, due_at = ?, holder = ?, until = ?,
                   level = ?, lapses = ?, lane = ?, "order" = ?, excluded = ?
WHERE n = ? AND ticket_no = ?
"""

DROP = "DELETE FROM tickets WHERE n = ? AND ticket_no = ?"

#: The lanes, by hopping from one to the next: a long one costs no more than a short one.
_LANES = """
WITH RECURSIVE found (lane) AS (
    SELECT min(lane) FROM tickets WHERE lane <> ''
    UNION ALL
    SELECT (SELECT min(t.lane) FROM tickets t WHERE t.lane > found.lane AND t.lane <> '') FROM found
    WHERE found.lane IS NOT NULL
)
SELECT lane, 0 FROM found WHERE lane IS NOT NULL
"""

_COUNTED = "SELECT lane, count(*) FROM tickets WHERE lane <> '' GROUP BY lane"

#: Of one lane, after a place in it.
_OFFERED = f"""{_TICKET}
WHERE t.lane = ? AND t.lane <> '' AND (t."order", t.session_id, t.ticket_no) > (?, ?, ?)
ORDER BY t."order", t.session_id, t.ticket_no LIMIT ?
"""

_NOBODY = b"[]"
_excluded = msgspec.json.Decoder(list[str])


def columns_of(ticket: TicketRow) -> Columns:
    """Return a ticket as it stands in the table."""
    excluded = encode(ticket.excluded) if ticket.excluded else _NOBODY
    return (*(getattr(ticket, name) for name in _FIELDS[:-1]), excluded)


def written(n: int, was: Columns | None, columns: Columns) -> tuple[str, Columns]:
    """Return the statement and its values that write a ticket of session `n` over what stands (None: nothing)."""
    filed = len(_FILED)
    if was is None or was[:filed] != columns[:filed]:
        return PUT, (*columns, n)
    return CHANGE, (*columns[filed:], n, columns[1])


def find(
    db: sqlite3.Connection, query: FindTickets | FindLanes | FindOffered
) -> list[TicketRow] | list[LaneRow]:
    """Return open tickets, the lanes in which any is on offer, or those that are."""
    match query:
        case FindTickets():
            return _open(db, query)
        case FindLanes():
            rows = db.execute(_COUNTED if query.counted else _LANES)
            return [LaneRow(lane=lane, waiting=waiting) for lane, waiting in rows]
        case FindOffered():
            return _offered(db, query)
        case _:
            assert_never(query)


def _open(db: sqlite3.Connection, query: FindTickets) -> list[TicketRow]:
    """Oldest first. A plus keeps SQLite from an index: a session has the fewest tickets, and a person fewer than a queue."""
    wheres: list[str] = []
    values: list[object] = []
    if query.session_id is not None:
        wheres.append("t.n = (SELECT s.n FROM sessions s WHERE s.session_id = ?)")
        values.append(query.session_id)
    if query.holder is not None:
        # Of those that nobody holds there is no index.
        held = "t.holder = ? AND t.holder <> ''" if query.holder else "t.holder = ?"
        wheres.append(f"+{held}" if values else held)
        values.append(query.holder)
    if query.queue is not None:
        wheres.append("+t.queue = ?" if values else "t.queue = ?")
        values.append(query.queue)
    where = f"WHERE {' AND '.join(wheres)}" if wheres else ""
    order = "ORDER BY t.opened_at, t.n, t.ticket_no LIMIT ?"
    rows = db.execute(f"{_TICKET} {where} {order}", [*values, query.limit])
    return [_ticket_row(row) for row in rows]


def _offered(db: sqlite3.Connection, query: FindOffered) -> list[TicketRow]:
    """Each lane is read a few tickets at a time, as far as the merged order needs it."""
    names = list(dict.fromkeys(query.lanes))
    few = query.limit // max(1, len(names)) + 1
    with _one_look(db):
        lanes = [_in_lane(db, name, query.after, few) for name in names]
        rows = heapq.merge(*lanes, key=_place)
        return [_ticket_row(row) for row in islice(rows, query.limit)]


def _in_lane(db: sqlite3.Connection, lane: str, after: str, few: int) -> Iterator[Columns]:
    # Every text comes before a blob: at first nothing follows in the same order.
    place: tuple[str, str | bytes, int] = (after, b"", 0)
    while True:
        rows = db.execute(_OFFERED, (lane, *place, few)).fetchall()
        yield from rows
        if len(rows) < few:
            return
        place = _place(rows[-1])


def _place(row: Columns) -> tuple[str, str, int]:
    session_id, ticket_no, *_, order, _ = row
    return order, session_id, ticket_no


@contextlib.contextmanager
def _one_look(db: sqlite3.Connection) -> Generator[None]:
    """Let several statements see the store at one moment: a ticket that changes lanes is found once."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("COMMIT")


def _ticket_row(row: Columns) -> TicketRow:
    *plain, excluded = row
    named = dict(zip(_FIELDS[:-1], plain, strict=True))
    return TicketRow(**named, excluded=_excluded.decode(excluded))
