"""One drain: takes packs of a role as long as there are any and its turn lasts, and runs them (DESIGN §4)."""

import queue
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from passdown.agents.async_run import AsyncRun
from passdown.agents.batch import Ahead, BatchRun
from passdown.agents.gate import Gate
from passdown.agents.linger import Linger
from passdown.agents.options import Options
from passdown.agents.outcomes import Outcome, Raised, summary
from passdown.agents.port import Port
from passdown.agents.runner import Runner
from passdown.agents.threads import Threads
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import Offer, Taking, Wanted

_log = structlog.get_logger("passdown.agents")

Ring = Callable[[str], None]


class Worker(Protocol):
    """What a drain needs of the runtime that it belongs to."""

    runner: Runner
    port: Port
    threads: Threads
    gate: Gate
    options: Options
    closed: bool

    @property
    def stopping(self) -> bool:
        """Whether nothing new is to be taken."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait `seconds`, or until the runtime is stopped."""
        ...


class Turn:
    """The time in which a drain takes packs, and what it knows of the queue. ``more``: packs remained."""

    def __init__(self, worker: Worker, role: str, ring: Ring | None, takes: int = 0) -> None:
        """`takes`: after how many takes that brought packs it ends (0: any number)."""
        self._worker = worker
        self._ring = ring
        self._takes = takes
        self._ends = time.monotonic() + worker.options.turn_seconds
        self._over = False
        self.role = role
        self.more = False

    @property
    def open(self) -> bool:
        """Whether packs may still be taken."""
        return not self._over and not self._worker.stopping and time.monotonic() < self._ends

    def close(self) -> None:
        """Take nothing any more."""
        self._over = True

    def take(self, slots: int, *, holding: bool = False, linger_ms: int = 0) -> list[Offer]:
        """Take up to `slots` packs, once no solo pack runs in this process."""
        wait = 0.0 if holding else max(0.0, self._ends - time.monotonic())
        if not self._worker.gate.wait_open(wait):
            if not holding:
                self.close()
                self.more = True
            return []
        port = self._worker.port
        take = port.gateway.take
        return self.absorb(
            port.commit("take", None, lambda: take(self.role, slots, holding=holding, linger_ms=linger_ms))
        )

    def then_take(self, slots: int = 1, *, holding: bool = False, linger_ms: int = 0) -> Wanted | None:
        """Return what to take with a return: packs for the slots that it frees, as long as any may run."""
        if not self.open or not self._worker.gate.wait_open(0):
            return None
        return Wanted(self.role, slots, holding, linger_ms)

    def absorb(self, taking: Taking) -> list[Offer]:
        """Return the packs of a taking; rings on, once, where more remain."""
        self.more = taking.more
        if taking.offers and self._takes:
            self._takes -= 1
            self._over = self._over or not self._takes
        if taking.more and self._ring:
            ring, self._ring = self._ring, None
            try:
                ring(self.role)
            except Exception as error:  # noqa: BLE001  (a doorbell is a hint; the tick rings too)
                _log.warning("could not ring on", action="ring-failed", role=self.role, error=summary(error))
        return taking.offers

    def enter_all(self, offers: list[Offer]) -> list[Offer]:
        """Let taken packs in, alone where they must be; those that cannot enter are handed back."""
        entered: list[Offer] = []
        wait_s = self._worker.options.solo_wait_seconds
        for offer in offers:
            if self._enter(offer, wait_s):
                entered.append(offer)
            else:
                # For the others nothing else is to be expected, and they were taken for a short time.
                wait_s = 0.0
        return entered

    def _enter(self, offer: Offer, wait_s: float) -> bool:
        worker = self._worker
        if worker.stopping:
            why, again_s = "the worker shuts down", 0.0
            self.more = True
        elif worker.gate.enter(solo=offer.solo, seconds=wait_s):
            return True
        else:
            why, again_s = "a pack that must run alone and others met in one worker", 1.0
        worker.runner.hand_back(offer.pack, why, again_s)
        return False


