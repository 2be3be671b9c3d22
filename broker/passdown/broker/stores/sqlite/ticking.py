"""Leases, due entries and checks of joins: keeping them, handing out what ran out, and the steps of the clock.

The tick tells by its monotonic clock how long ago it asked last. What the store's clock went ahead beyond
that is a jump, and leases that were set before it are postponed by it. The database keeps when any tick
asked last, and by how much leases were postponed so far; the store object remembers both as of its own
last ask. So a jump that another tick dealt with is told from one that nobody saw, however far apart the
ticks ask.

The mark is written at most once a second. An older mark makes a jump look larger by no more than that,
which the slack of five seconds covers: none is invented.
"""

import sqlite3
from typing import Any, NamedTuple

from passdown.broker.stores.base import DueNow, DueRequest, Dues, Renewal, ToTell, Verdict
from passdown.broker.stores.joining import PAGES_WAIT_MS
from passdown.broker.stores.sqlite import joins, removal
from passdown.broker.stores.sqlite import statements as sql
from passdown.broker.stores.sqlite.batch import Batch
from passdown.broker.stores.sqlite.packed import decode_dues
from passdown.contracts.codec import encode

#: What a clock may gain between two asks before it counts as a jump (ticks and disks stall, too).
SLACK_MS = 5_000
#: How old the mark of the last ask may get.
MARK_MS = 1_000
MOST_NEXT_MS = 60_000
#: How many sessions that were removed long ago one ask forgets at most.
MOST_FORGOTTEN = 1_000
#: How many pages of sessions that were never opened, each some hundred KiB: SQLite reads what it lets go of.
MOST_PAGES = 100


class Asked(NamedTuple):
    """The marks as a tick saw them last: the store's time, and by how much leases were postponed till then."""

    at: int
    postponed: int


def renew(batch: Batch, renewals: list[Renewal]) -> list[Verdict]:
    """Keep leases. A lease that ran out is good as long as nobody declared the claim lost."""
    db = batch.settled()
    return [_renew(db, one, batch.now) for one in renewals]


def only_telling(batch: Batch, request: DueRequest) -> Dues:
    """Reserve only what is to be told: no other part of a tick's ask is done."""
    tell, more = _reserve_telling(batch.settled(), request, batch.now)
    return Dues(entries=[], ring=[], now=batch.now, next_ms=0 if more else MOST_NEXT_MS, tell=tell)


def due(batch: Batch, request: DueRequest, elapsed: int | None, last: Asked | None) -> tuple[Dues, Asked]:
    """Reserve what is due and ring where packs wait; return the marks to remember as well.

    ``elapsed`` is how many milliseconds ago this tick was answered last (None: nobody knows).
    """
    db = batch.settled()
    now = batch.now
    tell, more = _reserve_telling(db, request, now)
    jump, asked = _check_clock(db, now, elapsed, last)
    more = _forget(db, now) or more
    entries, next_at = _reserve(db, request, now)
    ring, ready_at = _ring(batch, db)
    next_ms = 0 if more else max(0, min(MOST_NEXT_MS, next_at - now, ready_at - now))
    return Dues(entries=entries, ring=ring, now=now, next_ms=next_ms, postponed_ms=jump, tell=tell), asked


def _forget(db: sqlite3.Connection, now: int) -> bool:
    """Forget what nobody needs any more; return whether there are more pages to forget."""
    if db.execute(sql.ANY_TOLD, (now,)).fetchone()[0]:
        db.execute(sql.FORGET_TOLD, (now,))
    db.execute(removal.FORGET_REMOVED, (now, MOST_FORGOTTEN))
    unopened = db.execute(removal.UNOPENED, (now - PAGES_WAIT_MS, MOST_FORGOTTEN)).fetchall()
    left = MOST_PAGES
    for (session_id,) in unopened:
        left -= db.execute(removal.FORGET_PAGES, (session_id, left)).rowcount
        if not left:
            return True
        db.execute(removal.FORGET_UNOPENED, (session_id,))
    return len(unopened) == MOST_FORGOTTEN


def _renew(db: sqlite3.Connection, one: Renewal, now: int) -> Verdict:
    found = db.execute(sql.LEASE_OF, (one.session_id,)).fetchone()
    if found is None:
        return "lost"
    n, claim_id, standing, runs_out = found
    if claim_id != one.claim_id or (standing == "told" and runs_out <= now):
        return "lost"
    if standing != "held":
        return "cancelled"
    db.execute(sql.RENEW, (now + one.lease_ms, one.lease_ms, n))
    return "held"


