"""The trivial agent as a Dramatiq actor, with its results in Redis."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends.redis import RedisBackend

URL = os.environ.get("BENCH_REDIS", "redis://127.0.0.1:1")

broker = RedisBroker(url=f"{URL}/3")
broker.add_middleware(Results(backend=RedisBackend(url=f"{URL}/4")))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def handoff(pack: dict[str, object]) -> dict[str, object]:
    """Take a pack, give back a result."""
    return {"x": int(str(pack["x"])) + 1, "text": str(pack["text"])[:1000]}
