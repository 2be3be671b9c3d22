"""Sees to the time limits of runs, from a thread of its own (DESIGN §7).

A run that passes its limit is told so and reported; one that goes on for a grace beyond that is *stuck*:
it holds a thread, or the event loop, which nobody can take from it. Whoever owns the process hears of it.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from msgspec import UNSET

from passdown.agents.agent import Agent
from passdown.agents.outcomes import summary
from passdown.contracts.errors import PassdownError
from passdown.contracts.pack import Pack

_log = structlog.get_logger("passdown.agents")

#: How much later than here a guard outside the interpreter acts (seconds).
_GUARD_LATER_SECONDS = 5.0
#: The longest that a thread can be told to wait is bounded by the platform (seconds).
_LONGEST_WAIT_SECONDS = 86_400.0


class OverTime(PassdownError):
    """An agent ran longer than its time limit. Raise the limit, or checkpoint and do less in one run."""

    code = "over-time"

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the agent ran longer than its time limit of {self.seconds:g} s"


class Stuck(NamedTuple):
    """What goes on beyond its limit and its grace: so many threads, and whether the event loop is blocked."""

    threads: int
    loop: bool


def nobody(_stuck: Stuck) -> None:
    """Tell nobody."""


def unguarded(_seconds: float | None) -> None:
    """Arm nothing."""


def limit_of(pack: Pack, agent: Agent) -> float | None:
    """Return the longest that a run may take (seconds): the stage's limit or the agent's, whichever is less."""
    stages = math.inf if pack.time_limit_seconds is UNSET else pack.time_limit_seconds
    least = min(stages, math.inf if agent.time_limit_seconds is None else agent.time_limit_seconds)
    return None if least == math.inf else least


@dataclass(slots=True, eq=False)
class Run:
    """A run with a limit. Times are those of the clock; ``over`` is None once it was called."""

    over: Callable[[], Any] | None
    due: float
    stuck_at: float
    on_loop: bool
    stuck: bool = False

    @property
    def next_at(self) -> float:
        """When it is to be looked at next."""
        if self.over:
            return self.due
        return math.inf if self.stuck else self.stuck_at


class TimeLimits:
    """The runs of this process that have a limit. Thread-safe.

    `submit` runs what may block in a thread of a pool. `on_stuck` is called with all that is stuck whenever
    one more is. `guard` is told in how many seconds (None: not at all) a thing outside the interpreter
    should end the process, for an agent that never lets go of the interpreter stops this thread, too.
    """

    def __init__(
        self,
        grace_seconds: float,
        submit: Callable[[Callable[[], Any]], Any],
        on_stuck: Callable[[Stuck], None] = nobody,
        guard: Callable[[float | None], None] = unguarded,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grace = grace_seconds
        self._submit = submit
        self._on_stuck = on_stuck
        self._guard = guard
        self._clock = clock
        self._wake = threading.Condition()
        self._runs: set[Run] = set()
        self._thread: threading.Thread | None = None
        self._stopping = False
        #: When the thread looks next, and when the guard acts.
        self._looks_at = math.inf
        self._guarded_at = math.inf

    def begin(self, seconds: float, over: Callable[[], Any], *, on_loop: bool = False) -> Run:
        """Have `over` called, in another thread, unless the run ends within `seconds`."""
        with self._wake:
            due = self._clock() + seconds
            run = Run(over, due, due + self._grace, on_loop)
            self._runs.add(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="passdown-limits", daemon=True)
                self._thread.start()
            if due < self._looks_at:
                self._wake.notify()
            if run.stuck_at < self._guarded_at:
                self._arm()
        return run

    def end(self, run: Run) -> None:
        """The run has ended."""
        with self._wake:
            self._runs.discard(run)
            if run.stuck_at <= self._guarded_at:
                self._arm()

    def stop(self) -> None:
        """See to nothing any more."""
        with self._wake:
            self._stopping = True
            self._runs.clear()
            self._arm()
            self._wake.notify()

    def _arm(self) -> None:
        # Where this thread found a run to be stuck, the interpreter is free: that is not the guard's case.
        earliest = min((run.stuck_at for run in self._runs if not run.stuck), default=math.inf)
        if earliest == self._guarded_at:
            return
        self._guarded_at = earliest
        wait = max(0.0, earliest - self._clock()) + _GUARD_LATER_SECONDS
        self._guard(None if earliest == math.inf else wait)

    def _watch(self) -> None:
        while True:
            with self._wake:
                if self._stopping:
                    return
                self._looks_at = min((run.next_at for run in self._runs), default=math.inf)
                wait = None if self._looks_at == math.inf else self._looks_at - self._clock()
                if wait is None or wait > 0:
                    self._wake.wait(None if wait is None else min(wait, _LONGEST_WAIT_SECONDS))
                    continue
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  (the next limit must be kept all the same)
                _log.error("time limits were not seen to", action="limits-failed", error=summary(error))

    def look(self) -> None:
        """Tell the runs whose time is up, and about those that are stuck."""
        with self._wake:
            now = self._clock()
            told: list[Callable[[], Any]] = []
            found = False
            for run in self._runs:
                if run.over and now >= run.due:
                    told.append(run.over)
                    run.over = None
                elif not run.over and not run.stuck and now >= run.stuck_at:
                    run.stuck = found = True
            if found:
                self._arm()
            stuck = self._stuck()
        for over in told:
            self._submit(over)
        if found:
            _log.error("an agent goes on beyond its limit", action="agent-stuck", **stuck._asdict())
            self._on_stuck(stuck)

    def _stuck(self) -> Stuck:
        stuck = [run for run in self._runs if run.stuck]
        return Stuck(sum(not run.on_loop for run in stuck), any(run.on_loop for run in stuck))
