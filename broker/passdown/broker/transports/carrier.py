"""Publishing and consuming over any transport: bodies are bytes as they are, and nothing ends a consumer.

kombu's own loops end over a poison message, its serializer revives and mangles data, and its retries
publish twice; here each call is one try, and what became of it is said (DESIGN §11, queue).
"""

import contextlib
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import amqp
import kombu
import structlog
from amqp.exceptions import MessageNacked

from passdown.broker.backoff import backoff, jittered
from passdown.broker.transports import anew, queues
from passdown.broker.transports.addresses import Transport, shown_address
from passdown.contracts.codec import Record
from passdown.contracts.errors import Unavailable

#: How long a publish may wait for the server in any one step: connect, send, confirm (seconds).
PUBLISH_WITHIN_S = 5.0
#: A failure that came sooner than this is tried once more on a new connection (seconds): the server was
#: restarted since the last time.
_SOON_S = 0.5
#: Waits between tries to connect (seconds): the first, and the longest; they are jittered.
_AGAIN_FIRST_S, _AGAIN_MOST_S = 0.1, 3.0
#: As late a consumer hears that it is to stop (seconds).
_LOOK_S = 0.25
#: How long a message that cannot be dealt with now stays with its consumer (seconds), in whose hands it is tried
#: again; then it goes back to the queue. Below the time after which Redis' would be given to another.
_HOLD_S = 30.0
#: The same on RabbitMQ, below the least time that a server may be told to wait (`consumer_timeout`).
_HOLD_RABBITMQ_S = 45.0

_PERSISTENT, _TRANSIENT = 2, 1

_log = structlog.get_logger("passdown.carrier")


class Refused(Unavailable):
    """The server is there, and does not take this message: another may go through."""


#: What says so: an exchange of another kind, no right to write, a queue that is gone (a message that comes back for
#: that is a channel's error, too), a queue that is full and rejects what is published.
_REFUSALS = (amqp.ChannelError, MessageNacked)


class Received(Record, frozen=True, kw_only=True):
    """A message as it came. ``headers`` and ``content_type`` are the sender's word; ``again``: it came before."""

    body: bytes
    content_type: str = ""
    headers: dict[str, Any] = {}
    message_id: str = ""
    reply_to: str = ""
    correlation_id: str = ""
    again: bool = False


