"""The time of a store: one for all processes of a machine, whatever the clock on the wall does.

A lease that lives is taken over by nobody, `at` never goes back, and nothing is stuck for ever.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.broker.stores.sqlite import SqliteStore, hostclock
from passdown.broker.stores.sqlite import store as module
from passdown.broker.stores.sqlite.hostclock import HostClock
from tests.conformance.building import ask, claim, names, opened, renew, request, take

WALL = 1_800_000_000_000
MINUTE = 60_000
LEASE = 60_000


class Machine:
    """A machine: it has been on for a while, its clock may be set, and its processes may see other ones."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.on_for = 5_000_000
        self.wall = WALL
        self.start: int | None = 1
        self.stores: list[SqliteStore] = []
        self._monkeypatch = monkeypatch

    def process(self, off: int = 0) -> SqliteStore:
        """Open the store in a process whose clock is `off` milliseconds ahead."""

        def clock() -> HostClock:
            return HostClock(lambda: self.wall + off, lambda: self.on_for, lambda: self.start)

        self._monkeypatch.setattr(module, "HostClock", clock)
        self.stores.append(SqliteStore(self.path))
        return self.stores[-1]

    def go_on(self, ms: int) -> None:
        """Let time pass."""
        self.on_for += ms
        self.wall += ms

    def restart(self, ms: int = MINUTE) -> None:
        """Turn it off and on; that takes `ms`."""
        for store in self.stores:
            store.close()
        self.start = (self.start or 0) + 1
        self.on_for = 1_000
        self.wall += ms


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine(tmp_path / "a.db", monkeypatch)
    yield made
    for store in made.stores:
        store.close()


def now(store: SqliteStore) -> int:
    return store.load("").now


class TestOneTime:
    @pytest.mark.parametrize("off", [-MINUTE, MINUTE, 10 * 365 * 86_400_000])
    def test_every_process_sees_the_same_whatever_its_clock_shows(self, machine: Machine, off: int) -> None:
        right, wrong = machine.process(), machine.process(off)
        for _ in range(3):
            assert now(right) == now(wrong) == machine.wall
            machine.go_on(1_234)

    @pytest.mark.parametrize("step", [-MINUTE, -3_600_000, 4_000])
    def test_a_clock_that_is_set_back_or_a_little_ahead_changes_nothing(
        self, machine: Machine, step: int
    ) -> None:
        store = machine.process()
        store.due(ask())
        before = now(store)
        machine.wall += step
        machine.go_on(1_000)
        store.due(ask(elapsed_ms=1_000))
        assert now(store) == before + 1_000

    def test_one_that_is_set_far_ahead_is_followed_by_the_next_tick(self, machine: Machine) -> None:
        store, other = machine.process(), machine.process()
        store.due(ask())
        machine.wall += 3_600_000
        machine.go_on(1_000)
        assert now(store) == machine.wall - 3_600_000
        assert store.due(ask(elapsed_ms=1_000)).postponed_ms == 3_600_000
        assert now(store) == now(other) == machine.wall

    def test_after_the_machine_was_off_it_is_what_the_wall_shows(self, machine: Machine) -> None:
        now(machine.process())
        machine.restart(5 * MINUTE)
        assert now(machine.process()) == machine.wall

    def test_where_the_machine_does_not_tell_it_is_the_wall(self, machine: Machine) -> None:
        machine.start = None
        store = machine.process()
        machine.wall += 7_000
        assert now(store) == machine.wall

    def test_another_process_of_the_same_start_notes_nothing_anew(self, machine: Machine) -> None:
        machine.process()
        written = machine.path.with_name("a.db-wal").stat().st_size
        machine.process(MINUTE)
        assert machine.path.with_name("a.db-wal").stat().st_size == written


class TestLeases:
    """Fault occurrent#662: a node that is ahead takes over leases that live."""

    @pytest.mark.parametrize("off", [-MINUTE, MINUTE, 2 * LEASE])
    def test_a_tick_with_another_clock_ends_none_that_lives(self, machine: Machine, off: int) -> None:
        worker, tick = machine.process(), machine.process(off)
        opened(worker, "s0-a")
        claim(worker, "s0-a")
        tick.due(ask())
        for _ in range(20):
            machine.go_on(LEASE // 4)
            assert tick.due(ask(elapsed_ms=LEASE // 4)).entries == []
            assert renew(worker, "s0-a") == "held"

    @pytest.mark.parametrize("off", [-MINUTE, MINUTE, 2 * LEASE])
    def test_a_worker_with_another_clock_loses_none_and_keeps_none_for_ever(
        self, machine: Machine, off: int
    ) -> None:
        worker, tick = machine.process(off), machine.process()
        opened(worker, "s0-a")
        claim(worker, "s0-a")
        tick.due(ask())
        machine.go_on(LEASE - 1_000)
        assert tick.due(ask(elapsed_ms=LEASE - 1_000)).entries == []
        machine.go_on(1_001)
        assert [one.kind for one in tick.due(ask(elapsed_ms=1_001)).entries] == ["lease"]

    @pytest.mark.parametrize("off", [-MINUTE, MINUTE])
    def test_two_ticks_of_two_minds_end_a_dead_workers_lease_once_in_its_time(
        self, machine: Machine, off: int
    ) -> None:
        """If each drew the time to its own clock, the lease would be drawn out again and again."""
        right, wrong = machine.process(), machine.process(off)
        opened(right, "s0-a")
        right.due(ask())
        wrong.due(ask())
        claim(right, "s0-a")
        ended = 0
        for _ in range(3 * LEASE // 1_000):
            machine.go_on(1_000)
            found = [*right.due(ask(elapsed_ms=1_000)).entries, *wrong.due(ask(elapsed_ms=1_000)).entries]
            ended += len(found)
            if found:
                break
        assert ended == 1
        assert now(right) >= WALL + LEASE - 1_000

    def test_when_the_wall_is_set_ahead_they_are_postponed_by_that(self, machine: Machine) -> None:
        worker, tick = machine.process(), machine.process()
        opened(worker, "s0-a")
        tick.due(ask())
        claim(worker, "s0-a")
        machine.wall += 10 * LEASE
        machine.go_on(1_000)
        assert tick.due(ask(elapsed_ms=1_000)).entries == []
        machine.go_on(LEASE - 3_000)
        assert tick.due(ask(elapsed_ms=LEASE - 3_000)).entries == []
        machine.go_on(2_001)
        assert [one.kind for one in tick.due(ask(elapsed_ms=2_001)).entries] == ["lease"]

    def test_a_reservation_lasts_as_long_as_it_was_given(self, machine: Machine) -> None:
        one, two = machine.process(-MINUTE), machine.process(MINUTE)
        opened(one, "s0-a")
        assert names(take(one)) == ["s0-a"]
        assert names(take(two)) == []
        machine.go_on(request().claim_by_ms + 1)
        assert names(take(two)) == ["s0-a"]


class TestThisMachine:
    def test_the_time_is_about_right_and_goes_on(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "a.db")
        before = now(store)
        assert abs(before - time.time() * 1000) < 60_000
        time.sleep(0.02)
        assert 15 <= now(store) - before < 10_000
        store.close()

    def test_it_tells_when_it_was_started_and_always_the_same(self) -> None:
        assert hostclock.this_start() == hostclock.this_start() is not None

    def test_one_that_does_not_tell(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(hostclock, "_BOOT_ID", tmp_path / "none")
        assert hostclock.this_start() is None
        store = SqliteStore(tmp_path / "a.db")
        assert abs(now(store) - time.time() * 1000) < 60_000
        store.close()
