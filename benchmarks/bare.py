"""The limit: what Redis itself can do for a handoff. Three bare scripts that only write, in pipelines of 50.

Submit writes a state, two events, a pack and its place in a queue; claim takes it off and writes a lease, an
event and the state; the return writes a result, an event and the state and ends the lease.
"""

import redis

BATCH = 50
_STATE, _EVENT, _PACK, _RESULT = b"s" * 1_500, b"e" * 300, b"p" * 2_000, b"r" * 1_000

_SUBMIT = """
redis.call('HSET', KEYS[1], 's', ARGV[1], 'p', ARGV[3], 'c1', ARGV[2])
redis.call('RPUSH', KEYS[2], ARGV[2], ARGV[2])
redis.call('ZADD', KEYS[3], ARGV[4], KEYS[1])
return 1
"""
_CLAIM = """
redis.call('ZREM', KEYS[3], KEYS[1])
redis.call('ZADD', KEYS[4], ARGV[3], KEYS[1])
redis.call('HSET', KEYS[1], 's', ARGV[1], 'c2', ARGV[2])
redis.call('RPUSH', KEYS[2], ARGV[2])
return redis.call('HMGET', KEYS[1], 's', 'p')
"""
_GIVE = """
redis.call('ZREM', KEYS[4], KEYS[1])
redis.call('HSET', KEYS[1], 's', ARGV[1], 'c3', ARGV[2])
redis.call('RPUSH', KEYS[2], ARGV[3], ARGV[2])
return 1
"""


class Bare:
    """Runs bare handoffs from one client."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url)
        self._scripts = [self._client.register_script(text) for text in (_SUBMIT, _CLAIM, _GIVE)]
        for script in self._scripts:
            script.sha = self._client.script_load(script.script)
        self._made = 0

    def handoffs(self, count: int) -> None:
        """Do so many handoffs: each is submitted, claimed and returned."""
        for start in range(0, count, BATCH):
            batch = range(self._made, self._made + min(BATCH, count - start))
            self._made += len(batch)
            args = [
                lambda n: [_STATE, _EVENT, _PACK, n],
                lambda n: [_STATE, _EVENT, n],
                lambda _: [_STATE, _EVENT, _RESULT],
            ]
            for script, make in zip(self._scripts, args, strict=True):
                pipe = self._client.pipeline(transaction=False)
                for n in batch:
                    pipe.evalsha(script.sha, 4, f"b:{n}", f"l:{n}", "queue", "leases", *make(n))
                pipe.execute()
