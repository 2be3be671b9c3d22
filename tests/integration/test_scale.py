"""Much at once: a burst with dying workers, one crowded role among many, one that nobody serves.

Each in a small size, and whole in a soak of an hour (`tests/soaking.py`). What was measured is printed: `pytest -rP`.
"""

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.client import Broker, Session
from passdown.broker.doctor import work as doctor
from passdown.broker.tick import Tick
from passdown.broker.transports.addresses import TURN_TAKES
from passdown.contracts.errors import QueueFull
from tests.integration.crowd import (
    all_rows,
    median_seconds,
    plan_for,
    say,
    start_worker,
    work,
    worker_spec,
    working,
)
from tests.integration.crowd_agents import ROLES
from tests.integration.proof import assert_sound
from tests.integration.site import PASSDOWN, Site, types, wait_until
from tests.soaking import scaled

#: What the crowd in one role may do to the others: a median may become so many times as long, and some more (seconds).
SLOWER, SLACK_S = 3.0, 0.02


def place_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> tuple[str, str]:
    """Return the addresses of a store and of its transport."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'passdown.db'}", ""
    server = request.getfixturevalue("redis_server")
    return server.url(0), server.url(1) if kind == "redis" else request.getfixturevalue("rabbitmq_url")


@pytest.fixture(params=["sqlite", "redis"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A site on a file, or on Redis."""
    made = Site(tmp_path, *place_of(request.param, request, tmp_path))
    yield made
    made.close()


# -- a burst --


def _burst(site: Site, count: int, seconds: float, each_s: float) -> None:
    """Submit all at once, kill workers at random for so long, and look at each session when all have ended."""
    role, chance = ROLES[0], random.Random(1)
    site.broker.register(plan_for(role, lease_seconds=3.0, max_attempts=100))
    site.tick()
    workers = [start_worker(site, role, concurrency=4) for _ in range(2)]
    began = time.monotonic()
    sessions = site.broker.submit_all(role, work(count, seconds=each_s))
    submitted_s = time.monotonic() - began
    wait_until(lambda: any(row.running for row in site.broker.queues()), "a worker is at work")
    kills = 0
    while time.monotonic() < began + seconds and _open(site.broker):
        time.sleep(chance.uniform(0.2, 2.0))  # that is the moment which chance decides
        site.kill(workers.pop(chance.randrange(2)), signal.SIGKILL)
        workers.append(start_worker(site, role, concurrency=4))
        kills += 1
    wait_until(lambda: not _open(site.broker), "all sessions ended", 120 + count * (each_s + 0.02))
    took = time.monotonic() - began
    lost = _once_each(site.broker, sessions)
    say(
        f"burst | {count} packs in {submitted_s:.1f} s | {kills} workers killed | {lost} claims lost | {took:.1f} s"
    )
    assert kills > 0
    assert lost > 0, "no worker was killed at work"


def _open(broker: Broker) -> bool:
    return any(broker.sessions(status=status, limit=1) for status in ("queued", "running"))


