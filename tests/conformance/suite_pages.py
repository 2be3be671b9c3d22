"""What stands beside a session that fans out: pages of its lists, its branches, and that all of it goes with it."""

from collections.abc import Callable
from itertools import pairwise
from typing import cast

import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Store, Told
from passdown.broker.stores.joining import PAGES_WAIT_MS, WOKEN_MS
from passdown.broker.stores.queries import (
    FindEnded,
    FindJoin,
    FindPack,
    FindSessions,
    FindTickets,
    SessionRow,
)
from tests.conformance.building import (
    START_MS,
    Clock,
    ask,
    claim,
    do,
    done,
    events_of,
    names,
    pack,
    row,
    step,
    take,
    ticket,
)
from tests.conformance.driver import Driven
from tests.conformance.joining import (
    JOIN,
    PARENT,
    branch,
    checks,
    fan_out,
    keep,
    mark,
    marked,
    page,
    put,
    rows,
    standing,
    wake,
)
from tests.conformance.suite_removal import a_life, ended, forget, found, remove

MIB = 1024 * 1024


def sessions(store: Store, query: FindSessions | FindEnded) -> list[str]:
    """Return the ids of what is found."""
    return [one.session_id for one in cast("list[SessionRow]", store.find(query))]


def later(store: Store, clock: Clock, ms: int = PAGES_WAIT_MS) -> None:
    """Let so much time go by, and ticks ask until nothing is left to do."""
    clock.forward(ms)
    while store.due(ask()).next_ms == 0:
        continue