class PlainDrain:
    """Runs the packs of a plain agent, one after the other, in the calling thread; quick ones several at once."""

    def __init__(self, worker: Worker, turn: Turn) -> None:
        self._worker = worker
        self._turn = turn
        self._ahead = Ahead()
        self._linger = Linger(worker.options)

    def run(self) -> bool:
        """Go on until the queue is empty or the turn is over; return whether packs remained."""
        turn, linger = self._turn, self._linger
        offers = turn.take(1)
        if not offers:
            return turn.more  # rung for what others have taken: lingering would keep a slot from other roles
        while True:
            if offers:
                linger.begin()
                taken = self._run(offers)
                offers = turn.absorb(taken) if taken is not None else self._look()
            elif linger.over or not turn.open:
                # Whoever was told that this drain looks again is not to wait for it.
                return turn.more or linger.told_ms > 0
            else:
                self._worker.pause(linger.pause())
                offers = self._look()

    def _look(self) -> list[Offer]:
        if not self._turn.open:
            return []
        return self._turn.take(self._ahead.slots, linger_ms=self._linger.told_ms)

    def _run(self, offers: list[Offer]) -> Taking | None:
        """Run packs that were taken together; return what was taken with their returns."""
        began = time.monotonic()
        entered = self._turn.enter_all(offers)
        try:
            return self._run_entered(entered)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  (the next pack must not suffer for it)
            _log.exception("a pack could not be run", action="run-failed", error=summary(error))
            return None
        finally:
            for one in entered:
                self._worker.gate.leave(solo=one.solo)
            self._ahead.learn(len(offers), time.monotonic() - began)

    def _run_entered(self, offers: list[Offer]) -> Taking | None:
        runner = self._worker.runner
        agent = runner.registry.agents.get(self._turn.role)
        alone = [one for one in offers if one.pack.cause == "settle" or one.dear or agent is None]
        together = [one for one in offers if one not in alone]
        for offer in alone if together else alone[:-1]:
            runner.run(offer, lambda: None)
        if agent is None or len(together) < 2:
            return runner.run((together or alone)[-1], self._then_take) if offers else None
        return BatchRun(runner, agent, lambda: self._worker.stopping).run(together, self._then_take)

    def _then_take(self) -> Wanted | None:
        return self._turn.then_take(self._ahead.slots, linger_ms=self._linger.told_ms)


class AsyncDrain:
    """Runs the packs of an async agent on the process's event loop, many at once."""

    def __init__(self, worker: Worker, turn: Turn) -> None:
        self._worker = worker
        self._turn = turn
        self._ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._running = 0
        self._alone = False
        self._unavailable: Unavailable | None = None
        self._linger = Linger(worker.options)

    def run(self) -> bool:
        """Go on until the queue is empty or the turn is over, and all that was taken has ended."""
        turn, linger = self._turn, self._linger
        self._start(turn.take(self._worker.options.async_slots))
        if not self._running:
            return turn.more  # as a plain one
        while not self._worker.closed:
            if self._running:
                linger.begin()
                self._wait()
            elif linger.over or not turn.open:
                break
            else:
                self._worker.pause(linger.pause())
                self._look()
        if self._unavailable:
            raise self._unavailable
        # Whoever was told that this drain looks again is not to wait for it.
        return turn.more or linger.told_ms > 0

    def _look(self) -> None:
        """Take as many packs as there are free slots."""
        free = 0 if self._alone else self._worker.options.async_slots - self._running
        if free > 0 and self._turn.open:
            linger_ms = 0 if self._running else self._linger.told_ms
            self._start(self._turn.take(free, holding=self._running > 0, linger_ms=linger_ms))

    def _start(self, offers: list[Offer]) -> None:
        for offer in self._turn.enter_all(offers):
            self._running += 1
            self._alone = offer.solo
            AsyncRun(
                self._worker.runner,
                offer,
                self._then_take,
                lambda outcome, solo=offer.solo: self._end(outcome, solo=solo),
            ).start()

    def _end(self, outcome: Outcome, *, solo: bool) -> None:
        self._worker.gate.leave(solo=solo)
        self._ended.put(outcome)

    def _then_take(self) -> Wanted | None:
        holding = self._running > 1
        return self._turn.then_take(holding=holding, linger_ms=0 if holding else self._linger.told_ms)

    def _wait(self) -> None:
        """Wait for a pack to end, and now and then look for new ones meanwhile."""
        try:
            outcome = self._ended.get(timeout=self._worker.options.poll_seconds)
        except queue.Empty:
            self._try(self._look)
            return
        self._running -= 1
        self._alone = self._alone and self._running > 0
        if isinstance(outcome, Raised):
            self._failed(outcome.error)
        elif outcome.value is not None:
            self._try(lambda: self._start(self._turn.absorb(outcome.value)))
        elif self._ended.empty():
            self._try(self._look)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Unavailable as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """Without the store nothing new is taken; any other error is of one pack only."""
        if isinstance(error, Unavailable):
            self._unavailable = error
            self._turn.close()
        else:
            _log.error("a pack could not be run", action="run-failed", error=summary(error))
