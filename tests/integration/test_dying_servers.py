"""Real servers and processes that die, stop, freeze, fill up or forget while sessions flow through them.

In each test every session reaches its end, or a person where a write cannot be looked for; each write happens
once; each log is whole (`Flow.finish`). What was acknowledged never goes back: the stores sync each commit. How
long it takes until all is well again is printed, see `pytest -rP`.
"""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from passdown.broker.client import Broker, Session
from passdown.broker.gateway import Limits
from passdown.contracts.errors import Unavailable
from passdown.contracts.events import Claimed, LeaseLost
from tests.integration.flow import CLAIM_BY_MS, Flow, clock
from tests.integration.pools import spec_of
from tests.integration.proof import assert_sound
from tests.integration.site import LEASE_S, ROLES, Site, one_stage, refund_plan, types, wait_until
from tests.servers.fixtures import StartRabbit, StartRedis
from tests.servers.redis import RedisServer

StartFlow = Callable[..., Flow]

#: Within so many seconds all is well again, whatever it was; most of it is one lease, and the tick's next ring.
WITHIN_S = 30.0


@pytest.fixture
def server(start_redis: StartRedis) -> RedisServer:
    """A Redis that loses nothing which it acknowledged."""
    return start_redis(appendfsync="always")


@pytest.fixture(params=["redis", "rabbitmq"])
def flow(request: pytest.FixtureRequest, start_flow: StartFlow, server: RedisServer) -> Flow:
    """Sessions over a Redis store, with doorbells over the same server or over RabbitMQ."""
    if request.param == "redis":
        return start_flow(server.url(0), server.url(1))
    return start_flow(server.url(0), request.getfixturevalue("rabbitmq_url"))


def test_rule_03_workers_that_are_killed_stopped_or_frozen(flow: Flow) -> None:
    """Faults kombu#305 and langgraph#8796: no session stays open, and who thaws after its lease writes nothing twice."""
    first, second = flow.workers
    flow.pass_by(0.5)
    flow.kill(first)
    third = flow.worker()
    flow.recovered("a worker killed", WITHIN_S)

    flow.kill(second, signal.SIGTERM)
    assert second.returncode == 0
    flow.worker()
    flow.recovered("a worker stopped", WITHIN_S)

    flow.freeze(third)
    flow.recovered("a worker frozen for longer than its lease, after that", WITHIN_S)
    third.send_signal(signal.SIGCONT)
    flow.pass_by(0.5)
    flow.finish()


def test_rule_01_ticks_that_are_killed_and_three_at_once(start_flow: StartFlow, server: RedisServer) -> None:
    """Fault procrastinate#1408: the sweeper needs no leader, and three declare one loss once."""
    flow = start_flow(server.url(0), server.url(1))
    flow.pass_by(0.5)
    flow.kill(flow.ticks[0])
    flow.kill(flow.workers[0])
    flow.pass_by(LEASE_S)
    three = [flow.tick() for _ in range(3)]
    flow.worker()
    flow.recovered("no tick for a while, and a worker killed", WITHIN_S)

    flow.kill(three[0])
    flow.kill(flow.workers[1])
    flow.worker()
    flow.recovered("one of three ticks and a worker killed", WITHIN_S)
    flow.finish()
    for session in flow.sessions:
        lost = [one.event.claim_id for one in session.events() if isinstance(one.event, LeaseLost)]
        assert len(lost) == len(set(lost))


@pytest.fixture
def site_on_redis(tmp_path: Path, server: RedisServer) -> Iterator[Site]:
    made = Site(tmp_path, server.url(0), server.url(1))
    yield made
    made.close()


def test_rule_01_a_worker_that_dies_between_the_pop_and_the_claim(site_on_redis: Site) -> None:
    """Fault airflow#21225: the pack is takeable again after `claim_by`, as the same attempt."""
    site = site_on_redis
    site.broker.register(refund_plan())
    site.tick()
    marker = site.folder / "killed"
    spec = spec_of(site, *ROLES, limits=Limits(claim_by_ms=CLAIM_BY_MS))
    doomed = site.start("tests.integration.killing", spec, "before_claim", str(marker))
    session = site.broker.submit("refund", inputs={"order": "4711"})
    doomed.wait(timeout=60)
    assert marker.exists()
    site.start("tests.integration.killing", spec, "before_claim", str(marker))

    assert session.result(timeout_s=WITHIN_S).result == "done"
    assert types(session).count("PackIssued") == 3
    assert [one.event.attempt for one in session.events() if isinstance(one.event, Claimed)] == [1, 1, 1]
    assert session.state().failures == 0


