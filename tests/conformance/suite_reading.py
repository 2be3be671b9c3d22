"""What can be found, and what is put beside the sessions."""

from typing import Any, cast

import pytest

from passdown.broker.stores import base
from passdown.broker.stores.base import Count, Documents, Drop, Quarantine, Store
from passdown.broker.stores.queries import (
    Beside,
    Catalog,
    FindBeside,
    FindCatalog,
    FindDocument,
    FindQuarantine,
    FindQueues,
    FindSessions,
    FindTickets,
    QuarantineRow,
)
from passdown.contracts.codec import encode
from passdown.contracts.plans import Plan, PlanRef, Stage, plan_ref
from passdown.contracts.tools import ToolSpec, tool_digest
from tests.conformance.building import START_MS, Clock, do, done, row, step, take, ticket
from tests.conformance.driver import Driven


def found(store: Store, **query: Any) -> list[str]:
    """Return the ids of the sessions that are found, in the order in which they come."""
    rows = store.find(FindSessions(**query))
    assert isinstance(rows, list)
    return [one.session_id for one in rows]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]


def plan(name: str, version: int = 1, goal: str = "") -> tuple[PlanRef, bytes]:
    """Return a plan as it is registered."""
    made = Plan(name=name, version=version, start="go", stages={"go": Stage(role="analyst", goal=goal)})
    return plan_ref(made), encode(made)


def tool(name: str, **more: Any) -> tuple[str, ToolSpec]:
    """Return a tool as it is registered."""
    spec = ToolSpec(name=name, params={"type": "object"}, **more)
    return tool_digest(spec), spec


def quarantined(store: Store, **query: Any) -> list[QuarantineRow]:
    """Return what was refused, newest first."""
    rows = store.find(FindQuarantine(**query))
    assert isinstance(rows, list)
    return cast("list[QuarantineRow]", rows)


def refused(store: Store, count: int) -> list[QuarantineRow]:
    """Put so many messages into quarantine, numbered from 0; return what is kept of them, oldest first."""
    for n in range(count):
        store.put(Quarantine(source="returns", reason="not JSON", body=b"%d" % n))
    return quarantined(store, limit=count)[::-1]


