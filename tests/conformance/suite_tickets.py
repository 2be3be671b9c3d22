"""Tickets as people find them: on offer in lanes, held, moved from one to another."""

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Committed, Repeated, Stale, Store
from passdown.broker.stores.queries import (
    FindLanes,
    FindOffered,
    FindTickets,
    LaneRow,
    TicketRow,
)
from tests.conformance.building import START_MS, do, done, step, ticket
from tests.conformance.driver import Driven
from tests.conformance.together import together

#: Names of lanes that a store must keep apart.
ODD_LANES = [
    '{"queue":"leads","candidates":["user:o\'brien","group:\\"a\\""],"skills":[]}',
    "a",
    "a:",
    "a:b",
    "A",
    "a ",
    "a%_*?[a]{b}",
    "a\n\tb",
    "é",
    "e\u0301",
    "\U0001f600 / ł",
    "x" * 5_000,
    "x" * 5_001,
]


def on_offer(
    session_id: str, ticket_no: int = 1, *, lane: str = "leads", order: str = "5", **more: Any
) -> TicketRow:
    """Return an open ticket that may be claimed; ``more`` names other columns."""
    return replace(ticket(session_id, ticket_no), lane=lane, order=order, **more)


def held(session_id: str, ticket_no: int = 1, *, by: str = "user:ann", **more: Any) -> TicketRow:
    """Return an open ticket that somebody holds."""
    return replace(ticket(session_id, ticket_no), holder=by, until=START_MS + 9, **more)


def put(store: Store, *rows: TicketRow) -> None:
    """Open a session for each ticket, or go on with it: from here on it has no other ticket."""
    done(store, *(step(one.session_id, store.load(one.session_id).version, tickets=[one]) for one in rows))


def lanes(store: Store) -> list[str]:
    """Return the lanes in which there is a ticket, sorted; counted they are the same."""
    named = cast("list[LaneRow]", store.find(FindLanes()))
    counted = cast("list[LaneRow]", store.find(FindLanes(counted=True)))
    assert all(not one.waiting for one in named)
    assert sorted(one.lane for one in named) == sorted(one.lane for one in counted)
    return sorted(one.lane for one in named)


def waiting(store: Store) -> dict[str, int]:
    """Return how many tickets are on offer in each lane."""
    rows = cast("list[LaneRow]", store.find(FindLanes(counted=True)))
    return {one.lane: one.waiting for one in rows}


def rows_of(store: Store, *names: str, **query: Any) -> list[TicketRow]:
    """Return what is on offer in lanes."""
    return cast("list[TicketRow]", store.find(FindOffered(lanes=[*names], **query)))


def offered(store: Store, *names: str, **query: Any) -> list[str]:
    """Return session and number of what is on offer in lanes, as ``session/number``."""
    return [f"{one.session_id}/{one.ticket_no}" for one in rows_of(store, *names, **query)]


def found(store: Store, **query: Any) -> list[str]:
    """Return the sessions of the open tickets that are found."""
    return [one.session_id for one in cast("list[TicketRow]", store.find(FindTickets(**query)))]


