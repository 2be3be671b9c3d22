"""The shards of a store, and how scripts are called on them."""

from collections.abc import Sequence
from typing import Any

from passdown.broker.stores.redis.keys import Keys, shard_of
from passdown.broker.stores.redis.scripts import Calls, Command, Script
from passdown.broker.stores.redis.wire import Wire


class Shards:
    """All shards: their keys, and the wire to them."""

    def __init__(self, wire: Wire, calls: Calls, count: int, prefix: str) -> None:
        self.wire = wire
        self.keys = [Keys(shard, prefix) for shard in range(count)]
        self._calls = calls

    def home(self, session_id: str) -> int:
        """Return the shard of a session; of one whose id names none of these, the first, where it is not found."""
        return shard_of(session_id, len(self.keys)) or 0

    def command(self, script: Script, shard: int, about: object, texts: Sequence[bytes] = ()) -> Command:
        """Return the command that runs a script on a shard."""
        return self._calls.call(script, self.keys[shard], about, texts)

    def call(self, script: Script, shard: int, about: object, texts: Sequence[bytes] = ()) -> Any:
        """Run a script on a shard, and return what it says. Raises what `Wire.ask` raises."""
        return self.wire.ask([self.command(script, shard, about, texts)])[0]

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one round trip and return the answers. Raises what `Wire.ask` raises."""
        return self.wire.ask(commands)
