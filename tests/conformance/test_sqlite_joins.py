"""What a fan-out costs a `SqliteStore`: the same for its last branch as for its first, and no other session anything.

Work is counted in steps of SQLite's own machine, which are the same on every computer.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from passdown.broker.stores.base import Commit
from passdown.broker.stores.joining import PAGES_WAIT_MS, WOKEN_MS, JoinSeen
from passdown.broker.stores.queries import FindEnded, FindSessions, Query
from passdown.broker.stores.sqlite import SqliteStore, filing
from passdown.broker.stores.sqlite.batch import Batch
from passdown.broker.stores.sqlite.ticking import MOST_PAGES
from passdown.broker.stores.sqlite.writer import Writer
from tests.conformance.building import Clock, ask, do, done, entry, lease, pack, row, step, ticket
from tests.conformance.joining import (
    JOIN,
    PARENT,
    branch,
    checks,
    closing,
    fan_out,
    keep,
    marked,
    put,
    rows,
    seen,
    standing,
    wake,
)
from tests.conformance.sqlite_costs import connection, statements, steps
from tests.conformance.suite_removal import ended

FEW, MANY = 20, 5_000
#: In a join of so many rows.
ACTS: dict[str, Callable[[int], Commit]] = {
    "a row": branch,
    "a rewrite": lambda count: branch(count - 1, "failed", 1),
    "a close": lambda count: step(PARENT, 1, join=put(wake(3), close=closing(count))),
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[SqliteStore]:
    made = SqliteStore(":memory:", clock=clock)
    yield made
    made.close()


def rows_up_to(store: SqliteStore, first: int, last: int) -> None:
    for n in range(first, last, 500):
        do(store, *(branch(place) for place in range(n, min(n + 500, last))))


class TestWhatItCosts:
    @pytest.mark.parametrize("what", ACTS)
    def test_the_last_row_costs_what_the_first_did(self, what: str) -> None:
        taken: list[int] = []
        for count in (FEW, MANY):
            store = SqliteStore(":memory:", clock=Clock())
            fan_out(store, wake(3))
            rows_up_to(store, 0, count)
            act = ACTS[what](count)
            taken.append(steps(store, partial(done, store, act)))
            store.close()
        assert taken[0] == taken[1] > 0

    def test_looking_for_what_is_due_reads_no_join_that_is_not(
        self, store: SqliteStore, clock: Clock
    ) -> None:
        fan_out(store, wake(1))
        store.due(ask())  # the first ask leaves marks

        def look() -> None:
            assert checks(store) == [(PARENT, JOIN, standing(store)[0])]
            seen(store, standing(store)[0])

        taken: list[int] = []
        for count in (FEW, MANY):
            done(
                store,
                *(
                    step(f"s0-q{count}{n}", join=put(wake(1), join=f"s0-q{count}{n}.j-1"))
                    for n in range(count // 10)
                ),
            )
            rows_up_to(store, count, 2 * count)
            clock.forward(WOKEN_MS)
            taken.append(steps(store, look))
        assert taken[0] == taken[1] > 0

    def test_rows_are_read_from_the_place_that_is_asked_for(self, store: SqliteStore) -> None:
        fan_out(store)
        rows_up_to(store, 0, MANY)
        first = steps(store, lambda: rows(store, 0, 50))
        assert steps(store, lambda: rows(store, MANY // 2, 50)) == first

    def test_a_call_of_many_branches_writes_the_record_once(self, store: SqliteStore) -> None:
        fan_out(store, wake(9))
        run = statements(store, lambda: rows_up_to(store, 0, 100))
        assert len([one for one in run if "UPDATE joins" in one]) == 1
        assert standing(store) == (100, 0, {"done": 100}, None)

    def test_those_who_share_a_transaction_see_what_the_others_wrote(
        self, store: SqliteStore, clock: Clock
    ) -> None:
        fan_out(store, wake(1))

        def work(batch: Batch) -> None:
            batch.add(branch(0))
            filing.put(batch, JoinSeen(join_id=JOIN, version=1))
            batch.add(step(PARENT, 1))

        cast(Writer, vars(store)["_writer"]).run(work)
        clock.forward(WOKEN_MS)
        assert checks(store) == []

    def test_a_check_that_nobody_sees_to_is_overdue(self, store: SqliteStore, clock: Clock) -> None:
        fan_out(store, wake(1))
        assert store.examine().overdue_ms == 0
        marked(store, 0)
        clock.forward(WOKEN_MS + 9_000)
        assert store.examine().overdue_ms == 9_000

    def test_a_commit_without_a_join_asks_nothing_about_joins(self, store: SqliteStore) -> None:
        full: dict[str, Any] = {
            "queue": pack(),
            "dues": [entry(after_ms=9)],
            "tickets": [ticket("s0-a")],
            "tell": True,
        }

        def act() -> None:
            done(store, step("s0-a", **full), step("s0-b"))
            done(store, step("s0-a", 1, lease=lease(), dues=[], tickets=[]))
            do(store, step("s0-a", 1), step("s0-a"))

        run = statements(store, act)
        assert len(run) > 10
        of_joins = ("join_rows", "joins", "pages", "unopened")
        assert [one for one in run if any(table in one for table in of_joins)] == []

    def test_a_page_costs_the_same_whatever_pages_there_are(self, store: SqliteStore) -> None:
        keep(store, 0, b"[]")
        first = steps(store, lambda: keep(store, 1, b"[]"))
        for number in range(2, 1000):
            keep(store, number, b"[]")
        assert steps(store, lambda: keep(store, 1000, b"[]")) == first

    def test_rule_12_of_one_session_so_many_pages_are_forgotten_at_once(
        self, store: SqliteStore, clock: Clock
    ) -> None:
        for number in range(MOST_PAGES + 50):
            keep(store, number, b"[]")
        clock.forward(PAGES_WAIT_MS)
        left: list[int] = []
        while store.due(ask()).next_ms == 0:
            (count,) = connection(store).execute("SELECT count(*) FROM pages").fetchone()
            left.append(count)
        assert left == [50]
        (count,) = connection(store).execute("SELECT count(*) FROM pages").fetchone()
        (noted,) = connection(store).execute("SELECT count(*) FROM unopened").fetchone()
        assert (count, noted) == (0, 0)


QUERIES: dict[str, Query] = {
    "all": FindSessions(limit=5),
    "of a status": FindSessions(status="done", limit=5),
    "of a plan": FindSessions(plan="refund@1", limit=5),
    "of a task": FindSessions(task="Acme", limit=5),
    "of all three": FindSessions(task="Acme", plan="refund@1", status="done", limit=5),
    "after a page": FindSessions(before="s0-7", limit=5),
    "that ended": FindEnded(older_ms=0, limit=5),
}


#: Of the queries those that name what they look for.
NAMED = [name for name in QUERIES if name.startswith("of")]


class TestBranchesAreInNobodysWay:
    @pytest.mark.parametrize("query", NAMED)
    def test_searches_still_go_by_what_is_sought(self, store: SqliteStore, query: str) -> None:
        done(
            store,
            *(step(f"s0-{n}", row=row(f"s0-{n}", 1, status="done", task_name="Acme")) for n in range(6)),
        )
        taken: list[int] = []
        for count in (FEW, MANY):
            others = [f"s0-x{count}-{n}" for n in range(count)]
            done(store, *(step(name, row=row(name, 1, plan="other@1")) for name in others))
            taken.append(steps(store, lambda: store.find(QUERIES[query])))
        assert taken[0] == taken[1] > 0

    @pytest.mark.parametrize("query", QUERIES)
    def test_searches_read_no_branch(self, store: SqliteStore, clock: Clock, query: str) -> None:
        """Branches that are newer, older, and alike in all that sessions are sought by."""
        for n in range(10):
            name = f"s0-{n}"
            done(store, step(name, row=row(name, 1, task_name="Acme", opened_at=1_000 + n)))
            done(store, ended(name, status="done"))
            done(store, step(name, 2, row=row(name, 3, status="done", task_name="Acme", opened_at=1_000 + n)))
        clock.forward(1_000)
        found = store.find(QUERIES[query])
        before = steps(store, lambda: store.find(QUERIES[query]))
        acts: list[Commit] = []
        for n in range(1_000):
            like = row(
                f"s0-b{n}",
                1,
                status="done",
                parent="s0-3",
                task_name="Acme",
                task_id="Acme",
                opened_at=500 + n,
            )
            acts.append(step(f"s0-b{n}", row=like))
        done(store, *acts)
        assert len(cast("list[object]", found)) == 5
        assert store.find(QUERIES[query]) == found
        assert steps(store, lambda: store.find(QUERIES[query])) == before


def test_a_join_outlives_its_process(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "passdown.db"
    first = SqliteStore(path, clock=clock)
    fan_out(first, wake(2))
    marked(first, 0, 1)
    first.close()
    second = SqliteStore(path, clock=clock)
    clock.forward(WOKEN_MS)
    assert standing(second) == (2, 0, {"done": 2}, None)
    assert checks(second) == [(PARENT, JOIN, 2)]
    second.close()
