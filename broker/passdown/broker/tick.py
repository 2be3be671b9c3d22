"""Turn what is due into commands, and ring where packs wait in vain. Run as many as you like, without a leader.

A due entry is reserved while it is dealt with and comes again if it is not; the command names the due
time that was seen, and `decide` ignores one that no longer applies (DESIGN §4).
"""

import threading
import time
from collections.abc import Callable

import structlog

from passdown.broker.backoff import backoff
from passdown.broker.controller import Controller
from passdown.broker.core.given import DueAt
from passdown.broker.joins.service import JoinService
from passdown.broker.routing import Routing
from passdown.broker.stores.base import DueNow, DueRequest
from passdown.contracts import commands as cmd
from passdown.contracts.codec import Record
from passdown.contracts.errors import PassdownError, Unavailable

TICK = "service:tick"

#: Waits after a pass that failed (seconds): the first, and the longest.
_AGAIN_FIRST, _AGAIN_MOST = 0.4, 30.0
#: The shortest wait between two passes (seconds), so that an entry that cannot be dealt with takes no processor.
_LEAST_WAIT = 0.005

_log = structlog.get_logger("passdown.tick")


class Swept(Record, frozen=True, kw_only=True):
    """What one pass did: entries dealt with and not, roles rung for; ``wait_ms`` until the next is worth it."""

    done: int = 0
    failed: int = 0
    rung: list[str] = []
    wait_ms: int = 0


class Tick:
    """Sweeps due entries. Times in milliseconds.

    ``reserve_ms``: how long an entry is left alone after a pass that failed on it; ``most_wait_ms``: the
    longest wait between two passes; ``monotonic`` returns seconds, and is for tests.
    """

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
        self._joins = JoinService(controller)
        self._routing = Routing(controller, monotonic=monotonic)
        self._batch = batch
        self._reserve_ms = reserve_ms
        self._most_wait_ms = most_wait_ms
        self._monotonic = monotonic
        self._asked: float | None = None

    def once(self) -> Swept:
        """Make one pass. Raises Unavailable where the store is away."""
        now = self._monotonic()
        elapsed = None if self._asked is None else int((now - self._asked) * 1000)
        self._asked = now
        found = self._controller.store.due(
            DueRequest(limit=self._batch, reserve_ms=self._reserve_ms, elapsed_ms=elapsed)
        )
        if found.postponed_ms:
            _log.warning("tick.clock_jumped", leases_postponed_ms=found.postponed_ms)
        # Doorbells first: an entry that takes long must keep no pool waiting.
        for role in found.ring:
            self._controller.ring(role)
        done = sum(self._deal(entry, now) for entry in found.entries)
        self._route()
        full = len(found.entries) >= self._batch
        wait = 0 if full else min(found.next_ms, self._most_wait_ms)
        return Swept(done=done, failed=len(found.entries) - done, rung=found.ring, wait_ms=wait)

    def _route(self) -> None:
        """Look after tickets that nobody may take or hold; what goes wrong there must not stop timers."""
        try:
            self._routing.now_and_then()
        except Unavailable as error:
            _log.warning("tick.not_routed", error=str(error))
        except Exception:  # noqa: BLE001 - it looks again in a moment, and says so each time
            _log.exception("tick.broken", kind="routing")

    def _deal(self, entry: DueNow, began: float) -> bool:
        """Carry out one entry; a fault with one is said, and leaves the others alone.

        Raises Unavailable once the store has been away for as long as entries are reserved: they are free by
        then, for whoever reaches the store.
        """
        try:
            self._carry_out(entry)
        except PassdownError as error:
            _log.warning("tick.failed", session=entry.session_id, kind=entry.kind, error=str(error))
            if isinstance(error, Unavailable) and (self._monotonic() - began) * 1000 > self._reserve_ms:
                raise
            return False
        except Exception:  # noqa: BLE001 - one broken entry must not stop the sweep
            _log.exception("tick.broken", session=entry.session_id, kind=entry.kind)
            return False
        return True

    def _carry_out(self, entry: DueNow) -> None:
        if entry.kind == "join":
            self._joins.look(entry.subject)
        elif entry.kind == "branches":
            due = DueAt(kind=entry.kind, subject=entry.subject, at=entry.at)
            self._joins.branches(entry.session_id, due)
        else:
            body = cmd.Due(kind=entry.kind, subject=entry.subject, due_at=entry.at)
            self._controller.run(entry.session_id, body, TICK)

    def run(self, stop: threading.Event) -> None:
        """Sweep until `stop` is set; whatever goes wrong, try again for ever, with jittered waits, and say so."""
        failures = 0
        while not stop.is_set():
            try:
                wait = self.once().wait_ms / 1000
                failures = 0
            except Exception as error:  # noqa: BLE001 - timers, lost leases and lost doorbells hang on this thread
                failures += 1
                wait = backoff(failures, _AGAIN_FIRST, _AGAIN_MOST)
                _said(error, wait)
            stop.wait(max(wait, _LEAST_WAIT))


def _said(error: Exception, again_s: float) -> None:
    if isinstance(error, Unavailable):
        _log.warning("tick.store_away", error=str(error), again_s=round(again_s, 2))
    else:
        _log.error("tick.failed_pass", error=repr(error), again_s=round(again_s, 2), exc_info=error)
