"""kill -9 of a worker at every named point of a handoff, and of the tick (rules 1, 2, 3 and 6)."""

import pytest

from tests.integration.proof import assert_once, assert_sound
from tests.integration.site import LEASE_S, Site, refund_plan, types, wait_until

POINTS = [
    f"{when}_{what}"
    for what in ("take", "claim", "intent", "write", "report", "checkpoint", "give", "ring")
    for when in ("before", "after")
]


@pytest.mark.parametrize("point", POINTS)
def test_rule_03_killed_at_any_point_the_session_ends_as_without_the_kill(site: Site, point: str) -> None:
    site.broker.register(refund_plan())
    marker = site.folder / "killed"
    site.tick()
    doomed = site.killing_worker(point, marker)
    session = site.broker.submit("refund", inputs={"order": "4711"}, key=point)
    doomed.wait(timeout=60)
    assert marker.exists()
    site.killing_worker(point, marker)

    # One lease and one tick, with threefold slack; the new worker has to start too.
    outcome = session.result(timeout_s=3 * (2 * LEASE_S + 5))

    assert outcome.result == "done"
    assert [effect.tool for effect in session.state().effects] == ["refunds.create", "mail.send"]
    assert_once(session, site.outside)
    assert_sound(session)
    assert types(session).count("StageEntered") == 3, "no earlier stage ran again"


def test_rule_01_the_tick_killed_and_three_started_loses_nothing(site: Site) -> None:
    """Faults airflow#21225, procrastinate#1408: the sweeper has no leader and no memory."""
    site.broker.register(refund_plan())
    first = site.tick()
    worker = site.worker()
    sessions = [site.broker.submit("refund", inputs={"order": str(n)}) for n in range(10)]
    wait_until(lambda: any(session.state().claim for session in sessions), "a claim is held", 60)
    site.kill(worker)
    site.kill(first)
    for _ in range(3):
        site.tick()
    site.worker()

    for session in sessions:
        assert session.result(timeout_s=60).result == "done"
        assert_once(session, site.outside)
        assert_sound(session)
        assert types(session).count("LeaseLost") <= 1, "three ticks declare one loss once"