class PageSuite(Driven):
    def test_a_page_is_found_by_session_name_and_number(self, store: Store) -> None:
        done(store, step(PARENT))
        assert page(store, 0) is None
        keep(store, 0, b"[1,2]")
        keep(store, 1, b"[3]")
        keep(store, 0, b"[4]", name="others")
        keep(store, 0, b"[5]", session="s0-q")
        assert (page(store, 0), page(store, 1), page(store, 2)) == (b"[1,2]", b"[3]", None)
        assert (page(store, 0, name="others"), page(store, 0, session="s0-q")) == (b"[4]", b"[5]")

    def test_pages_may_come_before_their_session(self, store: Store) -> None:
        keep(store, 0, b"[1]")
        assert page(store, 0) == b"[1]"
        assert store.load(PARENT).state is None
        assert store.load(PARENT).removed == ""
        done(store, step(PARENT))
        assert page(store, 0) == b"[1]"

    def test_the_same_page_again_replaces_it(self, store: Store) -> None:
        for body in (b"[1]", b"[1]", b"[2]"):
            keep(store, 3, body)
        assert page(store, 3) == b"[2]"

    def test_a_page_may_be_empty_and_of_any_bytes_and_name(self, store: Store) -> None:
        keep(store, 0, b"")
        keep(store, 0, bytes(range(256)), name="a/b:{c}\x00 ü")
        keep(store, 10**6, b"[]")
        assert page(store, 0) == b""
        assert page(store, 0, name="a/b:{c}\x00 ü") == bytes(range(256))
        assert page(store, 10**6) == b"[]"

    def test_a_page_of_eight_mebibytes_will_do(self, store: Store) -> None:
        body = bytes(range(256)) * (8 * MIB // 256)
        keep(store, 0, body)
        assert page(store, 0) == body

    def test_another_store_object_finds_it(self, connect: Callable[[], Store]) -> None:
        one, two = connect(), connect()
        keep(one, 0, b"[1]")
        assert page(two, 0) == b"[1]"

    # -- pages whose session does not come ---------------------------------------------------------------

    def test_rule_12_pages_wait_a_day_for_their_session_and_are_forgotten(
        self, store: Store, clock: Clock
    ) -> None:
        keep(store, 0, b"[1]")
        keep(store, 1, b"[2]")
        keep(store, 0, b"[3]", name="others")
        later(store, clock, PAGES_WAIT_MS - 1)
        assert (page(store, 0), page(store, 1), page(store, 0, name="others")) == (b"[1]", b"[2]", b"[3]")
        later(store, clock, 1)
        assert (page(store, 0), page(store, 1), page(store, 0, name="others")) == (None, None, None)

    def test_without_a_tick_nothing_is_forgotten(self, store: Store, clock: Clock) -> None:
        keep(store, 0, b"[1]")
        clock.forward(2 * PAGES_WAIT_MS)
        store.due(ask(0, tell=9))
        assert page(store, 0) == b"[1]"

    @pytest.mark.parametrize("opened_after", [0, PAGES_WAIT_MS])
    def test_pages_of_a_session_that_was_opened_meanwhile_stay(
        self, store: Store, clock: Clock, opened_after: int
    ) -> None:
        keep(store, 0, b"[1]")
        keep(store, 0, b"[1]", session="s0-q")
        clock.forward(opened_after)
        done(store, step(PARENT))
        keep(store, 1, b"[2]")
        later(store, clock)
        later(store, clock)
        assert [page(store, n) for n in (0, 1)] == [b"[1]", b"[2]"]
        assert page(store, 0, session="s0-q") is None
        done(store, ended(PARENT))
        later(store, clock)
        assert page(store, 0) == b"[1]"
        remove(store, PARENT, 2)
        assert page(store, 0) is None

    def test_a_page_put_again_starts_the_day_of_its_session_anew(self, store: Store, clock: Clock) -> None:
        """All of a session wait for as long as the last one: a list is there whole, or not at all."""
        keep(store, 0, b"[1]")
        keep(store, 1, b"[2]")
        keep(store, 0, b"[1]", session="s0-q")
        later(store, clock, PAGES_WAIT_MS - 1)
        keep(store, 1, b"[2]")
        later(store, clock, PAGES_WAIT_MS - 1)
        assert [page(store, n) for n in (0, 1)] == [b"[1]", b"[2]"]
        assert page(store, 0, session="s0-q") is None
        later(store, clock, 1)
        assert [page(store, n) for n in (0, 1)] == [None, None]

    def test_pages_may_come_again_after_they_were_forgotten(self, store: Store, clock: Clock) -> None:
        keep(store, 0, b"[1]")
        later(store, clock)
        keep(store, 0, b"[2]")
        later(store, clock, PAGES_WAIT_MS - 1)
        done(store, step(PARENT))
        later(store, clock)
        assert page(store, 0) == b"[2]"

    def test_a_page_that_comes_after_the_removal_does_not_stay(self, store: Store, clock: Clock) -> None:
        done(store, step(PARENT), ended(PARENT))
        remove(store, PARENT, 2)
        keep(store, 0, b"[1]")
        later(store, clock)
        assert page(store, 0) is None

    def test_rule_12_a_session_of_many_pages_is_forgotten_whole(self, store: Store, clock: Clock) -> None:
        for number in range(250):
            keep(store, number, b"[]")
        later(store, clock)
        assert [number for number in range(250) if page(store, number) is not None] == []

    def test_many_that_were_never_opened_are_forgotten_a_bounded_part_at_a_time(
        self, store: Store, clock: Clock
    ) -> None:
        names = [f"s0-{n}" for n in range(600)]
        for n, name in enumerate(names):
            keep(store, 0, b"[]", session=name)
            clock.forward(n % 2)
        clock.forward(PAGES_WAIT_MS)
        left = [len(names)]
        while store.due(ask()).next_ms == 0:
            names = [name for name in names if page(store, 0, session=name) is not None]
            left.append(len(names))
        assert len(left) > 1
        assert all(0 < before - after <= 500 for before, after in pairwise(left) if before)
        assert [name for name in names if page(store, 0, session=name) is not None] == []

    def test_a_clock_that_steps_back_keeps_no_page_for_longer(self, store: Store, clock: Clock) -> None:
        store.due(ask())
        keep(store, 0, b"[1]")
        clock.back(86_400_000)
        store.due(ask(elapsed_ms=1_000))
        assert page(store, 0) == b"[1]"
        clock.forward(PAGES_WAIT_MS + 1)
        store.due(ask(elapsed_ms=PAGES_WAIT_MS))
        assert page(store, 0) is None

    # -- branches are not found by themselves ------------------------------------------------------------

    def test_a_branch_is_found_by_no_search_for_sessions(self, store: Store) -> None:
        fan_out(store)
        marked(store, 0, 1)
        assert sessions(store, FindSessions()) == [PARENT]
        for query in (
            FindSessions(status="done"),
            FindSessions(plan="refund@1"),
            FindSessions(task="t-s0-b0"),
            FindSessions(task="Task of s0-b0"),
            FindSessions(task="t-s0-b0", status="done", plan="refund@1"),
        ):
            assert "s0-b0" not in sessions(store, query)
        assert sessions(store, FindSessions(plan="refund@1")) == [PARENT]
        assert sessions(store, FindSessions(task="t-s0-b0")) == []

    def test_branches_take_no_room_on_a_page_of_sessions(self, store: Store) -> None:
        for n in range(4):
            done(store, step(f"s0-{n}", row=row(f"s0-{n}", 1, opened_at=1_000 + 10 * n)))
            done(store, branch(n, "queued"))
        assert sessions(store, FindSessions(limit=3)) == ["s0-3", "s0-2", "s0-1"]
        assert sessions(store, FindSessions(limit=3, before="s0-1")) == ["s0-0"]

    def test_a_branch_that_moves_on_is_still_not_found(self, store: Store) -> None:
        moved = row("s0-b0", 2, status="running", parent=PARENT, task_id="t-new", plan="other@2", stage="pay")
        done(store, branch(0, "queued"), step("s0-b0", 1, row=moved))
        for query in (
            FindSessions(),
            FindSessions(status="running"),
            FindSessions(plan="other@2"),
            FindSessions(task="t-new"),
        ):
            assert sessions(store, query) == []

    def test_a_branch_that_ended_is_not_found_for_removal(self, store: Store, clock: Clock) -> None:
        done(store, step(PARENT), ended(PARENT))
        marked(store, 0, 1)
        clock.forward(60_000)
        assert found(store) == [PARENT]
        assert sessions(store, FindEnded(older_ms=0, limit=1)) == [PARENT]

    def test_a_branch_that_ended_and_was_told_of_is_not_found_for_removal(self, store: Store) -> None:
        last = replace(branch(0, expected=1), tell=True)
        done(store, branch(0, "running"), last)
        remove(store, "s0-b0", 2)
        assert store.load("s0-b0").version == 2
        store.put(Told(session_id="s0-b0", seq=2))
        assert found(store) == []
        remove(store, "s0-b0", 2)
        assert store.load("s0-b0").removed == "done"

    def test_all_else_of_a_branch_is_as_of_any_session(self, store: Store) -> None:
        fan_out(store)
        of_parent = row("s0-b0", 1, parent=PARENT)
        done(store, step("s0-b0", row=of_parent, queue=pack(), tickets=[ticket("s0-b0")]))
        assert names(take(store)) == ["s0-b0"]
        claim(store, "s0-b0")
        assert store.load("s0-b0").version == 2
        assert store.events("s0-b0") == events_of("s0-b0", 1, 2)
        assert store.find(FindPack(session_id="s0-b0", step=1, attempt=1)) is not None
        tickets = cast("list[object]", store.find(FindTickets(session_id="s0-b0")))
        assert len(tickets) == 1
        assert len(cast("list[object]", store.find(FindTickets()))) == 1

    # -- removal -----------------------------------------------------------------------------------------

    def test_a_branch_can_be_removed_by_whoever_knows_it(self, store: Store) -> None:
        fan_out(store)
        first = branch(0)
        done(store, first)
        remove(store, "s0-b0", 1)
        loaded = store.load("s0-b0", first.command_id, first.command_digest)
        assert (loaded.state, loaded.removed, loaded.reply) == (None, "done", first.reply)
        # Its row stays, for it belongs to the parent.
        assert standing(store) == (1, 0, {"done": 1}, None)

    def test_joins_rows_and_pages_go_with_their_session(self, store: Store, clock: Clock) -> None:
        for parent in (PARENT, "s0-p1"):
            fan_out(store, wake(1), parent=parent)
            done(store, step(parent, 1, join=None))
            keep(store, 0, b"[1]", session=parent)
            keep(store, 1, b"[2]", session=parent)
            keep(store, 0, b"[3]", session=parent, name="others")
        marked(store, *range(5))
        done(store, branch(9, join="s0-p1.j-1"), ended(PARENT, 2))
        remove(store, PARENT, 3)
        assert store.load(PARENT).removed == "done"
        assert store.find(FindJoin(join_id=JOIN)) is None
        assert rows(store) == []
        assert [page(store, n) for n in (0, 1)] == [None, None]
        assert page(store, 0, name="others") is None
        # The other one lost nothing.
        assert standing(store, "s0-p1.j-1") == (1, 0, {"done": 1}, None)
        assert len(rows(store, join="s0-p1.j-1")) == 1
        assert [page(store, n, session="s0-p1") for n in (0, 1)] == [b"[1]", b"[2]"]
        clock.forward(WOKEN_MS)
        assert checks(store) == [("s0-p1", "s0-p1.j-1", 1)]

    def test_all_joins_of_a_session_go(self, store: Store) -> None:
        done(store, step(PARENT))
        for n in (1, 2, 12):
            of_step = f"{PARENT}.j-{n}"
            done(store, step(PARENT, store.load(PARENT).version, join=put(join=of_step)))
            done(store, step(f"s0-b{n}", join_row=mark(n, join=of_step)))
        done(store, ended(PARENT, 4))
        remove(store, PARENT, 5)
        for n in (1, 2, 12):
            assert store.find(FindJoin(join_id=f"{PARENT}.j-{n}")) is None
            assert rows(store, join=f"{PARENT}.j-{n}") == []

    def test_a_removal_that_is_refused_takes_nothing(self, store: Store) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        keep(store, 0, b"[1]")
        for version in (0, 1, 2):
            remove(store, PARENT, version)  # it has not ended
        assert standing(store) == (1, 0, {"done": 1}, None)
        assert len(rows(store)) == 1
        assert page(store, 0) == b"[1]"

    def test_a_row_that_comes_after_the_removal_is_left_out(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        done(store, ended(PARENT, 1))
        remove(store, PARENT, 2)
        assert marked(store, 0).woke == []
        assert store.find(FindJoin(join_id=JOIN)) is None
        assert rows(store) == []
        clock.forward(WOKEN_MS)
        assert checks(store) == []

    def test_a_session_opened_anew_has_nothing_of_the_one_before(self, store: Store, clock: Clock) -> None:
        fan_out(store, wake(1))
        marked(store, 0)
        keep(store, 0, b"[1]")
        done(store, ended(PARENT, 1))
        remove(store, PARENT, 2)
        forget(store, clock)
        assert fan_out(store, wake(1)).woke == []
        assert standing(store) == (0, 0, {}, None)
        assert rows(store) == []
        assert page(store, 0) is None
        a_life(store, "s0-next", START_MS)
        assert rows(store, join="s0-next.j-1") == []

    @pytest.mark.parametrize("count", [3_000])
    def test_a_session_with_many_rows_goes_whole(self, store: Store, count: int) -> None:
        fan_out(store, wake(count))
        for first in range(0, count, 500):
            do(store, *(branch(n) for n in range(first, first + 500)))
        done(store, ended(PARENT, 1))
        remove(store, PARENT, 2)
        assert [rows(store, first) for first in range(0, count, 500)] == [[]] * (count // 500)
        assert store.due(ask()).entries == []
