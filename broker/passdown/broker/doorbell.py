"""Tell a role's pool that packs wait: one method, `ring`. kombu carries the message.

A doorbell names a role and nothing else (under 200 bytes). It may be lost, doubled or late: that costs
time, never work, because the queue is in the store (rule 1).
"""

import hashlib
import json
import os
import re
import threading
import weakref
from typing import Any, Protocol
from uuid import uuid4

import kombu
import structlog

from passdown.contracts.push import role_of_pushed

DRAIN_TASK = "passdown.drain"
_CONNECT_TIMEOUT_S = 5

#: Roles that may stand in the name of a queue as they are: those that a checked plan may name.
_PLAIN_ROLE = re.compile(r"[A-Za-z0-9_.-]{1,100}")
#: Roles whose queue would bear the name of one that carries something else (`passdown.returns`, …).
_OTHERWISE_USED = re.compile(r"(push|returns|events|dead)(\..*)?")
#: The doorbell queue of all roles whose packs are pushed.
PUSH_BELL = "passdown.push"

_log = structlog.get_logger("passdown.doorbell")


class Doorbell(Protocol):
    """Rings for roles."""

    def ring(self, role: str) -> None:
        """Tell the pool of `role` that packs wait. Never raises for a queue that is away: the tick rings again."""
        ...


def queue_name(role: str) -> str:
    """Return the name of the doorbell queue of a role; an odd role, which might name a path, goes by its digest."""
    if role_of_pushed(role) is not None:
        return PUSH_BELL
    if _PLAIN_ROLE.fullmatch(role) and not _OTHERWISE_USED.fullmatch(role):
        return f"passdown.{role}"
    return f"passdown.~{hashlib.sha256(role.encode(errors='surrogatepass')).hexdigest()[:32]}"


def message(role: str) -> bytes:
    """Return the doorbell's bytes: a Celery task message of protocol 1, the shortest that a pool reads."""
    task: dict[str, Any] = {"task": DRAIN_TASK, "id": uuid4().hex, "args": [role], "kwargs": {}}
    return json.dumps(task, separators=(",", ":")).encode()


class KombuDoorbell:
    """Rings over any transport of kombu. Thread-safe; opens its connection when it first rings, and anew after a fork."""

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        self._url = url
        self._options = options or {}
        self._start_anew()
        _doorbells.add(self)

    def _start_anew(self) -> None:
        """Begin with nothing: in a forked process the connection is the parent's, and the lock may be held for ever."""
        self._lock = threading.Lock()
        self._connection: kombu.Connection | None = None
        self._producer: kombu.Producer | None = None
        self._declared: set[str] = set()

    def ring(self, role: str) -> None:
        """Publish one doorbell; where the queue is away, say so in the log and leave it to the tick."""
        with self._lock:
            try:
                self._publish(role)
            except Exception as error:  # noqa: BLE001 - each transport raises its own; none may undo a commit
                self._let_go()
                _log.warning("doorbell.lost", role=role[:100], error=repr(error))

    def _publish(self, role: str) -> None:
        if self._producer is None:
            self._connection = kombu.Connection(
                self._url, transport_options=self._options, connect_timeout=_CONNECT_TIMEOUT_S
            )
            self._producer = kombu.Producer(self._connection.channel())
            self._declared = set()
        queue = queue_name(role)
        if queue not in self._declared:
            self._producer.maybe_declare(kombu.Queue(queue, routing_key=queue))
            self._declared.add(queue)
        self._producer.publish(
            message(role),
            routing_key=queue,
            exchange="",
            content_type="application/json",
            content_encoding="utf-8",
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
        """Let go of the connection; a later ring opens another."""
        with self._lock:
            self._let_go()

    def after_fork(self) -> None:
        """Go on in a forked process."""
        self._start_anew()


class SilentDoorbell:
    """Rings for nobody: for processes without a transport. The tick rings in their place."""

    def ring(self, role: str) -> None:
        """Do nothing."""


_doorbells: "weakref.WeakSet[KombuDoorbell]" = weakref.WeakSet()


def _forked() -> None:
    for doorbell in list(_doorbells):
        doorbell.after_fork()


os.register_at_fork(after_in_child=_forked)
