"""Notices a consumer that is connected and hears nothing any more, and has it connect anew (DESIGN §11, pools).

Redis answers each pop within a second or so, and a folder is looked at all the time. RabbitMQ may go on
keeping a connection alive whose consumer it has forgotten: there each pool has a small queue of its own,
on which it rings a probe every few seconds. While all slots are busy nothing needs to come, and nothing
is judged.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from uuid import uuid4

import kombu
import structlog

from passdown.broker.doorbell import message, queue_name
from passdown.broker.listening import PROBE_TASK, Ear
from passdown.broker.transports import queues
from passdown.broker.transports.addresses import Transport
from passdown.broker.transports.carrier import Publisher
from passdown.contracts.codec import encode
from passdown.contracts.errors import Unavailable

#: How often a probe is rung (seconds), and how long a consumer with free slots may hear nothing.
PROBE_EVERY_S, HUNG_AFTER_S = 2.0, 10.0
#: After so many new connections that heard nothing either, all of the consumer is made anew.
_MOST_CUTS = 2
#: As long after its worker's end a probe's queue is gone (seconds).
_PROBE_EXPIRES_S = 60.0
#: A probe waits for the server at most so long in any one step (seconds).
_WITHIN_S = 2.0
_LOOK_S = 0.5

_log = structlog.get_logger("passdown.pool")


class Watch:
    """Watches one pool's consumer from a thread of its own."""

    def __init__(
        self,
        transport: Transport,
        ear: Ear,
        roles: list[str],
        *,
        spare: Callable[[], bool],
        restart: Callable[[], None],
    ) -> None:
        """`spare` tells whether a slot is free; `restart` makes all of the consumer anew."""
        self._ear = ear
        self._roles = roles
        self._spare = spare
        self._restart = restart
        self._probe = _probe_queue() if transport.rabbitmq else None
        self._publisher = Publisher(transport, within_s=_WITHIN_S)
        self._rung = 0.0
        self._cuts = 0
        #: Since when there is something to judge.
        self._since = self._free_since = time.monotonic()
        #: How often the consumer was found to hear nothing.
        self.restarts = 0

    @property
    def queues(self) -> list[kombu.Queue]:
        """What the consumer has to listen to for this, beside its doorbells."""
        return [self._probe] if self._probe else []

    @property
    def polled(self) -> float:
        """When the consumer last heard of the transport, `time.monotonic()`; 0.0: not since it connected."""
        return self._ear.heard if self._probe else self._ear.polled

    @property
    def silent_s(self) -> float:
        """For how long the consumer has heard nothing though it had free slots (seconds)."""
        return max(0.0, time.monotonic() - max(self.polled, self._free_since))

    def run(self, stop: threading.Event) -> None:
        """Watch until `stop` is set."""
        while not stop.is_set():
            heard_of = self._ear.listening.wait(_LOOK_S)
            try:
                if heard_of:
                    self._greet()
                self.look()
            except Exception:  # noqa: BLE001 - a consumer that nobody watches may hang unseen
                _log.exception("pool.watch_failed")
        self._publisher.close()

    def _greet(self) -> None:
        """Ring for all roles on a new connection: what was rung for before it may be lost."""
        self._ear.listening.clear()
        try:
            for role in self._roles:
                self._publisher.hint(message(role), queues.hints(queue_name(role)))
        except Unavailable as error:
            _log.warning("pool.greeting_lost", error=error.why)
            self._ear.listening.set()
            time.sleep(_LOOK_S)

    def look(self) -> None:
        """Ring a probe where it is time, and judge what came back."""
        now = time.monotonic()
        if self._probe and now - self._rung > PROBE_EVERY_S:
            self._rung = now
            self._ring(self._probe)
        if self.polled > self._since:
            self._cuts = 0
        if not self._spare():
            # Nothing needs to come where nobody could answer it.
            self._since = self._free_since = now
        if now - max(self.polled, self._since) <= HUNG_AFTER_S:
            return
        self._since = now
        self._wake()

    def _ring(self, probe: kombu.Queue) -> None:
        try:
            self._publisher.hint(encode({"task": PROBE_TASK}), probe)
        except Unavailable as error:
            _log.debug("pool.probe_lost", error=str(error))

    def _wake(self) -> None:
        if self._cuts >= _MOST_CUTS:
            _log.error("pool.consumer_hung", what="made anew", silent_s=HUNG_AFTER_S)
            self._cuts = 0
            self.restarts += 1
            # Celery waits for the end of what it stops, which may hang as well.
            threading.Thread(target=self._restart, name="passdown-pool-restart", daemon=True).start()
        elif self._ear.cut():
            _log.warning("pool.consumer_hung", what="connects anew", silent_s=HUNG_AFTER_S)
            self._cuts += 1
            self.restarts += 1


def _probe_queue() -> kombu.Queue:
    name = f"passdown.probe.{socket.gethostname()[:60]}.{os.getpid()}.{uuid4().hex[:8]}"
    return queues.hints(name, expires_s=_PROBE_EXPIRES_S)
