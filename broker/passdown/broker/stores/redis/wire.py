"""Commands to the server and its answers, in one round trip however many there are.

redis-py is asked for connections only: each command is sent once (its own retries would do an act twice whose
answer was lost), and whoever retries does so by command id.
"""

from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from passdown.broker.stores.redis.address import Address
from passdown.broker.stores.redis.faults import meaning
from passdown.broker.stores.redis.scripts import Command, is_call, load_of
from passdown.contracts.errors import Unavailable

#: Commands that go at once; more are sent in several turns.
_MOST_COMMANDS = 1000


class Wire:
    """Connections to one server. Thread-safe; after a fork the child gets its own."""

    def __init__(self, address: Address) -> None:
        self.what = f"store {address.shown}"
        self._pool: Any = address.pool()
        self._closed = False

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return the answers; raises the meaning of the first that is an error."""
        replies = self.exchange(commands)
        for reply in replies:
            self.check(reply)
        return replies

    def check(self, reply: Any) -> None:
        """Raise what an answer means that is an error."""
        if isinstance(reply, ResponseError):
            raise meaning(self.what, reply) or reply

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return the answers, an error among them as it is.

        A script that the server does not know (it was started anew, or its scripts were flushed) is loaded, and
        called again: that call did nothing. Raises Unavailable where the answers do not come, and ContractError
        where this server is none that we can talk to.
        """
        replies: list[Any] = []
        for start in range(0, len(commands), _MOST_COMMANDS):
            replies += self._turn(commands[start : start + _MOST_COMMANDS])
        unknown = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if not unknown:
            return replies
        again = [commands[at] for at in unknown]
        loads = list(dict.fromkeys(load_of(command) for command in again if is_call(command)))
        later = self._turn([*loads, *again])[len(loads) :]
        for at, reply in zip(unknown, later, strict=True):
            replies[at] = reply
        return replies

    def close(self) -> None:
        """Let go of all connections; later calls raise Unavailable."""
        self._closed = True
        self._pool.disconnect()

    def _turn(self, commands: Sequence[Command]) -> list[Any]:
        if self._closed:
            raise Unavailable(self.what, "it was closed here; connect again")
        try:
            return self._talk(commands)
        except Exception as error:
            means = meaning(self.what, error)
            if means is None:
                raise
            raise means from error

    def _talk(self, commands: Sequence[Command]) -> list[Any]:
        connection = self._pool.get_connection()
        try:
            connection.send_packed_command(_packed(commands))
            return [_answer(connection) for _ in commands]
        except BaseException:
            # What is still on its way would be taken for the answer to the next command.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)


def _packed(commands: Sequence[Command]) -> list[bytes]:
    """Return commands as they are sent (RESP): redis-py's own packer takes five times as long."""
    parts: list[bytes] = []
    for name, *arguments in commands:
        # A name of two words is two arguments.
        words = [*str(name).encode().split(), *arguments]
        parts.append(b"*%d\r\n" % len(words))
        for word in words:
            text = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%b\r\n" % (len(text), text))
    return [b"".join(parts)]


def _answer(connection: Any) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error