class TicketSuite(Driven):
    # -- what is on offer --------------------------------------------------------------------------------

    def test_a_ticket_is_found_as_it_was_written(self, store: Store) -> None:
        full = TicketRow(
            session_id="s0-a",
            ticket_no=7,
            version=3,
            kind="effect",
            queue="łeads",
            why='"why" \U0001f600\n',
            about="send",
            opened_at=START_MS,
            priority=-4,
            due_at=START_MS + 10**10,
            until=START_MS + 5,
            level=2,
            lapses=3,
            excluded=["user:ann", "user:zoë", 'group:"x"'],
            lane="leads",
            order="000.5",
        )
        done(store, step("s0-a", tickets=[full]))
        assert rows_of(store, "leads") == [full]
        assert store.find(FindTickets()) == [full]
        of_ann = replace(full, version=4, holder="user:ann", excluded=[], lane="", order="", due_at=None)
        put(store, of_ann)
        assert store.find(FindTickets()) == [of_ann]

    def test_a_ticket_that_was_only_opened_is_in_no_lane(self, store: Store) -> None:
        done(store, step("s0-a", tickets=[ticket("s0-a")]))
        assert lanes(store) == []
        assert offered(store, "", "leads") == []
        assert found(store) == ["s0-a"]

    def test_tickets_of_all_lanes_that_are_named_come_in_one_order(self, store: Store) -> None:
        put(
            store,
            on_offer("s0-a", lane="x", order="3"),
            on_offer("s0-b", lane="y", order="1"),
            on_offer("s0-c", lane="x", order="2"),
            on_offer("s0-d", lane="z", order="0"),
            on_offer("s0-e", lane="y", order="4"),
        )
        assert offered(store, "x", "y", "z") == ["s0-d/1", "s0-b/1", "s0-c/1", "s0-a/1", "s0-e/1"]
        assert offered(store, "z", "y") == ["s0-d/1", "s0-b/1", "s0-e/1"]
        assert offered(store, "x", "none", "x") == ["s0-c/1", "s0-a/1"]
        assert offered(store) == offered(store, "none") == []

    def test_one_order_goes_by_session_and_then_by_number(self, store: Store) -> None:
        done(
            store,
            step("s0-b", tickets=[on_offer("s0-b", n, lane=lane) for n, lane in ((10, "x"), (9, "y"))]),
            step("s0-a", tickets=[on_offer("s0-a", n, lane=lane) for n, lane in ((2, "y"), (1, "x"))]),
        )
        whole = ["s0-a/1", "s0-a/2", "s0-b/9", "s0-b/10"]
        assert offered(store, "x", "y") == whole
        for limit in range(5):
            assert offered(store, "x", "y", limit=limit) == whole[:limit]

    def test_the_order_is_that_of_bytes(self, store: Store) -> None:
        orders = ["", "1", "10", "2", "A", "a", "z", "é", "\ufffd", "\U0001f600"]
        put(store, *(on_offer(f"s0-{n}", order=one) for n, one in enumerate(orders) if one))
        assert [one.order for one in rows_of(store, "leads")] == sorted(orders[1:], key=str.encode)
        assert [one.order for one in rows_of(store, "leads", after="a", limit=2)] == ["z", "é"]

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
    def test_pages_follow_each_other_through_several_lanes(self, store: Store, limit: int) -> None:
        # Lanes of 1, 2, 4 … tickets: some end long before others.
        of_lane = [len(bin(n)) for n in range(31)]
        rows = [on_offer(f"s0-{n}", lane=f"l{of_lane[n]}", order=f"{n * 7 % 31:02}") for n in range(31)]
        put(store, *rows)
        seen: list[TicketRow] = []
        while page := rows_of(store, *lanes(store), after=seen[-1].order if seen else "", limit=limit):
            assert len(page) == min(limit, 31 - len(seen))
            seen += page
        assert seen == sorted((replace(one, version=1) for one in rows), key=lambda one: one.order)

    def test_a_limit_of_nothing_finds_nothing(self, store: Store) -> None:
        put(store, on_offer("s0-a"), on_offer("s0-b", order="4"), held("s0-c"))
        assert offered(store, "leads", limit=0) == []
        assert offered(store, "leads", limit=1) == ["s0-b/1"]
        assert found(store, limit=0) == found(store, holder="user:ann", limit=0) == []

    def test_what_has_the_order_that_was_seen_is_not_seen_again(self, store: Store) -> None:
        put(store, on_offer("s0-a"), on_offer("s0-b"), on_offer("s0-c", order="50"))
        assert offered(store, "leads", after="5") == ["s0-c/1"]
        assert offered(store, "leads", after="50") == []

    # -- lanes -------------------------------------------------------------------------------------------

    def test_a_lane_is_there_as_long_as_a_ticket_is_on_offer_in_it(self, store: Store) -> None:
        assert lanes(store) == []
        put(store, on_offer("s0-a", lane="x"), on_offer("s0-b", lane="x"), on_offer("s0-c", lane="y"))
        assert lanes(store) == ["x", "y"]
        assert waiting(store) == {"x": 2, "y": 1}
        put(store, held("s0-a"), held("s0-c"))
        assert waiting(store) == {"x": 1}
        done(store, step("s0-b", 1, tickets=[]))
        assert lanes(store) == []
        put(store, on_offer("s0-a", lane="y"))
        assert waiting(store) == {"y": 1}

    def test_lanes_of_any_name_are_kept_apart(self, store: Store) -> None:
        put(store, *(on_offer(f"s0-{n}", lane=lane) for n, lane in enumerate(ODD_LANES)))
        assert lanes(store) == sorted(ODD_LANES)
        for n, lane in enumerate(ODD_LANES):
            assert offered(store, lane) == [f"s0-{n}/1"]
        assert len(offered(store, *ODD_LANES)) == len(ODD_LANES)
        put(store, *(held(f"s0-{n}") for n in range(len(ODD_LANES))))
        assert lanes(store) == offered(store, *ODD_LANES) == []

    def test_there_may_be_many_lanes(self, store: Store) -> None:
        names = [f"lane-{n}" for n in range(300)]
        put(store, *(on_offer(f"s0-{n}", lane=name, order=f"{n:03}") for n, name in enumerate(names)))
        assert lanes(store) == sorted(names)
        assert offered(store, *names, limit=3) == ["s0-0/1", "s0-1/1", "s0-2/1"]
        assert len(offered(store, *names, limit=500)) == 300

    # -- what changes ------------------------------------------------------------------------------------

    def test_a_ticket_moves_from_lane_to_lane(self, store: Store) -> None:
        put(store, on_offer("s0-a", lane="x"), on_offer("s0-b", lane="x"))
        put(store, on_offer("s0-a", lane="y"))
        assert (offered(store, "x"), offered(store, "y")) == (["s0-b/1"], ["s0-a/1"])
        assert waiting(store) == {"x": 1, "y": 1}

    def test_a_ticket_moves_within_its_lane(self, store: Store) -> None:
        put(store, on_offer("s0-a", order="1"), on_offer("s0-b", order="2"))
        put(store, on_offer("s0-a", order="3"))
        assert offered(store, "leads") == ["s0-b/1", "s0-a/1"]
        assert waiting(store) == {"leads": 2}

    def test_a_ticket_that_is_refiled_is_found_by_what_it_has_now(self, store: Store) -> None:
        put(store, on_offer("s0-a", opened_at=20), on_offer("s0-b", opened_at=10))
        put(store, replace(on_offer("s0-a", opened_at=5), queue="ops", due_at=9))
        assert found(store) == ["s0-a", "s0-b"]
        assert (found(store, queue="ops"), found(store, queue="leads")) == (["s0-a"], ["s0-b"])
        assert rows_of(store, "leads")[0].due_at == 9

    def test_what_is_held_is_not_on_offer_until_it_is_let_go(self, store: Store) -> None:
        free, taken = on_offer("s0-a", excluded=["user:bob"]), held("s0-a", version=2)
        put(store, free)
        put(store, taken)
        assert offered(store, "leads") == []
        assert store.find(FindTickets(holder="user:ann")) == [taken]
        put(store, replace(free, version=3, lapses=1))
        assert rows_of(store, "leads") == [replace(free, version=3, lapses=1)]
        assert found(store, holder="user:ann") == []

    def test_of_a_sessions_tickets_only_those_move_that_changed(self, store: Store) -> None:
        mine = [on_offer("s0-a", n, order=str(n)) for n in (1, 2, 3)]
        done(store, step("s0-a", tickets=mine))
        done(store, step("s0-a", 1, tickets=[mine[0], held("s0-a", 2), mine[2]]))
        assert offered(store, "leads") == ["s0-a/1", "s0-a/3"]
        done(store, step("s0-a", 2))
        assert offered(store, "leads") == ["s0-a/1", "s0-a/3"]
        done(store, step("s0-a", 3, tickets=[mine[2], on_offer("s0-a", 4, order="0")]))
        assert offered(store, "leads") == ["s0-a/4", "s0-a/3"]
        assert found(store) == ["s0-a", "s0-a"]

    def test_steps_in_one_call_offer_what_the_last_one_says(self, store: Store) -> None:
        done(
            store,
            step("s0-a", tickets=[on_offer("s0-a", lane="x")]),
            step("s0-a", 1, tickets=[held("s0-a")]),
            step("s0-a", 2, tickets=[on_offer("s0-a", lane="y")]),
        )
        assert waiting(store) == {"y": 1}

    def test_rule_02_a_commit_that_does_not_hold_offers_and_takes_nothing(self, store: Store) -> None:
        first = step("s0-a", tickets=[on_offer("s0-a")])
        done(store, first)
        outcomes = do(
            store,
            replace(step("s0-a", 5), tickets=[held("s0-a")]),
            replace(first, tickets=[held("s0-a")]),
            replace(step("s0-b", 3), tickets=[on_offer("s0-b")]),
        )
        assert [type(outcome) for outcome in outcomes] == [Stale, Repeated, Stale]
        assert offered(store, "leads") == ["s0-a/1"]
        assert found(store, holder="user:ann") == []

    def test_rule_02_of_many_who_take_one_ticket_one_gets_it(self, connect: Callable[[], Store]) -> None:
        stores = [connect(), connect()]
        put(stores[0], on_offer("s0-a"))

        def take(n: int) -> bool:
            claim = step("s0-a", 1, command=f"by {n}", tickets=[held("s0-a", by=f"user:{n}")])
            return isinstance(do(stores[n % 2], claim)[0], Committed)

        assert Counter(together(8, take)) == {True: 1, False: 7}
        for store in stores:
            assert offered(store, "leads") == lanes(store) == []
            assert len(found(store)) == 1

    def test_another_store_object_finds_what_is_on_offer(self, connect: Callable[[], Store]) -> None:
        one, two = connect(), connect()
        put(one, on_offer("s0-a"), held("s0-b"))
        assert (lanes(two), offered(two, "leads")) == (["leads"], ["s0-a/1"])
        assert found(two, holder="user:ann") == ["s0-b"]
        put(two, held("s0-a"))
        assert (lanes(one), offered(one, "leads")) == ([], [])

    # -- by holder ---------------------------------------------------------------------------------------

    def test_tickets_are_found_by_holder_and_all_else_that_is_named(self, store: Store) -> None:
        ann, bob = "user:ann", "user:bob"
        put(
            store,
            held("s0-a", by=ann, opened_at=30),
            held("s0-b", by=bob, opened_at=10),
            replace(held("s0-c", by=ann, opened_at=20), queue="ops"),
            on_offer("s0-d", opened_at=5),
            held("s0-e", by="user:an", opened_at=1),
        )
        assert found(store, holder=ann) == ["s0-c", "s0-a"]
        assert found(store, holder=ann, limit=1) == ["s0-c"]
        assert found(store, holder=ann, queue="ops") == ["s0-c"]
        assert found(store, holder=ann, queue="leads") == ["s0-a"]
        assert found(store, holder=bob, queue="ops") == []
        assert found(store, holder=ann, session_id="s0-a") == ["s0-a"]
        assert found(store, holder=ann, session_id="s0-b") == []
        assert found(store, holder=ann, session_id="s0-c", queue="ops") == ["s0-c"]
        assert found(store, holder=ann, session_id="s0-c", queue="leads") == []
        assert found(store, holder="none") == []
        assert found(store) == ["s0-e", "s0-d", "s0-b", "s0-c", "s0-a"]

    def test_a_ticket_that_changes_hands_is_found_by_who_holds_it(self, store: Store) -> None:
        put(store, held("s0-a", by="user:ann"))
        put(store, held("s0-a", by="user:bob"))
        assert (found(store, holder="user:ann"), found(store, holder="user:bob")) == ([], ["s0-a"])
        done(store, step("s0-a", 2, tickets=[]))
        assert found(store, holder="user:bob") == []
