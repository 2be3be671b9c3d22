"""Hash slots, and which keys each script touches, told by the server itself."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

SLOTS = 16_384


def crc16(data: bytes) -> int:
    """Return the CRC-16/XMODEM of `data`.

    The Redis cluster specification, appendix A: polynomial 0x1021, initial value 0, nothing reflected.
    https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#appendix-a-crc16-reference-implementation-in-ansi-c
    """
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc


def slot(key: bytes) -> int:
    """Return a key's hash slot: that of what stands between its first brace and the next closing one, if anything does."""
    _, opened, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return crc16(tag if opened and closed and tag else key) % SLOTS


class Call(NamedTuple):
    """One command that a client gave, with the keys that it and, if it is a script, its commands touched."""

    command: str
    keys: frozenset[bytes]

    @property
    def slots(self) -> set[int]:
        return {slot(key) for key in self.keys}


class Watch:
    """Sees every command that a server does, from now on (MONITOR), those within scripts too."""

    def __init__(self, client: Any) -> None:
        self._client = client
        # Bare connections: the client reads these replies in its own way.
        self._asking = client.connection_pool.get_connection()
        self._connection = client.connection_pool.get_connection()
        self._places: dict[bytes, tuple[int, int, int]] = {}
        self._connection.send_command("MONITOR")
        assert self._connection.read_response() == b"OK"

    def calls(self) -> list[Call]:
        """Return what was done until now; that ends the watch."""
        end = f"watched until {id(self)}"
        self._client.echo(end)
        lines: list[bytes] = []
        while end.encode() not in (line := self._connection.read_response()):
            lines.append(line)
        calls = list(self._grouped(lines))
        for connection in (self._connection, self._asking):
            connection.disconnect()
            self._client.connection_pool.release(connection)
        return calls

    def _grouped(self, lines: list[bytes]) -> Iterator[Call]:
        command = ""
        keys: set[bytes] = set()
        for line in lines:
            source, words = _parsed(line)
            # A script is shown before its commands; without it, the command is a client's own.
            if source != b"lua":
                if command:
                    yield Call(command, frozenset(keys))
                command = words[0].decode().lower()
                keys = set()
            keys |= set(self._keys(words))
        if command:
            yield Call(command, frozenset(keys))

    def _keys(self, words: list[bytes]) -> list[bytes]:
        first, last, step = self._place(words[0].lower())
        if first < 0:
            return self._asked(words)
        end = last + len(words) if last < 0 else last
        return words[first : end + 1 : step] if first else []

    def _place(self, command: bytes) -> tuple[int, int, int]:
        """Return where a command's first and last key stand, and how far apart; first is -1 where keys move, 0: no keys."""
        if command not in self._places:
            _, _, flags, first, last, step = self._ask("COMMAND", "INFO", command)[0][:6]
            self._places[command] = (-1, 0, 0) if b"movablekeys" in flags else (first, last, step)
        return self._places[command]

    def _asked(self, words: list[bytes]) -> list[bytes]:
        """Return the keys of a command that has them in no fixed place."""
        if words[0].lower() in {b"eval", b"evalsha", b"eval_ro", b"evalsha_ro", b"fcall", b"fcall_ro"}:
            return words[3 : 3 + int(words[2])]
        return self._ask("COMMAND", "GETKEYS", *words)

    def _ask(self, *words: str | bytes) -> Any:
        self._asking.send_command(*words)
        return self._asking.read_response()


_LINE = re.compile(rb"^[0-9.]+ \[[0-9]+ ([^\]]*)\] (.*)$", re.DOTALL)
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_MEANT = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


def _parsed(line: bytes) -> tuple[bytes, list[bytes]]:
    """Return who gave a command, ``lua`` or an address, and the command's words."""
    found = _LINE.match(line)
    assert found, line
    return found[1], [_ESCAPED.sub(_unescaped, word) for word in _WORD.findall(found[2])]


def _unescaped(found: re.Match[bytes]) -> bytes:
    said = found[1]
    if len(said) == 3:
        return bytes([int(said[1:], 16)])
    return _MEANT.get(said, said)
