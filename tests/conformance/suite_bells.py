"""Doorbells: a ring where it tells something new, none where it does not, and none lost for good."""

import queue
import threading

from passdown.broker.stores.base import Committed, Store
from tests.conformance.building import (
    CLAIM_BY_MS,
    Clock,
    ask,
    back,
    claim,
    do,
    done,
    names,
    opened,
    pack,
    request,
    step,
    take,
)
from tests.conformance.driver import Driven
from tests.conformance.together import together


def rung(store: Store, name: str, role: str = "analyst") -> list[str]:
    """Open a session with a pack, and return whom that rings for."""
    return done(store, step(name, queue=pack(role))).ring


class BellSuite(Driven):
    def test_the_first_pack_rings_and_the_next_ones_do_not(self, store: Store) -> None:
        assert [rung(store, name) for name in ("s0-a", "s0-b", "s0-c")] == [["analyst"], [], []]

    def test_each_role_has_its_own_bell(self, store: Store) -> None:
        assert rung(store, "s0-a", "analyst") == ["analyst"]
        assert rung(store, "s0-b", "writer") == ["writer"]

    def test_commits_of_one_call_ring_once(self, store: Store) -> None:
        outcomes = do(store, *(step(f"s0-{n}", queue=pack()) for n in range(5)))
        assert [outcome.ring for outcome in outcomes if isinstance(outcome, Committed)].count(
            ["analyst"]
        ) == 1

    def test_a_ring_counts_for_a_few_seconds(self, store: Store, clock: Clock) -> None:
        rung(store, "s0-a")
        clock.forward(1_000)
        assert rung(store, "s0-b") == []
        clock.forward(9_000)
        assert rung(store, "s0-c") == ["analyst"]

    def test_a_commit_without_a_pack_does_not_ring(self, store: Store) -> None:
        opened(store, "s0-a")
        take(store)
        assert done(store, step("s0-b")).ring == []
        assert done(store, step("s0-a", 1, queue="withdraw")).ring == []

    def test_a_commit_right_after_the_last_empty_take_rings(self, store: Store) -> None:
        rung(store, "s0-a")
        take(store, slots=5)
        assert names(take(store, slots=5)) == []
        assert rung(store, "s0-b") == ["analyst"]

    def test_a_take_by_a_commit_clears_the_bell_too(self, store: Store) -> None:
        rung(store, "s0-a")
        store.commit([step("s0-x")], request())
        assert rung(store, "s0-b") == ["analyst"]

    def test_the_end_of_a_claim_rings_where_packs_wait(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b", "s0-c")
        claim(store, names(take(store, role_limit=1))[0])
        take(store, role_limit=1)
        claimed = next(name for name in ("s0-a", "s0-b", "s0-c") if store.load(name).version == 2)
        assert done(store, step(claimed, 2, lease="end")).ring == ["analyst"]

    def test_a_claim_that_is_over_rings_where_packs_wait(self, store: Store) -> None:
        opened(store, "s0-a")
        claim(store, names(take(store))[0])
        opened(store, "s0-b")
        take(store, role_limit=1)
        assert done(store, step("s0-a", 2, lease="cancel")).ring == []
        assert done(store, step("s0-a", 3, lease="tell")).ring == ["analyst"]

    def test_the_end_of_a_claim_does_not_ring_where_nothing_waits(self, store: Store) -> None:
        opened(store, "s0-a")
        claim(store, names(take(store))[0])
        assert done(store, step("s0-a", 2, lease="end")).ring == []

    def test_a_claim_makes_no_room_and_does_not_ring(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        assert claim(store, names(take(store))[0]).ring == []

    def test_a_reserved_pack_that_is_withdrawn_makes_room(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        (reserved,) = names(take(store, role_limit=1))
        take(store, role_limit=1)
        assert done(store, step(reserved, 1, queue="withdraw")).ring == ["analyst"]

    # -- the tick --

    def test_the_tick_rings_where_packs_wait_in_vain(self, store: Store, clock: Clock) -> None:
        rung(store, "s0-a")
        assert store.due(ask()).ring == []
        clock.forward(10_000)
        assert store.due(ask()).ring == ["analyst"]

    def test_the_tick_rings_less_and_less_up_to_a_minute(self, store: Store, clock: Clock) -> None:
        rung(store, "s0-a")
        waits: list[int] = []
        last = clock.now
        while len(waits) < 7:
            clock.forward(500)
            if store.due(ask()).ring:
                waits.append(clock.now - last)
                last = clock.now
        assert waits[0] < waits[1] < waits[2] < waits[3]
        assert waits[-3:] == [60_000] * 3

    def test_a_take_ends_the_waiting_of_the_tick(self, store: Store, clock: Clock) -> None:
        rung(store, "s0-a")
        for _ in range(5):
            clock.forward(60_000)
            store.due(ask())
        take(store, slots=0)
        assert store.due(ask()).ring == ["analyst"]

    def test_the_tick_does_not_ring_for_what_nobody_may_take(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a", "s0-b")
        take(store, slots=2)
        store.hand_back(back("s0-b", after_ms=60_000))
        clock.forward(CLAIM_BY_MS - 1)
        assert store.due(ask()).ring == []
        clock.forward(1)
        assert store.due(ask()).ring == ["analyst"]

    def test_the_tick_rings_for_each_role(self, store: Store, clock: Clock) -> None:
        for role in ("writer", "analyst", "judge"):
            opened(store, f"s0-{role}", role=role)
        take(store, "judge")
        clock.forward(5_000)
        assert sorted(store.due(ask()).ring) == ["analyst", "writer"]

    def test_a_clock_that_steps_back_silences_no_bell_for_long(self, store: Store, clock: Clock) -> None:
        store.due(ask())
        rung(store, "s0-a")
        clock.back(40_000)
        store.due(ask(elapsed_ms=0))
        clock.forward(11_000)
        assert store.due(ask(elapsed_ms=11_000)).ring == ["analyst"]

    # -- the race --

    def test_rule_1_drains_that_only_wake_by_rings_leave_nothing_behind(self, store: Store) -> None:
        rings: queue.SimpleQueue[str] = queue.SimpleQueue()
        taken: list[str] = []

        def produce(producer: int) -> None:
            for n in range(40):
                for role in rung(store, f"s0-{producer}-{n}"):
                    rings.put(role)

        def drain() -> None:
            while rings.get() != "stop":
                while got := names(take(store, slots=3)):
                    taken.extend(got)

        drains = [threading.Thread(target=drain) for _ in range(3)]
        for thread in drains:
            thread.start()
        together(4, produce)
        for _ in drains:
            rings.put("stop")
        for thread in drains:
            thread.join()
        assert sorted(taken) == sorted(f"s0-{producer}-{n}" for producer in range(4) for n in range(40))
        assert names(take(store)) == []

    def test_a_drain_that_looks_again_by_itself_need_not_be_rung_for(
        self, store: Store, clock: Clock
    ) -> None:
        assert take(store, linger_ms=100).packs == []
        assert done(store, step("s0-1", queue=pack())).ring == []
        assert names(take(store, linger_ms=100)) == ["s0-1"]
        # It found something, and is busy with that: others are rung for the next.
        assert done(store, step("s0-2", queue=pack())).ring == ["analyst"]

    def test_when_it_does_not_come_back_others_are_rung(self, store: Store, clock: Clock) -> None:
        take(store, linger_ms=100)
        clock.forward(101)
        assert done(store, step("s0-1", queue=pack())).ring == ["analyst"]

    def test_the_tick_rings_for_what_it_did_not_come_back_for(self, store: Store, clock: Clock) -> None:
        take(store, linger_ms=100)
        assert done(store, step("s0-1", queue=pack())).ring == []
        assert store.due(ask()).ring == []
        clock.forward(101)
        assert store.due(ask()).ring == ["analyst"]

    def test_its_last_look_lets_bells_ring_again(self, store: Store) -> None:
        take(store, linger_ms=1000)
        take(store)
        assert done(store, step("s0-1", queue=pack())).ring == ["analyst"]

    def test_looking_often_shortens_no_ring(self, store: Store, clock: Clock) -> None:
        take(store, linger_ms=1000)
        take(store, linger_ms=10)
        clock.forward(500)
        assert done(store, step("s0-1", queue=pack())).ring == []
