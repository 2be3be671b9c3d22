"""A pool's child processes: each with a runtime of its own, opened after the fork, when it is first needed.

Celery forks them, gives them doorbells and replaces one that dies; all else is seen to here. A child that
is told to stop (SIGTERM) takes nothing any more, lets what runs finish within the grace, hands back the
rest, and ends; it does the same when its parent is gone. Told a second time it ends on the spot.
"""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.sharedctypes import RawValue
from typing import Any, NamedTuple, cast

import billiard
import structlog
from billiard import util
from celery import signals

from passdown.agents.limits import Stuck
from passdown.agents.runtime import Runtime
from passdown.broker.draining import Ring
from passdown.broker.signals import end_within, on_signals
from passdown.contracts.errors import PassdownError

_log = structlog.get_logger("passdown.worker")

#: The exit status of a process that ends because an agent goes on beyond its time limit.
STUCK_STATUS = 75
#: How often a process looks whether its parent is still there, and says that it should stop (seconds).
_WATCH_EVERY = 0.1
#: Signals that come within this time of the first are the same one (seconds): where a parent dies, the system
#: sends one for each of its threads.
_AT_ONCE = 1.0
#: How long a child may take to hand back and to end, beyond its grace (seconds).
_END_WITHIN = 15.0
#: How long a child that has handed back all waits to be ended by its parent (seconds).
_LEAVE_WITHIN = 2.0


class Opened(NamedTuple):
    """A runtime, and what lets go of all that it stands on."""

    runtime: Runtime
    close: Callable[[], None]


#: Opens a runtime in this process. It is given what to do about agents that are stuck.
Open = Callable[[Callable[[Stuck], None]], Opened]


class Children:
    """Stands where a runtime does: in a child it runs drains, in the parent it tells the children to stop."""

    def __init__(self, opening: Open, *, grace_s: float, alone: bool = True) -> None:
        """Make it in the parent, before any child. `alone` says that the children run nothing else.

        Then they hear signals, end by themselves once they handed back all, and are ended where they do not.
        """
        self._open = opening
        self._grace_s = grace_s
        self._alone = alone
        self._child: _Child | None = None
        #: Shared with the children, those that are still to be forked included.
        self._closed = RawValue("b", 0)

    def drain(self, role: str, ring: Ring) -> bool:
        """In a child: answer a doorbell. Where the store is away that is logged, and the tick rings again."""
        if self._closed.value or (self._child and self._child.told):
            return False
        if self._child is None:
            self._child = _Child(self._open, self._grace_s, lambda: bool(self._closed.value), self._alone)
        try:
            return self._child.runtime().drain(role, ring)
        except PassdownError as error:
            _log.warning("worker.child_without_store", role=role, error=str(error))
            return False

    def close(self) -> None:
        """In the parent: tell the children to stop."""
        self._closed.value = 1

    def stop(self, grace_seconds: float) -> None:
        """In the parent: wait until all children have ended, and end those that do not."""
        self.close()
        ends = time.monotonic() + grace_seconds + _END_WITHIN
        while self._alone and _living() and time.monotonic() < ends:
            time.sleep(0.02)
        for child in _living() if self._alone else ():
            _log.error("worker.child_killed", child=child.pid, why="it was told to stop and did not")
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)


def _living() -> list[Any]:
    return cast("list[Any]", cast("Any", billiard).active_children())


class _Child:
    """What a child process is, from its first drain on. Made in its main thread."""

    def __init__(self, opening: Open, grace_s: float, closed: Callable[[], bool], alone: bool) -> None:
        self._open = opening
        self._grace_s = grace_s
        self._closed = closed
        self._alone = alone
        self._opened: Opened | None = None
        self._told = threading.Event()
        self._told_at = 0.0
        self._leaving = False
        self._ended = threading.Lock()
        # Never left: this process hears signals this way until its end.
        self._hearing = ExitStack()
        if alone:
            self._hearing.enter_context(on_signals(self._heard, (signal.SIGTERM,)))
            # Celery has the system kill a child whose parent dies; it had better hand back first.
            with contextlib.suppress(OSError):
                cast("Any", util).set_pdeathsig(signal.SIGTERM)
        watch_parent(self.tell, self._told, closed)
        signals.worker_process_shutdown.connect(self._leave, weak=False)

    @property
    def told(self) -> bool:
        """Whether this child was told to stop."""
        return self._told.is_set()

    def runtime(self) -> Runtime:
        """Return this child's runtime; raises PassdownError where it cannot be opened now."""
        if self._opened is None:
            self._opened = self._open(self._stuck)
            self._opened.runtime.heed(self._closed)
            if self._told.is_set():
                self._opened.runtime.close()
        return self._opened.runtime

    def _heard(self, number: int) -> None:
        if self._leaving:
            return  # Celery says so to a child that ends of itself
        if not self._told.is_set():
            self.tell()
        elif time.monotonic() - self._told_at > _AT_ONCE:
            os._exit(128 + number)

    def tell(self) -> None:
        """Have this child hand back what it holds, and end."""
        self._told_at = time.monotonic()
        self._told.set()
        threading.Thread(target=self._end, name="passdown-child-end", daemon=True).start()

    def _end(self) -> None:
        if self._alone:
            end_within(self._grace_s + _END_WITHIN, 1, "it was told to stop, and did not get to its end")
        self._let_go(self._grace_s)
        if self._alone:
            end_within(_LEAVE_WITHIN, 0)

    def _leave(self, **_: object) -> None:
        """At the regular end of a child nothing is held any more."""
        self._leaving = True
        self._let_go(0.0)

    def _let_go(self, grace_s: float) -> None:
        with self._ended:
            opened, self._opened = self._opened, None
            if opened:
                opened.runtime.stop(grace_s)
                if opened.runtime.idle:
                    opened.close()

    def _stuck(self, stuck: Stuck) -> None:
        """A child that is stuck is of no use: what it still holds is handed back, and it is replaced."""
        _log.error("worker.child_stuck", child=os.getpid(), **stuck._asdict())
        if self._opened:
            self._opened.runtime.release_all("its worker is stuck")
        os._exit(STUCK_STATUS)


def never() -> bool:
    """Return False."""
    return False


def watch_parent(
    tell: Callable[[], None],
    told: threading.Event,
    closed: Callable[[], bool] = never,
    *,
    parent: int | None = None,
) -> None:
    """Call `tell` once the parent of this process has said so, or is gone: it would go on unseen.

    `parent` is its process id, where that was told: it may be gone before this process gets to look.
    """
    parent = parent or os.getppid()

    def watch() -> None:
        while not told.wait(_WATCH_EVERY):
            if os.getppid() != parent:
                _log.warning("worker.orphaned", pid=os.getpid())
            elif not closed():
                continue
            tell()
            return

    threading.Thread(target=watch, name="passdown-parent", daemon=True).start()


def guard(seconds: float | None) -> None:
    """End this process in so many seconds, unless told otherwise before (None).

    A thread of C does it, which needs no interpreter: an agent that never lets go of that stops all others.
    """
    if seconds is None:
        faulthandler.cancel_dump_traceback_later()
    else:
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or 2)
