"""A worker pool on Celery: doorbells come in as tasks, each task is one drain (DESIGN §11, pools).

Celery is only a pool here: one frozen task name, early ack, no retries, no results. Whatever ends its
consumer (a message that no one can decode, a lost transport) is said and the consumer is started again.
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Literal, cast

import structlog
from celery import Celery, bootsteps, signals
from celery.concurrency.thread import TaskPool
from celery.worker import state as celery_state
from kombu import Exchange, Queue

from passdown.broker.app import Transport
from passdown.broker.doorbell import Doorbell, queue_name
from passdown.broker.draining import Answers, Hands, ProcessSlots, ThreadSlots, answer_with
from passdown.broker.listening import Ear, listen_with
from passdown.broker.transports import queues
from passdown.broker.transports.vetting import Junk
from passdown.broker.watching import Watch

_log = structlog.get_logger("passdown.pool")

#: Waits between restarts of a consumer that ended by itself (seconds): the first, and the longest; one that
#: lived long enough begins anew.
_RESTART_FIRST, _RESTART_MOST, _LIVED = 0.2, 5.0, 30.0
#: How long a consumer may take to end (seconds).
_END_WITHIN = 5.0
#: How often the event loop of a pool of processes looks for messages, how long it waits for one then (seconds),
#: and how many it takes at a look.
_LOOK_EVERY, _LOOK_FOR, _AT_A_LOOK = 0.01, 0.001, 8

Kind = Literal["threads", "prefork", "solo"]
#: What `passdown worker --pool` may be.
KINDS: tuple[Kind, ...] = ("threads", "prefork", "solo")


def celery_app(
    transport: Transport, roles: list[str], ear: Ear | None = None, more: Sequence[Queue] = ()
) -> Celery:
    """Return a Celery application that consumes the doorbells of `roles`, with the settings that held in tests.

    `ear` hears them, and the messages of the queues in `more`.
    """
    app = Celery("passdown", broker=transport.url, set_as_current=False)
    ear = ear or Ear()
    listen_with(app, ear)
    app.conf.update(
        broker_transport_options=transport.for_hints(ear.refuse).options,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_protocol=1,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        # After a lost connection it would raise the prefetch count step by step, from the threads of the pool: they
        # would read from the connection at the same time as the consumer, and take frames away from each other.
        worker_enable_prefetch_count_reduction=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
        # How long a drain whose child died keeps its slot, and how long a child may take to start (seconds).
        worker_lost_wait=1.0,
        worker_proc_alive_timeout=30.0,
        accept_content=["json"],
        # It would leave an exchange and a queue behind, and nothing here speaks through them.
        worker_enable_remote_control=False,
        # It concerns tasks that are acknowledged late, which ours are not; unsaid, Celery warns at each connection.
        worker_cancel_long_running_tasks_on_connection_loss=True,
        task_queues=[*(queues.hints(queue_name(role)) for role in roles), *more],
        task_default_queue=queue_name(roles[0]),
        task_create_missing_queues=False,
    )
    # Celery would bind each to an exchange of its own, which stays behind; a doorbell names its queue.
    for queue in cast("Any", app.amqp.queues).values():
        queue.exchange = Exchange("")
    app.steps["consumer"].add(Looking)
    return app


class Looking(bootsteps.StartStopStep):
    """Has an event loop read from a transport that knows of none: ours are read from their consumer's thread."""

    def register_with_event_loop(self, consumer: Any, hub: Any) -> None:
        """Look for messages as long as this connection lasts; what is wrong with it ends the loop."""
        if not consumer.connection.transport.implements.asynchronous:
            hub.call_repeatedly(_LOOK_EVERY, _look, consumer.connection)


