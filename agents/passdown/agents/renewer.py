"""Keeps the leases of all claims that this process holds, from a thread of its own (DESIGN §4).

One call renews them all, at a third of the shortest lease. While the store is away it is asked again,
with jittered waits, for ever: a lease that ran out but was not declared lost is still good.
"""

import contextlib
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from passdown.agents.claim import ActiveClaim
from passdown.agents.outcomes import summary
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import Gateway, Standing

_log = structlog.get_logger("passdown.agents")

_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 5.0
_LEAST_WAIT_SECONDS = 0.01


@dataclass(slots=True)
class _Held:
    claim: ActiveClaim
    due: float


class Renewer:
    """The claims that this process holds. Thread-safe."""

    def __init__(self, gateway: Gateway, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._clock = clock
        self._wake = threading.Condition()
        self._held: dict[str, _Held] = {}
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._failures = 0
        #: When the thread looks next, so that a claim that is due later need not wake it.
        self._looks_at = 0.0

    def add(self, claim: ActiveClaim) -> None:
        """Keep the lease of `claim` until it is removed."""
        with self._wake:
            due = self._clock() + claim.claim.lease_seconds / 3
            self._held[claim.claim.fence.claim_id] = _Held(claim, due)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="passdown-renewer", daemon=True)
                self._thread.start()
            if due < self._looks_at:
                self._wake.notify()

    def remove(self, claim: ActiveClaim) -> None:
        """Let the lease of `claim` go its way."""
        with self._wake:
            self._held.pop(claim.claim.fence.claim_id, None)

    def held(self) -> list[ActiveClaim]:
        """Return the claims that are held now."""
        with self._wake:
            return [one.claim for one in self._held.values()]

    def stop(self) -> None:
        """Renew nothing any more."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._stopping and (wait := self._wait()) != 0:
                    self._wake.wait(wait)
                if self._stopping:
                    return
            pause = self.renew()
            if pause:
                with self._wake:
                    self._wake.wait_for(lambda: self._stopping, pause)

    def _wait(self) -> float | None:
        """Return the seconds until the next renewal: 0 now, None while nothing is held."""
        if not self._held:
            self._looks_at = math.inf
            return None
        self._looks_at = min(one.due for one in self._held.values())
        wait = self._looks_at - self._clock()
        return 0 if wait <= 0 else max(wait, _LEAST_WAIT_SECONDS)

    def renew(self) -> float:
        """Renew all that is held, once; return how many seconds to pause where that failed, else 0."""
        claims = self.held()
        if not claims:
            return 0
        try:
            standings = self._gateway.renew([one.claim for one in claims])
        except Exception as error:  # noqa: BLE001  (whatever it is, the leases must be kept)
            return self._failed(error, len(claims))
        if self._failures:
            _log.info("leases are renewed again", action="renewed-again", claims=len(claims))
        self._failures = 0
        now = self._clock()
        for claim, standing in zip(claims, standings, strict=True):
            self._apply(claim, standing, now)
        return 0

    def _apply(self, claim: ActiveClaim, standing: Standing, now: float) -> None:
        if standing != "held":
            self.remove(claim)
            claim.log.warning("the claim is over", action=f"claim-{standing}")
            why = "the lease was lost" if standing == "lost" else "the session was cancelled"
            with contextlib.suppress(Exception):
                claim.end(why)
            return
        with self._wake:
            held = self._held.get(claim.claim.fence.claim_id)
            if held:
                held.due = now + claim.claim.lease_seconds / 3

    def _failed(self, error: Exception, claims: int) -> float:
        self._failures += 1
        longest = min(_FIRST_WAIT_SECONDS * 2 ** min(self._failures, 16), _LONGEST_WAIT_SECONDS)
        wait = longest * (0.5 + random.random() / 2)  # noqa: S311  (spreads load, guards nothing)
        level = _log.warning if isinstance(error, Unavailable) else _log.error
        level(
            "leases could not be renewed; trying again",
            action="renew-failed",
            claims=claims,
            failures=self._failures,
            again_in_seconds=round(wait, 2),
            error=summary(error),
        )
        return wait
