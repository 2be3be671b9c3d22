"""`SqliteStore`: the embedded store, in one file or in memory."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from passdown.broker.findings import Examination
from passdown.broker.stores import base, queries
from passdown.broker.stores.asked import require_put, require_query
from passdown.broker.stores.sqlite import filing, finding, forks, health, taking, ticking
from passdown.broker.stores.sqlite.batch import Batch
from passdown.broker.stores.sqlite.connections import Place, Readers
from passdown.broker.stores.sqlite.hostclock import Clock, GivenClock, HostClock
from passdown.broker.stores.sqlite.writer import Writer

T = TypeVar("T")


class SqliteStore:
    """A store in one SQLite file, or in memory (``:memory:``) for as long as the object lives.

    Any number of threads, and of processes on one machine, may use one file; it must not lie on a network
    file system. All of them see one time, which is counted from the start of the machine and never goes back
    within it, also where the clock on the wall is set or a process is shown another one (see `hostclock`).

    The time may step all the same: when the wall went ahead, and from one start of a machine to the next.
    Forward: the tick postpones leases by the jump. Backward: everything that waits for a time would wait
    longer by the step; the next tick sees that the time is behind the mark of the last one, and lets nothing
    last longer from then than it was given at first. So no lease ends early, and none lasts longer than its
    length from that tick on. Only ticks end leases.

    A process may be forked while stores are open: connections are closed before the fork and opened anew
    after it, on both sides. A store in memory stays with the parent; in the child it raises Unavailable.
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], int] | None = None) -> None:
        """Open the store, and make or upgrade its tables.

        ``clock`` returns milliseconds since the epoch, and takes the place of the machine's, for tests.
        Raises ContractError where the file is not a Passdown store or is of a newer version, Unavailable
        where it cannot be used now.
        """
        self._place = Place(path)
        self._clock: Clock = HostClock() if clock is None else GivenClock(clock)
        self._writer = Writer(self._place, self._clock.now)
        self._readers = Readers(self._place)
        self._asked: ticking.Asked | None = None
        self._unanswered_ms: int | None = 0
        self._paused = False
        # Whoever only looks must not wait for those who write.
        if self._place.in_memory or not self._readers.run(self._clock.settled):
            self._writer.run(self._clock.settle)
        forks.watch(self)

    @property
    def shards(self) -> int:
        """One: all sessions lie in one file."""
        return 1

    def load(self, session_id: str, command_id: str = "", command_digest: str = "") -> base.Loaded:
        """Return the session's state, and the recorded outcome of `command_id` if one is named."""
        return self._read(lambda db, now: finding.load(db, session_id, command_id, command_digest, now))

    def commit(
        self, commits: list[base.Commit], take: base.TakeRequest | None = None
    ) -> tuple[list[base.Outcome], base.Taken | None]:
        """Write each commit as one atomic step (each by itself), then take; all in one transaction."""
        if take is None:
            return self._writer.run(lambda batch: ([batch.add(commit) for commit in commits], None))

        def work(batch: Batch) -> tuple[list[base.Outcome], base.Taken]:
            outcomes = [batch.add(commit, taking=take.role) for commit in commits]
            return outcomes, taking.take(batch, take)

        return self._writer.run(work)

    def take(self, request: base.TakeRequest) -> base.Taken:
        """Reserve packs of a role, and clear its bell in the same transaction."""
        return self._writer.run(lambda batch: taking.take(batch, request))

    def hand_back(self, back: base.HandBack) -> None:
        """End a reservation; without effect where the pack was claimed or withdrawn meanwhile."""
        self._writer.run(lambda batch: taking.hand_back(batch, back))

    def renew(self, renewals: list[base.Renewal]) -> list[base.Verdict]:
        """Keep leases; a lease that ran out but was not declared lost yet is still good."""
        return self._writer.run(lambda batch: ticking.renew(batch, renewals))

    def due(self, request: base.DueRequest) -> base.Dues:
        """Reserve what is due, in order of time; an entry that is not dealt with comes again."""
        if not request.limit:
            return self._writer.run(lambda batch: ticking.only_telling(batch, request))
        called = time.monotonic()
        elapsed = None
        if request.elapsed_ms is not None and self._unanswered_ms is not None:
            elapsed = request.elapsed_ms + self._unanswered_ms
        last = self._asked

        def work(batch: Batch) -> tuple[base.Dues, ticking.Asked]:
            if elapsed is None:
                return ticking.due(batch, request, None, last)
            # Waiting for other writers took time, too, and must not look like a jump of the clock.
            waited = int((time.monotonic() - called) * 1000)
            self._clock.follow(batch)
            return ticking.due(batch, request, elapsed + waited, last)

        # What went by until an ask that got no answer still counts at the next one.
        self._unanswered_ms = elapsed
        dues, self._asked = self._writer.run(work)
        self._unanswered_ms = 0
        return dues

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return logged events in order, from seq `after` + 1."""
        return self._read(lambda db, _: finding.events(db, session_id, after, limit))

    def find(self, query: queries.Query) -> queries.Found:
        """Answer a query; each says what it answers."""
        require_query(query)
        return self._read(lambda db, now: finding.find(db, query, now))

    def put(self, what: base.Put) -> None:
        """Keep what stands beside sessions and their logs; each says what it is, and what it raises."""
        require_put(what)
        refused = self._writer.run(lambda batch: filing.put(batch, what))
        if refused is not None:
            raise refused

    #: What is acknowledged is on the disk (`synchronous=FULL`).
    may_lose = ""

    def examine(self) -> Examination:
        """Look at the file, the journal and the disk, and at how long ticks have been silent; changes nothing."""
        facts, now = self._read(lambda db, now: (health.look(db), now))
        return health.examine(self._place, facts, now)

    def close(self) -> None:
        """Let go of files and connections; waits for who is using one. Later calls raise Unavailable."""
        self._place.closed = "it was closed here; connect again"
        self._readers.pause()
        self._readers.resume()
        self._writer.pause()
        self._writer.resume()

    def _read(self, query: Callable[[sqlite3.Connection, int], T]) -> T:
        if self._place.in_memory:
            return self._writer.run(lambda batch: query(batch.settled(), batch.now))
        return self._readers.run(lambda db: query(db, self._clock.now(db)))

    # -- forks, see there --------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Close all connections, unless that would lose the store or wait for this very thread."""
        self._paused = not self._place.in_memory and not self._writer.leads_here()
        if self._paused:
            self._readers.pause()
            self._writer.pause()

    def after_fork_in_parent(self) -> None:
        """Go on, on new connections."""
        if self._paused:
            self._writer.resume()
            self._readers.resume()

    def after_fork_in_child(self) -> None:
        """Go on, on new connections; or refuse to, where the parent's could not be closed."""
        if not self._paused:
            self._place.closed = (
                "it was open in the process that this one was forked from; connect here, to a file"
            )
            self._writer.abandon()
            self._readers.abandon()
        self._readers.forget_callers()
