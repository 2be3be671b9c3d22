"""The parts of a process: each runs in a thread of its own until it is told to stop (DESIGN §11, processes)."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog

_log = structlog.get_logger("passdown")

#: How long the threads of a process may take to end after its work has ended (seconds).
JOIN_WITHIN_S = 5.0


class Part(Protocol):
    """One thing that a process does."""

    def run(self, stop: threading.Event) -> None:
        """Do it until `stop` is set."""
        ...


class Parts:
    """Runs parts and watches them. ``faults`` names those that ended by themselves.

    `on_fault` is called when one does, from its thread: the rest would look alive and do nothing.
    """

    def __init__(self, stop: threading.Event, on_fault: Callable[[], None] | None = None) -> None:
        self._stop = stop
        self._on_fault = on_fault
        self._threads: list[threading.Thread] = []
        self.faults: list[str] = []

    def start(self, name: str, act: Callable[[], object]) -> None:
        """Start a part that knows by itself when to stop."""
        thread = threading.Thread(
            target=self._watched, args=(name, act), name=f"passdown-{name}", daemon=True
        )
        thread.start()
        self._threads.append(thread)

    def start_all(self, parts: dict[str, Part]) -> None:
        """Start parts by name."""
        for name, part in parts.items():
            self.start(name, lambda part=part: part.run(self._stop))

    def _watched(self, name: str, act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException:  # noqa: BLE001 - there is nobody above
            _log.exception("up.part_broken", part=name)
        if not self._stop.is_set():
            _log.critical("up.part_ended", part=name)
            self.faults.append(name)
            if self._on_fault:
                self._on_fault()

    def join(self) -> None:
        """Wait until all have ended, for a few seconds together; say which have not."""
        ends = time.monotonic() + JOIN_WITHIN_S
        for thread in self._threads:
            thread.join(timeout=max(0.0, ends - time.monotonic()))
            if thread.is_alive():
                _log.warning("up.part_stuck", part=thread.name)