class Publisher:
    """Publishes on one connection, opened when it is first needed, and anew after a failure or a fork. Thread-safe."""

    def __init__(self, transport: Transport, *, within_s: float = PUBLISH_WITHIN_S) -> None:
        """Each step of a publish waits at most `within_s` seconds for the server."""
        self._transport = transport.within(within_s)
        self._within_s = within_s
        self._start_anew()
        _publishers.add(self)

    def _start_anew(self) -> None:
        """Begin with nothing: in a forked process the connection is the parent's, and the lock may be held for ever."""
        self._lock = threading.Lock()
        self._connection: kombu.Connection | None = None
        self._producer: kombu.Producer | None = None
        self._declared: set[tuple[str, str]] = set()

    def publish(
        self,
        body: bytes,
        *,
        queue: str = "",
        theirs: bool = False,
        exchange: str = "",
        routing_key: str = "",
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        message_id: str = "",
    ) -> None:
        """Put a message that must arrive on a queue, or on a topic exchange under a routing key.

        A queue that is `theirs` is left as its owner declared it. It may arrive twice. Raises Unavailable where
        it may not have arrived; Refused, which is one, where the server is there and does not take it.
        """
        target: dict[str, Any] = {"exchange": exchange, "routing_key": queue or routing_key}
        # Without a queue there is nobody to tell, which is no fault; a named queue must be there.
        target["mandatory"] = bool(queue)
        properties = {"message_id": message_id} if message_id else {}
        self._safely(
            queues.topic(exchange) if exchange else queues.theirs(queue) if theirs else queues.lasting(queue),
            body,
            content_type=content_type,
            headers=headers or {},
            delivery_mode=_PERSISTENT,
            **target,
            **properties,
        )

    def hint(self, body: bytes, queue: kombu.Queue) -> None:
        """Put a message that may be lost on a queue of `queues.hints`. Raises Unavailable where that may have happened."""
        self._safely(
            queue,
            body,
            content_type="application/json",
            delivery_mode=_TRANSIENT,
            exchange="",
            routing_key=queue.name,
            mandatory=True,
        )

    def _safely(self, declare: Any, body: bytes, **how: Any) -> None:
        if not self._lock.acquire(timeout=self._within_s):
            raise Unavailable("transport", "another message waits for it")
        try:
            self._try(declare, body, how)
        finally:
            self._lock.release()

    def _try(self, declare: Any, body: bytes, how: dict[str, Any], *, again: bool = False) -> None:
        fresh = self._producer is None
        began = time.monotonic()
        try:
            self._send(declare, body, how)
        except Exception as error:  # each transport raises its own
            self._let_go()
            # A queue that was declared a moment ago may have no leader yet, and then RabbitMQ takes nothing.
            hopeless = fresh and not isinstance(error, MessageNacked)
            if again or hopeless or time.monotonic() - began > _SOON_S:
                kind = Refused if isinstance(error, _REFUSALS) else Unavailable
                raise kind("transport", _why(error)) from error
            self._try(declare, body, how, again=True)

    def _send(self, declare: Any, body: bytes, how: dict[str, Any]) -> None:
        producer = self._producer or self._open()
        key = (type(declare).__name__, declare.name)
        if key not in self._declared:
            channel: Any = producer.channel
            if self._transport.rabbitmq and queues.is_theirs(declare):
                queues.declare_theirs(declare, producer.channel)
            elif self._transport.rabbitmq:
                if how["delivery_mode"] == _PERSISTENT and how["mandatory"]:
                    queues.declare_dead(producer.channel)
                declare.bind(channel).declare()
            elif isinstance(declare, kombu.Exchange):
                declare.bind(channel).declare()
            self._declared.add(key)
        producer.publish(
            body,
            content_encoding="utf-8",
            timeout=self._within_s,
            confirm_timeout=self._within_s,
            **how,
        )

    def _open(self) -> kombu.Producer:
        self._connection = connection_to(self._transport, self._within_s)
        self._producer = kombu.Producer(self._connection.channel())
        self._declared = set()
        return self._producer

    def _let_go(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        drop(connection)

    def close(self) -> None:
        """Let go of the connection; a later publish opens another."""
        with self._lock:
            if self._connection is not None:
                with contextlib.suppress(Exception):
                    self._connection.release()
            self._let_go()

    def after_fork(self) -> None:
        """Go on in a forked process."""
        self._start_anew()


class Consumer:
    """Reads one queue, of messages that must arrive unless it says otherwise, one at a time, for ever: in a thread of its own.

    A message is acknowledged once `handle` has returned. Where that raises Unavailable it is tried again with
    waits, and goes back to the queue after a while, on RabbitMQ as a new message: it is not its fault, and must
    not be counted as such (`queues.DELIVERY_LIMIT`). Where it raises anything else, and where a message cannot
    be read at all, `on_junk` gets its bytes, as far as they are known, and the reason. Both may meet a message
    twice.
    """

    def __init__(
        self,
        transport: Transport,
        queue: str | kombu.Queue,
        handle: Callable[[Received], None],
        *,
        on_junk: Callable[[bytes, str], None],
    ) -> None:
        self._transport = transport.telling(lambda _queue, body, reason: on_junk(body, reason))
        self._hold_s = _HOLD_RABBITMQ_S if transport.rabbitmq else _HOLD_S
        self._declared = queues.lasting(queue) if isinstance(queue, str) else queue
        self._queue: str = self._declared.name
        self._handle = handle
        self._on_junk = on_junk
        self._failures = 0
        #: When the queue was last known to be read, `time.monotonic()`; 0.0: never yet.
        self.last_poll = 0.0

    def run(self, stop: threading.Event) -> None:
        """Consume until `stop` is set; whatever goes wrong, connect again with jittered waits, and say so in the log."""
        while not stop.is_set():
            try:
                self._serve(stop)
            except Exception as error:  # noqa: BLE001 - each transport raises its own, and none may end this
                self._failures += 1
                pause = backoff(self._failures, _AGAIN_FIRST_S, _AGAIN_MOST_S)
                _log.warning("carrier.lost", queue=self._queue, error=_why(error), again_s=round(pause, 2))
                stop.wait(pause)

    def _serve(self, stop: threading.Event) -> None:
        connection = connection_to(self._transport)
        try:
            channel = connection.channel()
            got: deque[Any] = deque()
            consumer = self._consumer(channel, got)
            consumer.consume()
            while not stop.is_set():
                _drain(connection, _LOOK_S)
                heard: float = cast("Any", connection.transport).heard
                if heard > self.last_poll:
                    self.last_poll, self._failures = heard, 0
                while got:
                    self._answer(got.popleft(), connection, stop)
            consumer.cancel()
            connection.release()
        finally:
            drop(connection)

    def _consumer(self, channel: Any, got: "deque[Any]") -> kombu.Consumer:
        if self._transport.rabbitmq:
            queues.declare_dead(channel)
        queue = self._declared.bind(channel)
        queue.declare()
        return kombu.Consumer(
            channel,
            [queue],
            on_message=got.append,
            on_decode_error=lambda message, _: got.append(message),
            prefetch_count=1,
            auto_declare=False,
        )

    def _answer(self, message: Any, connection: kombu.Connection, stop: threading.Event) -> None:
        """Deal with a message, then acknowledge it; while that is Unavailable, keep the connection alive and try again."""
        ends = time.monotonic() + self._hold_s
        pause = _AGAIN_FIRST_S
        while True:
            try:
                self._deal(message)
            except Unavailable as error:
                _log.warning("carrier.away", queue=self._queue, error=str(error), again_s=round(pause, 2))
            else:
                message.ack()
                return
            tried = time.monotonic()
            while time.monotonic() < tried + pause and not stop.is_set():
                # No other message can come, for this one is not acknowledged.
                _drain(connection, min(pause, _LOOK_S))
            if stop.is_set() or time.monotonic() > ends:
                self._give_back(message)
                return
            pause = min(jittered(pause * 2), _AGAIN_MOST_S)

    def _give_back(self, message: Any) -> None:
        """Put a message back on the queue; raises what the transport raises, and then the server does it."""
        if self._transport.rabbitmq:
            anew.publish(message, _bytes(message), self._queue, PUBLISH_WITHIN_S)
            message.ack()
        else:
            message.requeue()

    def _deal(self, message: Any) -> None:
        try:
            received = _received(message)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the next one may be fine
            self._refuse(_bytes(message), f"cannot be read: {error!r}"[:300])
            return
        try:
            self._handle(received)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - a fault with one message must not stop the others
            _log.exception("carrier.not_handled", queue=self._queue, bytes=len(received.body))
            self._refuse(received.body, f"cannot be handled: {error!r}"[:300])

    def _refuse(self, body: bytes, reason: str) -> None:
        try:
            self._on_junk(body, reason)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - there is nobody left to tell
            _log.exception("carrier.junk_not_kept", queue=self._queue, bytes=len(body), reason=reason)


def connection_to(transport: Transport, within_s: float = PUBLISH_WITHIN_S) -> kombu.Connection:
    """Return an open connection; raises what the transport raises where none is had within `within_s` seconds, or twice that."""
    connection = kombu.Connection(
        transport.url, transport_options=transport.options, connect_timeout=within_s
    )
    # Left to itself kombu sleeps for seconds between tries.
    connection.ensure_connection(
        max_retries=1,
        interval_start=0,
        interval_step=0,
        timeout=math.ceil(within_s),
        reraise_as_library_errors=False,
    )
    return connection


def drop(connection: kombu.Connection | None) -> None:
    """Let go of a connection that may be broken, without a word to a server that may be gone."""
    if connection is None:
        return
    try:
        if (opened := getattr(connection, "_connection", None)) is not None and hasattr(opened, "collect"):
            opened.collect()
        else:
            connection.release()
    except Exception as error:  # noqa: BLE001 - it is broken already
        _log.debug("carrier.release_failed", error=repr(error))


def _drain(connection: kombu.Connection, seconds: float) -> None:
    try:
        connection.drain_events(timeout=seconds)
    except TimeoutError:
        return


def _received(message: Any) -> Received:
    if message.errors:
        raise message.errors[0][1]
    properties = message.properties
    body = message.body
    if not isinstance(body, bytes | str):
        raise TypeError(f"expected bytes, got {type(body).__name__}")
    return Received(
        body=body.encode() if isinstance(body, str) else body,
        content_type=_text(message.content_type),
        headers=dict(message.headers),
        message_id=_text(properties.get("message_id")),
        reply_to=_text(properties.get("reply_to")),
        correlation_id=_text(properties.get("correlation_id")),
        again=bool(message.delivery_info.get("redelivered") or message.headers.get("redelivered")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _bytes(message: Any) -> bytes:
    body = getattr(message, "body", b"")
    if isinstance(body, bytes):
        return body
    return str(body).encode(errors="surrogatepass")


def _why(error: BaseException) -> str:
    """Say what a transport's library raised, without an address that might hold a password."""
    return shown_address(f"{type(error).__name__}: {error}")[:300]


_publishers: "weakref.WeakSet[Publisher]" = weakref.WeakSet()


def _forked() -> None:
    for publisher in list(_publishers):
        publisher.after_fork()


os.register_at_fork(after_in_child=_forked)
