"""How a process is told to stop, and that it does.

Signals are heard by a thread of their own the moment they arrive: Python's own handlers wait until the
main thread is done with whatever it is doing in C (a locked database: a minute), and may then interrupt it
while it holds the very lock that they need.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import structlog

_log = structlog.get_logger("passdown")

STOPS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_signals(heard: Callable[[int], None], numbers: tuple[signal.Signals, ...] = STOPS) -> Generator[None]:
    """Call `heard` with the number of each of these signals, in a thread. For the main thread only."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = {number: signal.signal(number, _ignore) for number in numbers}
    fd_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    listener = threading.Thread(
        target=_listen, args=(reader, heard, numbers), name="passdown-signals", daemon=True
    )
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writer)
        listener.join()
        os.close(reader)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """The listening thread hears it."""


def _listen(reader: int, heard: Callable[[int], None], numbers: tuple[signal.Signals, ...]) -> None:
    while data := os.read(reader, 64):
        for number in data:
            if number in numbers:
                heard(number)


@contextmanager
def stop_on_signals() -> Generator[threading.Event]:
    """Yield an event that the first SIGTERM or SIGINT sets; a second one ends the process on the spot.

    What that leaves undone is not lost: leases run out, and packs are handed on.
    """
    stop = threading.Event()

    def heard(number: int) -> None:
        if stop.is_set():
            _leave(128 + number)
        stop.set()

    with on_signals(heard):
        yield stop


def end_within(seconds: float, status: int, why: str = "") -> None:
    """End this process with `status` after `seconds` at the latest, whatever its threads are doing then."""

    def end() -> None:
        time.sleep(seconds)
        if why:
            _log.error("process.ended_by_force", why=why, after_s=seconds)
        _leave(status)

    threading.Thread(target=end, name="passdown-end", daemon=True).start()


def _leave(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(status)
