"""Workers that freeze, stop, meet junk or race (rules 1 to 3): real processes on one SQLite file."""

import signal
from pathlib import Path

import pytest

from passdown.contracts.events import Claimed
from passdown.contracts.tools import ToolSpec
from tests.integration.proof import assert_once, assert_sound, claims
from tests.integration.site import LEASE_S, Site, one_stage, refund_plan, types, wait_until


def test_rule_02_a_frozen_worker_that_thaws_is_fenced(site: Site) -> None:
    """Fault langgraph#8796: SIGSTOP beyond the lease, another worker finishes, SIGCONT: one return counts."""
    site.broker.register(one_stage("wait", "waiter"))
    site.tick()
    gate = site.folder / "gate"
    frozen = site.worker("waiter")
    session = site.broker.submit("wait", inputs={"gate": str(gate)})
    wait_until(lambda: session.state().claim, "it is claimed")
    frozen.send_signal(signal.SIGSTOP)
    wait_until(lambda: session.state().attempt == 2, "the lease is declared lost", 10 * LEASE_S)
    gate.touch()
    site.worker("waiter")

    assert session.result(timeout_s=60).output == {"attempt": 2}
    frozen.send_signal(signal.SIGCONT)
    wait_until(lambda: "fenc" in site.log() or "lost" in site.log(), "the thawed worker is told")
    assert types(session).count("Returned") == 1
    assert_sound(session)


def test_rule_01_a_soft_stop_finishes_or_hands_back(site: Site) -> None:
    """Faults temporal#368, kombu#970: SIGTERM while an agent runs; released claims count no failure."""
    site.broker.register(one_stage("wait", "waiter"))
    site.tick()
    gate = site.folder / "gate"
    first = site.worker("waiter", grace_s=0.2)
    session = site.broker.submit("wait", inputs={"gate": str(gate)})
    wait_until(lambda: session.state().claim, "it is claimed")
    first.send_signal(signal.SIGTERM)
    wait_until(lambda: session.state().attempt == 2, "it is handed back")
    assert "ClaimReleased" in types(session)
    assert session.state().failures == 0
    gate.touch()
    site.worker("waiter")
    assert session.result(timeout_s=60).result == "done"
    assert first.wait(timeout=30) == 0


def test_rule_02_many_workers_on_one_queue_claim_each_attempt_once(site: Site) -> None:
    """Fault celery#5935: four workers, leases much shorter than the work; each attempt has one claim."""
    site.broker.register(refund_plan())
    site.tick()
    for _ in range(4):
        site.worker()
    sessions = [site.broker.submit("refund", inputs={"order": f"o{n}"}) for n in range(40)]
    for session in sessions:
        assert session.result(timeout_s=120).result == "done"
        attempts = [
            (logged.event.attempt, logged.event.claim_id)
            for logged in session.events()
            if isinstance(logged.event, Claimed)
        ]
        assert len(attempts) == len({claim for _, claim in attempts})
        assert_once(session, site.outside)
        assert_sound(session)


def test_rule_02_an_agent_that_runs_five_leases_long_runs_once(site: Site) -> None:
    """Faults celery#5935, kombu#337: the lease is renewed from outside the agent's thread."""
    site.broker.register(one_stage("wait", "waiter", lease_seconds=1.0))
    site.tick()
    site.worker("waiter")
    site.worker("waiter")
    gate = site.folder / "gate"
    session = site.broker.submit("wait", inputs={"gate": str(gate)})
    wait_until(lambda: session.state().claim, "it is claimed")
    began = session.state().at
    wait_until(lambda: site.broker.app.store.load(session.id).now - began > 5000, "five leases passed", 30)
    gate.touch()

    assert session.result(timeout_s=30).output == {"attempt": 1}
    assert claims(session) == 1


@pytest.mark.parametrize(
    "junk",
    [
        b"\xff\xfe",
        b"not json",
        b'{"a":1}',
        b"[1,2]",
        b"[" * 5_000_000,
        b'{"body":"%%%","headers":{},"properties":{}}',
    ],
    ids=["bytes", "text", "object", "list", "deep", "base64"],
)
def test_rule_11_junk_in_the_doorbell_queue_stops_no_pool(site: Site, junk: bytes) -> None:
    """Fault kombu#2421: a foreign message costs the pool seconds at most; work goes on."""
    site.broker.register(refund_plan())
    site.tick()
    site.worker()
    warm = site.broker.submit("refund", inputs={"order": "warm"})
    assert warm.result(timeout_s=60).result == "done"
    bells = Path(f"{site.folder / 'passdown.db'}.bells")
    for n, role in enumerate(("searcher", "writer", "notifier")):
        (bells / f"{n}_junk.passdown.{role}.msg").write_bytes(junk)
    sessions = [site.broker.submit("refund", inputs={"order": f"o{n}"}) for n in range(5)]

    for session in sessions:
        assert session.result(timeout_s=60).result == "done"
        assert_once(session, site.outside)


def test_rule_01_every_second_doorbell_lost_costs_only_time(site: Site) -> None:
    """Fault kombu#305: doorbells vanish from their folder; the tick rings where packs wait."""
    site.broker.register(refund_plan())
    site.tick()
    site.worker()
    bells = Path(f"{site.folder / 'passdown.db'}.bells")
    seen: set[str] = set()
    sessions = [site.broker.submit("refund", inputs={"order": f"o{n}"}) for n in range(5)]

    def lose_and_look() -> bool:
        for message in bells.glob("*.msg"):
            if message.name not in seen and len(seen) % 2 == 0:
                message.unlink(missing_ok=True)
            seen.add(message.name)
        return all(session.state().over for session in sessions)

    wait_until(lose_and_look, "all sessions end", 100)
    for session in sessions:
        assert_once(session, site.outside)
        assert_sound(session)


def test_the_pack_of_a_role_without_its_tool_is_handed_back_and_said(site: Site) -> None:
    """A worker whose tools differ from the pack's does not claim; `status` can tell why (DESIGN §7)."""
    plan = refund_plan()
    site.broker.register(plan)
    site.tick()
    worker = site.worker()
    warm = site.broker.submit("refund", inputs={"order": "warm"})
    assert warm.result(timeout_s=60).result == "done"
    other = ToolSpec(name="search.orders", params={"type": "object"}, description="another")
    site.broker.register_tools([other])
    session = site.broker.submit("refund", inputs={"order": "x"})

    wait_until(lambda: session.beside().handed_back, "the worker says what differs", 30)
    assert "search.orders" in session.beside().handed_back
    assert claims(session) == 0
    site.kill(worker, signal.SIGTERM)
    site.worker()  # registers its own tools again, but the pack carries the other: it stays as it was issued
    assert session.state().failures == 0
