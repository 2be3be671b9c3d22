"""Processes whose clock on the wall is wrong, or set while they run (fault occurrent#662).

Only the wall is faked: what waits measures its waits by the monotonic clock, as the time of the store is
counted. So no lease that lives is taken over, `at` never goes back, and nothing is stuck for ever.
"""

import time
from pathlib import Path

import pytest

from passdown.broker.client import Session
from passdown.contracts.events import Claimed
from tests.integration.proof import assert_once, assert_sound, claims
from tests.integration.site import LEASE_S, ROLES, Site, one_stage, refund_plan, types, wait_until

CLOCKED = "tests.integration.clocked"


def clock(site: Site, seconds: int) -> Path:
    """Return a clock that is so far ahead, until it is set anew."""
    file = site.folder / f"clock-{seconds}"
    file.write_text(str(seconds))
    return file


def pass_by(seconds: float) -> None:
    ends = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > ends, f"{seconds:g} s passed", seconds + 30)


def assert_times_go_on(session: Session) -> None:
    times = [logged.at for logged in session.events()]
    assert times == sorted(times)


@pytest.mark.parametrize("off", [60, -60])
@pytest.mark.parametrize("who", ["worker", "tick"])
def test_a_clock_that_is_a_minute_off_takes_over_no_lease_that_lives(site: Site, who: str, off: int) -> None:
    """An agent runs for three leases; whoever declares it lost too early would issue a second attempt."""
    site.broker.register(one_stage("wait", "waiter"))
    wrong = str(clock(site, off))
    right = str(clock(site, 0))
    site.start(CLOCKED, wrong if who == "tick" else right, "tick", site.store)
    site.start(CLOCKED, wrong if who == "worker" else right, "worker", site.spec(["waiter"]))
    gate = site.folder / "gate"
    session = site.broker.submit("wait", inputs={"gate": str(gate)})
    wait_until(lambda: session.state().claim, "it is claimed")
    pass_by(3 * LEASE_S)
    gate.touch()

    assert session.result(timeout_s=30).output == {"attempt": 1}
    assert claims(session) == 1
    assert_times_go_on(session)


def test_the_same_with_the_command_faketime(site: Site) -> None:
    site.broker.register(one_stage("wait", "waiter"))
    site.tick(prefix=("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-f", "+60s"))
    site.worker("waiter")
    gate = site.folder / "gate"
    session = site.broker.submit("wait", inputs={"gate": str(gate)})
    wait_until(lambda: session.state().claim, "it is claimed")
    pass_by(2 * LEASE_S)
    gate.touch()

    assert session.result(timeout_s=30).output == {"attempt": 1}
    assert claims(session) == 1


@pytest.mark.parametrize("off", [60, -60])
def test_what_a_worker_held_whose_clock_is_off_is_recovered_in_its_time(site: Site, off: int) -> None:
    site.broker.register(one_stage("wait", "waiter"))
    site.tick()
    doomed = site.start(CLOCKED, str(clock(site, off)), "worker", site.spec(["waiter"]))
    gate = site.folder / "gate"
    session = site.broker.submit("wait", inputs={"gate": str(gate)})
    wait_until(lambda: session.state().claim, "it is claimed")
    site.kill(doomed)
    wait_until(lambda: "LeaseLost" in types(session), "its lease is declared lost", 10 * LEASE_S)
    gate.touch()
    site.start(CLOCKED, str(clock(site, -off)), "worker", site.spec(["waiter"]))

    assert session.result(timeout_s=60).output == {"attempt": 2}
    assert_times_go_on(session)


@pytest.mark.timeout(240)
def test_everybody_sees_another_time_and_it_is_set_back_and_forth(site: Site) -> None:
    site.broker.register(refund_plan())
    moved = clock(site, 0)
    site.start(CLOCKED, str(clock(site, 30)), "tick", site.store)
    site.start(CLOCKED, str(moved), "tick", site.store)
    site.start(CLOCKED, str(moved), "worker", site.spec(ROLES))
    site.start(CLOCKED, str(clock(site, -60)), "worker", site.spec(ROLES))
    sessions: list[Session] = []
    for off in (0, -90, 120, -3600, 10):
        moved.write_text(str(off))
        pass_by(1.2)  # by then every tick has asked under this clock
        batch = [site.broker.submit("refund", inputs={"order": f"{off}-{n}"}) for n in range(4)]
        for session in batch:
            assert session.result(timeout_s=60).result == "done"
        sessions += batch

    for session in sessions:
        assert_once(session, site.outside)
        assert_sound(session)
        assert_times_go_on(session)
        attempts = [one.event.attempt for one in session.events() if isinstance(one.event, Claimed)]
        assert attempts == [1, 1, 1], types(session)
