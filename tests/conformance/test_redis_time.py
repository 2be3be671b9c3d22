"""The server's clock and what it may do; many entries that are overdue at once; each ask of a tick does a bounded part."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from passdown.broker.stores.base import DueRequest, Dues, Remove
from passdown.broker.stores.joining import PAGES_WAIT_MS
from passdown.broker.stores.redis import RedisStore
from tests.conformance.building import (
    CLAIM_BY_MS,
    LEASE_MS,
    Clock,
    ask,
    done,
    due,
    entry,
    lease,
    names,
    opened,
    pack,
    row,
    step,
    take,
)
from tests.conformance.joining import keep
from tests.servers.redis import RedisServer

HOUR_MS = 3_600_000
META = "pd:{0}:meta"
#: What one ask with 500 entries may do: some ten milliseconds.
MOST_COMMANDS = 10_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(redis_server: RedisServer, clock: Clock) -> Iterator[RedisStore]:
    store = RedisStore(redis_server.url(), clock=clock)
    yield store
    store.close()


@pytest.fixture
def by_server(redis_server: RedisServer) -> Iterator[RedisStore]:
    """A store that goes by its server's clock."""
    store = RedisStore(redis_server.url())
    yield store
    store.close()


def wall() -> int:
    return time.time_ns() // 1_000_000


# -- the server's clock --


def test_the_time_is_the_servers(by_server: RedisStore) -> None:
    before = wall()
    now = done(by_server, step("s0-a")).now
    assert before <= now <= wall()
    assert now <= by_server.load("s0-a").now <= wall()


def test_after_a_step_back_the_time_goes_on_from_where_it_was(
    by_server: RedisStore, redis_server: RedisServer
) -> None:
    done(by_server, step("s0-a", dues=[entry(after_ms=40)]))
    # As if the clock on the server's wall had been an hour ahead until now.
    redis_server.client().hset(META, "mark", str(wall() + HOUR_MS))
    ahead = by_server.load("s0-a").now
    first = done(by_server, step("s0-a", 1)).now
    assert ahead <= first
    began = wall()
    while (now := by_server.load("s0-a").now) < first + 50:
        assert wall() < began + 5_000, "the time stands still"
    assert now - wall() > HOUR_MS - 5_000
    assert [kind for _, kind, _ in due(by_server)] == ["deadline"]


def test_the_mark_is_written_seldom(by_server: RedisStore, redis_server: RedisServer) -> None:
    client: Any = redis_server.client()
    done(by_server, step("s0-a"))
    marks = {client.hget(META, "mark")}
    began = wall()
    for version in range(1, 60):
        done(by_server, step("s0-a", version))
        marks.add(client.hget(META, "mark"))
    assert len(marks) <= 2 + (wall() - began) // 100


