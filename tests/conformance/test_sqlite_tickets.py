"""What tickets on offer cost a `SqliteStore`: however many wait, the same. And what is found is of one moment."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from passdown.broker.stores.queries import FindLanes, FindOffered, FindTickets, Query
from passdown.broker.stores.sqlite import SqliteStore
from tests.conformance.building import Clock, done, step
from tests.conformance.sqlite_costs import statements, steps
from tests.conformance.suite_tickets import held, on_offer, rows_of

FEW, MANY = 50, 3_000
LANES = [f"lane-{n}" for n in range(5)]

QUERIES: dict[str, Query] = {
    "the lanes": FindLanes(),
    "what is on offer": FindOffered(lanes=LANES, limit=20),
    "what is on offer in one lane": FindOffered(lanes=LANES[:1], limit=5),
    "what is on offer after another": FindOffered(lanes=LANES, after="00007", limit=20),
    "what somebody holds": FindTickets(holder="user:ann"),
    "what somebody holds of a queue": FindTickets(holder="user:ann", queue="leads"),
    "what a session has": FindTickets(session_id="s0-7", queue="leads"),
}


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    made = SqliteStore(":memory:", clock=Clock())
    yield made
    made.close()


def wait(store: SqliteStore, first: int, last: int) -> None:
    """Open sessions whose tickets are on offer in five lanes."""
    rows = [on_offer(f"s0-{n}", lane=LANES[n % 5], order=f"{n:05}") for n in range(first, last)]
    done(store, *(step(one.session_id, tickets=[one]) for one in rows))


def claim(store: SqliteStore, session_id: str, expected: int = 1) -> None:
    """Let somebody hold a session's ticket."""
    done(store, step(session_id, expected, tickets=[held(session_id)]))


class TestWhatItCosts:
    @pytest.mark.parametrize("what", QUERIES)
    def test_rule_12_finding_costs_the_same_however_many_wait(self, store: SqliteStore, what: str) -> None:
        done(store, step("s0-mine", tickets=[held("s0-mine")]))
        wait(store, 0, FEW)
        few = steps(store, lambda: store.find(QUERIES[what]))
        wait(store, FEW, MANY)
        assert steps(store, lambda: store.find(QUERIES[what])) == few > 0

    def test_rule_12_a_claim_costs_the_same_however_many_wait(self, store: SqliteStore) -> None:
        wait(store, 0, FEW)
        few = steps(store, lambda: claim(store, "s0-20"))
        wait(store, FEW, MANY)
        assert steps(store, lambda: claim(store, "s0-21")) == few > 0

    def test_a_claim_writes_no_index_of_what_does_not_change(self, store: SqliteStore) -> None:
        wait(store, 0, 1)
        run = [one for one in statements(store, lambda: claim(store, "s0-0")) if "tickets" in one]
        assert [one.split()[0] for one in run] == ["SELECT", "SELECT", "UPDATE"]
        assert "queue" not in run[2]
        assert "opened_at" not in run[2]

    def test_a_ticket_that_stays_as_it_is_is_not_written(self, store: SqliteStore) -> None:
        wait(store, 0, 1)
        claim(store, "s0-0")
        run = statements(store, lambda: claim(store, "s0-0", 2))
        assert {one.split()[0] for one in run if "tickets" in one} == {"SELECT"}


def test_a_ticket_that_changes_lanes_meanwhile_is_found_once(tmp_path: Path) -> None:
    store, other = (SqliteStore(tmp_path / "passdown.db") for _ in range(2))
    done(store, step("s0-a", tickets=[on_offer("s0-a", lane="x")]))
    stop = Event()

    def move() -> None:
        version = 1
        while not stop.is_set():
            done(other, step("s0-a", version, tickets=[on_offer("s0-a", lane="yx"[version % 2 == 0])]))
            version += 1

    mover = Thread(target=move)
    mover.start()
    try:
        found = {len(rows_of(store, "x", "y")) for _ in range(500)}
    finally:
        stop.set()
        mover.join()
    store.close()
    other.close()
    assert found == {1}