def _look(connection: Any) -> None:
    with suppress(TimeoutError):
        for _ in range(_AT_A_LOOK):
            connection.drain_events(timeout=_LOOK_FOR)


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
    """Runs drains for some roles until stopped: in threads of this process, in its children, or in the consumer's thread."""

    def __init__(
        self,
        hands: Hands,
        doorbell: Doorbell,
        transport: Transport,
        roles: list[str],
        *,
        concurrency: int = 8,
        kind: Kind = "threads",
        on_junk: Junk | None = None,
    ) -> None:
        """Serve `roles` with `hands`, at most `concurrency` drains at once; `on_junk` is told of what is no doorbell.

        With ``solo`` that is one; with ``prefork`` the hands are `Children`, and this process has one pool only.
        """
        self._hands = hands
        self._doorbell = doorbell
        self.roles = roles
        self._kind: Kind = kind
        self._concurrency = 1 if kind == "solo" else concurrency
        self._stopping = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._worker: Any = None
        self._ended = 0
        slots = ProcessSlots(concurrency) if kind == "prefork" else ThreadSlots(self._concurrency)
        ear = Ear(on_junk)
        #: Knows when the consumer last heard of its transport.
        self.watch = Watch(transport, ear, roles, spare=lambda: slots.spare, restart=self._tell_consumer)
        self._app = celery_app(transport, roles, ear, self.watch.queues)
        self._answers = Answers(hands, doorbell, roles, slots)
        answer_with(self._app, self.drain)
        if kind == "prefork":
            signals.setup_logging.connect(_logs_are_ours, weak=False)

    def drain(self, role: str) -> None:
        """Answer one doorbell: drain the role, and ring on where packs remain."""
        self._answers.drain(role)

    @property
    def restarts(self) -> int:
        """How often the consumer was started again, or had to connect anew for it heard nothing."""
        return self._ended + self.watch.restarts

    def run(self) -> None:
        """Consume until `stop`; a consumer that ends by itself is started again."""
        self._idle.clear()
        if self._kind == "solo":
            self._app.set_current()  # in this thread, where the task runs as well
        wait = _RESTART_FIRST
        watching = threading.Thread(
            target=self.watch.run, args=(self._stopping,), name="passdown-watch", daemon=True
        )
        watching.start()
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                self._consume()
                if time.monotonic() - began > _LIVED:
                    wait = _RESTART_FIRST
                if self._stopping.wait(wait):
                    return
                self._ended += 1
                _log.warning("pool.consumer_ended", roles=self.roles, again_s=wait)
                wait = min(wait * 2, _RESTART_MOST)
        finally:
            self._idle.set()

    def _consume(self) -> None:
        if self._kind == "prefork":
            celery_state.should_stop = None  # said to the consumer before this one
        try:
            self._worker = cast("Any", self._app).WorkController(
                pool=_Threads if self._kind == "threads" else self._kind,
                concurrency=self._concurrency,
                # Children get their work through pipes of their own: of one that they shared, a child that is
                # killed could keep the lock.
                use_eventloop=True if self._kind == "prefork" else None,
                without_gossip=True,
                without_mingle=True,
                without_heartbeat=True,
                quiet=True,
            )
            if not self._stopping.is_set():
                self._worker.start()
        except Exception:  # noqa: BLE001 - each transport raises its own; the consumer starts again
            _log.exception("pool.consumer_failed", roles=self.roles)
        except SystemExit as error:
            # Celery ends its worker this way; here it ends only the consumer.
            _log.warning("pool.consumer_exit", code=str(error.code))

    def stop(self, grace_s: float = 10.0) -> None:
        """Take nothing new; let what runs finish within `grace_s` seconds, hand back the rest, and end the consumer.

        Returns within a few seconds more, also where a plain agent goes on that nobody can end.
        """
        self._stopping.set()
        self._hands.close()
        _log.info("pool.stopping", roles=self.roles, grace_s=grace_s)
        threading.Thread(target=self._end_consumer, name="passdown-pool-end", daemon=True).start()
        self._hands.stop(grace_s)
        if not self._idle.wait(_END_WITHIN):
            _log.warning("pool.consumer_stuck", roles=self.roles)
        for role in self.roles:
            # Bells that this pool had heard and not answered: others may serve these roles.
            self._doorbell.ring(role)
        self._app.close()

    def _end_consumer(self) -> None:
        """Celery ignores a stop that comes while it starts: say it until the consumer has ended."""
        while not self._idle.wait(0.02):
            self._tell_consumer()

    def _tell_consumer(self) -> None:
        """Tell the consumer to end."""
        if self._kind == "prefork":
            celery_state.should_stop = 0  # heard in the consumer's thread, which alone may end children
        elif self._worker is not None:
            self._worker.stop()


def _logs_are_ours(**_: object) -> None:
    """Celery sets no logs up where somebody answers this signal."""
