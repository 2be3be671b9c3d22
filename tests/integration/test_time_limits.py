"""A stage's `time_limit` in every kind of pool, kept against agents that nobody can end."""

import signal
import time

import pytest

from passdown.broker.children import STUCK_STATUS
from passdown.broker.pool import Kind
from passdown.contracts.events import ReturnRejected
from tests.integration.pools import family, runs_in, spec_of, submit, watched, worker
from tests.integration.proof import assert_sound
from tests.integration.site import Site, one_stage, types, wait_until

#: In the way of another pack for a short time only, and never to be waited for in these tests.
LIMIT_S = 0.5


@pytest.fixture
def running(site: Site) -> Site:
    """A site with a tick, and plans whose only stage is limited."""
    site.tick()
    for role in ("stubborn", "deaf", "holder"):
        site.broker.register(one_stage(role, role, time_limit_seconds=LIMIT_S, lease_seconds=60.0))
    site.broker.register(one_stage("good", "quick"))
    return site


@pytest.mark.parametrize("pool", ["threads", "prefork", pytest.param("solo", marks=pytest.mark.soak)])
def test_a_pool_of_one_gets_on_although_its_agent_hangs(running: Site, pool: Kind) -> None:
    """Fault dbos#805: the attempt fails at its limit, and a worker without any free slot is replaced."""
    process = watched(running, "stubborn", "quick", "--pool", pool, "--concurrency", "1")
    stuck = submit(running, "stubborn")
    runs_in(running, stuck)
    began = time.monotonic()
    good = submit(running, "good")

    wait_until(lambda: "ReturnRejected" in types(stuck), "the attempt ends at its limit", 5)
    (rejected,) = [one.event for one in stuck.events() if isinstance(one.event, ReturnRejected)]
    assert rejected.problem == "the agent ran longer than its time limit of 0.5 s"
    assert good.result(timeout_s=60).result == "done"
    assert stuck.result(timeout_s=60).output == {"attempt": 2}
    assert time.monotonic() - began < 40
    running.kill(process, signal.SIGTERM)
    assert process.returncode == 0
    assert_sound(stuck)


def test_a_worker_without_any_free_slot_is_gone_soon_also_where_its_consumer_goes_on(running: Site) -> None:
    """What it heard meanwhile would be lost, until the tick rings again: a minute later in the end."""
    process = running.start("tests.integration.unending", spec_of(running, "stubborn", concurrency=1))
    runs_in(running, submit(running, "stubborn"))
    assert process.wait(20) == STUCK_STATUS
    assert "pool.consumer_stuck" in running.log()


def test_a_late_return_of_a_thread_is_fenced_and_recorded(running: Site) -> None:
    """Fault hatchet#1022: the first copy goes on, and what it returns changes nothing."""
    worker(running, "stubborn", concurrency=2)
    session = submit(running, "stubborn")
    assert session.result(timeout_s=30).output == {"attempt": 2}
    (running.folder / "go-on").touch()

    wait_until(lambda: "ReturnFenced" in types(session), "the late return is on record", 30)
    assert session.result(timeout_s=1).output == {"attempt": 2}
    assert types(session).count("Returned") == 1
    assert_sound(session)


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_an_async_agent_that_hears_no_cancellation_is_left_alone_with_its_loop(
    running: Site, pool: Kind
) -> None:
    worker(running, "deaf", pool=pool, concurrency=1)
    session = submit(running, "deaf")
    runs_in(running, session)

    assert session.result(timeout_s=40).output == {"attempt": 2}
    assert types(session).count("ReturnRejected") == 1
    assert_sound(session)


def test_a_child_that_never_lets_go_of_the_interpreter_is_ended_from_outside_of_it(running: Site) -> None:
    """No thread of it can report, renew, or end it: the lease runs out, and the process ends all the same."""
    running.broker.register(one_stage("held", "holder", time_limit_seconds=LIMIT_S, max_attempts=2))
    process = worker(running, "holder", "quick", pool="prefork", concurrency=1)
    session = submit(running, "held", seconds=600.0)
    pid = runs_in(running, session)
    good = submit(running, "good")

    assert good.result(timeout_s=60).result == "done"
    assert pid not in [one.pid for one in family(process)]
    assert "Timeout" in running.log(), "it says where the agent was"
    wait_until(lambda: session.state().attempt == 2, "the next attempt is issued", 30)
    assert types(session).count("LeaseLost") == 1
