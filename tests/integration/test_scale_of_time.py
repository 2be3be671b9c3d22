"""Much that waits for a time: memory stays flat, what is overdue is worked off in bounded batches, retries run once.

Each in a small size, and whole in a soak of an hour (`tests/soaking.py`). What was measured is printed: `pytest -rP`.
"""

import json
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from passdown.broker.app import App, Transport, open_store
from passdown.broker.client import Broker
from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.tick import Tick
from passdown.broker.transports import addresses
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import AgentInfo
from passdown.contracts.plans import Backoff
from tests.conformance.faulty import Chance, FaultyStore, Script
from tests.integration.crowd import all_rows, plan_for, say, start_worker, work, worker_spec, working
from tests.integration.crowd_agents import RETRIED, ROLES
from tests.integration.faults import Clock
from tests.integration.proof import assert_sound, claims
from tests.integration.site import Site, types, wait_until
from tests.servers.redis import RedisServer
from tests.soaking import scaled

KINDS = pytest.mark.parametrize("kind", ["sqlite", "redis"])
#: What one pass of a tick deals with at most.
BATCH = 200
#: What a process may grow by, however many sessions wait (bytes): less than a tenth of what they take in the store.
GROWTH = 8_000_000
#: A visibility timeout of a Redis transport for these tests (seconds).
VISIBLE_S = 1


def store_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> tuple[str, str]:
    """Return the addresses of a store and of its transport."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'passdown.db'}", ""
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url(0), server.url(1)


# -- what waits for a date --


@pytest.fixture
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, *store_of(request.node.callspec.params["kind"], request, tmp_path))
    yield made
    made.close()


def _flat(site: Site, count: int) -> None:
    """Let sessions wait for an hour (their deadlines, pauses and retries), and compare the memory of a worker and a tick."""
    served, waiting = ROLES[0], ROLES[1]
    site.broker.register(plan_for(served))
    hour = Backoff(first_seconds=3600.0, most_seconds=3600.0)
    site.broker.register(plan_for(waiting, deadline_seconds=3600.0, backoff=hour))
    processes = {"worker": start_worker(site, served), "tick": site.tick()}
    _at_work(site, served, 300, waiting, "before")
    before = {name: _memory(process) for name, process in processes.items()}
    for start in range(0, count, 5_000):
        sessions = site.broker.submit_all(waiting, work(min(5_000, count - start), f"waits-{start}"))
        for session in sessions[::50]:
            session.pause(for_s=3600.0)
    _at_work(site, served, 300, waiting, "after")
    grown = {name: _memory(process) - before[name] for name, process in processes.items()}
    shown = ", ".join(f"{name} {before[name] / 1e6:.0f} MB {grown[name] / 1e6:+.1f}" for name in processes)
    say(f"waiting | {count} sessions for an hour | {shown}")
    assert all(one < GROWTH for one in grown.values()), grown
    assert all(process.poll() is None for process in processes.values())


def _at_work(site: Site, role: str, count: int, waiting: str, name: str) -> None:
    """Have the worker and the tick do something, so that memory is compared between two busy processes."""
    paused = site.broker.submit_all(waiting, work(1, f"resumed-{name}"))[0]
    paused.pause(for_s=0.05)
    for session in site.broker.submit_all(role, work(count, name)):
        assert session.result(timeout_s=90).result == "done"
    wait_until(lambda: paused.status() == "queued", "the tick is started, and has resumed a session")


def _memory(process: "subprocess.Popen[bytes]") -> int:
    """Return the resident memory of a process and of those below it (bytes)."""
    root = psutil.Process(process.pid)
    return sum(one.memory_info().rss for one in (root, *root.children(recursive=True)))


@KINDS
def test_what_waits_for_a_date_takes_no_memory_of_workers_and_ticks(kind: str, site: Site) -> None:
    """Fault celery/celery#9849: all that is delayed is pulled into the memory of a worker, until it dies."""
    _flat(site, 2_000)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@KINDS
def test_100_000_sessions_that_wait_for_a_date(kind: str, site: Site) -> None:
    """A minute and a half each at its whole size."""
    _flat(site, scaled(100_000))


# -- what is overdue --


class Swept:
    """A store with a clock that a test moves and faults that it plans; a gateway and a tick on it."""

    def __init__(self, url: str) -> None:
        self.clock = Clock()
        self.store = FaultyStore(open_store(url, clock=self.clock), Script())
        bell = SilentDoorbell()
        # The sweep itself must cope, not the retries below it.
        self.controller = Controller(self.store, bell, patience_s=0)
        self.broker = Broker(App(self.store, Transport("", {}), bell, self.controller), "user:producer")
        self.gateway = DirectGateway(self.controller)
        self.tick = Tick(
            self.controller, batch=BATCH, reserve_ms=1_000, monotonic=lambda: self.clock.now / 1000
        )


