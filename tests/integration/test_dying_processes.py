"""Workers and ticks that are killed, stopped, frozen or an hour off, while sessions flow through real servers.

What must hold is said in `test_dying_servers`.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.broker.gateway import Limits
from passdown.contracts.events import Claimed, LeaseLost
from tests.integration.flow import CLAIM_BY_MS, WITHIN_S, Flow, StartFlow, clock
from tests.integration.pools import spec_of
from tests.integration.proof import assert_sound
from tests.integration.site import LEASE_S, ROLES, Site, one_stage, refund_plan, types, wait_until
from tests.servers.redis import RedisServer


@pytest.fixture
def site_on_redis(tmp_path: Path, durable_redis: RedisServer) -> Iterator[Site]:
    made = Site(tmp_path, durable_redis.url(0), durable_redis.url(1))
    yield made
    made.close()


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


def test_rule_01_ticks_that_are_killed_and_three_at_once(
    start_flow: StartFlow, durable_redis: RedisServer
) -> None:
    """Fault procrastinate#1408: the sweeper needs no leader, and three declare one loss once."""
    flow = start_flow(durable_redis.url(0), durable_redis.url(1))
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


def test_rule_02_clocks_that_are_an_hour_off(start_flow: StartFlow, durable_redis: RedisServer) -> None:
    """Fault occurrent#662: the store's clock alone decides, and no lease that lives is taken over."""
    flow = start_flow(durable_redis.url(0), durable_redis.url(1), clocks=("+1h", "-1h"), lease_s=10.0)
    flow.kill(flow.ticks[0])
    flow.tick(prefix=clock("+1h"))
    flow.pass_by(3.0)
    flow.finish()
    assert flow.seen("LeaseLost") == 0
    for session in flow.sessions:
        times = [one.at for one in session.events()]
        assert times == sorted(times)
