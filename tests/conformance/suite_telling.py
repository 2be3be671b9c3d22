"""What is to be told outside: handed out oldest first, reserved, until it was told (at least once, in order)."""

from collections.abc import Callable

from passdown.broker.stores.base import Store, Told, ToTell
from tests.conformance.building import (
    LEASE_MS,
    RESERVE_MS,
    Clock,
    ask,
    claim,
    do,
    done,
    entry,
    opened,
    renew,
    step,
    take,
)
from tests.conformance.driver import Driven


def telling(store: Store, tell: int = 100, *, limit: int = 0) -> list[tuple[str, int, int]]:
    """Return what is to be told: session, after, upto."""
    found = store.due(ask(limit, tell=tell)).tell
    return [(one.session_id, one.after, one.upto) for one in found]


def told(store: Store, session_id: str, seq: int) -> None:
    """Say that a session's log was told up to `seq`."""
    store.put(Told(session_id=session_id, seq=seq))


class TellingSuite(Driven):
    def test_a_commit_with_tell_makes_its_session_due_for_telling_and_no_other_does(
        self, store: Store
    ) -> None:
        done(store, step("s0-a", events=3, tell=True), step("s0-b"))
        found = store.due(ask(tell=100))
        assert found.tell == [ToTell(session_id="s0-a", after=0, upto=3)]
        assert found.entries == []

    def test_a_commit_that_does_not_hold_tells_nothing(self, store: Store) -> None:
        done(store, step("s0-a"))
        do(store, step("s0-a", 4, tell=True), step("s0-b", 1, tell=True))
        assert telling(store) == []

    def test_a_repeated_commit_tells_nothing_again(self, store: Store) -> None:
        first = step("s0-a", tell=True)
        done(store, first)
        telling(store)
        told(store, "s0-a", 1)
        do(store, first)
        assert telling(store) == []

    def test_several_commits_are_told_at_once_up_to_the_last_that_says_so(self, store: Store) -> None:
        done(store, step("s0-a", tell=True), step("s0-a", 1, events=2, tell=True), step("s0-a", 3))
        assert telling(store) == [("s0-a", 0, 3)]

    def test_they_come_oldest_first(self, store: Store, clock: Clock) -> None:
        for name in ("s0-b", "s0-c", "s0-a"):
            done(store, step(name, tell=True))
            clock.forward(1)
        done(store, step("s0-b", 1, tell=True))  # keeps its place
        assert telling(store) == [("s0-b", 0, 2), ("s0-c", 0, 1), ("s0-a", 0, 1)]

    def test_what_is_handed_out_is_reserved_and_comes_again(
        self, connect: Callable[[], Store], clock: Clock
    ) -> None:
        one, two = connect(), connect()
        done(one, step("s0-a", tell=True))
        assert [len(telling(store)) for store in (one, two, one)] == [1, 0, 0]
        clock.forward(RESERVE_MS - 1)
        assert telling(two) == []
        clock.forward(1)
        assert telling(two) == [("s0-a", 0, 1)]

    def test_what_was_told_is_not_handed_out_again(self, store: Store, clock: Clock) -> None:
        done(store, step("s0-a", events=2, tell=True))
        telling(store)
        told(store, "s0-a", 2)
        clock.forward(RESERVE_MS)
        assert telling(store) == []

    def test_what_follows_is_told_from_where_it_was_told(self, store: Store) -> None:
        done(store, step("s0-a", events=2, tell=True))
        telling(store)
        told(store, "s0-a", 2)
        done(store, step("s0-a", 2))
        assert telling(store) == []
        done(store, step("s0-a", 3, tell=True))
        assert telling(store) == [("s0-a", 2, 4)]

    def test_more_may_be_told_than_was_asked_for(self, store: Store) -> None:
        done(store, step("s0-a", tell=True), step("s0-a", 1, events=4))
        telling(store)
        told(store, "s0-a", 5)
        assert telling(store) == []
        done(store, step("s0-a", 5, tell=True))
        assert telling(store) == [("s0-a", 5, 6)]

    def test_what_is_committed_meanwhile_waits_for_the_one_who_tells(
        self, store: Store, clock: Clock
    ) -> None:
        done(store, step("s0-a", tell=True))
        telling(store)
        done(store, step("s0-a", 1, tell=True))
        assert telling(store) == []
        told(store, "s0-a", 1)
        assert telling(store) == [("s0-a", 1, 2)]
        done(store, step("s0-a", 2, tell=True))
        clock.forward(RESERVE_MS)
        assert telling(store) == [("s0-a", 1, 3)]

    def test_a_part_that_was_told_makes_the_rest_due_at_once(self, store: Store) -> None:
        done(store, step("s0-a", events=9, tell=True))
        telling(store)
        told(store, "s0-a", 4)
        assert telling(store) == [("s0-a", 4, 9)]

    def test_a_late_told_takes_nothing_back(self, store: Store) -> None:
        done(store, step("s0-a", events=9, tell=True))
        telling(store)
        told(store, "s0-a", 6)
        told(store, "s0-a", 3)
        assert telling(store) == [("s0-a", 6, 9)]
        told(store, "s0-a", 9)
        told(store, "s0-a", 3)
        assert telling(store) == []
        done(store, step("s0-a", 9, tell=True))
        assert telling(store) == [("s0-a", 9, 10)]

    def test_what_a_store_lost_after_it_was_told_hides_nothing_that_takes_its_place(
        self, store: Store
    ) -> None:
        """Whoever told of event 5 may not know that the store was put back to an older copy since."""
        done(store, step("s0-a", events=3, tell=True))
        telling(store)
        told(store, "s0-a", 5)
        assert telling(store) == []
        done(store, step("s0-a", 3, events=3, tell=True))
        assert telling(store) == [("s0-a", 3, 6)]

    def test_telling_of_no_session_is_without_effect(self, store: Store) -> None:
        told(store, "s0-none", 3)
        done(store, step("s0-none", tell=True))
        assert telling(store) == [("s0-none", 0, 1)]

    def test_no_more_than_asked_for_are_handed_out_and_the_rest_is_due_now(
        self, store: Store, clock: Clock
    ) -> None:
        for n in range(5):
            done(store, step(f"s0-{n}", tell=True))
            clock.forward(1)
        first = store.due(ask(0, tell=3))
        assert [one.session_id for one in first.tell] == ["s0-0", "s0-1", "s0-2"]
        assert first.next_ms == 0
        second = store.due(ask(0, tell=3))
        assert [one.session_id for one in second.tell] == ["s0-3", "s0-4"]
        assert second.next_ms == 60_000  # what is reserved keeps nobody awake

    def test_a_tick_that_tells_nobody_reserves_none(self, store: Store) -> None:
        done(store, step("s0-a", tell=True))
        found = store.due(ask(tell=0))
        assert (found.tell, found.next_ms) == ([], 60_000)
        assert telling(store) == [("s0-a", 0, 1)]

    def test_due_entries_and_what_is_to_be_told_take_no_room_from_each_other(
        self, store: Store, clock: Clock
    ) -> None:
        for n in range(3):
            done(store, step(f"s0-{n}", dues=[entry(after_ms=0)], tell=True))
            clock.forward(1)
        found = store.due(ask(1, tell=2))
        assert [one.session_id for one in found.entries] == ["s0-0"]
        assert [one.session_id for one in found.tell] == ["s0-0", "s0-1"]
        found = store.due(ask(2, tell=1))
        assert [one.session_id for one in found.entries] == ["s0-1", "s0-2"]
        assert [one.session_id for one in found.tell] == ["s0-2"]

    def test_telling_moves_neither_leases_nor_due_entries(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        done(store, step("s0-a", 2, dues=[entry("deadline", after_ms=LEASE_MS + 10)], tell=True))
        telling(store)
        told(store, "s0-a", 1)
        told(store, "s0-a", 3)
        assert renew(store, "s0-a") == "held"
        clock.forward(LEASE_MS + 10)
        assert [one.kind for one in store.due(ask(tell=5)).entries] == ["lease", "deadline"]

    def test_whoever_only_tells_is_no_tick(self, store: Store, clock: Clock) -> None:
        """A ring that it does not make would be lost, and a clock's jump that it does not tell of, too."""
        opened(store, "s0-a", "s0-b")
        store.due(ask(elapsed_ms=None))
        take(store, slots=1)
        claim(store, "s0-a")
        done(store, step("s0-c", dues=[entry(after_ms=0)]))
        clock.forward(3_600_000)
        found = store.due(ask(0, tell=5))
        assert (found.entries, found.ring, found.postponed_ms) == ([], [], 0)
        assert found.next_ms == 60_000
        found = store.due(ask(elapsed_ms=1_000))
        assert found.postponed_ms > 3_000_000
        assert found.ring == ["analyst"]
        assert [one.session_id for one in found.entries] == ["s0-c"]

    def test_a_clock_that_steps_back_does_not_put_off_telling_for_long(
        self, store: Store, clock: Clock
    ) -> None:
        done(store, step("s0-a", tell=True), step("s0-b", tell=True))
        store.due(ask(tell=1))
        clock.back(3_600_000)
        store.due(ask(elapsed_ms=1_000))
        clock.forward(RESERVE_MS)
        assert sorted(name for name, _, _ in telling(store)) == ["s0-a", "s0-b"]
