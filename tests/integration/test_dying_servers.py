"""Real servers that die, stop, are away, fill up or forget while sessions flow through them.

In each test every session reaches its end, or a person where a write cannot be looked for; each write happens
once; each log is whole (`Flow.finish`). What was acknowledged never goes back: the stores sync each commit. How
long it takes until all is well again is printed, see `pytest -rP`.
"""

import signal

import pytest

from passdown.broker.client import Broker, Session
from passdown.contracts.errors import Unavailable
from tests.integration.flow import WITHIN_S, Flow, StartFlow
from tests.servers.fixtures import StartRabbit, StartRedis
from tests.servers.redis import RedisServer


def test_rule_03_redis_that_is_killed_stopped_and_restarted(flow: Flow, durable_redis: RedisServer) -> None:
    """The store, and in one case the doorbells as well: what was acknowledged is there, what was not is asked again."""
    flow.pass_by(0.5)
    for how in (durable_redis.kill, durable_redis.stop):
        how()
        flow.pass_by(0.5)
        durable_redis.start()
        flow.recovered(f"Redis: {how.__name__}", WITHIN_S)
    durable_redis.restart()
    flow.recovered("Redis: restart", WITHIN_S)
    flow.finish()


def test_rule_01_redis_is_restarted_three_times_within_ten_seconds(
    start_flow: StartFlow, durable_redis: RedisServer
) -> None:
    """Fault celery#8030: workers are connected, and take nothing until they are restarted."""
    flow = start_flow(durable_redis.url(0), durable_redis.url(1))
    for how in (durable_redis.kill, durable_redis.stop, durable_redis.kill):
        how()
        durable_redis.start()
        flow.pass_by(0.7)
    flow.recovered("Redis restarted three times in a row", WITHIN_S)
    flow.finish()


def test_rule_01_redis_is_away_for_a_while(start_flow: StartFlow, durable_redis: RedisServer) -> None:
    """Fault arq#435, in short: whoever polls goes on trying, and says so."""
    away_for(start_flow(durable_redis.url(0), durable_redis.url(1)), durable_redis, 4.0)


@pytest.mark.soak
def test_rule_01_redis_is_away_for_twenty_seconds(start_flow: StartFlow, durable_redis: RedisServer) -> None:
    """Fault arq#435, whole."""
    away_for(start_flow(durable_redis.url(0), durable_redis.url(1)), durable_redis, 20.0)


def away_for(flow: Flow, durable_redis: RedisServer, seconds: float) -> None:
    flow.pass_by(1.0)
    durable_redis.kill()
    began = len(flow.site.log())
    flow.pass_by(seconds)
    said = flow.site.log()[began:]
    assert {word for word in ("pool.transport_away", "tick.store_away") if word in said} == {
        "pool.transport_away",
        "tick.store_away",
    }
    durable_redis.start()
    flow.recovered(f"Redis away for {seconds:g} s", WITHIN_S)
    flow.finish()


def test_rule_01_rabbitmq_that_is_killed_and_stopped(
    start_flow: StartFlow, durable_redis: RedisServer, start_rabbitmq: StartRabbit
) -> None:
    rabbit = start_rabbitmq()
    flow = start_flow(durable_redis.url(0), rabbit.url(), every_s=0.2)
    for how in (rabbit.kill, rabbit.stop):
        how()
        rabbit.start()
        flow.recovered(f"RabbitMQ: {how.__name__}", WITHIN_S)
    flow.finish()
    # Whoever reads a connection at the same time as its consumer takes frames away from it.
    said = flow.site.log()
    assert [word for word in ("UnexpectedFrame", "pool.consumer_hung") if word in said] == []


def test_rule_01_the_doorbells_redis_is_flushed_and_killed(
    start_flow: StartFlow, durable_redis: RedisServer, start_redis: StartRedis
) -> None:
    """A server of its own: all that it ever held is hints. Whoever reads takes them at once, so at first nobody does."""
    bells = start_redis()
    flow = start_flow(durable_redis.url(0), bells.url(1))
    for worker in list(flow.workers):
        flow.kill(worker, signal.SIGTERM)
    flow.pass_by(0.5)
    assert bells.client(1).dbsize() > 0, "no bell lies there"
    bells.client().flushall()
    flow.worker()
    flow.worker()
    flow.recovered("FLUSHALL of the doorbells, nobody having read them", WITHIN_S)
    for _ in range(10):
        bells.client().flushall()
        flow.pass_by(0.1)
    flow.recovered("FLUSHALL of the doorbells, ten times", WITHIN_S)
    bells.kill()
    flow.pass_by(0.5)
    bells.start()
    flow.recovered("the doorbells' Redis killed", WITHIN_S)
    flow.finish()


def test_rule_11_redis_at_its_memory_s_limit(start_flow: StartFlow, durable_redis: RedisServer) -> None:
    """Fault rhesis#1769: what is refused is refused whole, and once there is room all goes on."""
    flow = start_flow(durable_redis.url(0), durable_redis.url(1))
    client = durable_redis.client()
    with Broker.connect(flow.site.store, transport=flow.site.transport, patience_s=0) as hasty:
        client.config_set("maxmemory", 1_000_000)
        with pytest.raises(Unavailable, match="make room, or raise maxmemory"):
            hasty.submit("flowing", inputs={"order": "hasty"}, key="hasty")
        flow.pass_by(2.0)
        assert "hasty" not in [row.key for row in hasty.sessions(limit=1000)]
        client.config_set("maxmemory", 0)
        flow.recovered("Redis: its maxmemory raised", WITHIN_S)
        session = hasty.submit("flowing", inputs={"order": "hasty"}, key="hasty")
        flow.sessions.append(Session(flow.site.broker, session.id))

    durable_redis.client(2).set("filler", b"x" * 20_000_000)
    client.config_set("maxmemory", client.info("memory")["used_memory"] - 10_000_000)
    flow.pass_by(1.0)
    durable_redis.client(2).delete("filler")
    flow.recovered("Redis: memory freed", WITHIN_S)
    flow.finish()
