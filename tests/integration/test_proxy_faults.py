"""A network that loses replies, resets connections and silences idle ones, before real servers, while sessions flow.

Every process reaches its server through the proxy. What must hold is said in `test_dying_servers`.
"""

from collections.abc import Iterator

import pytest

from tests.integration.flow import WITHIN_S, Flow, StartFlow
from tests.servers.proxy import Proxy
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer
from tests.servers.replies import AmqpReplies


@pytest.fixture
def before_redis(durable_redis: RedisServer) -> Iterator[Proxy]:
    with Proxy(durable_redis.port) as proxy:
        yield proxy


@pytest.fixture
def before_rabbitmq(shared_rabbitmq: RabbitServer) -> Iterator[Proxy]:
    with Proxy(shared_rabbitmq.port, AmqpReplies) as proxy:
        yield proxy


def through(proxy: Proxy, server: RedisServer) -> tuple[str, str]:
    """Return a store and a transport behind the proxy; a store that says nothing counts as away after a second."""
    store, transport = (server.url(db).replace(f":{server.port}/", f":{proxy.port}/") for db in (0, 1))
    return f"{store}?timeout=1s", transport


@pytest.fixture
def over_redis(start_flow: StartFlow, durable_redis: RedisServer, before_redis: Proxy) -> Flow:
    return start_flow(*through(before_redis, durable_redis))


@pytest.fixture
def over_rabbitmq(
    start_flow: StartFlow,
    durable_redis: RedisServer,
    before_rabbitmq: Proxy,
    shared_rabbitmq: RabbitServer,
    rabbitmq_url: str,
) -> Flow:
    """Doorbells through the proxy, and the store without."""
    address = rabbitmq_url.replace(f":{shared_rabbitmq.port}/", f":{before_rabbitmq.port}/")
    return start_flow(durable_redis.url(0), address)


def test_rule_02_the_reply_to_every_second_command_is_lost(
    start_flow: StartFlow, durable_redis: RedisServer, before_redis: Proxy
) -> None:
    """Fault rate-limit-redis#251: what is asked again is answered from its record, and counts once.

    So no claim is lost, no return fenced, no attempt repeated; leases outlive the test.
    """
    flow = start_flow(*through(before_redis, durable_redis), lease_s=60.0)
    before_redis.lose_replies()
    flow.pass_by(4.0)
    lost = before_redis.lost
    before_redis.pass_on()
    flow.recovered(f"Redis: {lost} replies lost", WITHIN_S)
    flow.finish()
    assert lost > 20
    assert [flow.seen(kind) for kind in ("LeaseLost", "ReturnFenced", "ReturnRejected")] == [0, 0, 0]
    assert flow.seen("PackIssued") == 3 * len(flow.sessions)


def test_rule_01_connections_to_redis_are_reset(over_redis: Flow, before_redis: Proxy) -> None:
    for _ in range(12):
        before_redis.reset()
        over_redis.pass_by(0.25)
    over_redis.recovered("Redis: connections reset", WITHIN_S)
    over_redis.finish()


def test_rule_01_connections_to_redis_that_go_silent(over_redis: Flow, before_redis: Proxy) -> None:
    """First those that are open, as where a firewall forgets them; then new ones as well."""
    over_redis.pass_by(0.5)
    before_redis.silence(new=False)
    over_redis.recovered("Redis: open connections silenced", WITHIN_S)
    before_redis.silence()
    over_redis.pass_by(2.0)
    before_redis.pass_on()
    over_redis.recovered("Redis: silent for 2 s", WITHIN_S)
    over_redis.finish()


def test_rule_01_confirmations_of_rabbitmq_are_lost_and_its_connections_reset(
    over_rabbitmq: Flow, before_rabbitmq: Proxy
) -> None:
    before_rabbitmq.lose_replies()
    over_rabbitmq.pass_by(3.0)
    assert before_rabbitmq.lost > 0
    before_rabbitmq.pass_on()
    over_rabbitmq.recovered(f"RabbitMQ: {before_rabbitmq.lost} confirmations lost", WITHIN_S)
    for _ in range(8):
        before_rabbitmq.reset()
        over_rabbitmq.pass_by(0.25)
    over_rabbitmq.recovered("RabbitMQ: connections reset", WITHIN_S)
    over_rabbitmq.finish()


def test_rule_01_connections_to_rabbitmq_that_go_silent(over_rabbitmq: Flow, before_rabbitmq: Proxy) -> None:
    """A consumer that has heard nothing for ten seconds connects anew, and all that waited is taken."""
    before_rabbitmq.silence(new=False)
    over_rabbitmq.recovered("RabbitMQ: open connections silenced", WITHIN_S)
    over_rabbitmq.finish()
