"""Taking packs off a role queue, and handing them back."""

import sqlite3
from typing import NamedTuple

from passdown.broker.stores.base import HandBack, Taken, TakenPack, TakeRequest
from passdown.broker.stores.sqlite import statements as sql
from passdown.broker.stores.sqlite.batch import Batch


class _Candidate(NamedTuple):
    n: int
    step: int
    attempt: int
    command_id: str
    task_id: str
    solo: int


class _Room:
    """What the limits leave: counted from claims and reservations, then down by what is chosen."""

    def __init__(self, db: sqlite3.Connection, request: TakeRequest, now: int) -> None:
        self._task_limit = request.task_limit
        self._in_role: int | None = None
        self._running: dict[str, int] = {}
        if request.role_limit:
            counted = db.execute(sql.RUNNING_IN_ROLE, {"role": request.role, "now": now}).fetchone()
            self._in_role = request.role_limit - counted[0]
        if request.task_limit:
            self._running = dict(db.execute(sql.RUNNING_BY_TASK, (now,)).fetchall())

    def none(self) -> bool:
        return self._in_role is not None and self._in_role <= 0

    def has(self, one: _Candidate) -> bool:
        return not self._task_limit or self._running.get(one.task_id, 0) < self._task_limit

    def fill(self, one: _Candidate) -> None:
        if self._in_role is not None:
            self._in_role -= 1
        if self._task_limit:
            self._running[one.task_id] = self._running.get(one.task_id, 0) + 1


def take(batch: Batch, request: TakeRequest) -> Taken:
    """Reserve what may be taken, and clear the role's bell; writes nothing where there is nothing to change."""
    db = batch.settled()
    chosen, more = _choose(db, request, batch.now)
    if chosen:
        until, length = batch.now + request.claim_by_ms, request.claim_by_ms
        db.executemany(sql.RESERVE, [(one.n, request.role, one.task_id, until, length) for one in chosen])
    batch.bells.answered(request.role, 0 if chosen or more else request.linger_ms)
    catalog: int = db.execute(sql.CATALOG_VERSION).fetchone()[0]
    return Taken(packs=[_pack(db, one) for one in chosen], more=more, now=batch.now, catalog=catalog)


def hand_back(batch: Batch, back: HandBack) -> None:
    """End a reservation, and keep the pack from being taken for a while."""
    db = batch.settled()
    found = db.execute(sql.QUEUED, (back.session_id, back.step, back.attempt)).fetchone()
    if found is not None:
        db.execute(sql.FREE, (found[0],))
        db.execute(sql.POSTPONE, (batch.now + back.after_ms, back.after_ms, back.why, *found))


def _choose(db: sqlite3.Connection, request: TakeRequest, now: int) -> tuple[list[_Candidate], bool]:
    """Return what to take, and whether some drain may take more (solo packs: one that holds nothing)."""
    room = _Room(db, request, now)
    chosen: list[_Candidate] = []
    left = False
    rows = db.execute(sql.TAKEABLE, {"role": request.role, "now": now})
    for one in map(_Candidate._make, rows):
        if room.none():
            return chosen, False
        if not room.has(one):
            continue
        if len(chosen) >= request.slots or (chosen and chosen[0].solo):
            return chosen, True
        if one.solo and (chosen or request.holding):
            left = True
            continue
        chosen.append(one)
        room.fill(one)
    return chosen, left and not room.none()


def _pack(db: sqlite3.Connection, one: _Candidate) -> TakenPack:
    found = db.execute(sql.PACK_AND_STATE, (one.command_id, one.n)).fetchone()
    session_id, state, version, pack = found
    return TakenPack(
        session_id=session_id,
        step=one.step,
        attempt=one.attempt,
        pack=pack,
        state=state,
        version=version,
        solo=bool(one.solo),
    )
