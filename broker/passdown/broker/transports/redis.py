"""kombu's Redis transport, made fit: nothing on a list ends a consumer, and hints do not pile up.

What differs: an item that is no message is handed to ``on_junk`` and the next one read; a key of another
type under a queue's name is put aside; a message that is sent as a hint is left out where some lie there;
a connection that closes gives back what a pending pop still brought; redis-py repeats no command by
itself; `Transport.heard` is when the server last answered a pop. It is read from the consumer's own
thread: in Celery's event loop several consumers of one process would share one hub.
"""

# ruff: noqa: SLF001 - kombu's channels are extended through their members with an underscore
import time
from queue import Empty
from typing import Any, cast

import structlog
from kombu.transport import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from passdown.broker.transports.sockets import shut
from passdown.broker.transports.vetting import Junk, envelope, is_hint, tell

#: A hint that finds so many of its kind need not be put there as well.
MOST_LYING = 8
#: The longest that a consumer stays in one call (seconds): as late as it hears that it is to stop.
_LONGEST_S = 0.25
#: The same while it may take no more, which another thread may change at any moment: a slot is free again.
_FULL_S = 0.02
#: How long a closing connection waits for the answer to its pending pop (seconds): the pop's own time-out is one.
_LAST_ANSWER_S = 1.5

_log = structlog.get_logger("passdown.transport")


class Channel(redis.Channel):
    """Reads lists whatever lies on them."""

    on_junk: Junk | None = None
    from_transport_options = (*redis.Channel.from_transport_options, "on_junk")

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        """redis-py would send a command again up to ten times, each time as long as the time-out."""
        params = cast("Any", super())._connparams(asynchronous)
        return {**params, "retry": Retry(NoBackoff(), 0), "protocol": 2}

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        if is_hint(message) and self._size(queue) >= MOST_LYING:
            return
        super()._put(queue, message, **kwargs)

    def _brpop_read(self, **options: Any) -> bool:
        me = cast("Any", self)
        connection = me.client.connection
        try:
            if me._closing and not connection.can_read(timeout=_LAST_ANSWER_S):
                connection.disconnect()
                raise Empty
            found = self._answer(connection, options)
            me.connection.heard = time.monotonic()
            if not found:
                raise Empty
            self._deliver(*found)
        finally:
            me._in_poll = None
            me._flush_brpop_reauth()
        return True

    def _answer(self, connection: Any, options: dict[str, Any]) -> Any:
        try:
            return cast("Any", self).client.parse_response(connection, "BRPOP", **options)
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            self._put_aside()
            return None
        except cast("Any", self).connection_errors:
            connection.disconnect()
            raise

    def _deliver(self, key: bytes, item: bytes) -> None:
        me = cast("Any", self)
        name = key.decode(errors="replace")
        queue = name.rsplit(me.sep, 1)[0]
        if me._closing:
            with me.conn_or_acquire() as client:
                client.rpush(name, item)
            return
        me._queue_cycle.rotate(queue)
        payload = self._read(queue, item)
        if payload is not None:
            me.connection._deliver(payload, queue)

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002 - kombu's signature
        me = cast("Any", self)
        with me.conn_or_acquire() as client:
            for priority in me.priority_steps:
                while item := client.rpop(me._q_for_pri(queue, priority)):
                    payload = self._read(queue, item)
                    if payload is not None:
                        return payload
        raise Empty

    def _read(self, queue: str, item: bytes) -> Any:
        try:
            return envelope(self, item)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the next one may be fine
            tell(self.on_junk, queue, item, f"not a message: {error!r}"[:300])
            return None

    def _put_aside(self) -> None:
        """Rename what is no list: a pop of many queues fails over one of them."""
        me = cast("Any", self)
        with me.conn_or_acquire() as client:
            for queue in me.active_queues:
                for priority in me.priority_steps:
                    key = me.global_keyprefix + me._q_for_pri(queue, priority)
                    if client.type(key) not in (b"list", b"none"):
                        client.rename(key, f"{key}.junk")
                        _log.error("transport.no_list", queue=queue, renamed=f"{key}.junk")

    def close(self) -> None:
        """Let go, also of a connection that is broken."""
        try:
            super().close()
        except (RedisError, OSError) as error:
            _log.debug("transport.close_failed", error=repr(error))


class Transport(redis.Transport):
    """Says when the server last answered."""

    Channel = Channel
    implements = redis.Transport.implements.extend(asynchronous=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: When the server last answered a pop, `time.monotonic()`.
        self.heard = time.monotonic()
        self._is_cut = False

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message; raises `socket.timeout` where none came within `timeout` seconds, or a part of them."""
        if self._is_cut:
            raise ConnectionResetError("cut off, for it heard nothing any more")
        longest = _LONGEST_S if self._may_take() else _FULL_S
        super().drain_events(connection, timeout=longest if timeout is None else min(timeout, longest))

    def _may_take(self) -> bool:
        """Whether a pop will be sent: none is where as many messages are held as may be."""
        channels: list[Any] = list(cast("Any", self).channels)
        return any(one.qos.can_consume() for one in channels if one.active_queues)

    def cut(self, _connection: Any) -> None:
        """Have whoever reads meet a lost connection; from any thread."""
        self._is_cut = True
        channels: list[Any] = list(cast("Any", self).channels)
        for held in map(vars, channels):
            shut(getattr(getattr(held.get("client"), "connection", None), "_sock", None))


class TlsTransport(Transport):
    """The same over TLS; the server's certificate is checked unless the address says otherwise."""

    def __init__(self, client: Any, **kwargs: Any) -> None:
        client.ssl = client.ssl or {"ssl_cert_reqs": "required"}
        super().__init__(client, **kwargs)
