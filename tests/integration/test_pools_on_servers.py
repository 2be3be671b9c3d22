"""Pools of processes over real servers: a Redis store with Redis' doorbells, and RabbitMQ's."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.broker.pool import KINDS, Kind
from tests.integration.pools import family, submit, worker
from tests.integration.proof import assert_once, assert_sound, claims
from tests.integration.site import Site, one_stage, refund_plan, types, wait_until


@pytest.fixture(params=["redis", "rabbitmq"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Redis for all, or RabbitMQ beside a file; with a tick."""
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")
        made = Site(tmp_path, server.url(0), server.url(1))
    else:
        made = Site(tmp_path, "", request.getfixturevalue("rabbitmq_url"))
    made.tick()
    yield made
    made.close()


@pytest.mark.parametrize("pool", KINDS)
def test_every_pool_runs_a_plan(served: Site, pool: Kind) -> None:
    served.broker.register(refund_plan())
    roles = ("searcher", "writer", "notifier")
    process = worker(served, *roles, pool=pool, concurrency=3)
    sessions = [served.broker.submit("refund", inputs={"order": f"o{n}"}) for n in range(10)]

    for session in sessions:
        assert session.result(timeout_s=60).result == "done"
        assert_once(session, served.outside)
        assert_sound(session)
    served.kill(process, signal.SIGTERM)
    assert process.returncode == 0


def test_rule_03_a_pack_that_kills_every_child_runs_at_most_max_attempts_times(served: Site) -> None:
    served.broker.register(one_stage("poison", "exiter"))
    served.broker.register(one_stage("good", "quick"))
    process = worker(served, "exiter", "quick", pool="prefork", concurrency=2)
    poison = submit(served, "poison", how="kill")
    good = [submit(served, "good") for _ in range(10)]

    for session in good:
        assert session.result(timeout_s=60).result == "done"
    wait_until(lambda: poison.status() == "waiting-human", "the poison is with a person", 90)
    assert claims(poison) == 3
    assert types(poison).count("LeaseLost") == 3
    assert process.poll() is None
    assert len(family(process)) == 2
    assert_sound(poison)
