"""Joins: the record, its rows and counts, what wakes it, and that it closes on the rows that were read."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Commit, Committed, Repeated, Stale, Store
from passdown.broker.stores.queries import FindJoin, JoinRecord, RowOfJoin
from tests.conformance.building import claim, do, done, events_of, opened, pack, stale, step, take
from tests.conformance.driver import Driven
from tests.conformance.joining import (
    JOIN,
    PARENT,
    branch,
    close,
    closing,
    fan_out,
    mark,
    marked,
    outcomes,
    put,
    record,
    rows,
    standing,
    wake,
)
from tests.conformance.together import together

#: So many rows must be no other matter than few.
MANY = 2_000


@dataclass
class Case:
    """A commit that does not hold, and what it is answered."""

    commit: Commit
    answer: type


DOES_NOT_HOLD = {
    "stale": Case(step("s0-b0", 5, join_row=mark(0)), Stale),
    "of another content": Case(step("s0-b0", command="s0-b0/0", content="other", join_row=mark(0)), Stale),
    "repeated": Case(step("s0-b0", join_row=mark(7, "failed")), Repeated),
}


class JoinSuite(Driven):
    # -- the record --------------------------------------------------------------------------------------

    def test_a_join_is_there_once_its_parent_made_it(self, store: Store) -> None:
        assert store.find(FindJoin(join_id=JOIN)) is None
        assert rows(store) == []
        assert fan_out(store, wake(2)).woke == []
        assert record(store) == JoinRecord(join_id=JOIN, version=0, rewrites=0, counts={}, closed_at=None)
        assert rows(store) == []

    def test_a_session_may_have_several_joins_which_do_not_mix(self, store: Store) -> None:
        other = f"{PARENT}.j-2"
        fan_out(store, wake(1))
        done(store, step(PARENT, 1, join=put(wake(9), join=other)), branch(0, "failed", join=other))
        assert standing(store) == (0, 0, {}, None)
        assert standing(store, other) == (1, 0, {"failed": 1}, None)
        assert outcomes(store) == []
        assert outcomes(store, other) == [(0, "failed", 1)]

    def test_joins_of_like_named_sessions_do_not_mix(self, store: Store) -> None:
        for parent in ("s0-p", "s0-p1", "s0-p10"):
            fan_out(store, wake(1), parent=parent)
        marked(store, 3)
        assert standing(store, "s0-p1.j-1") == standing(store, "s0-p10.j-1") == (0, 0, {}, None)

    def test_a_later_commit_of_the_parent_keeps_what_it_does_not_name(self, store: Store) -> None:
        fan_out(store, wake(3))
        marked(store, 0)
        done(store, step(PARENT, 1), step(PARENT, 2, join=put(wake(5))))
        assert standing(store) == (2, 0, {"done": 1}, None)
        assert outcomes(store) == [(0, "done", 1)]

    # -- rows --------------------------------------------------------------------------------------------

    def test_a_row_stands_as_it_was_marked(self, store: Store) -> None:
        fan_out(store)
        about = bytes(range(256)) * 32  # 8 KiB
        done(store, branch(4, "refused", about=about))
        (found,) = rows(store)
        assert found == RowOfJoin(
            place=4, branch="b4", session_id="s0-b4", outcome="refused", order=1, about=about
        )

    def test_any_name_of_a_branch_and_an_empty_about_will_do(self, store: Store) -> None:
        fan_out(store)
        name = "Zürich / 7:{x}\x00\n\U0001f600 "
        done(store, step("s0-b0", join_row=replace(mark(0, about=b""), branch=name)))
        assert [(one.branch, one.about) for one in rows(store)] == [(name, b"")]

    def test_rows_are_counted_by_outcome_and_ordered_as_they_came(self, store: Store) -> None:
        fan_out(store)
        marked(store, 9, 0)
        marked(store, 4, outcome="failed")
        marked(store, 2)
        assert standing(store) == (4, 0, {"done": 3, "failed": 1}, None)
        assert outcomes(store) == [(0, "done", 2), (2, "done", 4), (4, "failed", 3), (9, "done", 1)]

    def test_a_row_that_is_written_anew_moves_the_counts(self, store: Store) -> None:
        fan_out(store)
        marked(store, 0, 1, outcome="waiting")
        marked(store, 0, outcome="open", expected=1)
        assert standing(store) == (3, 0, {"waiting": 1, "open": 1}, None)
        marked(store, 0, outcome="done", expected=2)
        marked(store, 1, outcome="done", expected=1)
        # An outcome that no row has any more is not counted as 0.
        assert standing(store) == (5, 0, {"done": 2}, None)
        assert outcomes(store) == [(0, "done", 4), (1, "done", 5)]

    def test_another_about_alone_is_a_rewrite(self, store: Store) -> None:
        fan_out(store)
        done(store, branch(0, about=b"one"), branch(0, "done", 1, about=b"two"))
        assert standing(store) == (2, 1, {"done": 1}, None)
        assert [(one.about, one.order) for one in rows(store)] == [(b"two", 2)]

    def test_the_same_row_again_is_no_write(self, store: Store) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        before = record(store), rows(store)
        assert marked(store, 0, expected=1).woke == []
        assert (record(store), rows(store)) == before
        assert store.load("s0-b0").version == 2

    def test_of_two_rows_of_one_place_in_one_call_the_last_one_stands(self, store: Store) -> None:
        fan_out(store)
        done(store, step("s0-x", join_row=mark(0, "waiting")), step("s0-y", join_row=mark(0, "failed")))
        assert standing(store) == (2, 0, {"failed": 1}, None)
        assert outcomes(store) == [(0, "failed", 2)]

    def test_a_row_for_no_join_is_left_out_and_its_commit_holds(self, store: Store) -> None:
        outcome = marked(store, 0)
        assert (outcome.version, outcome.woke) == (1, [])
        assert store.events("s0-b0") == events_of("s0-b0", 1, 1)
        assert store.find(FindJoin(join_id=JOIN)) is None
        fan_out(store)
        assert standing(store) == (0, 0, {}, None)
        assert rows(store) == []

    @pytest.mark.parametrize("why", DOES_NOT_HOLD)
    def test_rule_02_a_commit_that_does_not_hold_writes_no_row(self, store: Store, why: str) -> None:
        fan_out(store, wake(1))
        done(store, step("s0-b0"))
        case = DOES_NOT_HOLD[why]
        (outcome,) = do(store, case.commit)
        assert isinstance(outcome, case.answer)
        assert standing(store) == (0, 0, {}, None)
        assert rows(store) == []

    def test_rule_02_a_repeated_command_marks_nothing_twice(self, store: Store) -> None:
        fan_out(store, wake(1))
        first = branch(0)
        assert done(store, first).woke == [JOIN]
        done(store, branch(0, "open", 1))
        before = record(store)
        assert do(store, first, first) == [Repeated(reply=first.reply)] * 2
        assert record(store) == before
        assert outcomes(store) == [(0, "open", 2)]

    def test_a_commit_that_does_not_hold_makes_and_changes_no_join(self, store: Store) -> None:
        do(store, step(PARENT, 3, join=put(wake(0))))
        assert store.find(FindJoin(join_id=JOIN)) is None
        fan_out(store, wake(2))
        marked(store, 0)
        do(store, step(PARENT, 9, join=put(wake(1), close=closing(1))))
        assert standing(store) == (1, 0, {"done": 1}, None)
        assert marked(store, 1).woke == [JOIN]  # by what was said first

    def test_a_branch_opens_ends_and_marks_in_one_commit(self, store: Store) -> None:
        fan_out(store)
        done(store, step("s0-b0", events=3, queue=pack(), join_row=mark(0, "waiting")))
        claim(store, "s0-b0", 3)
        done(store, step("s0-b0", 4, lease="end", dues=[], join_row=mark(0)))
        assert outcomes(store) == [(0, "done", 2)]
        assert store.load("s0-b0").version == 5

    def test_parents_and_branches_steps_go_in_one_call_in_order(self, store: Store) -> None:
        given, _ = store.commit(
            [
                branch(0),  # too early
                step(PARENT, join=put(wake(2))),
                branch(1),
                branch(2, "failed"),
                step("s0-x"),
                branch(2, "done", 1),
                step(PARENT, 1, join=put(wake(9))),
            ]
        )
        assert [isinstance(one, Committed) and one.woke for one in given] == [
            [],
            [],
            [],
            [JOIN],
            [],
            [JOIN],
            [],
        ]
        assert standing(store) == (4, 1, {"done": 2}, None)
        assert outcomes(store) == [(1, "done", 1), (2, "done", 3)]

    def test_a_branch_that_fans_out_itself_is_parent_and_branch(self, store: Store) -> None:
        inner = "s0-b0.j-1"
        fan_out(store, wake(1))
        done(store, step("s0-b0", join=put(wake(1), join=inner)))
        assert done(store, branch(7, join=inner)).woke == [inner]
        last = step("s0-b0", 1, join=put(wake(1), join=inner, close=closing(1)), join_row=mark(0))
        assert sorted(done(store, last).woke) == sorted([JOIN, inner])
        assert standing(store) == (1, 0, {"done": 1}, None)
        assert standing(store, inner) == (2, 0, {"done": 1}, 1)

    # -- when it wakes -----------------------------------------------------------------------------------

    def test_it_wakes_with_the_row_that_makes_enough_and_with_each_after(self, store: Store) -> None:
        fan_out(store, wake(2, "done"))
        assert [marked(store, n).woke for n in range(3)] == [[], [JOIN], [JOIN]]

    def test_only_the_outcomes_of_a_wake_count_for_it_and_any_wake_will_do(self, store: Store) -> None:
        fan_out(store, wake(2, "done", "refused"), wake(3, "failed"))
        assert marked(store, 0, outcome="failed").woke == []
        assert marked(store, 1, outcome="waiting").woke == []
        assert marked(store, 2, outcome="done").woke == []
        assert marked(store, 3, outcome="failed").woke == []
        assert marked(store, 4, outcome="refused").woke == [JOIN]

    def test_a_join_without_wakes_never_wakes(self, store: Store) -> None:
        fan_out(store)
        assert marked(store, *range(20)).woke == []

    def test_a_step_that_wakes_a_join_rings_for_those_who_wait_as_any_does(self, store: Store) -> None:
        fan_out(store, wake(1))
        opened(store, "s0-b0")
        claim(store, "s0-b0")
        take(store)  # nothing is left, and its bell is cleared
        first = step("s0-b0", 2, queue=pack("writer"), lease="end", join_row=mark(0))
        outcome = done(store, first)
        assert (outcome.ring, outcome.woke) == (["writer"], [JOIN])
        both = do(store, step("s0-x", queue=pack()), step("s0-b1", queue=pack(), join_row=mark(1)))
        assert [(one.ring, one.woke) for one in both if isinstance(one, Committed)] == [
            (["analyst"], []),
            ([], [JOIN]),
        ]

    def test_it_wakes_no_more_where_a_rewrite_takes_back_what_was_enough(self, store: Store) -> None:
        fan_out(store, wake(1, "waiting"), wake(2, "done"))
        assert marked(store, 0, outcome="waiting").woke == [JOIN]
        assert marked(store, 0, outcome="open", expected=1).woke == []
        assert marked(store, 1).woke == []

    def test_a_parent_that_asks_for_what_is_there_wakes_its_join(self, store: Store) -> None:
        assert fan_out(store, wake(0)).woke == [JOIN]  # no branches
        fan_out(store, wake(9), parent="s0-q")
        done(store, branch(0, join="s0-q.j-1"))
        assert done(store, step("s0-q", 1, join=put(wake(2), join="s0-q.j-1"))).woke == []
        assert done(store, step("s0-q", 2, join=put(wake(1), join="s0-q.j-1"))).woke == ["s0-q.j-1"]

    def test_new_wakes_replace_those_before(self, store: Store) -> None:
        fan_out(store, wake(1))
        done(store, step(PARENT, 1, join=put(wake(3, "failed"))))
        assert marked(store, *range(4)).woke == []
        assert marked(store, 4, 5, 6, outcome="failed").woke == [JOIN]

    # -- closing -----------------------------------------------------------------------------------------

    def test_it_closes_on_what_was_read(self, store: Store) -> None:
        fan_out(store, wake(2))
        marked(store, 0, 1)
        assert isinstance(close(store, 2, 0, 1), Committed)
        assert standing(store) == (3, 0, {"done": 2}, 2)

    def test_a_row_written_anew_since_it_was_read_makes_closing_stale(self, store: Store) -> None:
        fan_out(store, wake(2))
        marked(store, 0, 1)
        read = record(store)
        marked(store, 1, outcome="open", expected=1)
        before = record(store)
        refused = close(store, read.version, read.rewrites, 1)
        assert stale(refused).version == 1
        assert not stale(refused).clash
        # Nothing of the step was written, the wakes neither.
        assert record(store) == before
        assert store.load(PARENT).version == 1
        assert store.load(PARENT, f"{PARENT}/1").reply is None
        assert marked(store, 2).woke == [JOIN]
        assert isinstance(close(store, before.version, before.rewrites, 1), Committed)

    def test_rows_of_branches_that_had_not_ended_may_change_meanwhile(self, store: Store) -> None:
        """Else branches that ask and are answered all the time would keep the join from ever being closed."""
        fan_out(store, wake(2))
        marked(store, 0, 1)
        marked(store, 2, outcome="waiting")
        marked(store, 3, outcome="open")
        read = record(store)
        marked(store, 2, outcome="open", expected=1)
        marked(store, 3, outcome="done", expected=1)
        assert isinstance(close(store, read.version, read.rewrites, 1), Committed)
        assert standing(store) == (7, 0, {"done": 3, "open": 1}, 4)
        assert [one.place for one in rows(store) if one.order <= 4] == [0, 1]

    def test_each_outcome_of_a_branch_that_ended_is_closed_on(self, store: Store) -> None:
        fan_out(store)
        ended = ["done", "refused", "failed", "cancelled"]
        done(store, *(branch(place, outcome) for place, outcome in enumerate(ended)))
        done(store, *(branch(place, "open", 1) for place in range(4)))
        assert standing(store) == (8, 4, {"open": 4}, None)
        assert stale(close(store, 8, 0, 1)).version == 1

    def test_rows_that_come_between_reading_and_closing_are_late(self, store: Store) -> None:
        fan_out(store, wake(2))
        marked(store, 0, 1, 2)
        assert isinstance(close(store, 2, 0, 1), Committed)
        marked(store, 3)
        assert standing(store) == (5, 0, {"done": 4}, 2)
        assert [one.place for one in rows(store) if one.order > 2] == [2, 3]

    def test_it_closes_once(self, store: Store) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        close(store, 1, 0, 1)
        marked(store, 1)
        assert stale(close(store, 2, 0, 2)).version == 2
        assert standing(store) == (3, 0, {"done": 2}, 1)
        # The same close again is none.
        assert isinstance(close(store, 1, 0, 2), Committed)
        assert standing(store) == (4, 0, {"done": 2}, 1)

    def test_a_join_that_is_not_made_yet_may_be_closed_on_nothing_only(self, store: Store) -> None:
        (outcome,) = do(store, step(PARENT, join=put(close=closing(0, rewrites=1))))
        assert stale(outcome).version == 0
        assert store.find(FindJoin(join_id=JOIN)) is None
        done(store, step(PARENT, join=put(close=closing(0))))
        assert standing(store) == (0, 0, {}, 0)

    def test_it_is_not_closed_on_rows_that_a_store_lost(self, store: Store) -> None:
        """Read before the store was put back to an older copy: rows to come would take the places of those lost."""
        fan_out(store, wake(1))
        marked(store, 0)
        stale(close(store, 2, 0, 1))
        assert standing(store) == (1, 0, {"done": 1}, None)

    def test_rows_it_was_closed_on_stay_as_they_are(self, store: Store) -> None:
        fan_out(store, wake(2))
        marked(store, 0, 1)
        close(store, 2, 0, 1, wake(1))
        before = record(store), rows(store)
        for place in (0, 1):
            again = marked(store, place, outcome="failed", expected=1)
            assert (again.version, again.woke) == (2, [])
        assert (record(store), rows(store)) == before

    def test_a_branch_that_had_not_ended_when_it_was_closed_goes_on_saying_how_it_stands(
        self, store: Store
    ) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        marked(store, 1, 2, outcome="waiting")
        close(store, 3, 0, 1, wake(3))
        marked(store, 1, outcome="open", expected=1)
        assert marked(store, 1, outcome="cancelled", expected=2).woke == []
        assert marked(store, 2, outcome="failed", expected=1).woke == [JOIN]
        assert standing(store)[2] == {"done": 1, "cancelled": 1, "failed": 1}

    def test_late_rows_are_kept_counted_and_may_be_written_anew(self, store: Store) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        close(store, 1, 0, 1)
        marked(store, 1, outcome="waiting")
        marked(store, 1, outcome="cancelled", expected=1)
        assert standing(store) == (4, 0, {"done": 1, "cancelled": 1}, 1)
        assert outcomes(store) == [(0, "done", 1), (1, "cancelled", 4)]

    def test_a_closed_join_still_wakes_for_the_last_of_its_branches(self, store: Store) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        closed = close(store, 1, 0, 1, wake(3))
        assert isinstance(closed, Committed)
        assert closed.woke == []
        assert marked(store, 1, outcome="failed").woke == []
        assert marked(store, 2, outcome="cancelled").woke == [JOIN]

    def test_a_close_that_is_stale_leaves_the_others_of_its_call_alone(self, store: Store) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        given = do(
            store,
            branch(1),
            step(PARENT, 1, join=put(close=closing(1, rewrites=4))),
            branch(2),
            step(PARENT, 1, command="again", join=put(close=closing(3))),
        )
        assert [type(one) for one in given] == [Committed, Stale, Committed, Committed]
        assert standing(store) == (4, 0, {"done": 3}, 3)

    # -- many --------------------------------------------------------------------------------------------

    def test_rows_are_read_by_place_some_at_a_time(self, store: Store) -> None:
        fan_out(store)
        marked(store, 7, 3, 0, 4, 100)
        assert [one.place for one in rows(store, 0, 4)] == [0, 3]
        assert [one.place for one in rows(store, 4, 4)] == [4, 7]
        assert rows(store, 8, 92) == []
        assert [one.place for one in rows(store, 8, 93)] == [100]
        assert rows(store, 0, 0) == []

    def test_many_rows_are_counted_each_once_and_found_page_by_page(self, store: Store) -> None:
        fan_out(store, wake(MANY, "done", "failed"))
        woke: list[str] = []
        for first in range(0, MANY, 500):
            acts = [branch(n, "failed" if n % 7 == 0 else "done") for n in range(first, first + 500)]
            for outcome in do(store, *acts):
                assert isinstance(outcome, Committed)
                woke += outcome.woke
        assert woke == [JOIN]
        failed = len(range(0, MANY, 7))
        assert standing(store) == (MANY, 0, {"done": MANY - failed, "failed": failed}, None)
        found = [one for first in range(0, MANY, 500) for one in rows(store, first)]
        assert [(one.place, one.order) for one in found] == [(n, n + 1) for n in range(MANY)]

    def test_rule_07_branches_that_end_at_one_moment_lose_no_row(self, connect: Callable[[], Store]) -> None:
        stores = [connect(), connect()]
        fan_out(stores[0], wake(160))

        def run(n: int) -> list[str]:
            woke: list[str] = []
            for k in range(20):
                woke += marked(stores[n % 2], 20 * n + k).woke
            return woke

        woke = Counter(name for given in together(8, run) for name in given)
        assert woke == {JOIN: 1}  # whoever wrote the last one, and nobody else
        assert standing(stores[1]) == (160, 0, {"done": 160}, None)
        assert sorted(order for _, _, order in outcomes(stores[1])) == list(range(1, 161))

    def test_rule_02_of_many_who_close_one_does(self, connect: Callable[[], Store]) -> None:
        stores = [connect(), connect()]
        fan_out(stores[0], wake(1))
        marked(stores[0], 0)
        acts = [step(PARENT, 1, command=f"by {n}", join=put(close=closing(1))) for n in range(8)]
        given = together(8, lambda n: type(do(stores[n % 2], acts[n])[0]))
        assert Counter(given) == {Committed: 1, Stale: 7}
        assert standing(stores[1]) == (2, 0, {"done": 1}, 1)

    def test_rows_of_sessions_that_are_in_each_others_way_nowhere(self, store: Store) -> None:
        """A step of the parent does not make a branch's stale, nor the other way round (rule 7)."""
        fan_out(store, wake(1))
        opened(store, "s0-b0", "s0-b1")
        done(store, step(PARENT, 1), branch(0, expected=1), step(PARENT, 2), branch(1, expected=1))
        assert standing(store) == (2, 0, {"done": 2}, None)
