"""The trivial agent as a Dramatiq actor, with its results in Redis."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend as Counters
from dramatiq.results import Results
from dramatiq.results.backends.redis import RedisBackend

URL = os.environ.get("BENCH_REDIS", "redis://127.0.0.1:1")

broker = RedisBroker(url=f"{URL}/3")
results = RedisBackend(url=f"{URL}/4")
broker.add_middleware(Results(backend=results))
broker.add_middleware(GroupCallbacks(Counters(url=f"{URL}/4")))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def handoff(pack: dict[str, object]) -> dict[str, object]:
    """Take a pack, give back a result."""
    return {"x": int(str(pack["x"])) + 1, "text": str(pack["text"])[:1000]}


@dramatiq.actor(store_results=True)
def judge(item: dict[str, int]) -> dict[str, int]:
    """One branch of a group."""
    return {"x": item["x"] + 1}


@dramatiq.actor(store_results=True)
def gather(sent: list[dict[str, object]]) -> dict[str, object]:
    """End a group: its completion callback, which fetches what the branches gave."""
    return {"results": [results.get_result(dramatiq.Message(**one)) for one in sent]}
