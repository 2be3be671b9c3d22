"""Doorbells: which roles' pools must be told that there is work (DESIGN §4).

Per role the store keeps until when it counts as rung. Who makes a pack takeable rings only if that time
has passed, and sets it a few seconds ahead; a take clears it in the transaction in which it reads the
queue. So a commit after the last, empty take always rings, and a thousand commits before it ring once. A
ring that was lost with its message is made good by the tick, less and less often while no pool answers.
"""

import sqlite3

from passdown.broker.stores.sqlite import statements as sql

#: For how long a commit's ring counts.
RUNG_MS = 5_000
#: How far apart the tick's rings get where no pool answers.
MOST_BACKOFF_MS = 60_000


class Bells:
    """The bells as one transaction sees them; changes are written by `flush`."""

    def __init__(self, db: sqlite3.Connection, now: int) -> None:
        self._db = db
        self._now = now
        self._known: dict[str, tuple[int, int]] = {}
        self._changed: set[str] = set()

    def silent(self, role: str) -> bool:
        """Return whether a ring of this role would tell its pool anything new."""
        rung_until, _ = self._bell(role)
        # One that is further ahead than any ring reaches was set before the clock stepped back.
        return not self._now < rung_until <= self._now + MOST_BACKOFF_MS

    def rung_until(self, role: str) -> int:
        """Return until when the role counts as rung."""
        return self._bell(role)[0]

    def ring(self, role: str) -> None:
        """Count the role as rung by a commit."""
        self._set(role, self._now + RUNG_MS, self._bell(role)[1])

    def ring_again(self, role: str) -> None:
        """Count the role as rung by the tick, for twice as long as the last time."""
        backoff = min(MOST_BACKOFF_MS, 2 * max(RUNG_MS, self._bell(role)[1]))
        self._set(role, self._now + backoff, backoff)

    def answered(self, role: str, linger_ms: int = 0) -> None:
        """Clear the bell, since a pool takes; writes nothing where that changes nothing.

        With `linger_ms` it counts as rung for that long: the drain looks again by itself.
        """
        rung_until, backoff = self._bell(role)
        if linger_ms:
            if self.silent(role) or rung_until < self._now + linger_ms or backoff:
                self._set(role, self._now + linger_ms, 0)
        elif rung_until > self._now or backoff:
            self._set(role, 0, 0)

    def flush(self) -> None:
        """Write the bells that changed."""
        if self._changed:
            self._db.executemany(sql.PUT_BELL, [(role, *self._known[role]) for role in self._changed])
            self._changed.clear()

    def _bell(self, role: str) -> tuple[int, int]:
        bell = self._known.get(role)
        if bell is None:
            bell = self._known[role] = self._db.execute(sql.BELL, (role,)).fetchone() or (0, 0)
        return bell

    def _set(self, role: str, rung_until: int, backoff: int) -> None:
        self._known[role] = (rung_until, backoff)
        self._changed.add(role)
