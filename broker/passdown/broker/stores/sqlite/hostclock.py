"""The store's time: one for all processes of a machine, whatever each of them takes the time to be.

A clock on the wall can be set, and a process can be shown another one than its neighbours. Were each
to write with its own, one that is a minute ahead would take over leases that live. So the time is counted
from the machine's start, which nobody can set and all see alike, and the database keeps what the wall
showed then (``clock``, for the start that ``boot`` names); whoever opens the store first after a start
notes it.

Only ticks compare with the wall again. Where it went ahead, the store's time follows at once (the tick
then postpones all leases by the jump); where it went back, the store's time goes on as before, a little
ahead of the wall, until the wall has caught up or the machine is started anew. So within one start of a
machine it never goes back, and nothing waits longer than it was given.

Where a machine does not tell when it was started, each process goes by the wall.
"""

import hashlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from passdown.broker.stores.sqlite import statements as sql
from passdown.broker.stores.sqlite.batch import Batch

#: How far the wall may be ahead before the store's time follows (milliseconds), as for any jump of a clock.
AHEAD_MS = 5_000

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Processes may be shown another time since the start as well (time_namespaces(7)).
_TIME_NAMESPACE = Path("/proc/self/ns/time")


class Clock(Protocol):
    """What tells a store the time, in milliseconds since the epoch."""

    def now(self, db: sqlite3.Connection) -> int:
        """Return the store's time."""
        ...

    def settled(self, db: sqlite3.Connection) -> bool:
        """Return whether all that is needed was noted; looks, and writes nothing."""
        ...

    def settle(self, batch: Batch) -> None:
        """Note what is needed, when a store is opened."""
        ...

    def follow(self, batch: Batch) -> None:
        """Follow the wall where it went ahead, when a tick asks."""
        ...


class GivenClock:
    """A clock that somebody else moves."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock

    def now(self, db: sqlite3.Connection) -> int:  # noqa: ARG002 - as the protocol says
        """Return what the clock shows."""
        return self._clock()

    def settled(self, db: sqlite3.Connection) -> bool:  # noqa: ARG002 - as the protocol says
        """Return that nothing needs to be noted."""
        return True

    def settle(self, batch: Batch) -> None:
        """Do nothing."""

    def follow(self, batch: Batch) -> None:
        """Do nothing: there is no other clock."""


def wall() -> int:
    """Return what the clock on the wall shows."""
    return time.time_ns() // 1_000_000


def since_start() -> int:
    """Return for how long this machine has been on; it counts while it sleeps, too."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def this_start() -> int | None:
    """Return a number that names this start of this machine; None where it does not tell."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    try:
        name = _BOOT_ID.read_bytes() + bytes(_TIME_NAMESPACE.readlink())
    except OSError:
        return None
    return int.from_bytes(hashlib.sha256(name).digest()[:7])


class HostClock:
    """Counts from the start of the machine."""

    def __init__(
        self,
        wall: Callable[[], int] = wall,
        since_start: Callable[[], int] = since_start,
        start: Callable[[], int | None] = this_start,
    ) -> None:
        self._wall = wall
        self._since_start = since_start
        self._start = start()

    def now(self, db: sqlite3.Connection) -> int:
        """Return the store's time; that of the wall before it was noted."""
        start, offset = db.execute(sql.HOST_CLOCK).fetchone()
        if start is None or start != self._start:
            return self._wall()
        return self._since_start() + offset

    def settled(self, db: sqlite3.Connection) -> bool:
        """Return whether it was noted what the wall shows at this start of the machine."""
        return self._start is None or db.execute(sql.HOST_CLOCK).fetchone()[0] == self._start

    def settle(self, batch: Batch) -> None:
        """Note it, unless somebody else did."""
        db = batch.settled()
        if not self.settled(db):
            db.execute(sql.PUT_MARK, ("boot", self._start))
            self._note(db, self._wall())

    def follow(self, batch: Batch) -> None:
        """Let the store's time jump to that of the wall, where that is far ahead."""
        now = self._wall()
        if self._start is not None and now - batch.now > AHEAD_MS:
            self._note(batch.settled(), now)
            batch.move(now)

    def _note(self, db: sqlite3.Connection, now: int) -> None:
        db.execute(sql.PUT_MARK, ("clock", now - self._since_start()))
