"""How many packs wait for a role. Counting a long queue takes long, so it is counted now and then."""

import sqlite3
import time
from collections.abc import Callable
from typing import NamedTuple

from passdown.broker.stores.sqlite import statements as sql

#: For how long a count is good, with what this process adds to it; before a refusal (milliseconds).
_GOOD_MS, _GOOD_TO_REFUSE_MS = 1_000, 100
#: It is good for so many times what it took, at least: nobody else writes meanwhile. Counting a million packs takes 45 ms.
_TIMES = 20
#: So many roles are counted at once.
MOST_ROLES = 1_000


class _Count(NamedTuple):
    """How many waited at a time of the store's (ms), and for how long that is good at least (ms)."""

    at: int
    waiting: int
    least_ms: int


class Depths:
    """The counts of one process; what others take and add is seen with the next count. ``monotonic`` (seconds) is for tests."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._counted: dict[str, _Count] = {}

    def room(self, db: sqlite3.Connection, role: str, now: int, most: int) -> int | None:
        """Return None where fewer than `most` packs wait, and count one more; else how many do."""
        count = self._counted.get(role)
        if count is None or not count.at <= now < count.at + self._good_ms(count, most):
            count = self._count(db, role, now)
        full = count.waiting >= most
        self._counted[role] = count if full else count._replace(waiting=count.waiting + 1)
        return count.waiting if full else None

    def _good_ms(self, count: _Count, most: int) -> int:
        return max(count.least_ms, _GOOD_MS if count.waiting < most else _GOOD_TO_REFUSE_MS)

    def _count(self, db: sqlite3.Connection, role: str, now: int) -> _Count:
        began = self._monotonic()
        waiting: int = db.execute(sql.WAITING, (role,)).fetchone()[0]
        took_s = self._monotonic() - began
        # The newest is the last: where there are too many, the oldest goes.
        self._counted.pop(role, None)
        while len(self._counted) >= MOST_ROLES:
            del self._counted[next(iter(self._counted))]
        return _Count(now, waiting, int(took_s * 1000 * _TIMES))
