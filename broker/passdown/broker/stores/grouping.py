"""Many callers, one journey: what they bring while one is under way goes together in the next.

A caller that finds nobody under way leads: it carries what all waiting callers brought, and hands the lead to one
of those that came meanwhile. So a lone caller pays for no thread switch, and many share the price of one journey
(a round trip, a flush to the disk).
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

A = TypeVar("A")
R = TypeVar("R")

#: How many callers go at once at most: a bound on how long a journey takes.
MOST_CALLERS = 256

_LOOK_SECONDS = 1.0


class Interrupted(Exception):
    """The thread that carried this caller's act was interrupted: nobody knows whether it was done."""


class _Job(Generic[A, R]):
    """What one caller brought, and how it ended. One without an act only wants the lead, and goes with nobody."""

    __slots__ = ("act", "error", "gate", "leads", "result", "settled")

    def __init__(self, act: A | None) -> None:
        self.act = act
        self.gate: threading.Lock | None = None
        self.leads = False
        self.settled = False
        self.result: R | None = None
        self.error: BaseException | None = None

    def outcome(self) -> R:
        if self.error is not None:
            raise self.error
        return cast(R, self.result)


class Group(Generic[A, R]):
    """Callers that go together. Thread-safe; a forked process begins with nobody waiting."""

    def __init__(
        self, carry: Callable[[Sequence[A]], Sequence[R]], afterwards: Callable[[], object] = lambda: None
    ) -> None:
        """``carry`` does acts together, and returns one result for each; what it raises all of them get.

        ``afterwards`` is called by whoever led, when the others have their results and before the next leads.
        """
        self._carry = carry
        self._afterwards = afterwards
        self.forget_callers()
        _groups.add(self)

    def forget_callers(self) -> None:
        """Begin with nobody waiting: in a forked process the threads that waited are the parent's."""
        self._mutex = threading.Lock()
        self._waiting: deque[_Job[A, R]] = deque()
        self._led = False
        self._leader = 0

    @property
    def waiting(self) -> int:
        """How many callers wait for whoever leads."""
        return len(self._waiting)

    def run(self, act: A) -> R:
        """Do `act`, perhaps with those of others; returns its result. Raises what `carry` raises, and Interrupted."""
        job: _Job[A, R] = _Job(act)
        self._enlist(job)
        if job.leads:
            self._lead(job)
        return job.outcome()

    def hold(self) -> None:
        """Wait until nobody is under way, and let nobody go until `let_go`."""
        self._enlist(_Job(None))

    def let_go(self) -> None:
        """Let callers go again after `hold`."""
        self._hand_over()

    def leads_here(self) -> bool:
        """Return whether this very thread is under way."""
        return self._leader == threading.get_ident()

    def _enlist(self, job: _Job[A, R]) -> None:
        """Take the lead, or wait until the job is done or the lead is handed over."""
        with self._mutex:
            if not self._led:
                self._led = job.leads = True
                return
            job.gate = gate = threading.Lock()
            gate.acquire()
            self._waiting.append(job)
        try:
            # The time-out is for a leader that was interrupted in the very moment of waking the others.
            while not gate.acquire(timeout=_LOOK_SECONDS) and not job.settled:
                continue
        except BaseException:
            # Interrupted (Ctrl-C, a time limit): nobody must wait for this caller from here on.
            self._withdraw(job)
            raise

    def _withdraw(self, job: _Job[A, R]) -> None:
        with self._mutex:
            if job in self._waiting:
                self._waiting.remove(job)
        if job.leads:
            self._hand_over()

    def _lead(self, own: _Job[A, R]) -> None:
        jobs = [own]
        try:
            self._leader = threading.get_ident()
            if self._waiting:
                self._gather(jobs)
            self._go(jobs)
        finally:
            try:
                self._dismiss(jobs)
                self._afterwards()
            finally:
                self._leader = 0
                self._hand_over()

    def _gather(self, jobs: list[_Job[A, R]]) -> None:
        with self._mutex:
            waiting = self._waiting
            while waiting and len(jobs) < MOST_CALLERS and waiting[0].act is not None:
                jobs.append(waiting.popleft())

    def _go(self, jobs: list[_Job[A, R]]) -> None:
        try:
            results = self._carry([cast(A, job.act) for job in jobs])
        except Exception as error:  # noqa: BLE001 - each caller gets it
            for job in jobs:
                job.error = error
                job.settled = True
            return
        for job, result in zip(jobs, results, strict=True):
            job.result = result
            job.settled = True

    def _dismiss(self, jobs: list[_Job[A, R]]) -> None:
        for job in jobs:
            if not job.settled:
                job.error = Interrupted()
                job.settled = True
        for job in jobs:
            if job.gate is not None and not job.leads:
                job.gate.release()

    def _hand_over(self) -> None:
        with self._mutex:
            if not self._waiting:
                self._led = False
                return
            heir = self._waiting.popleft()
            heir.leads = True
            cast(threading.Lock, heir.gate).release()


_groups: "weakref.WeakSet[Group[Any, Any]]" = weakref.WeakSet()


def _forked() -> None:
    for group in list(_groups):
        group.forget_callers()


os.register_at_fork(after_in_child=_forked)
