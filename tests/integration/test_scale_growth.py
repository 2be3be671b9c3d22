"""Many handoffs over Redis: what they leave behind once they are removed is what was there before them.

In a small size, and whole in a soak of an hour (`tests/soaking.py`). What was measured is printed: `pytest -rP`.
"""

import time
from pathlib import Path
from typing import Any

import pytest

from passdown.agents import Done, Options, Pack, Runtime, SyncContext, agent
from passdown.broker.archivist import Archivist, Retention
from passdown.broker.client import Broker
from passdown.broker.gateway import DirectGateway
from passdown.broker.stores.base import DueRequest
from passdown.broker.transports.redis import MOST_LYING
from tests.integration.crowd import plan_for, say, work
from tests.integration.crowd_agents import ROLES
from tests.integration.site import wait_until
from tests.servers.redis import RedisServer
from tests.soaking import scaled

#: What the server's memory may be above what it was (bytes): its own buffers and tables, however much went through.
ABOVE = 3_000_000
#: A wave: so many handoffs go through before they are removed.
WAVE = 10_000
OF_TYPE: dict[bytes, str] = {b"hash": "hlen", b"zset": "zcard", b"list": "llen", b"set": "scard"}


def sizes(server: RedisServer, db: int) -> dict[str, int]:
    """Return how many members each key of a database has (a string: one)."""
    client: Any = server.client(db)
    found: dict[str, int] = {}
    for key in client.scan_iter(count=1000):
        kind = client.type(key)
        found[key.decode()] = getattr(client, OF_TYPE[kind])(key) if kind in OF_TYPE else 1
    return found


def memory(server: RedisServer) -> int:
    """Return what the server's data take (bytes), which is told apart from what it keeps of memory it has freed."""
    client: Any = server.client()
    client.memory_purge()
    return client.info("memory")["used_memory"]


@agent(ROLES[0])
def clerk(pack: Pack, ctx: SyncContext) -> Done:
    return Done({"text": "y" * 1_000})


def _wave(broker: Broker, runtime: Runtime, count: int, name: str) -> None:
    """Have so many handoffs done."""
    for start in range(0, count, 1_000):
        broker.submit_all(ROLES[0], work(min(1_000, count - start), f"{name}-{start}", text="x" * 2_000))
        runtime.drain(ROLES[0])


def _remove_all(broker: Broker, archivist: Archivist) -> None:
    """Archive and remove what ended, and let its keys be forgotten."""
    while archivist.once().more:
        pass
    wait_until(lambda: archivist.once().removed == 0, "all that ended is removed")
    store = broker.app.store
    wait_until(
        lambda: store.due(DueRequest(limit=1, reserve_ms=1_000)).next_ms > 1_000,
        "all keys that were kept are forgotten",
    )


def _returns_to_base(server: RedisServer, folder: Path, count: int) -> None:
    with Broker.connect(server.url(), transport=server.url(1), by="user:producer") as broker:
        broker.register(plan_for(ROLES[0]))
        gateway = DirectGateway(broker.app.controller)
        runtime = Runtime(gateway, agents=[clerk], options=Options(linger_seconds=0.0, turn_seconds=600.0))
        archivist = Archivist(broker.app.store, Retention(0, 1, folder), batch=1_000)
        _wave(broker, runtime, 200, "first")
        _remove_all(broker, archivist)
        base, before = sizes(server, 0), memory(server)
        began, most = time.monotonic(), 0
        for start in range(0, count, WAVE):
            some = min(WAVE, count - start)
            _wave(broker, runtime, some, f"wave-{start}")
            most = max(most, (memory(server) - before) // some)
            _remove_all(broker, archivist)
            assert sizes(server, 0) == base
        took, above = time.monotonic() - began, memory(server) - before
        runtime.stop(1.0)
    say(
        f"growth | {count} handoffs, {count / took:.0f}/s with archiving | {most} bytes each until removed"
        f" | then {len(base)} keys with {sum(base.values())} members as before, {above / 1e6:+.2f} MB"
    )
    assert above < ABOVE
    # Nobody hears the doorbells of this test.
    assert max(sizes(server, 1).values()) <= MOST_LYING, "doorbells pile up"


def test_rule_12_what_went_through_leaves_nothing(redis_server: RedisServer, tmp_path: Path) -> None:
    """Fault safe-global/safe-decoder-service#329: entries that are done with stay in a stream, by the hundred thousand."""
    _returns_to_base(redis_server, tmp_path, 2_000)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_rule_12_100_000_handoffs_leave_nothing(redis_server: RedisServer, tmp_path: Path) -> None:
    """Three minutes at its whole size."""
    _returns_to_base(redis_server, tmp_path, scaled(100_000))
