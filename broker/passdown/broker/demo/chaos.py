"""Faults on purpose, from a seed: killed and frozen processes, lost doorbells, lost replies of the store.

Inside a process `Faults` wraps what it works with; from outside `Monkey` kills, freezes and restarts whole
processes. Neither changes an outcome: that is what a run with chaos shows.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import structlog

from passdown.agents.port import HookPoint
from passdown.broker.app import App
from passdown.broker.controller import Controller
from passdown.broker.demo.fleet import Fleet
from passdown.broker.doorbell import Doorbell
from passdown.broker.findings import Examination, Examined, may_lose
from passdown.broker.stores import base
from passdown.contracts.codec import Record
from passdown.contracts.errors import Unavailable
from passdown.contracts.pack import Pack

T = TypeVar("T")

_log = structlog.get_logger("passdown.demo")

#: How likely a worker kills itself at a point of a handoff: around everything that cannot be undone, most of
#: all around writes, which are few.
_DEATHS: dict[HookPoint, float] = {
    "after_take": 0.001,
    "after_claim": 0.001,
    "before_intent": 0.01,
    "after_intent": 0.01,
    "before_write": 0.015,
    "after_write": 0.03,
    "before_report": 0.01,
    "after_report": 0.01,
    "after_checkpoint": 0.001,
    "before_give": 0.001,
    "after_give": 0.001,
}

#: How likely a worker freezes between intent and write, until it is thawed from outside.
_FREEZES = 0.015


class Chaos(Record, frozen=True, kw_only=True):
    """What goes wrong, as shares (0 to 1) and seconds. The seed decides when; ``lease_s`` is the plan's.

    Strikes come thick and fast at first, then ever more slowly (``calmer``): on a slow machine processes
    must live long enough to get anything done.
    """

    seed: int
    lost_doorbells: float = 0.3
    lost_replies: float = 0.03
    gap_s: tuple[float, float] = (0.8, 2.5)
    calmer: float = 1.05
    lease_s: float = 5.0


class Faults:
    """The faults of one process. ``who`` names it and how often it was started, so that each start differs."""

    def __init__(self, chaos: Chaos, who: str) -> None:
        self._chaos = chaos
        self._random = random.Random(f"{chaos.seed}:{who}")  # noqa: S311 - faults, not secrets

    def around(self, app: App) -> App:
        """Return the application with a store that loses replies and a doorbell that is not always heard."""
        store = LossyStore(app.store, lambda: self._hit(self._chaos.lost_replies))
        doorbell = LossyDoorbell(app.doorbell, lambda: self._hit(self._chaos.lost_doorbells))
        return replace(app, store=store, doorbell=doorbell, controller=Controller(store, doorbell))

    def hook(self, point: HookPoint, pack: Pack | None, /) -> None:
        """Kill or freeze this process, now and then, at a point of a handoff."""
        if point == "before_write" and self._hit(_FREEZES):
            # The first worker of a write wakes up when another has taken its place.
            os.kill(os.getpid(), signal.SIGSTOP)
        if self._hit(_DEATHS.get(point, 0.0)):
            _log.warning(
                "killed on purpose", action="chaos", point=point, session=pack.session_id if pack else ""
            )
            os.kill(os.getpid(), signal.SIGKILL)

    def _hit(self, share: float) -> bool:
        return self._random.random() < share


class LossyDoorbell:
    """A doorbell that is sometimes not heard."""

    def __init__(self, inner: Doorbell, lose: Callable[[], bool]) -> None:
        self._inner = inner
        self._lose = lose

    def ring(self, role: str) -> None:
        """Ring, or not."""
        if not self._lose():
            self._inner.ring(role)


class LossyStore:
    """A store whose reply is sometimes lost after it did what was asked (`Unavailable`, as by a cut connection)."""

    def __init__(self, inner: base.Store, lose: Callable[[], bool]) -> None:
        self._inner = inner
        self._lose = lose
        self.load = inner.load
        self.events = inner.events
        self.find = inner.find
        self.put = inner.put
        self.close = inner.close

    @property
    def shards(self) -> int:
        """As the store says."""
        return self._inner.shards

    @property
    def may_lose(self) -> str:
        """As the store says."""
        return may_lose(self._inner)

    def examine(self) -> Examination:
        """As the store says; nothing, where it cannot be asked."""
        return self._inner.examine() if isinstance(self._inner, Examined) else Examination(findings=[])

    def commit(
        self, commits: list[base.Commit], take: base.TakeRequest | None = None
    ) -> tuple[list[base.Outcome], base.Taken | None]:
        """Commit, and perhaps lose the reply."""
        return self._answered(self._inner.commit(commits, take))

    def take(self, request: base.TakeRequest) -> base.Taken:
        """Take, and perhaps lose the reply."""
        return self._answered(self._inner.take(request))

    def hand_back(self, back: base.HandBack) -> None:
        """Hand back, and perhaps lose the reply."""
        self._answered(self._inner.hand_back(back))

    def renew(self, renewals: list[base.Renewal]) -> list[base.Verdict]:
        """Renew, and perhaps lose the reply."""
        return self._answered(self._inner.renew(renewals))

    def due(self, request: base.DueRequest) -> base.Dues:
        """Look for what is due, and perhaps lose the reply."""
        return self._answered(self._inner.due(request))

    def _answered(self, reply: T) -> T:
        if self._lose():
            raise Unavailable("the store", "its reply was lost on purpose")
        return reply


class Monkey:
    """Kills, freezes and restarts the processes of a fleet at moments that the seed decides."""

    def __init__(self, chaos: Chaos, fleet: Fleet, clock: Callable[[], float] = time.monotonic) -> None:
        self._chaos = chaos
        self._fleet = fleet
        self._clock = clock
        self._random = random.Random(f"{chaos.seed}:monkey")  # noqa: S311 - faults, not secrets
        self._strikes = 0
        self._next = clock() + self._gap()
        self._frozen: dict[str, float] = {}
        self.freezes = 0

    def act(self) -> None:
        """Do what is due by now: thaw, and where the next moment has come, strike."""
        now = self._clock()
        for name in self._fleet.frozen():
            if name not in self._frozen:
                self._note_frozen(name, now)
        for name, until in list(self._frozen.items()):
            if until <= now:
                self._fleet.thaw(name)
                del self._frozen[name]
        if now >= self._next:
            self._strike(now)
            self._strikes += 1
            self._next = now + self._gap()

    def rest(self) -> None:
        """Strike no more, and let what is frozen go on."""
        for name in {*self._frozen, *self._fleet.frozen()}:
            self._fleet.thaw(name)
        self._frozen.clear()

    def _strike(self, now: float) -> None:
        what = self._random.choices(["kill", "freeze", "tick"], [5, 1, 2])[0]
        awake = [one for one in self._fleet.names("worker") if one not in self._frozen]
        if what == "tick" or not awake:
            self._fleet.kill(self._random.choice(self._fleet.names("tick")))
            return
        # What is frozen stays alone: it is to wake up, late.
        name = self._random.choice(awake)
        if what == "freeze" and len(awake) > 1:
            self._fleet.freeze(name)
            self._note_frozen(name, now)
        else:
            self._fleet.kill(name)

    def _note_frozen(self, name: str, now: float) -> None:
        """A frozen process wakes when its leases have run out."""
        self._frozen[name] = now + self._chaos.lease_s * self._random.uniform(1.1, 1.6)
        self.freezes += 1

    def _gap(self) -> float:
        return self._random.uniform(*self._chaos.gap_s) * self._chaos.calmer**self._strikes
