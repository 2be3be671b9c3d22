"""What each kind of pool does when it is told to stop, and when an agent does its worst (rules 1, 2 and 3)."""

import os
import signal
import time

import psutil
import pytest

from passdown.broker.pool import KINDS, Kind
from tests.integration.pools import family, gone, runs_in, spec_of, submit, watched, worker
from tests.integration.proof import applied, assert_once, assert_sound, claims
from tests.integration.site import LEASE_S, Grant, Site, one_stage, refund_plan, types, wait_until

EVERY_POOL = pytest.mark.parametrize("pool", KINDS)


@pytest.fixture
def running(site: Site) -> Site:
    """A site with a tick."""
    site.tick()
    return site


@EVERY_POOL
def test_every_pool_runs_a_plan_with_plain_and_async_agents(running: Site, pool: Kind) -> None:
    running.broker.register(refund_plan())
    process = running.worker(pool=pool, concurrency=2)
    sessions = [running.broker.submit("refund", inputs={"order": f"o{n}"}) for n in range(10)]

    for session in sessions:
        assert session.result(timeout_s=60).result == "done"
        assert_once(session, running.outside)
        assert_sound(session)
    began = time.monotonic()
    running.kill(process, signal.SIGTERM)
    assert process.returncode == 0
    assert time.monotonic() - began < 10


@EVERY_POOL
def test_rule_01_told_to_stop_a_pool_lets_finish_what_does_within_the_grace(
    running: Site, pool: Kind
) -> None:
    """Fault temporal#368: what an agent has done is not lost with its worker; nothing new is taken."""
    running.broker.register(one_stage("p", "stubborn"))
    process = worker(running, "stubborn", pool=pool, concurrency=1, grace_s=20.0, log_level="info")
    session = submit(running, "p")
    runs_in(running, session)
    process.send_signal(signal.SIGTERM)
    other = submit(running, "p")
    wait_until(lambda: "pool.stopping" in running.log(), "nothing new is taken")
    (running.folder / "go-on").touch()

    assert session.result(timeout_s=30).output == {"attempt": 1}
    assert process.wait(30) == 0
    assert types(session).count("ClaimReleased") == 0
    assert other.status() == "queued"
    assert claims(other) == 0


@EVERY_POOL
@pytest.mark.parametrize("grace_s", [20.0, 0.2])
def test_rule_01_what_an_agent_returned_is_committed_before_its_worker_ends_or_comes_again(
    running: Site, pool: Kind, grace_s: float
) -> None:
    """Fault temporal#368: never done in the agent, and open in the store with nobody at it."""
    running.broker.register(one_stage("p", "quick", lease_seconds=600.0))
    spec = spec_of(running, "quick", pool=pool, concurrency=1, grace_s=grace_s)
    process = running.start("tests.integration.slow_giving", spec, str(running.folder))
    session = submit(running, "p")
    wait_until((running.folder / "returned-1").exists, "the agent has returned", 60)
    process.send_signal(signal.SIGTERM)
    if grace_s < 1:
        wait_until(lambda: session.state().attempt == 2, "it is handed back", 30)
    (running.folder / "commit").touch()

    assert process.wait(40) == 0
    if grace_s < 1:
        assert session.state().failures == 0
        worker(running, "quick")
    assert session.result(timeout_s=60).result == "done"
    assert claims(session) == (2 if grace_s < 1 else 1)
    assert types(session).count("Returned") == 1
    assert_sound(session)


@EVERY_POOL
def test_rule_01_told_to_stop_a_pool_hands_back_what_does_not_finish(running: Site, pool: Kind) -> None:
    """No failure is counted, and the worker ends in time although its agent never does."""
    running.broker.register(one_stage("p", "stubborn", lease_seconds=60.0))
    process = worker(running, "stubborn", pool=pool, concurrency=2, grace_s=0.3)
    session = submit(running, "p")
    pid = runs_in(running, session)
    began = time.monotonic()
    running.kill(process, signal.SIGTERM)

    assert process.returncode == 0
    assert time.monotonic() - began < 25
    assert "ClaimReleased" in types(session)
    assert session.state().failures == 0
    assert not psutil.pid_exists(pid)
    worker(running, "stubborn", pool=pool)
    assert session.result(timeout_s=60).output == {"attempt": 2}
    assert_sound(session)


@EVERY_POOL
def test_told_twice_a_watched_pool_and_all_its_children_end_on_the_spot(running: Site, pool: Kind) -> None:
    running.broker.register(one_stage("p", "stubborn"))
    process = watched(running, "stubborn", "--pool", pool, "--concurrency", "2")
    session = submit(running, "p")
    runs_in(running, session)
    below = family(process)
    assert len(below) == (3 if pool == "prefork" else 1)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: "pool.stopping" in running.log(), "nothing new is taken")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)

    assert process.wait(30) == 128 + signal.SIGKILL
    wait_until(lambda: all(map(gone, below)), "all its processes are gone", 5)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("how", ["kill", "exit", "segfault"])
