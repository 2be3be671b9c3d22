"""Scripts of the Redis store called past the store, to see what they do with what it would never send."""

from typing import Any

from passdown.broker.stores.redis import RedisStore
from passdown.broker.stores.redis.keys import Keys
from passdown.broker.stores.redis.scripts import Calls, Script

KEYS = Keys(0)
_CALLS = Calls(None)


def call(store: RedisStore, script: Script, about: object, *texts: bytes) -> Any:
    """Call a script on the first shard."""
    # The wire is nobody's but the store's, and a test of what a script refuses has no other way to it.
    return store._wire.ask([_CALLS.call(script, KEYS, about, texts)])[0]  # pyright: ignore[reportPrivateUsage]