def test_a_workers_clock_does_not_matter(by_server: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    opened(by_server, "s0-a")
    take(by_server)
    assert by_server.load("s0-a").now > 1_700_000_000_000
    assert due(by_server) == []


# -- jumps --


def test_several_jumps_postpone_what_was_set_before_each_by_those_that_followed(
    store: RedisStore, clock: Clock
) -> None:
    store.due(ask())
    for n in range(3):
        done(store, step(f"s0-{n}", lease=lease(f"c{n}")))
        clock.forward(HOUR_MS)
        assert store.due(ask(elapsed_ms=0)).postponed_ms == HOUR_MS
    clock.forward(LEASE_MS - 1)
    assert store.due(ask(elapsed_ms=LEASE_MS - 1)).entries == []
    clock.forward(1)
    assert sorted(name for name, _, _ in due(store)) == ["s0-0", "s0-1", "s0-2"]


def test_a_jump_postpones_any_number_of_leases_a_bounded_part_at_a_time(
    store: RedisStore, clock: Clock, redis_server: RedisServer
) -> None:
    count = 1300
    for start in range(0, count, 260):
        done(store, *(step(f"s0-{n}", lease=lease(f"c{n}")) for n in range(start, start + 260)))
    store.due(ask())
    clock.forward(HOUR_MS)
    asks = 1
    found = store.due(ask(elapsed_ms=0))
    assert found.postponed_ms == HOUR_MS
    while not found.next_ms:
        before = commands(redis_server)
        assert found.entries == []
        asks += 1
        found = store.due(ask(elapsed_ms=0))
        assert commands(redis_server) - before < MOST_COMMANDS
    assert 3 <= asks <= 5
    clock.forward(LEASE_MS)
    assert len(store.due(ask(1000, elapsed_ms=LEASE_MS)).entries) == 1000


# -- much at once --


def overdue(store: RedisStore, clock: Clock, count: int) -> None:
    """Let so many sessions be overdue, each with a due entry, a claim that ran out, or a reservation that did."""
    kinds = ("due", "lease", "pack")
    for start in range(0, count, 500):
        steps = [
            step(
                f"s0-{n}",
                dues=[entry(after_ms=n % 1000)] if kinds[n % 3] == "due" else None,
                lease=lease(f"c{n}", ms=n % 1000) if kinds[n % 3] == "lease" else None,
                queue=pack(f"role-{n % 50}") if kinds[n % 3] == "pack" else None,
            )
            for n in range(start, min(start + 500, count))
        ]
        done(store, *steps)
    for number in range(50):
        while take(store, f"role-{number}", slots=500).packs:
            continue
    clock.forward(CLAIM_BY_MS + HOUR_MS)


def a_pass(store: RedisStore, server: RedisServer, limit: int) -> list[Dues]:
    """Ask as a tick does until nothing more is due now; no ask may keep the server busy for long."""
    asked: list[Dues] = []
    while not asked or not asked[-1].next_ms:
        before = commands(server)
        asked.append(store.due(DueRequest(limit=limit, reserve_ms=60_000, elapsed_ms=None)))
        assert commands(server) - before < MOST_COMMANDS
    return asked


def commands(server: RedisServer) -> int:
    """Return how many commands the server did by now, those within scripts too."""
    stats: dict[str, Any] = server.client().info("commandstats")
    return sum(one["calls"] for one in stats.values())


def _overdue_are_worked_off(store: RedisStore, clock: Clock, server: RedisServer, count: int) -> None:
    overdue(store, clock, count)
    asked = a_pass(store, server, 500)
    found = [one.session_id for dues in asked for one in dues.entries]
    expected = [f"s0-{n}" for n in range(count) if n % 3 != 2]
    assert len(found) == len(set(found))
    assert sorted(found) == sorted(expected)
    assert all(len(dues.entries) <= 500 for dues in asked)
    assert sorted({role for dues in asked for role in dues.ring}) == sorted(f"role-{n}" for n in range(50))
    packs: list[str] = []
    for number in range(50):
        while got := names(take(store, f"role-{number}", slots=500)):
            packs += got
    assert sorted(packs) == sorted(f"s0-{n}" for n in range(count) if n % 3 == 2)


def test_what_is_overdue_is_worked_off_in_bounded_parts(
    store: RedisStore, clock: Clock, redis_server: RedisServer
) -> None:
    _overdue_are_worked_off(store, clock, redis_server, 3_000)


@pytest.mark.soak
def test_fifty_thousand_that_are_overdue_are_worked_off_in_bounded_parts(
    store: RedisStore, clock: Clock, redis_server: RedisServer
) -> None:
    _overdue_are_worked_off(store, clock, redis_server, 50_000)


def test_tombstones_are_forgotten_in_bounded_parts(
    store: RedisStore, clock: Clock, redis_server: RedisServer
) -> None:
    ended = [step(f"s0-{n}", row=row(f"s0-{n}", 1, status="done")) for n in range(1200)]
    for start in range(0, 1200, 400):
        done(store, *ended[start : start + 400])
    for n in range(1200):
        store.put(Remove(session_id=f"s0-{n}", version=1, status="done", keep_ms=1000))
    client: Any = redis_server.client()
    assert client.hlen("pd:{0}:gone") == 1200
    clock.forward(1000)
    left: list[int] = []
    while store.due(ask(1)).next_ms == 0:
        left.append(client.hlen("pd:{0}:gone"))
    assert left == [700, 200]
    assert client.hlen("pd:{0}:gone") == 0
    assert sorted(client.keys("*")) == [b"pd:{0}:meta"]


def test_pages_of_sessions_that_were_never_opened_are_forgotten_in_bounded_parts(
    store: RedisStore, clock: Clock, redis_server: RedisServer
) -> None:
    client: Any = redis_server.client()
    for n in range(1200):
        keep(store, 0, b"[]", session=f"s0-{n}")
        keep(store, 1, b"[]", session=f"s0-{n}")
    clock.forward(PAGES_WAIT_MS)
    left: list[tuple[int, int]] = []
    found = 0
    while found == 0:
        before = commands(redis_server)
        found = store.due(ask(1)).next_ms
        assert commands(redis_server) - before < MOST_COMMANDS
        left.append((client.zcard("pd:{0}:unopened"), client.dbsize()))
    assert left == [(700, 702), (200, 202), (0, 1)]


def test_two_hundred_roles_one_of_them_crowded_are_rung_for_and_served(
    store: RedisStore, clock: Clock, redis_server: RedisServer
) -> None:
    for start in range(0, 2000, 500):
        opened(store, *(f"s0-{n}" for n in range(start, start + 500)), role="crowded")
    done(store, *(step(f"s0-of-{n}", queue=pack(f"role-{n}")) for n in range(199)))
    clock.forward(10_000)
    rung = [role for dues in a_pass(store, redis_server, 100) for role in dues.ring]
    assert sorted(rung) == sorted(["crowded", *(f"role-{n}" for n in range(199))])
    assert names(take(store, "role-7")) == ["s0-of-7"]
