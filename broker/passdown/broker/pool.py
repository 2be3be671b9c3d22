"""A worker pool on Celery: doorbells come in as tasks, each task is one drain (DESIGN §11, pools).

Celery is only a pool here: one frozen task name, early ack, no retries, no results. Whatever ends its
consumer (a message that no one can decode, a lost transport) is said and the consumer is started again.
"""

import threading
from typing import Any, cast

import structlog
from celery import Celery, shared_task
from kombu import Queue

from passdown.agents.runtime import Runtime
from passdown.broker.app import Transport
from passdown.broker.doorbell import DRAIN_TASK, Doorbell, queue_name

_log = structlog.get_logger("passdown.pool")

#: Waits between restarts of a consumer that ended by itself (seconds): the first, and the longest.
_RESTART_FIRST = 0.2
_RESTART_MOST = 5.0


def celery_app(transport: Transport, roles: list[str]) -> Celery:
    """Return a Celery application that consumes the doorbells of `roles`, with the settings that held in tests."""
    app = Celery("passdown", broker=transport.url, set_as_current=False)
    app.conf.update(
        broker_transport_options=transport.options,
        broker_connection_retry_on_startup=True,
        task_protocol=1,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
        accept_content=["json"],
        task_queues=[Queue(queue_name(role), routing_key=queue_name(role)) for role in roles],
        task_default_queue=queue_name(roles[0]),
        task_create_missing_queues=False,
    )
    return app


#: The pool of this process that serves a role. Celery's threads know only the task's name and arguments.
_serving: dict[str, "Pool"] = {}


@shared_task(name=DRAIN_TASK, ignore_result=True)
def drain(role: str) -> None:
    """Answer a doorbell."""
    pool = _serving.get(role)
    if pool is None:
        _log.warning("pool.foreign_role", role=str(role)[:100])
        return
    pool.drain(role)


class Pool:
    """Runs drains for some roles in threads of this process until stopped."""

    def __init__(
        self,
        runtime: Runtime,
        doorbell: Doorbell,
        transport: Transport,
        roles: list[str],
        *,
        concurrency: int = 8,
    ) -> None:
        self._runtime = runtime
        self._doorbell = doorbell
        self._roles = roles
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._active = 0
        self._stopping = threading.Event()
        self._worker: Any = None
        self._app = celery_app(transport, roles)

    def drain(self, role: str) -> None:
        """Answer one doorbell: drain the role, and ring on where packs remain."""
        with self._lock:
            self._active += 1
        try:
            more = self._runtime.drain(role, self._ring_on)
        finally:
            with self._lock:
                self._active -= 1
        if more and not self._stopping.is_set():
            self._doorbell.ring(role)

    def _ring_on(self, role: str) -> None:
        """Ring while a drain goes on, where this pool has slots that sleep."""
        with self._lock:
            idle = self._active < self._concurrency
        if idle:
            self._doorbell.ring(role)

    def run(self) -> None:
        """Consume until `stop`; a consumer that ends by itself is started again."""
        for role in self._roles:
            _serving[role] = self
        wait = _RESTART_FIRST
        while not self._stopping.is_set():
            for role in self._roles:
                self._doorbell.ring(role)
            self._consume()
            if self._stopping.wait(wait):
                return
            _log.warning("pool.consumer_ended", roles=self._roles, again_s=wait)
            wait = min(wait * 2, _RESTART_MOST)

    def _consume(self) -> None:
        controller = cast("Any", self._app).WorkController(
            pool="threads",
            concurrency=self._concurrency,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
        )
        self._worker = controller
        try:
            controller.start()
        except Exception:  # noqa: BLE001 - each transport raises its own; the consumer starts again
            _log.exception("pool.consumer_failed", roles=self._roles)
        except SystemExit as error:
            # Celery ends its worker this way; here it ends only the consumer.
            _log.warning("pool.consumer_exit", code=str(error.code))

    def stop(self, grace_s: float = 10.0) -> None:
        """Take nothing new; let what runs finish within `grace_s`, hand back the rest, and end the consumer."""
        self._stopping.set()
        for role in self._roles:
            if _serving.get(role) is self:
                del _serving[role]
        self._runtime.stop(grace_s)
        if self._worker is not None:
            self._worker.stop()
