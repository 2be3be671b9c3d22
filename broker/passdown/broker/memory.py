"""kombu's memory transport, but a consumer is woken by a message instead of looking for one at intervals.

Within one process a doorbell then takes a tenth of a millisecond, and an idle consumer costs nothing.
"""

import threading
import time
from queue import Empty
from typing import Any, cast

from kombu.transport import TRANSPORT_ALIASES, memory

SCHEME = "passdown-memory"
TRANSPORT_ALIASES[SCHEME] = "passdown.broker.memory:Transport"

#: The longest that a consumer sleeps, should a wake-up pass it by (seconds).
_LONGEST = 1.0


class _Arrivals:
    """Counts messages, so that one which arrives between a look and the wait for the next is not missed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.count = 0

    def add(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait_beyond(self, seen: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.count != seen, timeout=seconds)


_arrivals = _Arrivals()


class Channel(memory.Channel):
    """Tells waiting consumers of each message."""

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        super()._put(queue, message, **kwargs)
        _arrivals.add()


class Transport(memory.Transport):
    """Waits for messages instead of polling."""

    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # noqa: ARG002 - kombu's signature
        """Deliver one message; raises `socket.timeout` where none came within `timeout` seconds."""
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            seen = _arrivals.count
            try:
                cast("Any", self).cycle.get(self._deliver, timeout=timeout)
            except Empty:
                left = _LONGEST if ends is None else ends - time.monotonic()
                if left <= 0:
                    raise TimeoutError from None
                _arrivals.wait_beyond(seen, min(left, _LONGEST))
            else:
                return