def _once_each(broker: Broker, sessions: list[Session]) -> int:
    """None lost, none twice: each ended by one return. Returns how many claims were lost on the way."""
    found = all_rows(broker)
    assert found.keys() == {session.id for session in sessions}
    assert Counter(found.values()) == {"done": len(sessions)}
    lost = 0
    for session in sessions:
        counts = Counter(types(session))
        ended = (counts["SessionOpened"], counts["Returned"], counts["Completed"])
        assert ended == (1, 1, 1), (session.id, counts)
        assert counts["Claimed"] == counts["LeaseLost"] + counts["ClaimReleased"] + 1
        lost += counts["LeaseLost"]
    for session in sessions[:: max(1, len(sessions) // 200)]:
        assert_sound(session)
    return lost


def test_rule_02_a_burst_whose_workers_are_killed_ends_whole_and_once(site: Site) -> None:
    _burst(site, 400, 5.0, each_s=0.1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_rule_02_a_burst_of_20_000_whose_workers_are_killed_for_a_minute(site: Site) -> None:
    """About two minutes each at its whole size."""
    _burst(site, scaled(20_000), scaled(60, at_least=5), each_s=0.02)


# -- one crowded role among many --

SLOTS = 4
#: The stated number: a turn of each slot, and one of each that lies ready behind it (docs/workers.md).
MOST_TAKES = 4 * SLOTS * TURN_TAKES


def _fair(place: tuple[str, str], roles: list[str], crowd: int) -> None:
    crowded, quiet = roles[0], roles[-1]
    with Broker.connect(place[0], by="user:producer") as broker:
        for role in roles:
            broker.register(plan_for(role))
    with working(worker_spec(*place, roles, concurrency=SLOTS)) as (broker, takes):
        for role in (crowded, quiet):
            broker.submit(role).result(timeout_s=60)
        broker.submit_all(crowded, work(crowd, seconds=0.02))
        wait_until(lambda: len(takes.noted) > 2 + SLOTS, "the crowd is served")
        began, since = time.monotonic(), len(takes.noted)
        single = broker.submit(quiet)
        assert single.result(timeout_s=60).result == "done"
        took, waited = time.monotonic() - began, takes.before(single.id, since)
        left = sum(row.ready for row in broker.queues() if row.role == crowded)
        say(f"fair | {len(roles)} roles, {crowd} in one | served after {waited} takes, {took:.2f} s")
        assert waited <= MOST_TAKES
        assert left > 0, "the crowd was gone by then, so nothing is shown"


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_single_pack_waits_for_a_stated_number_of_takes(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Fault celery/kombu#166: many queues starve one with a single message."""
    _fair(place_of(kind, request, tmp_path), ROLES[:50], 500)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["sqlite", "redis", "rabbitmq"])
def test_of_200_roles_one_with_10_000_packs_keeps_no_other_waiting(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Half a minute each at its whole size."""
    _fair(place_of(kind, request, tmp_path), ROLES, scaled(10_000, at_least=1_000))


# -- a role that nobody serves --


def _nobody(place: tuple[str, str], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    served, nobody = ROLES[0], ROLES[1]
    with Broker.connect(place[0], by="user:producer") as broker:
        for role in (served, nobody):
            broker.register(plan_for(role))
    with (
        working(worker_spec(*place, [served])) as (broker, _),
        Broker.connect(place[0], transport=place[1], by="user:other", queue_limit=count) as bounded,
    ):
        broker.submit(served).result(timeout_s=60)
        before = _latencies(broker, served)
        began = time.monotonic()
        for start in range(0, count, 5_000):
            bounded.submit_all(nobody, work(min(5_000, count - start), f"waits-{start}"))
        rate = count / (time.monotonic() - began)
        with pytest.raises(QueueFull, match=nobody) as full:
            bounded.submit(nobody)
        assert (full.value.waiting, full.value.limit) == (count, count)
        assert bounded.submit(served).result(timeout_s=60).result == "done"
        after = _latencies(broker, served)
        _seen(place[0], broker, nobody, count, monkeypatch)
    say(f"nobody | {count} wait, {rate:.0f}/s | handoff, tick (ms): {_ms(before)} then {_ms(after)}")
    for one, other in zip(before, after, strict=True):
        assert other <= SLOWER * one + SLACK_S


def _latencies(broker: Broker, role: str) -> tuple[float, float]:
    """Return the medians of a handoff from submit to result, and of a tick's pass (seconds)."""
    tick = Tick(broker.app.controller)
    handoff = median_seconds([lambda: broker.submit(role).result(timeout_s=60)] * 41)
    return handoff, median_seconds([tick.once] * 21)


def _ms(seconds: tuple[float, ...]) -> str:
    return ", ".join(f"{1000 * one:.1f}" for one in seconds)


def _seen(store: str, broker: Broker, role: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = subprocess.run(
        [PASSDOWN, "queues", "--json", "--store", store], capture_output=True, text=True, check=True
    )
    rows: list[dict[str, Any]] = json.loads(asked.stdout)["queues"]
    (row,) = [one for one in rows if one["role"] == role]
    assert (row["ready"], row["reserved"], row["running"]) == (count, 0, 0)
    monkeypatch.setattr(doctor, "_NOBODY_MS", 0)  # a minute, which the test does not wait
    (finding,) = [one for one in doctor.queue_findings(broker.app.store) if one.what == f"queue {role}"]
    assert finding.level == "red"
    assert f"{count:,} wait" in finding.found
    assert "nobody takes any" in finding.found


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_role_without_workers_is_seen_and_bounded_and_nothing_else_suffers(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault celery/celery#3239: something goes on publishing to a queue that nobody reads."""
    _nobody(place_of(kind, request, tmp_path), 3_000, monkeypatch)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_180_000_packs_that_nobody_takes(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two minutes each at its whole size, most of them for submitting."""
    _nobody(place_of(kind, request, tmp_path), scaled(180_000), monkeypatch)