def test_rule_03_a_child_that_dies_takes_only_its_own_pack_along(running: Site, how: str) -> None:
    """Fault celery#3541: a lost claim, one more attempt; the neighbour goes on, and the pool has its child again."""
    running.broker.register(one_stage("dies", "exiter"))
    running.broker.register(one_stage("waits", "stubborn"))
    process = worker(running, "exiter", "stubborn", pool="prefork", concurrency=2)
    neighbour = submit(running, "waits")
    runs_in(running, neighbour)
    poison = submit(running, "dies", how=how, times=1)

    assert poison.result(timeout_s=60).output == {"attempt": 2}
    assert types(poison).count("LeaseLost") == 1
    (running.folder / "go-on").touch()
    assert neighbour.result(timeout_s=30).output == {"attempt": 1}
    assert process.poll() is None
    wait_until(lambda: len(family(process)) == 2, "it has two children")
    assert_sound(poison)


def test_rule_03_a_pack_that_kills_every_child_runs_at_most_max_attempts_times(running: Site) -> None:
    """A person is asked then, and the pool goes on: its main process and its watcher saw nothing of it."""
    running.broker.register(one_stage("poison", "exiter"))
    running.broker.register(one_stage("good", "quick"))
    process = watched(running, "exiter", "quick", "--pool", "prefork", "--concurrency", "2")
    poison = submit(running, "poison", how="kill")
    good = [submit(running, "good") for _ in range(20)]

    for session in good:
        assert session.result(timeout_s=60).result == "done"
    wait_until(lambda: poison.status() == "waiting-human", "the poison is with a person", 90)
    assert claims(poison) == 3
    assert types(poison).count("LeaseLost") == 3
    assert submit(running, "good").result(timeout_s=30).result == "done"
    assert "worker.ended" not in running.log()
    assert process.poll() is None
    assert_sound(poison)


def test_a_child_that_is_killed_while_it_waits_for_work_stops_nobody(running: Site) -> None:
    """Children that shared one pipe would wait for ever for the lock that it held."""
    running.broker.register(one_stage("good", "quick"))
    process = worker(running, "quick", pool="prefork", concurrency=2)
    assert submit(running, "good").result(timeout_s=60).result == "done"
    for _ in range(3):
        for child in family(process):
            child.kill()
        wait_until(lambda: len(family(process)) == 2, "it has two children again")
        assert submit(running, "good").result(timeout_s=30).result == "done"


def test_the_children_of_a_main_process_that_was_killed_hand_back_and_end(running: Site) -> None:
    """No orphan goes on unseen; what it held is with the next worker before its lease runs out."""
    running.broker.register(one_stage("p", "stubborn", lease_seconds=600.0))
    process = worker(running, "stubborn", pool="prefork", concurrency=2, grace_s=0.3)
    session = submit(running, "p")
    runs_in(running, session)
    below = family(process)
    running.kill(process)

    wait_until(lambda: all(map(gone, below)), "its children end", 30)
    assert "ClaimReleased" in types(session)
    worker(running, "stubborn", pool="prefork")
    assert session.result(timeout_s=30).output == {"attempt": 2}


def test_a_watched_pool_whose_main_process_was_killed_is_there_again(running: Site) -> None:
    running.broker.register(one_stage("good", "quick"))
    process = watched(running, "quick", "--pool", "prefork", "--concurrency", "2")
    assert submit(running, "good").result(timeout_s=60).result == "done"
    (main,) = psutil.Process(process.pid).children()
    old = family(process)
    os.kill(main.pid, signal.SIGKILL)

    wait_until(lambda: all(map(gone, old)), "all of the old pool is gone", 20)
    output = submit(running, "good").result(timeout_s=60).output
    assert isinstance(output, dict)
    assert output["pid"] not in [one.pid for one in old]
    running.kill(process, signal.SIGTERM)
    assert process.returncode == 0


@EVERY_POOL
def test_rule_03_an_agent_that_holds_the_interpreter_for_three_leases_writes_once(
    running: Site, pool: Kind
) -> None:
    """Fault dramatiq#692: no thread renews meanwhile, so the attempt is lost and its write refused; the next writes."""
    plan = one_stage("hold", "holder", tools=[Grant(tool="mail.send")], max_attempts=5)
    running.broker.register(plan)
    worker(running, "holder", pool=pool, concurrency=2)
    worker(running, "holder", pool=pool, concurrency=2)
    session = submit(running, "hold", seconds=3 * LEASE_S)

    assert session.result(timeout_s=60).result == "done"
    assert types(session).count("Returned") == 1
    assert types(session).count("LeaseLost") == 1
    assert sum(applied(running.outside).values()) == 1
    assert_once(session, running.outside)
    assert_sound(session)
