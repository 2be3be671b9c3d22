"""kombu's memory transport, made fit for one process.

A consumer is woken by a message instead of looking for one at intervals: a doorbell then takes a tenth of
a millisecond, and an idle consumer costs nothing. Each broker has queues of its own, named by the host in
the address, so that several may live in one process; of equal hints only a few are kept.
"""

import hashlib
import itertools
import threading
import time
from queue import Empty, Queue
from typing import Any, cast

from kombu.transport import TRANSPORT_ALIASES, memory, virtual

from passdown.broker.transports.vetting import is_hint

SCHEME = "passdown-memory"
TRANSPORT_ALIASES[SCHEME] = "passdown.broker.transports.memory:Transport"

#: A hint that finds so many of its kind need not be put there as well: whoever gets one of those looks into
#: the store after this.
MOST_LYING = 8
#: The longest that a consumer stays in one call (seconds): as late as it hears that it is to stop.
_LONGEST_S = 0.25

_ALONE = "alone-"
_numbers = itertools.count(1)


class _House:
    """The queues of one broker. Counts messages, so that one which arrives between a look and a wait is not missed."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue[Any]] = {}
        self.state = virtual.BrokerState()
        self._changed = threading.Condition()
        self.count = 0

    def arrived(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait_beyond(self, seen: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.count != seen, timeout=seconds)


_houses: dict[str, _House] = {}


def _house(connection: Any) -> _House:
    return _houses.setdefault(connection.client.hostname, _House())


def alone() -> str:
    """Return an address that nobody else has."""
    return f"{SCHEME}://{_ALONE}{next(_numbers)}"


def shared(name: str) -> str:
    """Return the address of all in this process who name the same."""
    return f"{SCHEME}://shared-{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:24]}"


def forget(address: str) -> None:
    """Drop the queues of a broker that is closed, where nobody else may use them."""
    host = address.removeprefix(f"{SCHEME}://")
    if host.startswith(_ALONE):
        _houses.pop(host, None)


class Channel(memory.Channel):
    """Tells waiting consumers of each message."""

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._house = _house(connection)
        self.queues = self._house.queues

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        if is_hint(message) and self._size(queue) >= MOST_LYING:
            return
        super()._put(queue, message, **kwargs)
        self._house.arrived()


class Transport(memory.Transport):
    """Waits for messages instead of polling."""

    Channel = Channel

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.state = _house(self).state
        #: When the queues were last looked at, `time.monotonic()`.
        self.heard = time.monotonic()

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # noqa: ARG002 - kombu's signature
        """Deliver one message; raises `socket.timeout` where none came within `timeout` seconds, or a part of them."""
        house = _house(self)
        ends = time.monotonic() + (_LONGEST_S if timeout is None else min(timeout, _LONGEST_S))
        while True:
            seen = house.count
            self.heard = time.monotonic()
            try:
                cast("Any", self).cycle.get(self._deliver, timeout=timeout)
            except Empty:
                left = ends - time.monotonic()
                if left <= 0:
                    raise TimeoutError from None
                house.wait_beyond(seen, left)
            else:
                return

    def cut(self, _connection: Any) -> None:
        """Do nothing: there is no connection that could hang."""
