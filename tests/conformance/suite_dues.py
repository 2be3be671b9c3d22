"""Due entries: handed out in order of time, reserved, and replaced with each commit that names them."""

from collections.abc import Callable

from passdown.broker.stores.base import DueNow, Store
from tests.conformance.building import (
    RESERVE_MS,
    Clock,
    ask,
    claim,
    done,
    due,
    entry,
    names,
    opened,
    pack,
    step,
    take,
)
from tests.conformance.driver import Driven


class DueSuite(Driven):
    def test_an_entry_is_due_after_its_time_and_named_by_its_at(self, store: Store, clock: Clock) -> None:
        done(store, step("s0-a", dues=[entry("retry-at", "2", after_ms=500, at=123)]))
        clock.forward(499)
        assert due(store) == []
        clock.forward(1)
        assert store.due(ask()).entries == [DueNow(session_id="s0-a", kind="retry-at", subject="2", at=123)]

    def test_entries_and_leases_come_in_order_of_time(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-lease")
        claim(store, "s0-lease")  # 60 s
        done(
            store, step("s0-a", dues=[entry("deadline", after_ms=70_000), entry("retry-at", after_ms=50_000)])
        )
        done(store, step("s0-b", dues=[entry("resume-at", after_ms=55_000)]))
        clock.forward(80_000)
        assert [kind for _, kind, _ in due(store)] == ["retry-at", "resume-at", "lease", "deadline"]

    def test_a_limit_leaves_the_later_ones_for_the_next_ask(self, store: Store, clock: Clock) -> None:
        for n in range(5):
            done(store, step(f"s0-{n}", dues=[entry(after_ms=n + 1)]))
        clock.forward(10)
        first = store.due(ask(limit=3))
        assert [one.session_id for one in first.entries] == ["s0-0", "s0-1", "s0-2"]
        assert first.next_ms == 0
        assert [name for name, _, _ in due(store, 3)] == ["s0-3", "s0-4"]

    def test_a_reserved_entry_is_given_to_one_tick_and_comes_again(
        self, connect: Callable[[], Store], clock: Clock
    ) -> None:
        one, two = connect(), connect()
        done(one, step("s0-a", dues=[entry(after_ms=0)]))
        assert [len(due(store)) for store in (one, two, one)] == [1, 0, 0]
        clock.forward(RESERVE_MS - 1)
        assert due(two) == []
        clock.forward(1)
        assert len(due(two)) == 1

    def test_a_commit_replaces_all_entries_of_its_session(self, store: Store, clock: Clock) -> None:
        done(store, step("s0-a", dues=[entry("deadline", after_ms=10), entry("retry-at", "1", after_ms=10)]))
        done(store, step("s0-b", dues=[entry("deadline", after_ms=10)]))
        done(store, step("s0-a", 1, dues=[entry("retry-at", "2", after_ms=10)]))
        clock.forward(10)
        assert sorted(due(store)) == [("s0-a", "retry-at", "2"), ("s0-b", "deadline", "")]

    def test_an_empty_list_removes_all_and_none_leaves_them_alone(self, store: Store, clock: Clock) -> None:
        for name in ("s0-a", "s0-b"):
            done(store, step(name, dues=[entry(after_ms=10)]))
        done(store, step("s0-a", 1, dues=[]), step("s0-b", 1))
        clock.forward(10)
        assert [name for name, _, _ in due(store)] == ["s0-b"]

    def test_an_entry_may_move(self, store: Store, clock: Clock) -> None:
        done(store, step("s0-a", dues=[entry(after_ms=1_000, at=1)]))
        done(store, step("s0-a", 1, dues=[entry(after_ms=5_000, at=2)]))
        clock.forward(1_000)
        assert due(store) == []
        clock.forward(4_000)
        assert [one.at for one in store.due(ask()).entries] == [2]

    def test_an_entry_that_is_named_again_keeps_its_time(self, store: Store, clock: Clock) -> None:
        done(store, step("s0-a", dues=[entry(after_ms=5_000, at=9)]))
        clock.forward(2_000)
        done(store, step("s0-a", 1, dues=[entry(after_ms=3_000, at=9)]))
        clock.forward(2_999)
        assert due(store) == []
        clock.forward(1)
        assert [one.at for one in store.due(ask()).entries] == [9]

    def test_an_entry_that_was_reserved_can_be_dealt_with(self, store: Store, clock: Clock) -> None:
        done(store, step("s0-a", dues=[entry("retry-at", after_ms=10)]))
        clock.forward(10)
        due(store)
        done(store, step("s0-a", 1, dues=[]))
        clock.forward(RESERVE_MS)
        assert due(store) == []

    def test_two_commits_of_one_call_leave_what_the_last_one_said(self, store: Store, clock: Clock) -> None:
        done(
            store,
            step("s0-a", dues=[entry("deadline", after_ms=1)]),
            step("s0-a", 1, dues=[entry("retry-at", after_ms=1)]),
        )
        clock.forward(1)
        assert [kind for _, kind, _ in due(store)] == ["retry-at"]

    def test_next_says_when_to_look_again_at_most_a_minute_from_now(self, store: Store, clock: Clock) -> None:
        assert store.due(ask()).next_ms == 60_000
        done(store, step("s0-a", dues=[entry(after_ms=90_000)]))
        assert store.due(ask()).next_ms == 60_000
        clock.forward(60_000)
        assert store.due(ask()).next_ms == 30_000
        opened(store, "s0-b")
        take(store)
        claim(store, "s0-b")
        done(store, step("s0-b", 2, dues=[entry(after_ms=7_000)]))
        assert store.due(ask()).next_ms == 7_000

    def test_what_is_reserved_does_not_keep_the_tick_awake(self, store: Store, clock: Clock) -> None:
        done(store, step("s0-a", dues=[entry(after_ms=5)]))
        clock.forward(5)
        found = store.due(ask())
        assert (len(found.entries), found.next_ms) == (1, 60_000)

    def test_a_clock_that_steps_back_does_not_put_off_entries_and_packs_for_long(
        self, store: Store, clock: Clock
    ) -> None:
        done(store, step("s0-a", queue=pack(), dues=[entry("deadline", after_ms=20_000, at=11)]))
        take(store)
        store.due(ask())
        clock.back(3_600_000)
        store.due(ask(elapsed_ms=1_000))
        clock.forward(20_000)
        assert [one.at for one in store.due(ask(elapsed_ms=20_000)).entries] == [11]
        assert len(take(store).packs) == 1
        done(store, step("s0-a", 1, dues=[]))
        clock.forward(RESERVE_MS)
        assert due(store) == []

    def test_packs_keep_their_order_and_can_be_withdrawn_after_the_clock_stepped_back(
        self, store: Store, clock: Clock
    ) -> None:
        for name in ("s0-b", "s0-c", "s0-a"):
            opened(store, name)
            clock.forward(1)
        store.due(ask())
        clock.back(3_600_000)
        store.due(ask(elapsed_ms=1_000))
        opened(store, "s0-late")
        done(store, step("s0-c", 1, queue="withdraw"))
        assert names(take(store, slots=9)) == ["s0-b", "s0-a", "s0-late"]
