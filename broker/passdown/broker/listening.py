"""How a pool's Celery hears doorbells: nothing on its queues ends it, and it connects again for ever.

Celery's own consumer ends over a content type that it does not know, takes any KeyError for a lost
connection, and waits longer and longer for a server. Here a message is looked at before Celery sees it:
what is no doorbell is acknowledged, counted, and handed on to be kept.
"""

import json
import threading
import time
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

import structlog
from celery import Celery, bootsteps
from celery.exceptions import WorkerShutdown
from celery.worker.consumer.consumer import Consumer
from celery.worker.state import maybe_shutdown

from passdown.broker.backoff import backoff
from passdown.broker.doorbell import DRAIN_TASK
from passdown.broker.transports.vetting import Junk

#: The task that names no role: it only shows that a message comes through.
PROBE_TASK = "passdown.probe"
#: More bytes than any doorbell has.
_MOST_BYTES = 4096
#: Waits between tries to reach a transport that is away (seconds): the first, and the longest; jittered.
_AGAIN_FIRST_S, _AGAIN_MOST_S = 0.1, 2.0
#: How soon a stop is heard meanwhile (seconds).
_LOOK_S = 0.1

#: The states of a consumer that ends (`celery.bootsteps`).
_ENDING = (cast("Any", bootsteps).CLOSE, cast("Any", bootsteps).TERMINATE)

_log = structlog.get_logger("passdown.pool")


class Ear:
    """What is known of one pool's consumer: when it heard something last, and how to have it connect anew."""

    def __init__(self, on_junk: Junk | None = None) -> None:
        self._on_junk = on_junk
        self.consumer: Any = None
        #: When a message came last, `time.monotonic()`; 0.0: never yet.
        self.heard = 0.0
        #: How many messages were none.
        self.junk = 0
        #: Set when the consumer begins to listen on a new connection, by then on its queues.
        self.listening = threading.Event()

    def refuse(self, queue: str, body: bytes, reason: str) -> None:
        """Count a message that is none, say so, and hand it on to be kept."""
        self.junk += 1
        _log.warning("pool.junk", queue=queue[:100], bytes=len(body), reason=reason[:200], so_far=self.junk)
        if self._on_junk is None:
            return
        try:
            self._on_junk(queue, body, reason)
        except Exception:  # noqa: BLE001 - whoever keeps junk must not stop those who hear
            _log.exception("pool.junk_not_kept", queue=queue[:100])

    @property
    def polled(self) -> float:
        """When the transport was last known to answer the consumer, `time.monotonic()`; 0.0: it does not now."""
        transport = self._transport()
        return transport.heard if transport is not None else 0.0

    def _transport(self) -> Any:
        connection = getattr(self.consumer, "connection", None)
        return connection.transport if connection is not None and connection.connected else None

    def cut(self) -> bool:
        """End the consumer's connection, where it has one, so that it makes another; returns whether it had."""
        transport = self._transport()
        if transport is None:
            return False
        transport.cut(self.consumer.connection.connection)
        return True


_ears: "WeakKeyDictionary[Celery, Ear]" = WeakKeyDictionary()


def listen_with(app: Celery, ear: Ear) -> None:
    """Have the messages that `app` gets heard by `ear`."""
    _ears[app] = ear
    app.conf.worker_consumer = Listener


class Listener(Consumer):
    """Celery's consumer, deaf to junk and never giving up."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ear = _ears[cast("Any", self).app]
        self._ear.consumer = self

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """Look at each message before Celery does, and let no fault with one out."""
        handle: Any = super().create_task_handler(*args, **kwargs)
        self._ear.listening.set()

        def on_message(message: Any) -> None:
            try:
                if self._is_bell(message):
                    handle(message)
            except Exception as error:
                if self._is_of_connection(error):
                    raise
                # A KeyError would be taken for a lost connection, and the message would come again for ever.
                _log.exception("pool.message_broken")
                self._refuse(message, f"cannot be handled: {error!r}")

        return on_message

    def _is_of_connection(self, error: Exception) -> bool:
        return isinstance(error, cast("Any", self).connection_errors) and not isinstance(error, KeyError)

    def _is_bell(self, message: Any) -> bool:
        """Whether a message is a doorbell; it is then as short as ours, whatever came with it."""
        self._ear.heard = time.monotonic()
        try:
            task, args = _read(message)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the next one may be fine
            self._refuse(message, str(error) or repr(error))
            return False
        if task == PROBE_TASK:
            message.ack()
            return False
        bell: dict[str, Any] = {"task": DRAIN_TASK, "id": uuid4().hex, "args": args, "kwargs": {}}
        message.body = json.dumps(bell).encode()
        message.headers = {}
        message.content_type, message.content_encoding = "application/json", "utf-8"
        return True

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """A message that does not even unpack."""
        self._refuse(message, f"cannot be read: {exc!r}")

    def _refuse(self, message: Any, reason: str) -> None:
        info: dict[str, Any] = getattr(message, "delivery_info", None) or {}
        body = getattr(message, "body", b"")
        data = body if isinstance(body, bytes) else str(body).encode(errors="surrogatepass")
        if not getattr(message, "acknowledged", False):
            message.ack()
        self._ear.refuse(str(info.get("routing_key", "")), data, reason[:300])

    def ensure_connected(self, conn: Any) -> Any:
        """Connect, however long that takes; raises WorkerShutdown where the worker is to stop meanwhile."""
        me = cast("Any", self)
        failures = 0
        while True:
            try:
                conn.ensure_connection(
                    max_retries=1, interval_start=0, interval_step=0, reraise_as_library_errors=False
                )
            except Exception as error:  # noqa: BLE001 - each transport raises its own, and so does a wrong password
                failures += 1
                pause = backoff(failures, _AGAIN_FIRST_S, _AGAIN_MOST_S)
                _log.warning(
                    "pool.transport_away",
                    error=f"{type(error).__name__}: {error}"[:300],
                    again_s=round(pause, 2),
                )
                self._wait(pause)
            else:
                me.first_connection_attempt = False
                me.broker_connection_retry_attempt = 0
                return conn

    def _wait(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            maybe_shutdown()
            if cast("Any", self).blueprint.state in _ENDING:
                raise WorkerShutdown(0)
            time.sleep(_LOOK_S)


def _read(message: Any) -> tuple[str, list[str]]:
    """Return the task and the arguments of a doorbell or a probe; raises ValueError for anything else."""
    body = message.body
    if not isinstance(body, bytes | str):
        raise TypeError(f"expected bytes, got {type(body).__name__}")
    if len(body) > _MOST_BYTES:
        raise ValueError(f"a doorbell has at most {_MOST_BYTES} bytes, this has {len(body)}")
    said = json.loads(body)
    if not isinstance(said, dict):
        raise TypeError(f"expected an object, got {type(said).__name__}")
    found = cast("dict[str, Any]", said)
    task, args = found.get("task"), found.get("args")
    if task == PROBE_TASK:
        return PROBE_TASK, []
    if task != DRAIN_TASK:
        raise ValueError(f"expected the task {DRAIN_TASK}, got {str(task)[:100]!r}")
    if not isinstance(args, list) or len(cast("list[Any]", args)) != 1 or not isinstance(args[0], str):
        raise ValueError(f"expected one role, got {str(cast('object', args))[:100]}")
    return DRAIN_TASK, [args[0]]
