"""Joins that were woken: left to whoever woke them for a moment, then handed out, reserved, until they were looked at."""

from collections.abc import Callable

import pytest

from passdown.broker.stores.base import DueNow, Store
from passdown.broker.stores.joining import WOKEN_MS
from passdown.contracts.errors import Unavailable
from tests.conformance.building import RESERVE_MS, Clock, ask, done, due, entry, step
from tests.conformance.driver import Driven
from tests.conformance.faulty import Chance, Fault, FaultyStore, Script
from tests.conformance.joining import (
    JOIN,
    PARENT,
    branch,
    checks,
    close,
    closing,
    fan_out,
    keep,
    mark,
    marked,
    outcomes,
    page,
    put,
    record,
    rows,
    seen,
    standing,
    wake,
)
from tests.conformance.suite_faults import LOST, insist, until_answered


class JoinCheckSuite(Driven):
    # -- handing out -------------------------------------------------------------------------------------

    def test_a_woken_join_is_due_after_a_moment(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(2))
        marked(store, 0, 1)
        clock.forward(WOKEN_MS - 1)
        assert due(store) == []
        clock.forward(1)
        assert store.due(ask()).entries == [DueNow(session_id=PARENT, kind="join", subject=JOIN, at=2)]

    def test_a_join_that_is_not_woken_is_never_due(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(3))
        marked(store, 0, 1)
        marked(store, 0, outcome="failed", expected=1)
        clock.forward(3_600_000)
        assert due(store) == []

    def test_later_rows_do_not_put_the_check_off(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        for n in range(1, 6):
            clock.forward(WOKEN_MS // 5)
            marked(store, n)
        assert checks(store) == [(PARENT, JOIN, 6)]

    def test_a_parent_that_asks_for_what_is_there_makes_it_due(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(0))
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 0)]

    def test_a_parent_that_says_more_does_not_put_the_check_off(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        clock.forward(WOKEN_MS - 1)
        done(store, step(PARENT, 1, join=put(wake(1), wake(7))))
        clock.forward(1)
        assert checks(store) == [(PARENT, JOIN, 2)]

    def test_a_check_that_a_parent_ended_reserves_nothing(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        clock.forward(WOKEN_MS)
        assert len(checks(store)) == 1
        done(store, step(PARENT, 1, join=put(wake(2))))
        marked(store, 1)
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 3)]

    def test_a_parent_that_waits_for_more_ends_the_check(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        done(store, step(PARENT, 1, join=put(wake(2))))
        clock.forward(WOKEN_MS)
        assert checks(store) == []
        marked(store, 1)
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 3)]

    def test_closing_ends_the_check_and_late_rows_begin_another_where_asked(
        self, store: Store, clock: Clock
    ) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        close(store, 1, 0, 1, wake(2))
        clock.forward(WOKEN_MS)
        assert checks(store) == []
        marked(store, 1, outcome="cancelled")
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 3)]
        done(store, step(PARENT, 2, join=put()))
        clock.forward(RESERVE_MS)
        assert checks(store) == []

    def test_a_close_that_is_stale_leaves_the_check(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        close(store, 1, 5, 1, wake(9))
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 1)]

    def test_a_repeated_command_makes_nothing_due(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        seen(store, 1)
        store.commit([branch(0), branch(0)])
        done(store, branch(0, "done", 1))  # the same row again
        clock.forward(WOKEN_MS)
        assert checks(store) == []

    def test_a_check_is_given_to_one_tick_and_comes_again(
        self, connect: Callable[[], Store], clock: Clock
    ) -> None:
        one, two = connect(), connect()
        fan_out(one, wake(1))
        marked(one, 0)
        clock.forward(WOKEN_MS)
        assert [len(due(store)) for store in (one, two, one)] == [1, 0, 0]
        clock.forward(RESERVE_MS - 1)
        assert due(two) == []
        clock.forward(1)
        assert due(two) == [(PARENT, "join", JOIN)]

    def test_a_row_that_comes_while_somebody_looks_is_looked_at_in_the_end(
        self, store: Store, clock: Clock
    ) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 1)]
        assert marked(store, 1).woke == [JOIN]
        seen(store, 1)
        clock.forward(RESERVE_MS)
        assert checks(store) == [(PARENT, JOIN, 2)]

    def test_checks_and_other_entries_come_in_order_of_time_and_share_the_limit(
        self, store: Store, clock: Clock
    ) -> None:
        fan_out(store, wake(1))
        fan_out(store, wake(1), parent="s0-q")
        done(store, step("s0-a", dues=[entry("deadline", after_ms=WOKEN_MS + 5)]))
        done(store, step("s0-b", dues=[entry("retry-at", after_ms=WOKEN_MS + 20)]))
        marked(store, 0)
        clock.forward(10)
        done(store, branch(1, join="s0-q.j-1"))
        clock.forward(WOKEN_MS + 20)
        first = store.due(ask(3))
        assert [one.kind for one in first.entries] == ["join", "deadline", "join"]
        assert first.next_ms == 0
        assert due(store, 3) == [("s0-b", "retry-at", "")]

    def test_a_limit_leaves_the_later_checks_for_the_next_ask(self, store: Store, clock: Clock) -> None:
        for n in range(5):
            fan_out(store, wake(0), parent=f"s0-p{n}")
            clock.forward(1)
        clock.forward(WOKEN_MS)
        assert [subject for _, subject, _ in checks(store, 3)] == [f"s0-p{n}.j-1" for n in range(3)]
        assert [subject for _, subject, _ in checks(store, 3)] == [f"s0-p{n}.j-1" for n in (3, 4)]

    def test_next_says_when_a_join_comes_up(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        assert store.due(ask()).next_ms == 60_000
        marked(store, 0)
        assert store.due(ask()).next_ms == WOKEN_MS
        clock.forward(WOKEN_MS - 50)
        assert store.due(ask()).next_ms == 50
        clock.forward(50)
        found = store.due(ask())
        # What is reserved keeps nobody awake.
        assert (len(found.entries), found.next_ms) == (1, 60_000)
        assert store.due(ask()).next_ms == 60_000

    def test_whoever_only_tells_is_handed_no_join(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(0))
        clock.forward(WOKEN_MS)
        assert store.due(ask(0, tell=5)).entries == []
        assert checks(store) == [(PARENT, JOIN, 0)]

    def test_a_clock_that_steps_back_does_not_put_a_check_off_for_long(
        self, store: Store, clock: Clock
    ) -> None:
        fan_out(store, wake(1))
        fan_out(store, wake(0), parent="s0-q")
        clock.forward(WOKEN_MS)
        assert [subject for _, subject, _ in checks(store)] == ["s0-q.j-1"]
        marked(store, 0)
        clock.back(3_600_000)
        store.due(ask(elapsed_ms=1_000))
        clock.forward(RESERVE_MS)
        found = {subject for _, subject, _ in checks(store)}
        clock.forward(RESERVE_MS)
        assert found | {subject for _, subject, _ in checks(store)} == {JOIN, "s0-q.j-1"}

    # -- seen --------------------------------------------------------------------------------------------

    def test_what_was_looked_at_is_not_handed_out(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        seen(store, 1)  # by whoever woke it
        clock.forward(WOKEN_MS)
        assert (checks(store), store.due(ask()).next_ms) == ([], 60_000)
        marked(store, 1)
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 2)]
        seen(store, 2)
        clock.forward(RESERVE_MS)
        assert checks(store) == []

    def test_a_look_at_an_older_version_is_without_effect(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0, 1)
        seen(store, 1)
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 2)]

    def test_a_row_written_anew_makes_a_look_old(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        marked(store, 0, outcome="failed", expected=1)
        seen(store, 1)
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 2)]

    def test_to_have_seen_it_before_the_parent_said_more_ends_no_check(
        self, store: Store, clock: Clock
    ) -> None:
        """What was looked at is not what the parent waits for by now: it may be paused while it is looked at."""
        fan_out(store, wake(1))
        marked(store, 0)
        done(store, step(PARENT, 1, join=put(wake(1))))
        seen(store, 1)
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 2)]

    def test_to_have_seen_changes_nothing_but_the_check(self, store: Store) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        before = record(store), rows(store)
        for version in (0, 1, 1, 9):
            seen(store, version)
        assert (record(store), rows(store)) == before
        assert marked(store, 1).woke == [JOIN]

    def test_to_have_seen_no_join_is_without_effect(self, store: Store) -> None:
        seen(store, 0)
        seen(store, 3, "s0-none.j-2")
        fan_out(store, wake(1))
        assert standing(store) == (0, 0, {}, None)

    # -- behind faults -----------------------------------------------------------------------------------

    @pytest.mark.parametrize("fault", ["before", "after", "stale"])
    def test_rule_01_a_row_whose_reply_is_lost_is_written_once_and_its_join_looked_at(
        self, store: Store, clock: Clock, fault: Fault
    ) -> None:
        fan_out(store, wake(1))
        faulty = FaultyStore(store, Script(fault))
        insist(faulty, branch(0))
        assert faulty.given == [("commit", fault)]
        assert standing(store) == (1, 0, {"done": 1}, None)
        # Who wrote it may not have been told that it woke the join; the tick is.
        clock.forward(WOKEN_MS)
        assert checks(store) == [(PARENT, JOIN, 1)]

    @pytest.mark.parametrize("fault", ["before", "after", "stale"])
    def test_rule_01_a_close_whose_reply_is_lost_closes_once(self, store: Store, fault: Fault) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        faulty = FaultyStore(store, Script(fault))
        insist(faulty, step(PARENT, 1, events=2, join=put(close=closing(1))))
        assert standing(store) == (2, 0, {"done": 1}, 1)
        assert store.load(PARENT).version == 3

    @pytest.mark.parametrize("fault", LOST)
    def test_rule_01_a_check_without_an_answer_comes_again(
        self, store: Store, clock: Clock, fault: Fault
    ) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        clock.forward(WOKEN_MS)
        with pytest.raises(Unavailable):
            checks(FaultyStore(store, Script(fault)))
        clock.forward(RESERVE_MS)
        assert checks(store) == [(PARENT, JOIN, 1)]

    @pytest.mark.parametrize("fault", LOST)
    def test_rule_01_to_have_seen_and_to_keep_a_page_again_are_harmless(
        self, store: Store, clock: Clock, fault: Fault
    ) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        faulty = FaultyStore(store, Script(fault, None, fault))
        until_answered(lambda: seen(faulty, 1))
        until_answered(lambda: keep(faulty, 0, b"[1]"))
        assert len(faulty.given) == 2
        assert page(store, 0) == b"[1]"
        clock.forward(WOKEN_MS)
        assert checks(store) == []

    @pytest.mark.parametrize("seed", range(6))
    def test_rule_01_a_whole_join_goes_through_faults_unharmed(
        self, store: Store, clock: Clock, seed: int
    ) -> None:
        faulty = FaultyStore(store, Chance(seed=seed, rate=0.3))
        insist(faulty, step(PARENT, join=put(wake(12))))
        for n in range(12):
            insist(faulty, branch(n, "waiting"))
            insist(faulty, step(f"s0-b{n}", 1, join_row=mark(n)))
        looks = 0
        while until_answered(lambda: record(faulty)).closed_at is None:
            clock.forward(RESERVE_MS)
            for session, join, at in until_answered(lambda: checks(faulty)):
                looks += 1
                read = until_answered(lambda join=join: record(faulty, join))
                assert (session, at) == (PARENT, read.version)
                insist(
                    faulty,
                    step(PARENT, 1, join=put(close=closing(read.version, read.rewrites))),
                )
        assert len(faulty.given) > 5
        assert looks > 0
        assert standing(store) == (25, 0, {"done": 12}, 24)
        assert outcomes(store) == [(n, "done", 2 * n + 2) for n in range(12)]
        clock.forward(3_600_000)
        assert due(store) == []
