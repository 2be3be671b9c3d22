"""Agents that raise anything, return junk, never return, kill their process (rules 2 and 11)."""

import time

import pytest

from passdown.contracts.events import ReturnRejected
from tests.integration.proof import assert_sound, claims
from tests.integration.site import Site, one_stage, types, wait_until


@pytest.fixture
def running(site: Site) -> Site:
    """A site with a tick and a watched worker for the roles that misbehave."""
    site.tick()
    return site


@pytest.mark.parametrize(
    "kind", ["junk", "SystemExit", "MemoryError", "KeyError", "RuntimeError", "text", "oversized"]
)
def test_rule_11_what_an_agent_does_wrong_is_a_failed_attempt_with_feedback(running: Site, kind: str) -> None:
    """Faults kombu#2582, hatchet#4611, temporal#1267: no reconnect, no loop, and the failure can be recorded."""
    running.broker.register(one_stage("flaky", "flaky"))
    running.worker("flaky")
    session = running.broker.submit("flaky", inputs={"kind": kind})

    outcome = session.result(timeout_s=40)

    assert outcome.output == {"attempt": 2}
    rejected = [logged.event for logged in session.events() if isinstance(logged.event, ReturnRejected)]
    assert len(rejected) == 1
    assert rejected[0].kind == ("contract" if kind in ("junk", "oversized") else "error")
    assert len(rejected[0].problem) < 3000
    assert session.pack(1, 2).feedback[0].text
    assert_sound(session)


def test_after_max_attempts_a_person_is_asked_and_sends_it_back(running: Site) -> None:
    running.broker.register(one_stage("flaky", "flaky"))
    running.worker("flaky")
    session = running.broker.submit("flaky", inputs={"kind": "KeyError", "always": True})
    wait_until(lambda: session.status() == "waiting-human", "a person is asked", 40)

    assert claims(session) == 3
    (ticket,) = running.broker.tickets(session_id=session.id)
    assert ticket.kind == "failure"
    assert "KeyError" in ticket.why


def test_rule_03_a_pack_that_kills_its_worker_runs_at_most_max_attempts_times(running: Site) -> None:
    """Faults celery#3541 and #1628: the watched worker comes back, its neighbours finish, a person is asked."""
    running.broker.register(one_stage("poison", "killer"))
    running.broker.register(one_stage("good", "flaky"))
    running.passdown("worker", "killer", "flaky", "--module", str(running.desk), "--concurrency", "4")
    good = [running.broker.submit("good", inputs={"kind": "none"}) for _ in range(3)]
    poison = running.broker.submit("poison")

    wait_until(lambda: poison.status() == "waiting-human", "the poison is with a person", 90)
    assert claims(poison) == 3
    assert types(poison).count("LeaseLost") == 3
    for session in good:
        assert session.result(timeout_s=60).result == "done"
    assert_sound(poison)


def test_time_in_state_ends_an_agent_that_never_returns(running: Site) -> None:
    """Fault dbos#805: a stage's deadline ends it, the agent is told, and the next pack of its role goes on."""
    running.broker.register(one_stage("stuck", "waiter", deadline_seconds=3.0))
    running.broker.register(one_stage("free", "waiter"))
    running.worker("waiter", concurrency=1)
    never = running.folder / "never"
    stuck = running.broker.submit("stuck", inputs={"gate": str(never)})
    wait_until(lambda: stuck.state().claim, "it is claimed")
    gate = running.folder / "gate"
    gate.touch()
    free = running.broker.submit("free", inputs={"gate": str(gate)})

    assert stuck.result(timeout_s=30).result == "expired"
    assert free.result(timeout_s=30).result == "done"


def test_rule_02_an_agent_that_holds_the_interpreter_is_fenced_or_done_once(running: Site) -> None:
    """Fault dramatiq#692: CPU-bound code for three leases; renewal goes on beside it, or the attempt is fenced."""
    running.broker.register(one_stage("hog", "hog", lease_seconds=1.0, max_attempts=5))
    running.worker("hog")
    session = running.broker.submit("hog", inputs={"seconds": 3.0})

    assert session.result(timeout_s=60).result == "done"
    assert types(session).count("Returned") == 1
    assert_sound(session)


def test_500_agents_that_wait_a_second_share_one_process(running: Site) -> None:
    running.broker.register(one_stage("sleep", "sleeper", lease_seconds=30.0))
    worker = running.worker("sleeper")
    warm = running.broker.submit("sleep")
    assert warm.result(timeout_s=30).result == "done"
    running.kill(worker)
    sessions = [running.broker.submit("sleep") for _ in range(500)]
    running.worker("sleeper")
    wait_until(lambda: any(session.state().claim for session in sessions[:20]), "the first are claimed")
    began = time.monotonic()

    for session in sessions:
        assert session.result(timeout_s=60).result == "done"

    # The figure is five seconds; threefold slack, since two cores run the tests as well.
    assert time.monotonic() - began < 15