def test_rule_02_a_worker_that_thaws_while_another_holds_its_step(site_on_redis: Site) -> None:
    """Fault langgraph#8796: its return is refused and recorded, and the other's counts."""
    site = site_on_redis
    site.broker.register(one_stage("wait", "waiter"))
    site.tick()
    gate = site.folder / "gate"
    frozen = site.worker("waiter")
    session = site.broker.submit("wait", inputs={"gate": str(gate)})
    wait_until(lambda: session.state().claim, "it is claimed")
    frozen.send_signal(signal.SIGSTOP)
    wait_until(lambda: session.state().attempt == 2, "the lease is declared lost")
    site.worker("waiter")
    wait_until(lambda: session.state().claim, "another claims it")
    frozen.send_signal(signal.SIGCONT)
    wait_until(lambda: "ReturnFenced" in types(session), "the first one gives its return")
    gate.touch()

    assert session.result(timeout_s=WITHIN_S).output == {"attempt": 2}
    assert types(session).count("Returned") == 1
    assert_sound(session)


def test_rule_03_redis_that_is_killed_stopped_and_restarted(flow: Flow, server: RedisServer) -> None:
    """The store, and in one case the doorbells as well: what was acknowledged is there, what was not is asked again."""
    flow.pass_by(0.5)
    for how in (server.kill, server.stop):
        how()
        flow.pass_by(0.5)
        server.start()
        flow.recovered(f"Redis: {how.__name__}", WITHIN_S)
    server.restart()
    flow.recovered("Redis: restart", WITHIN_S)
    flow.finish()


def test_rule_01_redis_is_restarted_three_times_within_ten_seconds(
    start_flow: StartFlow, server: RedisServer
) -> None:
    """Fault celery#8030: workers are connected, and take nothing until they are restarted."""
    flow = start_flow(server.url(0), server.url(1))
    for how in (server.kill, server.stop, server.kill):
        how()
        server.start()
        flow.pass_by(0.7)
    flow.recovered("Redis restarted three times in a row", WITHIN_S)
    flow.finish()


def test_rule_01_redis_is_away_for_a_while(start_flow: StartFlow, server: RedisServer) -> None:
    """Fault arq#435, in short: whoever polls goes on trying, and says so."""
    away_for(start_flow(server.url(0), server.url(1)), server, 4.0)


@pytest.mark.soak
def test_rule_01_redis_is_away_for_twenty_seconds(start_flow: StartFlow, server: RedisServer) -> None:
    """Fault arq#435, whole."""
    away_for(start_flow(server.url(0), server.url(1)), server, 20.0)


def away_for(flow: Flow, server: RedisServer, seconds: float) -> None:
    flow.pass_by(1.0)
    server.kill()
    began = len(flow.site.log())
    flow.pass_by(seconds)
    said = flow.site.log()[began:]
    assert {word for word in ("pool.transport_away", "tick.store_away") if word in said} == {
        "pool.transport_away",
        "tick.store_away",
    }
    server.start()
    flow.recovered(f"Redis away for {seconds:g} s", WITHIN_S)
    flow.finish()


def test_rule_01_rabbitmq_that_is_killed_and_stopped(
    start_flow: StartFlow, server: RedisServer, start_rabbitmq: StartRabbit
) -> None:
    rabbit = start_rabbitmq()
    flow = start_flow(server.url(0), rabbit.url(), every_s=0.2)
    for how in (rabbit.kill, rabbit.stop):
        how()
        rabbit.start()
        flow.recovered(f"RabbitMQ: {how.__name__}", WITHIN_S)
    flow.finish()
    # Whoever reads a connection at the same time as its consumer takes frames away from it.
    said = flow.site.log()
    assert [word for word in ("UnexpectedFrame", "pool.consumer_hung") if word in said] == []


def test_rule_01_the_doorbells_redis_is_flushed_and_killed(
    start_flow: StartFlow, server: RedisServer, start_redis: StartRedis
) -> None:
    """A server of its own: all that it ever held is hints. Whoever reads takes them at once, so at first nobody does."""
    bells = start_redis()
    flow = start_flow(server.url(0), bells.url(1))
    for worker in list(flow.workers):
        flow.kill(worker, signal.SIGTERM)
    flow.pass_by(0.5)
    assert bells.client(1).dbsize() > 0, "no bell lies there"
    bells.client().flushall()
    flow.worker(), flow.worker()
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


def test_rule_11_redis_at_its_memory_s_limit(start_flow: StartFlow, server: RedisServer) -> None:
    """Fault rhesis#1769: what is refused is refused whole, and once there is room all goes on."""
    flow = start_flow(server.url(0), server.url(1))
    client = server.client()
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

    server.client(2).set("filler", b"x" * 20_000_000)
    client.config_set("maxmemory", client.info("memory")["used_memory"] - 10_000_000)
    flow.pass_by(1.0)
    server.client(2).delete("filler")
    flow.recovered("Redis: memory freed", WITHIN_S)
    flow.finish()


def test_rule_02_clocks_that_are_an_hour_off(start_flow: StartFlow, server: RedisServer) -> None:
    """Fault occurrent#662: the store's clock alone decides, and no lease that lives is taken over."""
    flow = start_flow(server.url(0), server.url(1), clocks=("+1h", "-1h"), lease_s=10.0)
    flow.kill(flow.ticks[0])
    flow.tick(prefix=clock("+1h"))
    flow.pass_by(3.0)
    flow.finish()
    assert flow.seen("LeaseLost") == 0
    for session in flow.sessions:
        times = [one.at for one in session.events()]
        assert times == sorted(times)
