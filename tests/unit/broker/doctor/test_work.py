from collections.abc import Iterator

import pytest

from passdown.broker.doctor import stores, work
from passdown.broker.findings import Examination, Finding
from passdown.broker.stores.base import Drop, Quarantine, Store
from passdown.broker.stores.sqlite import SqliteStore
from tests.conformance.building import START_MS, Clock, lease, pack, step, ticket

EVERY_MS = 1_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[Store]:
    made = SqliteStore(":memory:", clock=clock)
    yield made
    made.close()


def levels(found: list[Finding]) -> list[str]:
    return [one.level for one in found]


@pytest.mark.parametrize(
    ("asked_ms", "overdue_ms", "level", "said"),
    [
        (300, 0, "green", "the last tick looked 0.3s ago"),
        (None, 0, "yellow", "no tick ever looked; nothing is overdue yet"),
        (600_000, 0, "yellow", "the last tick looked 10m ago; nothing is overdue yet"),
        (None, 90_000, "red", "something has been due for 1m30s, and no tick ever looked"),
        (600_000, 90_000, "red", "something has been due for 1m30s, and the last tick looked 10m ago"),
        (300, 90_000, "red", "something has been due for 1m30s, and the last tick looked 0.3s ago"),
        (9_000, 9_000, "green", "the last tick looked 9.0s ago"),
    ],
)
def test_a_tick_runs_where_one_looked_lately_and_nothing_is_overdue(
    asked_ms: int | None, overdue_ms: int, level: str, said: str
) -> None:
    seen = Examination(findings=[], asked_ms=asked_ms, overdue_ms=overdue_ms)
    (found,) = work.tick_findings(seen, EVERY_MS)
    assert (found.level, found.found) == (level, said)
    assert bool(found.advice) == (level != "green")


def test_a_tick_that_looks_rarely_is_given_more_time() -> None:
    seen = Examination(findings=[], asked_ms=60_000, overdue_ms=50_000)
    assert levels(work.tick_findings(seen, 60_000)) == ["green"]


def test_a_queue_that_nobody_takes_from_is_red_and_names_the_command(store: Store, clock: Clock) -> None:
    assert levels(work.queue_findings(store)) == ["green"]
    store.commit([step("a", queue=pack("desk")), step("b", queue=pack("push/desk"))])
    clock.forward(59_000)
    (found,) = work.queue_findings(store)
    assert (found.level, found.found) == ("green", "2 in use, 2 packs wait, 0 run")
    clock.forward(2_000)
    desk, pushed = sorted(work.queue_findings(store), key=lambda one: one.advice, reverse=True)
    assert (desk.level, desk.what) == ("red", "queue desk")
    assert desk.found == "1 wait, the oldest for 1m1s, and nobody takes any"
    assert "passdown worker desk" in desk.advice
    assert (pushed.level, pushed.what) == ("red", "packs to push for desk")
    assert "a tick pushes them" in pushed.advice


def test_a_queue_that_falls_behind_is_yellow(store: Store, clock: Clock) -> None:
    store.commit([step("a", queue=pack("desk")), step("b", queue=pack("desk"))])
    store.commit([step("a", 1, command="claim", queue="withdraw", lease=lease(role="desk"))])
    clock.forward(599_000)
    assert levels(work.queue_findings(store)) == ["green"]
    clock.forward(2_000)
    (found,) = work.queue_findings(store)
    assert (found.level, found.found) == ("yellow", "1 wait, the oldest for 10m1s, while 1 run")


def test_tickets_that_no_plan_sends_elsewhere_are_said(store: Store, clock: Clock) -> None:
    store.commit([step("a", tickets=[ticket("a", queue="leads", opened_at=START_MS)])])
    assert levels(work.ticket_findings(store)) == ["green", "green"]
    store.commit([step("b", tickets=[ticket("b", queue="operators", opened_at=START_MS)])])
    clock.forward(90_000_000)
    found, _ = work.ticket_findings(store)
    assert (found.level, found.found) == ("yellow", "1 open, the oldest for 1d1h: over the limit")


def test_h05_tickets_that_nobody_took_are_red(store: Store) -> None:
    store.commit([step("a", tickets=[ticket("a", queue="alerts", opened_at=START_MS)])])
    _, found = work.ticket_findings(store)
    assert (found.level, found.what) == ("red", "tickets for alerts")
    assert found.advice == "nobody took them: name people who may, or hand them on"


def test_what_was_refused_is_said(store: Store) -> None:
    assert levels(work.quarantine_findings(store)) == ["green"]
    store.put(Quarantine(source="push", reason="no JSON", body=b"{"))
    (found,) = work.quarantine_findings(store)
    assert (found.level, found.found) == ("yellow", "1 message was refused; the newest: no JSON")


def test_news_that_nobody_tells_are_said_once_there_are_many() -> None:
    assert levels(work.telling_findings(Examination(findings=[], to_tell=1_000))) == ["green"]
    assert levels(work.telling_findings(Examination(findings=[], to_tell=1_001))) == ["yellow"]


def test_plans_are_looked_at_only_where_the_store_may_lose_something(store: Store) -> None:
    assert work.durability_findings(store, accepted=False) == []


# The store


def test_a_clock_that_is_far_from_this_machine_s_is_said(store: Store) -> None:
    (found,) = stores.clock_finding(store)
    assert found.level == "yellow"
    assert found.found.endswith(" ms behind this machine's")
    real = SqliteStore(":memory:")
    assert levels(stores.clock_finding(real)) == ["green"]
    real.close()


def test_the_probe_writes_reads_and_leaves_nothing(store: Store) -> None:
    store.put(Quarantine(source="push", reason="no JSON", body=b"{"))
    (found,) = stores.speed_finding(store)
    assert (found.level, found.found.split(" in ")[0]) == ("green", "write, read and remove")
    assert [row.body for row in stores.quarantined(store)] == [b"{"]


def test_a_crowded_quarantine_loses_nothing_to_the_probe(store: Store) -> None:
    for _ in range(stores.MOST_LOOKED_AT + 1):
        store.put(Quarantine(source="push", reason="no JSON", body=b"{"))
    (found,) = stores.speed_finding(store)
    assert found.found.startswith("an empty write in ")
    (refused,) = work.quarantine_findings(store)
    assert refused.found.startswith("more than 100 messages were refused")
    newest = stores.quarantined(store)[0].id
    assert newest == stores.MOST_LOOKED_AT + 1, "the probe wrote nothing"
    store.put(Drop(id=newest))


def test_a_store_that_does_not_show_what_was_written_is_said(store: Store) -> None:
    class Deaf(SqliteStore):
        def put(self, what: object) -> None:
            """Do nothing."""

    deaf = Deaf(":memory:")
    with pytest.raises(RuntimeError, match="is this a replica"):
        stores.speed_finding(deaf)
    deaf.close()
