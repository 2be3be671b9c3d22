"""kombu's RabbitMQ transport, made fit: heartbeats from the consumer's own thread, and no compressed messages.

It is read from the consumer's own thread: in Celery's event loop several consumers of one process would
share one hub. `Transport.heard` is when anything last came from the server.
"""

import ssl
import time
from typing import Any

from kombu.transport import pyamqp

from passdown.broker.transports.sockets import shut

#: The longest that a consumer stays in one call (seconds). As late it acknowledges what its pool has begun,
#: since only one thread may write to a connection.
_LONGEST_S = 0.05
#: How often heartbeats are looked at (seconds).
_BEAT_EVERY_S = 1.0


class Message(pyamqp.Message):
    """A message as it came; kombu would unpack one that says it is compressed, however large it becomes."""

    def __init__(self, msg: Any, channel: Any = None, **kwargs: Any) -> None:
        headers = msg.properties.get("application_headers")
        if headers:
            headers.pop("compression", None)
        super().__init__(msg, channel=channel, **kwargs)


class Channel(pyamqp.Channel):
    """Makes messages of our kind."""

    Message = Message


class Connection(pyamqp.Connection):
    """Makes channels of our kind."""

    Channel = Channel


class Transport(pyamqp.Transport):
    """Keeps heartbeats while it waits for messages."""

    Connection = Connection
    implements = pyamqp.Transport.implements.extend(asynchronous=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._opened: Any = None
        self._heard = time.monotonic()
        self._received = 0
        self._beat = 0.0
        self._is_cut = False

    def establish_connection(self) -> Any:
        """Connect, and keep in mind what tells whether the server speaks."""
        self._opened = super().establish_connection()
        self._heard = time.monotonic()
        return self._opened

    @property
    def heard(self) -> float:
        """When something was last seen to have come from the server, `time.monotonic()`."""
        received = getattr(self._opened, "bytes_recv", 0)
        if received != self._received:
            self._received, self._heard = received, time.monotonic()
        return self._heard

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:
        """Deliver one message; raises `socket.timeout` where none came within `timeout` seconds, or a part of them.

        Raises an OSError where heartbeats fail to come.
        """
        if self._is_cut:
            raise ConnectionResetError("cut off, for it heard nothing any more")
        try:
            connection.drain_events(timeout=_LONGEST_S if timeout is None else min(timeout, _LONGEST_S))
        finally:
            now = time.monotonic()
            if now - self._beat > _BEAT_EVERY_S and connection.connected:
                self._beat = now
                connection.heartbeat_tick(rate=2)

    def cut(self, connection: Any) -> None:
        """Have whoever reads meet a lost connection; from any thread."""
        self._is_cut = True
        shut(getattr(connection.transport, "sock", None))


class TlsTransport(Transport):
    """The same over TLS; the server's certificate is checked unless the address says otherwise."""

    def __init__(self, client: Any, **kwargs: Any) -> None:
        said: dict[str, Any] = {} if client.ssl is True else client.ssl or {}
        client.ssl = {
            "cert_reqs": ssl.CERT_REQUIRED,
            "server_hostname": client.hostname,
            **{name.removeprefix("ssl_"): value for name, value in said.items()},
        }
        super().__init__(client, **kwargs)
