"""Tell a role's pool that packs wait: one method, `ring`. kombu carries the message.

A doorbell names a role and nothing else (under 200 bytes). It may be lost, doubled or late: that costs
time, never work, because the queue is in the store (rule 1).
"""

import json
import threading
from typing import Any, Protocol
from uuid import uuid4

import kombu
import structlog

DRAIN_TASK = "passdown.drain"

_log = structlog.get_logger("passdown.doorbell")


class Doorbell(Protocol):
    """Rings for roles."""

    def ring(self, role: str) -> None:
        """Tell the pool of `role` that packs wait. Never raises for a queue that is away: the tick rings again."""
        ...


def queue_name(role: str) -> str:
    """Return the name of the doorbell queue of a role."""
    return f"passdown.{role}"


def message(role: str) -> bytes:
    """Return the doorbell's bytes: a Celery task message of protocol 1, the shortest that a pool reads."""
    task: dict[str, Any] = {"task": DRAIN_TASK, "id": uuid4().hex, "args": [role], "kwargs": {}}
    return json.dumps(task, separators=(",", ":")).encode()


class KombuDoorbell:
    """Rings over any transport of kombu. Thread-safe; opens its connection when it first rings."""

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        self._url = url
        self._options = options or {}
        self._lock = threading.Lock()
        self._connection: kombu.Connection | None = None
        self._producer: kombu.Producer | None = None

    def ring(self, role: str) -> None:
        """Publish one doorbell; where the queue is away, say so in the log and leave it to the tick."""
        with self._lock:
            try:
                self._publish(role)
            except Exception as error:  # noqa: BLE001 - each transport raises its own; none may undo a commit
                self._let_go()
                _log.warning("doorbell.lost", role=role, error=repr(error))

    def _publish(self, role: str) -> None:
        if self._producer is None:
            self._connection = kombu.Connection(self._url, transport_options=self._options, connect_timeout=5)
            self._producer = kombu.Producer(self._connection.channel())
        queue = queue_name(role)
        self._producer.publish(
            message(role),
            routing_key=queue,
            exchange="",
            content_type="application/json",
            content_encoding="utf-8",
            declare=[kombu.Queue(queue, routing_key=queue)],
        )

    def _let_go(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is None:
            return
        try:
            connection.release()
        except Exception as error:  # noqa: BLE001 - it is broken already
            _log.debug("doorbell.release_failed", error=repr(error))

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._let_go()


class SilentDoorbell:
    """Rings for nobody: for processes without a transport. The tick rings in their place."""

    def ring(self, role: str) -> None:
        """Do nothing."""
