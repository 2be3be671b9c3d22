"""Turn what is due into commands, and ring where packs wait in vain. Run as many as you like, without a leader.

A due entry is reserved while it is dealt with and comes again if it is not; the command names the due
time that was seen, and `decide` ignores one that no longer applies (DESIGN §4).
"""

import random
import threading
import time
from collections.abc import Callable

import structlog

from passdown.broker.controller import Controller
from passdown.broker.stores.base import DueNow, DueRequest
from passdown.contracts import commands as cmd
from passdown.contracts.codec import Record
from passdown.contracts.errors import PassdownError, Unavailable

TICK = "service:tick"

_log = structlog.get_logger("passdown.tick")


class Swept(Record, frozen=True, kw_only=True):
    """What one pass did. ``wait_ms``: until the next is worth it."""

    done: int = 0
    failed: int = 0
    rung: list[str] = []
    wait_ms: int = 0


class Tick:
    """Sweeps due entries. ``reserve_ms``: how long an entry is left alone after a pass that failed on it."""

    def __init__(
        self,
        controller: Controller,
        *,
        batch: int = 200,
        reserve_ms: int = 3_000,
        most_wait_ms: int = 1_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller = controller
        self._batch = batch
        self._reserve_ms = reserve_ms
        self._most_wait_ms = most_wait_ms
        self._monotonic = monotonic
        self._asked: float | None = None
        #: The store's answers so far: health is the last successful poll, not a living process.
        self.polled_at = 0.0

    def once(self) -> Swept:
        """Make one pass. Raises Unavailable where the store is away."""
        now = self._monotonic()
        elapsed = None if self._asked is None else int((now - self._asked) * 1000)
        self._asked = now
        found = self._controller.store.due(
            DueRequest(limit=self._batch, reserve_ms=self._reserve_ms, elapsed_ms=elapsed)
        )
        self.polled_at = self._monotonic()
        if found.postponed_ms:
            _log.warning("tick.clock_jumped", leases_postponed_ms=found.postponed_ms)
        done = sum(self._deal(entry) for entry in found.entries)
        for role in found.ring:
            self._controller.ring(role)
        full = len(found.entries) >= self._batch
        wait = 0 if full else min(found.next_ms, self._most_wait_ms)
        return Swept(done=done, failed=len(found.entries) - done, rung=found.ring, wait_ms=wait)

    def _deal(self, entry: DueNow) -> bool:
        """Carry out one entry; a fault with one is said, and leaves the others alone."""
        body = cmd.Due(kind=entry.kind, subject=entry.subject, due_at=entry.at)
        try:
            self._controller.run(entry.session_id, body, TICK)
        except PassdownError as error:
            _log.warning("tick.failed", session=entry.session_id, kind=entry.kind, error=str(error))
            return False
        except Exception:  # noqa: BLE001 - one broken entry must not stop the sweep
            _log.exception("tick.broken", session=entry.session_id, kind=entry.kind)
            return False
        return True

    def run(self, stop: threading.Event) -> None:
        """Sweep until `stop` is set; where the store is away, try again for ever, and say so."""
        failures = 0
        while not stop.is_set():
            try:
                wait_ms = self.once().wait_ms
                failures = 0
            except Unavailable as error:
                failures += 1
                wait_ms = int(min(30_000, 200 * 2 ** min(failures, 8)) * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                _log.warning("tick.store_away", error=str(error), again_ms=wait_ms)
            stop.wait(max(wait_ms, 5) / 1000)
