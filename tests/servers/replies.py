"""Which bytes from a server are the reply to a piece of work, so that the proxy can lose just those. No I/O."""

import struct
from collections.abc import Callable
from typing import Protocol

#: What a Redis client says to set up a connection; were its replies lost, no connection would ever stand.
SETUP = {b"HELLO", b"AUTH", b"CLIENT", b"SELECT", b"PING", b"INFO", b"COMMAND", b"CONFIG", b"SCRIPT"}

_ACK, _NACK = (60, 80), (60, 120)  # basic.ack and basic.nack, AMQP 0-9-1


class Replies(Protocol):
    """One connection's replies. ``lose`` is asked once for each, and says whether that one gets lost."""

    def __init__(self, lose: Callable[[], bool]) -> None: ...

    def sent(self, data: bytes) -> None:
        """Take note of what the client sent."""
        ...

    def received(self, data: bytes) -> tuple[bytes, bool]:
        """Return what the client may have of the server's bytes, and whether a reply is lost by now, whole."""
        ...


class RedisReplies:
    """A reply is all that a server says to one round trip: to a command, or to a pipeline of them."""

    def __init__(self, lose: Callable[[], bool]) -> None:
        self._lose = lose
        self._losing = False
        self._open = 0  # commands without a reply
        self._from_client = b""
        self._from_server = b""

    def sent(self, data: bytes) -> None:
        self._from_client += data
        at = 0
        while (end := end_of(self._from_client, at)) is not None:
            if not self._open:
                self._losing = _name(self._from_client[at:end]) not in SETUP and self._lose()
            self._open += 1
            at = end
        self._from_client = self._from_client[at:]

    def received(self, data: bytes) -> tuple[bytes, bool]:
        self._from_server += data
        at = 0
        while (end := end_of(self._from_server, at)) is not None:
            if self._from_server[at : at + 1] != b">":  # a push message answers nothing
                self._open = max(0, self._open - 1)
            at = end
        whole, self._from_server = self._from_server[:at], self._from_server[at:]
        if self._losing:
            return b"", not self._open
        return whole, False


class AmqpReplies:
    """A reply is the server's confirmation of a publish."""

    def __init__(self, lose: Callable[[], bool]) -> None:
        self._lose = lose
        self._from_server = b""

    def sent(self, data: bytes) -> None:
        pass

    def received(self, data: bytes) -> tuple[bytes, bool]:
        self._from_server += data
        at = 0
        while len(self._from_server) >= at + 7:
            kind, _, size = struct.unpack_from(">BHI", self._from_server, at)
            end = at + 7 + size + 1
            if len(self._from_server) < end:
                break
            method = struct.unpack_from(">HH", self._from_server, at + 7) if kind == 1 else None
            if method in (_ACK, _NACK) and self._lose():
                return self._from_server[:at], True
            at = end
        whole, self._from_server = self._from_server[:at], self._from_server[at:]
        return whole, False


def end_of(data: bytes, at: int) -> int | None:
    """Return where the RESP value that begins at `at` ends; None while it is not whole.

    See https://redis.io/docs/latest/develop/reference/protocol-spec/.
    """
    line = data.find(b"\r\n", at)
    if line < 0:
        return None
    kind, text, end = data[at : at + 1], data[at + 1 : line], line + 2
    if kind in b"$=!":
        end += int(text) + 2 if int(text) >= 0 else 0
        return end if end <= len(data) else None
    if kind in b"*>~%|":
        inside: int | None = end
        for _ in range(int(text) * (2 if kind in b"%|" else 1)):
            inside = end_of(data, inside)
            if inside is None:
                return None
        # An attribute stands before the value that it belongs to.
        return end_of(data, inside) if kind == b"|" else inside
    return end


def _name(request: bytes) -> bytes:
    parts = request.split(b"\r\n", 3)
    return parts[2].upper() if request.startswith(b"*") else request.split()[0].upper()