def _reserve(db: sqlite3.Connection, request: DueRequest, now: int) -> tuple[list[DueNow], int]:
    """Reserve what is due, in order of time; return it, and when to look again (store milliseconds)."""
    seen = {"now": now, "limit": request.limit + 1}
    rows: list[Any] = []
    for statement in (sql.DUE_NOW, sql.RAN_OUT, joins.DUE_NOW):
        rows += db.execute(statement, seen)
    rows.sort(key=lambda row: row[5])
    chosen = rows[: request.limit]
    until = now + request.reserve_ms
    for kind, statement in (("lease", sql.RESERVE_LEASE), ("join", joins.RESERVE)):
        reserved = [(until, row[0]) for row in chosen if row[2] == kind]
        if reserved:
            db.executemany(statement, reserved)
    dues = [(until, row[5], row[0], row[2], row[3]) for row in chosen if row[2] not in ("lease", "join")]
    if dues:
        db.executemany(sql.RESERVE_DUE, dues)
    entries = [DueNow(session_id=row[1], kind=row[2], subject=row[3], at=row[4]) for row in chosen]
    if len(rows) > request.limit:
        return entries, now
    next_at = db.execute(sql.NEXT_DUE, {"now": now}).fetchone()[0]
    return entries, now + MOST_NEXT_MS if next_at is None else next_at


def _reserve_telling(db: sqlite3.Connection, request: DueRequest, now: int) -> tuple[list[ToTell], bool]:
    """Reserve sessions of which something is to be told; return them, and whether there are more."""
    if not request.tell:
        return [], False
    rows = db.execute(sql.TO_TELL, (now, request.tell + 1)).fetchall()
    chosen = rows[: request.tell]
    if chosen:
        until = now + request.reserve_ms
        db.executemany(sql.RESERVE_TELLING, [(until, row[0]) for row in chosen])
    return [ToTell(session_id=row[1], after=row[2], upto=row[3]) for row in chosen], len(rows) > len(chosen)


def _ring(batch: Batch, db: sqlite3.Connection) -> tuple[list[str], int]:
    """Return the roles in which packs wait in vain, and when the next ring may be due (store milliseconds)."""
    now = batch.now
    ring: list[str] = []
    next_at = now + MOST_NEXT_MS
    for (role,) in db.execute(sql.QUEUED_ROLES).fetchall():
        if not db.execute(sql.READY, {"role": role, "now": now}).fetchone()[0]:
            next_at = min(next_at, db.execute(sql.READY_AT, (role,)).fetchone()[0])
            continue
        if batch.bells.silent(role):
            batch.bells.ring_again(role)
            ring.append(role)
        next_at = min(next_at, batch.bells.rung_until(role))
    return ring, next_at


# -- the clock ---------------------------------------------------------------------------------------------


def _check_clock(
    db: sqlite3.Connection, now: int, elapsed: int | None, last: Asked | None
) -> tuple[int, Asked]:
    """Deal with a step of the clock; return by how much leases were postponed, and the marks from here on.

    Below zero: the clock stepped back by so much. Then nothing lasts longer from now than it was given,
    however far in the future its end seemed to lie; nothing ends earlier for it.
    """
    asked_at, postponed = db.execute(sql.MARKS).fetchone()
    if asked_at is not None and now < asked_at:
        step = now - asked_at
        for statement in sql.STEPPED_BACK:
            db.execute(statement, {"now": now, "back": -step} if ":back" in statement else {"now": now})
        _draw_in_dues(db, now)
    else:
        step = _jump(now, elapsed, None if asked_at is None else Asked(asked_at, postponed), last)
        if step:
            db.execute(sql.POSTPONE_LEASES, {"now": now, "jump": step})
    if step:
        db.execute(sql.PUT_MARK, ("postponed", postponed + step))
    if step or asked_at is None or now - asked_at >= MARK_MS:
        db.execute(sql.PUT_MARK, ("asked_at", now))
    return step, Asked(now, postponed + step)


def _draw_in_dues(db: sqlite3.Connection, now: int) -> None:
    """Let no due entry be further away than it was given; it stands in two places."""
    for due_at, n, kind, subject, at, length_ms in db.execute(sql.DUES_TOO_FAR, (now,)).fetchall():
        db.execute(sql.DROP_DUE, (due_at, n, kind, subject))
        db.execute(sql.PUT_DUE, (now + length_ms, n, kind, subject, at, length_ms))
        (standing,) = db.execute(sql.DUES_OF, (n,)).fetchone()
        keys = [
            key if key[:2] != (kind, subject) else (*key[:3], now + length_ms)
            for key in decode_dues(standing)
        ]
        db.execute(sql.PUT_DUES_OF, (encode(keys), n))


def _jump(now: int, elapsed: int | None, any_tick: Asked | None, last: Asked | None) -> int:
    """Return how far the clock jumped ahead unseen (0: it did not, as far as anyone can tell).

    Since any tick's last ask at most ``elapsed`` went by, so what is beyond that is a jump. Since this
    tick's own last ask exactly ``elapsed`` went by, so what is beyond that is a jump, less what others
    dealt with meanwhile. The first needs no memory, the second misses nothing between two far asks.
    """
    if elapsed is None or any_tick is None:
        return 0
    jump = now - any_tick.at - elapsed
    if last is not None:
        dealt_with = any_tick.postponed - last.postponed
        jump = max(jump, now - last.at - elapsed - dealt_with)
    return jump if jump > SLACK_MS else 0
