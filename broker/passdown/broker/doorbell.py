"""Tell a role's pool that packs wait: one method, `ring`. kombu carries the message.

A doorbell names a role and nothing else (under 200 bytes). It may be lost, doubled or late: that costs
time, never work, because the queue is in the store (rule 1).
"""

import hashlib
import json
import re
import time
from typing import Any, Protocol
from uuid import uuid4

import structlog

from passdown.broker.backoff import backoff
from passdown.broker.transports import queues
from passdown.broker.transports.addresses import Transport
from passdown.broker.transports.carrier import Publisher
from passdown.contracts.errors import Unavailable
from passdown.contracts.push import role_of_pushed

DRAIN_TASK = "passdown.drain"

#: How long a ring may wait for the server in any one step (seconds): a commit waits for its ring.
_WITHIN_S = 1.0
#: After a failure nothing is sent for so long (seconds): the first time, and at the most; jittered. The tick
#: rings meanwhile, where it can.
_QUIET_FIRST_S, _QUIET_MOST_S = 0.25, 5.0

#: Roles that may stand in the name of a queue as they are: those that a checked plan may name.
_PLAIN_ROLE = re.compile(r"[A-Za-z0-9_.-]{1,100}")
#: Names of queues and exchanges that carry something else.
_TAKEN = re.compile(r"(returns|events|dead|push|(push|probe)\..*)")
#: The doorbell queue of all roles whose packs are pushed.
PUSH_BELL = "passdown.push"

_log = structlog.get_logger("passdown.doorbell")


class Doorbell(Protocol):
    """Rings for roles."""

    def ring(self, role: str) -> None:
        """Tell the pool of `role` that packs wait. Never raises for a queue that is away: the tick rings again."""
        ...


def queue_name(role: str) -> str:
    """Return the name of the doorbell queue of a role.

    An odd role, which might name a path, and one that would meet another queue of ours, go by their digest.
    """
    if role_of_pushed(role) is not None:
        return PUSH_BELL
    if _PLAIN_ROLE.fullmatch(role) and not _TAKEN.fullmatch(role):
        return f"passdown.{role}"
    return f"passdown.~{hashlib.sha256(role.encode(errors='surrogatepass')).hexdigest()[:32]}"


def message(role: str) -> bytes:
    """Return the doorbell's bytes: a Celery task message of protocol 1, the shortest that a pool reads."""
    task: dict[str, Any] = {"task": DRAIN_TASK, "id": uuid4().hex, "args": [role], "kwargs": {}}
    return json.dumps(task, separators=(",", ":")).encode()


class KombuDoorbell:
    """Rings over any transport of kombu. Thread-safe; opens its connection when it first rings, and anew after a fork."""

    def __init__(self, transport: Transport) -> None:
        self._publisher = Publisher(transport, within_s=_WITHIN_S)
        self._failures = 0
        self._quiet_until = 0.0

    def ring(self, role: str) -> None:
        """Publish one doorbell; where the queue is away, say so in the log and leave it to the tick."""
        if time.monotonic() < self._quiet_until:
            return
        try:
            self._publisher.hint(message(role), queues.hints(queue_name(role)))
        except Unavailable as error:
            self._failures += 1
            quiet = backoff(self._failures, _QUIET_FIRST_S, _QUIET_MOST_S)
            self._quiet_until = time.monotonic() + quiet
            _log.warning("doorbell.lost", role=role[:100], error=error.why, quiet_s=round(quiet, 2))
        else:
            self._failures = 0

    def close(self) -> None:
        """Let go of the connection; a later ring opens another."""
        self._publisher.close()


class SilentDoorbell:
    """Rings for nobody: for processes without a transport. The tick rings in their place."""

    def ring(self, role: str) -> None:
        """Do nothing."""