class FindSuite(Driven):
    def test_sessions_are_found_by_status_plan_and_task_newest_first(self, store: Store) -> None:
        rows = [
            row("s0-a", 1, opened_at=10, status="queued", plan="refund@1", task_id="t1"),
            row("s0-b", 1, opened_at=20, status="done", plan="refund@1", task_id="t2"),
            row("s0-c", 1, opened_at=30, status="queued", plan="refund@2", task_id="t1"),
        ]
        done(store, *(step(one.session_id, row=one) for one in rows))
        assert store.find(FindSessions()) == rows[::-1]
        assert found(store, status="queued") == ["s0-c", "s0-a"]
        assert found(store, plan="refund@1") == ["s0-b", "s0-a"]
        assert found(store, task="t1") == ["s0-c", "s0-a"]
        assert found(store, status="queued", plan="refund@1", task="t1") == ["s0-a"]
        assert found(store, status="failed") == []

    def test_a_task_is_found_by_its_name_too(self, store: Store) -> None:
        done(store, step("s0-a", row=row("s0-a", 1, task_name="Acme refund 4711")), step("s0-b"))
        assert found(store, task="Acme refund 4711") == ["s0-a"]

    def test_a_session_is_found_as_it_stands_now(self, store: Store) -> None:
        done(store, step("s0-a", row=row("s0-a", 1, status="queued", stage="check")))
        moved = row(
            "s0-a", 2, status="running", stage="pay", task_id="t2", task_name="Other", plan="refund@2"
        )
        done(store, step("s0-a", 1, row=moved))
        assert store.find(FindSessions()) == [moved]
        assert found(store, status="queued") == found(store, plan="refund@1") == []
        assert found(store, status="running", plan="refund@2", task="t2") == ["s0-a"]

    @pytest.mark.parametrize("filters", [{}, {"status": "queued"}, {"plan": "refund@1"}, {"task": "t1"}])
    def test_pages_follow_each_other_though_many_were_opened_at_once(
        self, store: Store, filters: dict[str, str]
    ) -> None:
        done(
            store,
            *(
                step(f"s0-{n}", row=row(f"s0-{n}", 1, opened_at=1000 + n // 5, task_id="t1"))
                for n in range(23)
            ),
        )
        seen: list[str] = []
        while page := found(store, limit=4, before=seen[-1] if seen else None, **filters):
            assert len(page) == min(4, 23 - len(seen))
            seen += page
            # What is opened meanwhile is newer: it comes on no later page.
            late = f"s0-late-{len(seen)}"
            done(store, step(late, row=row(late, 1, opened_at=9000, task_id="t1")))
        assert len(seen) == len(set(seen)) == 23
        opened_at = {f"s0-{n}": 1000 + n // 5 for n in range(23)}
        assert [opened_at[name] for name in seen] == sorted(opened_at.values(), reverse=True)

    def test_a_page_after_a_session_that_does_not_exist_is_empty(self, store: Store) -> None:
        done(store, step("s0-a"))
        assert found(store, before="s0-none") == []

    def test_open_tickets_are_found_oldest_first(self, store: Store) -> None:
        young = ticket("s0-a", 1, queue="leads", opened_at=30)
        old = ticket("s0-a", 2, queue="ops", opened_at=10)
        other = ticket("s0-b", 1, queue="leads", opened_at=20)
        done(store, step("s0-a", tickets=[young, old]), step("s0-b", tickets=[other]))
        assert store.find(FindTickets()) == [old, other, young]
        assert store.find(FindTickets(queue="leads")) == [other, young]
        assert store.find(FindTickets(session_id="s0-a")) == [old, young]
        assert store.find(FindTickets(session_id="s0-a", queue="leads")) == [young]
        assert store.find(FindTickets(limit=1)) == [old]

    def test_a_commit_replaces_the_tickets_of_its_session(self, store: Store) -> None:
        first, second = ticket("s0-a", 1), ticket("s0-a", 2)
        done(store, step("s0-a", tickets=[first, second]))
        done(store, step("s0-a", 1))
        assert store.find(FindTickets()) == [first, second]
        third = ticket("s0-a", 2, queue="ops")
        done(store, step("s0-a", 2, tickets=[third]))
        assert store.find(FindTickets()) == [third]
        done(store, step("s0-a", 3, tickets=[]))
        assert store.find(FindTickets()) == []

    def test_where_nothing_is_queued_there_is_no_queue(self, store: Store) -> None:
        assert store.find(FindQueues()) == []


class PutSuite(Driven):
    def test_documents_are_current_under_their_name_and_kept_by_digest(self, store: Store) -> None:
        refund, changed, pay = plan("refund"), plan("refund", goal="other"), tool("pay.send", effect=True)
        store.put(Documents(plans=[refund], tools=[pay]))
        assert store.find(FindCatalog()) == Catalog(
            version=1, plans={"refund@1": refund[0].digest}, tools={"pay.send": pay[0]}
        )
        store.put(Documents(plans=[changed]))
        assert store.find(FindCatalog()) == Catalog(
            version=2, plans={"refund@1": changed[0].digest}, tools={"pay.send": pay[0]}
        )
        assert store.find(FindDocument(digest=refund[0].digest)) == refund[1]
        assert store.find(FindDocument(digest=changed[0].digest)) == changed[1]
        assert store.find(FindDocument(digest=pay[0])) == encode(pay[1])
        assert store.find(FindDocument(digest="none")) is None

    def test_registering_the_same_again_changes_nothing(self, store: Store) -> None:
        documents = Documents(plans=[plan("refund"), plan("refund", 2)], tools=[tool("pay.send")])
        store.put(documents)
        store.put(documents)
        store.put(Documents())
        assert store.load("s0-none").catalog == 1

    def test_a_document_may_become_current_again(self, store: Store) -> None:
        old, new = tool("pay.send"), tool("pay.send", effect=True)
        for one in (old, new, old):
            store.put(Documents(tools=[one]))
        assert store.find(FindCatalog()) == Catalog(version=3, plans={}, tools={"pay.send": old[0]})

    def test_load_and_take_tell_the_catalogs_version(self, store: Store) -> None:
        assert (store.load("s0-none").catalog, take(store).catalog) == (0, 0)
        store.put(Documents(tools=[tool("pay.send")]))
        assert (store.load("s0-none").catalog, take(store).catalog) == (1, 1)

    def test_rule_11_what_was_refused_is_kept_newest_first(self, store: Store, clock: Clock) -> None:
        store.put(Quarantine(source="returns", reason="not JSON", body=b"\xff\x00junk"))
        clock.forward(5)
        store.put(Quarantine(source="http", reason="too deep", body=b"[[["))
        rows = store.find(FindQuarantine())
        assert isinstance(rows, list)
        first, second = rows
        assert isinstance(first, QuarantineRow)
        assert isinstance(second, QuarantineRow)
        assert (first.at, first.source, first.reason, first.body) == (
            START_MS + 5,
            "http",
            "too deep",
            b"[[[",
        )
        assert (second.at, second.body) == (START_MS, b"\xff\x00junk")
        assert first.id != second.id
        assert store.find(FindQuarantine(limit=1)) == [first]

    def test_one_of_what_was_refused_is_found_by_its_number(self, store: Store) -> None:
        _, second, _ = refused(store, 3)
        assert quarantined(store, id=second.id) == [second]
        assert quarantined(store, id=second.id + 1_000) == []

    def test_what_was_refused_can_be_dropped_and_no_number_is_given_twice(self, store: Store) -> None:
        first, second, third = refused(store, 3)
        store.put(Drop(id=third.id))
        store.put(Drop(id=third.id))
        assert quarantined(store) == [second, first]
        *_, fourth = refused(store, 1)
        assert fourth.id > third.id
        store.put(Drop(id=third.id))
        assert quarantined(store) == [fourth, second, first]

    def test_of_what_was_refused_a_bounded_number_is_kept_the_newest(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A store looks it up in `base` whenever it keeps a message.
        monkeypatch.setattr(base, "MOST_QUARANTINED", 5)
        rows = refused(store, 12)
        assert [one.body for one in rows] == [b"%d" % n for n in range(7, 12)]
        assert [one.body for one in quarantined(store)] == [b"%d" % n for n in range(11, 6, -1)]

    def test_counts_stand_beside_the_state(self, store: Store) -> None:
        do(store, step("s0-a"))
        for name in ("fenced", "fenced", "late"):
            store.put(Count(session_id="s0-a", name=name))
        assert store.find(FindBeside(session_id="s0-a")) == Beside(counts={"fenced": 2, "late": 1})
        assert store.find(FindBeside(session_id="s0-none")) == Beside()
        assert store.load("s0-a").version == 1