@contextmanager
def swept(url: str) -> Generator[Swept]:
    made = Swept(url)
    try:
        yield made
    finally:
        made.store.plan = Script()
        made.broker.close()


def _overdue(url: str, count: int) -> None:
    with swept(url) as it:
        it.broker.register(plan_for(ROLES[0], deadline_seconds=100.0))
        for start in range(0, count, 5_000):
            it.broker.submit_all(ROLES[0], work(min(5_000, count - start), f"late-{start}"))
        it.clock.forward(200)
        began, passes, longest, dealt = time.monotonic(), 0, 0.0, 0
        while True:
            a_pass = time.monotonic()
            done = it.tick.once()
            longest = max(longest, time.monotonic() - a_pass)
            if not done.done:
                break
            assert (done.done <= BATCH, done.failed) == (True, 0)
            passes, dealt = passes + 1, dealt + done.done
        took = time.monotonic() - began
        say(f"overdue | {count} | {passes} passes, {dealt / took:.0f}/s, the longest {longest:.2f} s")
        assert passes == -(-count // BATCH)
        assert set(all_rows(it.broker).values()) == {"expired"}


@KINDS
def test_what_is_overdue_is_dealt_with_in_bounded_batches(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Fault Bogdanp/dramatiq#258: a script that fails once a set is too large for it."""
    _overdue(store_of(kind, request, tmp_path)[0], 1_000)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@KINDS
def test_50_000_that_are_overdue(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A minute and a half each at its whole size."""
    _overdue(store_of(kind, request, tmp_path)[0], scaled(50_000))


def test_rule_01_a_faulty_sweep_of_a_redis_store_is_finished_by_the_next(redis_server: RedisServer) -> None:
    """Fault dbos-inc/dbos-transact-py#716: 30 % of the store's calls fail during a pass over 250 vanished handoffs."""
    with swept(redis_server.url()) as it:
        it.broker.register(plan_for(ROLES[0], lease_seconds=5.0))
        sessions = it.broker.submit_all(ROLES[0], work(250))
        for n, offer in enumerate(it.gateway.take(ROLES[0], 250).offers):
            it.gateway.claim(offer.pack, f"claim-{n:08d}", AgentInfo(name="vanished"))
        it.clock.forward(30)
        it.store.plan = Chance(seed=1, rate=0.3)
        for _ in range(40):
            with suppress(Unavailable):
                it.tick.once()
            it.clock.forward(2)
        assert len(it.store.given) > 50
        it.store.plan = Script()
        it.tick.once()
        for session in sessions:
            assert session.state().attempt == 2
            assert types(session).count("LeaseLost") == 1
            assert_sound(session)


# -- what a visibility timeout would have run twice --


@pytest.fixture
def short_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(addresses)["_REDIS_OPTIONS"], "visibility_timeout", VISIBLE_S)


@pytest.mark.usefixtures("short_sight")
def test_rule_02_no_visibility_timeout_runs_anything_twice(redis_server: RedisServer, tmp_path: Path) -> None:
    """Faults celery/kombu#337 and celery/celery#5935: a retry far off, and an agent that takes long, are run by many."""
    ran = tmp_path / "ran"
    ran.touch()
    spec = worker_spec(redis_server.url(), redis_server.url(1), [ROLES[0], RETRIED], concurrency=2)
    later = Backoff(first_seconds=3.0 * VISIBLE_S, most_seconds=3.0 * VISIBLE_S)
    with working(spec, workers=4) as (broker, _):
        broker.register(plan_for(RETRIED, backoff=later))
        broker.register(plan_for(ROLES[0], lease_seconds=float(VISIBLE_S)))
        retried = broker.submit(RETRIED, inputs={"ran": str(ran)})
        long = broker.submit(ROLES[0], inputs={"seconds": 5.0 * VISIBLE_S, "ran": str(ran)})
        assert retried.result(timeout_s=60).output == {"attempt": 2}
        assert long.result(timeout_s=60).result == "done"
        began = long.state().opened_at
        assert broker.app.store.load(long.id).now - began >= 5_000 * VISIBLE_S
        assert (claims(retried), claims(long)) == (2, 1)
    runs: list[list[str | int]] = [json.loads(line) for line in ran.read_text().splitlines()]
    assert sorted(runs) == sorted([[retried.id, 1], [retried.id, 2], [long.id, 1]])
