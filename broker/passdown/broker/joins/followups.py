"""What a commit leads to about joins, done at once by the process that committed; the tick does what is lost here."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Literal

import structlog

from passdown.broker.joins.service import JoinService
from passdown.contracts.errors import PassdownError

_log = structlog.get_logger("passdown.joins")
#: What waits here at most; the tick finds the rest.
_MOST_WAITING = 10_000
#: What is done together: joins that are looked at, sessions whose branches are opened.
_AT_ONCE = 16
#: How long a close waits for what is to be done (seconds); the tick does what is left.
_CLOSE_S = 3.0


class FollowUps:
    """One thread, started with the first thing to do. Keeps nothing that matters: all of it is due in the store, too."""

    def __init__(self, service: JoinService) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._there = threading.Condition(self._lock)
        self._waiting: deque[tuple[str, str]] = deque()
        self._known: set[tuple[str, str]] = set()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ends = math.inf

    def note(self, what: Literal["look", "see-to"], subject: str) -> None:
        """Have something done soon: ``look`` at a join, or ``see-to`` a session. Never waits, never raises."""
        task = (what, subject)
        with self._lock:
            late = self._closed and threading.current_thread() is not self._thread
            if late or task in self._known or len(self._waiting) >= _MOST_WAITING:
                return
            self._known.add(task)
            self._waiting.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="passdown-joins", daemon=True)
                self._thread.start()
            self._there.notify()

    def close(self) -> None:
        """Finish what there is to do where that takes a moment only, and leave the rest to the tick."""
        with self._lock:
            self._closed = True
            self._ends = time.monotonic() + _CLOSE_S
            self._there.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._waiting and not self._closed:
                    self._there.wait()
                if not self._waiting or not self._going_on():
                    return
                tasks = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
                # From here on they may be noted anew: what comes meanwhile may not be seen by this try.
                self._known.difference_update(tasks)
            self._do("look", [subject for what, subject in tasks if what == "look"], self._service.look_all)
            self._do(
                "see-to",
                [subject for what, subject in tasks if what == "see-to"],
                partial(self._service.see_to_all, going_on=self._going_on),
            )

    def _going_on(self) -> bool:
        return time.monotonic() < self._ends

    def _do(
        self, what: str, subjects: list[str], act: Callable[[list[str]], dict[str, PassdownError]]
    ) -> None:
        try:
            failed = act(subjects) if subjects else {}
        except PassdownError as error:
            failed = dict.fromkeys(subjects, error)
        except Exception:  # noqa: BLE001 - one broken join must not stop the others
            _log.exception("joins.broken", what=what, subjects=subjects)
            return
        for subject, error in failed.items():
            _log.info("joins.left_to_tick", what=what, subject=subject, error=str(error))
