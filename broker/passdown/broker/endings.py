"""Tells those who wait in this process for a session's end; others' commits are seen only by looking."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from passdown.broker.core.state import State


class Ended(threading.Event):
    """Set when a session ends; then ``state`` is how it ended."""

    state: State | None = None


class Endings:
    """Who waits in this process for which session to end. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[Ended, ...]] = {}

    @contextmanager
    def watch(self, session_id: str) -> Generator[Ended]:
        event = Ended()
        with self._lock:
            self._waiting[session_id] = (*self._waiting.get(session_id, ()), event)
        try:
            yield event
        finally:
            with self._lock:
                left = tuple(one for one in self._waiting[session_id] if one is not event)
                if left:
                    self._waiting[session_id] = left
                else:
                    del self._waiting[session_id]

    def tell(self, state: State) -> None:
        for event in self._waiting.get(state.session_id, ()):
            event.state = state
            event.set()
