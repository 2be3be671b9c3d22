"""A worker pool on Celery: doorbells come in as tasks, each task is one drain (DESIGN §11, pools).

Celery is only a pool here: one frozen task name, early ack, no retries, no results. Whatever ends its
consumer (a message that no one can decode, a lost transport) is said and the consumer is started again.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import structlog
from celery import Celery
from celery.concurrency.thread import TaskPool
from kombu import Queue

from passdown.agents.runtime import Runtime
from passdown.broker.app import Transport
from passdown.broker.doorbell import DRAIN_TASK, Doorbell, queue_name

_log = structlog.get_logger("passdown.pool")

#: Waits between restarts of a consumer that ended by itself (seconds): the first, and the longest; one that
#: lived long enough begins anew.
_RESTART_FIRST, _RESTART_MOST, _LIVED = 0.2, 5.0, 30.0
#: How long a consumer may take to end (seconds).
_END_WITHIN = 5.0


def celery_app(transport: Transport, roles: list[str]) -> Celery:
    """Return a Celery application that consumes the doorbells of `roles`, with the settings that held in tests."""
    app = Celery("passdown", broker=transport.url, set_as_current=False)
    app.conf.update(
        broker_transport_options=transport.options,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
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


class _Threads(TaskPool):
    """Celery's threads, each of which knows whose they are: several pools may live in one process.

    Their end waits for no drain: the runtime has seen to that, as far as it can be.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        app = cast("Any", self).app
        self.executor = ThreadPoolExecutor(self.limit, "passdown-drain", initializer=app.set_current)

    def on_stop(self) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)


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
        """Serve `roles` with the agents of `runtime`, at most `concurrency` drains at once."""
        self._runtime = runtime
        self._doorbell = doorbell
        self._roles = roles
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._active = 0
        self._stopping = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._worker: Any = None
        self._app = celery_app(transport, roles)

        @self._app.task(name=DRAIN_TASK, shared=False, ignore_result=True)
        def drain(role: str) -> None:
            self.drain(role)

        del drain

    def drain(self, role: str) -> None:
        """Answer one doorbell: drain the role, and ring on where packs remain."""
        if role not in self._roles:
            _log.warning("pool.foreign_role", role=repr(role)[:100])
            return
        with self._lock:
            self._active += 1
        try:
            more = self._runtime.drain(role, self._ring_on)
        finally:
            with self._lock:
                self._active -= 1
        if more:
            self._doorbell.ring(role)

    def _ring_on(self, role: str) -> None:
        """Ring while a drain goes on, where this pool has slots that sleep."""
        with self._lock:
            idle = self._active < self._concurrency
        if idle:
            self._doorbell.ring(role)

    def run(self) -> None:
        """Consume until `stop`; a consumer that ends by itself is started again."""
        self._idle.clear()
        wait = _RESTART_FIRST
        try:
            while not self._stopping.is_set():
                for role in self._roles:
                    self._doorbell.ring(role)
                began = time.monotonic()
                self._consume()
                if time.monotonic() - began > _LIVED:
                    wait = _RESTART_FIRST
                if self._stopping.wait(wait):
                    return
                _log.warning("pool.consumer_ended", roles=self._roles, again_s=wait)
                wait = min(wait * 2, _RESTART_MOST)
        finally:
            self._idle.set()

    def _consume(self) -> None:
        try:
            self._worker = cast("Any", self._app).WorkController(
                pool=_Threads,
                concurrency=self._concurrency,
                without_gossip=True,
                without_mingle=True,
                without_heartbeat=True,
                quiet=True,
            )
            if not self._stopping.is_set():
                self._worker.start()
        except Exception:  # noqa: BLE001 - each transport raises its own; the consumer starts again
            _log.exception("pool.consumer_failed", roles=self._roles)
        except SystemExit as error:
            # Celery ends its worker this way; here it ends only the consumer.
            _log.warning("pool.consumer_exit", code=str(error.code))

    def stop(self, grace_s: float = 10.0) -> None:
        """Take nothing new; let what runs finish within `grace_s` seconds, hand back the rest, and end the consumer.

        Returns within a few seconds more, also where a plain agent goes on that nobody can end.
        """
        self._stopping.set()
        threading.Thread(target=self._end_consumer, name="passdown-pool-end", daemon=True).start()
        if not self._idle.wait(_END_WITHIN):
            _log.warning("pool.consumer_stuck", roles=self._roles)
        self._runtime.stop(grace_s)
        for role in self._roles:
            # Bells that this pool had heard and not answered: others may serve these roles.
            self._doorbell.ring(role)
        self._app.close()

    def _end_consumer(self) -> None:
        """Celery ignores a stop that comes while it starts: say it until the consumer has ended."""
        while not self._idle.wait(0.02):
            if self._worker is not None:
                self._worker.stop()
