"""Answers doorbells: the one task that our pools have, whatever they run in (DESIGN §11).

Its name is frozen, for messages of any version may lie on a queue. What a message of that name leads to
depends on the Celery application that got it, so that several can live in one process.
"""

import os
from collections.abc import Callable
from multiprocessing.sharedctypes import RawArray
from threading import Lock
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import structlog
from billiard.process import current_process
from celery import Celery, shared_task, signals

from passdown.broker.doorbell import DRAIN_TASK, Doorbell

_log = structlog.get_logger("passdown.pool")

Ring = Callable[[str], None]


class Hands(Protocol):
    """What does the work of a pool: a runtime in this process, or the children of it."""

    def drain(self, role: str, ring: Ring) -> bool:
        """Take packs and run them; return whether some remained. Never raises."""
        ...

    def close(self) -> None:
        """Take nothing any more; returns at once."""
        ...

    def stop(self, grace_seconds: float) -> None:
        """Take nothing any more, wait for what runs, and hand back what does not end within the grace."""
        ...


class Slots(Protocol):
    """Which of a pool's slots are at work."""

    def enter(self) -> None:
        """A drain begins here."""
        ...

    def leave(self) -> None:
        """A drain ends here."""
        ...

    @property
    def spare(self) -> bool:
        """Whether a slot sleeps."""
        ...


class ThreadSlots:
    """Slots that are threads of this process."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._active = 0
        self._lock = Lock()

    def enter(self) -> None:
        """A drain begins."""
        with self._lock:
            self._active += 1

    def leave(self) -> None:
        """A drain ends."""
        with self._lock:
            self._active -= 1

    @property
    def spare(self) -> bool:
        """Whether a slot sleeps."""
        with self._lock:
            return self._active < self._count


class ProcessSlots:
    """Slots that are children of this process: one byte each in shared memory, so that one that is killed costs no count."""

    def __init__(self, count: int) -> None:
        self._busy = RawArray("b", count)
        signals.worker_process_init.connect(self._born, weak=False)

    def _born(self, **_: object) -> None:
        """A child takes the place of one that may have been killed at work."""
        self.leave()

    def enter(self) -> None:
        """A drain begins in this child."""
        self._mark(1)

    def leave(self) -> None:
        """A drain ends in this child."""
        self._mark(0)

    def _mark(self, busy: int) -> None:
        index = getattr(current_process(), "index", None)
        if index is not None and index < len(self._busy):
            self._busy[index] = busy

    @property
    def spare(self) -> bool:
        """Whether a child sleeps."""
        return not all(self._busy)


class Answers:
    """Answers the doorbells of some roles, and rings on where packs remain."""

    def __init__(self, hands: Hands, doorbell: Doorbell, roles: list[str], slots: Slots) -> None:
        self._hands = hands
        self._doorbell = doorbell
        self._roles = roles
        self._slots = slots

    def drain(self, role: str) -> None:
        """Answer one doorbell: drain the role, and ring on where packs remain."""
        if role not in self._roles:
            _log.warning("pool.foreign_role", role=repr(role)[:100])
            return
        self._slots.enter()
        try:
            more = self._hands.drain(role, self._ring_on)
        finally:
            self._slots.leave()
        if more:
            self._doorbell.ring(role)

    def _ring_on(self, role: str) -> None:
        """Ring while a drain goes on, where this pool has slots that sleep."""
        if self._slots.spare:
            self._doorbell.ring(role)


_answers: "WeakKeyDictionary[Celery, Callable[[str], None]]" = WeakKeyDictionary()


def answer_with(app: Celery, drain: Callable[[str], None]) -> None:
    """Have the doorbells that `app` gets answered by `drain`."""
    _answers[app] = drain


@shared_task(name=DRAIN_TASK, bind=True, ignore_result=True)
def drain(task: Any, role: str) -> None:
    """Answer a doorbell in whichever application got it."""
    found = _answers.get(task.app)
    if found is None:
        _log.warning("pool.foreign_app", app=str(task.app.main), pid=os.getpid())
        return
    found(role)
