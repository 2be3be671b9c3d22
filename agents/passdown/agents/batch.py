"""Quick packs of a plain agent, several at once: claimed in one round trip, and their returns given in one.

They still run one after the other in one thread. How many are taken follows from how long the last ones
took, so that a return waits for its neighbours for some milliseconds; where an agent turns out to be slow
after all, what is done is given after half a second, and what has not begun is released to others.
"""

import threading
from collections import deque
from collections.abc import Callable

from passdown.agents.agent import Agent
from passdown.agents.claim import ActiveClaim
from passdown.agents.runner import Runner
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import Giving, Offer, Taking, Wanted

#: Packs that one drain of a plain agent takes at once, at most.
MOST_AHEAD = 50
#: For how long the packs that are taken at once may run, all of them (seconds).
_AHEAD_S = 0.05
#: Packs that were taken at once and have not all ended by then wait for each other no longer (seconds).
_SLOW_S = 0.5


class Ahead:
    """How many packs to take at once, learnt from how long the last ones took."""

    def __init__(self) -> None:
        self.slots = 1

    def learn(self, count: int, seconds: float) -> None:
        """Note that `count` packs took so many `seconds`, with all that belongs to them."""
        each = max(seconds / count, 1e-6)
        self.slots = max(1, min(MOST_AHEAD, int(_AHEAD_S / each), 4 * self.slots))


class BatchRun:
    """Runs packs that were taken together. Raises Unavailable only, as `Runner.run` does."""

    def __init__(self, runner: Runner, agent: Agent, stopping: Callable[[], bool]) -> None:
        self._runner = runner
        self._agent = agent
        self._stopping = stopping
        self._lock = threading.Lock()
        self._waiting: deque[ActiveClaim] = deque()
        self._written: list[tuple[ActiveClaim, Giving]] = []
        self._unavailable: Unavailable | None = None

    def run(self, offers: list[Offer], then_take: Callable[[], Wanted | None]) -> Taking | None:
        """Claim them all, run one after the other, give all returns; return what was taken with these."""
        claims = self._runner.claim_all([offer.pack for offer in offers])
        self._waiting.extend(claims)
        watch = threading.Timer(_SLOW_S, self._too_slow)
        watch.daemon = True
        watch.start()
        fault: Exception | None = None
        try:
            while (claim := self._next()) is not None:
                fault = self._tried(claim) or fault
            watch.cancel()
            # What it gives must have been given before leases are let go.
            watch.join()
            taken = self._give(None if fault else then_take())
        finally:
            watch.cancel()
            for claim in claims:
                self._runner.let_go(claim)
        if fault:
            raise fault
        return taken

    def _tried(self, claim: ActiveClaim) -> Exception | None:
        """Run one; what goes wrong with it takes no finished return of its neighbours along."""
        try:
            self._run_one(claim)
        except Exception as error:  # noqa: BLE001  (raised again when the others are given)
            self._release_waiting("its worker could not go on")
            return error
        return None

    def _next(self) -> ActiveClaim | None:
        if self._stopping():
            self._release_waiting("the worker shuts down")
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _run_one(self, claim: ActiveClaim) -> None:
        if claim.ended:
            return
        giving = self._runner.written(claim, self._runner.run_plain(claim, self._agent))
        if giving is not None:
            with self._lock:
                self._written.append((claim, giving))

    def _give(self, then_take: Wanted | None) -> Taking | None:
        if self._unavailable:
            raise self._unavailable
        with self._lock:
            written, self._written = self._written, []
        return self._runner.give_all(written, then_take) if written else None

    def _too_slow(self) -> None:
        """Let the others go on without the one that takes long: what is done is given, what waits is released."""
        self._release_waiting("another pack of this worker takes long")
        try:
            self._give(None)
        except Unavailable as error:
            self._unavailable = error

    def _release_waiting(self, why: str) -> None:
        with self._lock:
            released, self._waiting = self._waiting, deque[ActiveClaim]()
        for claim in released:
            self._runner.release(claim, why)
