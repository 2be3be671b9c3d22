"""Leases: begun by a commit, kept by renewals, declared lost by the tick, and what cancelling means."""

from collections.abc import Callable

from passdown.broker.stores.base import DueNow, Renewal, Store
from passdown.broker.stores.queries import Beside, FindBeside
from tests.conformance.building import (
    LEASE_MS,
    RESERVE_MS,
    Clock,
    ask,
    claim,
    done,
    due,
    lease,
    opened,
    renew,
    step,
)
from tests.conformance.driver import Driven


class LeaseSuite(Driven):
    def test_a_lease_is_kept_by_its_claim_alone(self, store: Store) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a", claim_id="c1")
        assert renew(store, "s0-a", "c1") == "held"
        assert renew(store, "s0-a", "c2") == "lost"
        assert renew(store, "s0-none", "c1") == "lost"

    def test_renewals_are_answered_one_by_one(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b", "s0-c")
        claim(store, "s0-a", claim_id="c1")
        claim(store, "s0-b", claim_id="c2")
        done(store, step("s0-b", 2, lease="cancel"))
        renewals = [
            Renewal(session_id=name, claim_id=claim_id, lease_ms=LEASE_MS)
            for name, claim_id in (("s0-a", "c1"), ("s0-b", "c2"), ("s0-c", "c3"))
        ]
        assert store.renew(renewals) == ["held", "cancelled", "lost"]
        assert store.renew([]) == []

    def test_a_lease_that_ran_out_is_due_once_until_its_reservation_ends(
        self, store: Store, clock: Clock
    ) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a", claim_id="c1")
        clock.forward(LEASE_MS - 1)
        assert due(store) == []
        clock.forward(1)
        assert store.due(ask()).entries == [DueNow(session_id="s0-a", kind="lease", subject="c1", at=0)]
        assert due(store) == []
        clock.forward(RESERVE_MS)
        assert due(store) == [("s0-a", "lease", "c1")]

    def test_a_renewal_moves_the_end(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        clock.forward(LEASE_MS - 1)
        assert renew(store, "s0-a", ms=5_000) == "held"
        clock.forward(4_999)
        assert due(store) == []
        clock.forward(1)
        assert due(store) == [("s0-a", "lease", "c1")]

    def test_a_lease_that_ran_out_but_was_not_declared_lost_is_still_good(
        self, store: Store, clock: Clock
    ) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        clock.forward(LEASE_MS + 5)
        assert due(store) == [("s0-a", "lease", "c1")]
        assert renew(store, "s0-a") == "held"
        clock.forward(RESERVE_MS)
        assert due(store) == []
        clock.forward(LEASE_MS - RESERVE_MS)
        assert due(store) == [("s0-a", "lease", "c1")]

    def test_a_renewal_ends_the_reservation_of_the_tick(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        clock.forward(LEASE_MS)
        due(store)
        renew(store, "s0-a", ms=RESERVE_MS // 2)
        clock.forward(RESERVE_MS // 2)
        assert due(store) == [("s0-a", "lease", "c1")]

    def test_an_ended_lease_is_lost_and_never_due(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        done(store, step("s0-a", 2, lease="end"))
        assert renew(store, "s0-a") == "lost"
        clock.forward(10 * LEASE_MS)
        assert due(store) == []

    def test_a_new_claim_takes_the_place_of_the_one_before(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a", claim_id="c1")
        clock.forward(LEASE_MS)
        due(store)
        done(store, step("s0-a", 2, lease=lease("c2")))
        assert (renew(store, "s0-a", "c1"), renew(store, "s0-a", "c2")) == ("lost", "held")
        clock.forward(LEASE_MS)
        assert due(store) == [("s0-a", "lease", "c2")]

    def test_other_commits_leave_the_lease_alone(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        clock.forward(LEASE_MS - 1)
        done(store, step("s0-a", 2))
        clock.forward(1)
        assert due(store) == [("s0-a", "lease", "c1")]

    def test_a_cancelled_lease_is_no_longer_extended_and_still_falls_due(
        self, store: Store, clock: Clock
    ) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        done(store, step("s0-a", 2, lease="cancel"))
        clock.forward(LEASE_MS - 1)
        assert renew(store, "s0-a") == "cancelled"
        clock.forward(1)
        assert due(store) == [("s0-a", "lease", "c1")]
        assert renew(store, "s0-a") == "cancelled"

    def test_a_claim_that_is_over_is_told_so_until_its_end_and_never_falls_due(
        self, store: Store, clock: Clock
    ) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        done(store, step("s0-a", 2, lease="tell"))
        assert store.find(FindBeside(session_id="s0-a")) == Beside()
        clock.forward(LEASE_MS - 1)
        assert renew(store, "s0-a") == "cancelled"
        clock.forward(1)
        assert renew(store, "s0-a") == "lost"
        assert due(store) == []
        assert renew(store, "s0-a") == "lost"

    def test_ending_a_lease_that_is_not_there_does_nothing(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b", "s0-c")
        done(
            store,
            step("s0-a", 1, lease="end"),
            step("s0-b", 1, lease="cancel"),
            step("s0-c", 1, lease="tell"),
        )
        assert [renew(store, name) for name in ("s0-a", "s0-b", "s0-c")] == ["lost"] * 3

    def test_what_is_left_of_a_lease_is_shown(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        assert store.find(FindBeside(session_id="s0-a")) == Beside()
        claim(store, "s0-a")
        clock.forward(LEASE_MS - 100)
        assert store.find(FindBeside(session_id="s0-a")) == Beside(lease_left_ms=100)
        clock.forward(200)
        assert store.find(FindBeside(session_id="s0-a")) == Beside(lease_left_ms=0)

    # -- steps of the clock --

    def test_leases_are_postponed_where_the_clock_jumped_ahead(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        store.due(ask())
        clock.forward(3_600_000 + 1_000)
        found = store.due(ask(elapsed_ms=1_000))
        assert (found.entries, found.postponed_ms) == ([], 3_600_000)
        clock.forward(LEASE_MS - 1_001)
        assert due(store) == []
        clock.forward(1)
        assert due(store) == [("s0-a", "lease", "c1")]

    def test_time_that_went_by_is_no_jump(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        store.due(ask())
        clock.forward(LEASE_MS)
        found = store.due(ask(elapsed_ms=LEASE_MS - 4_000))
        assert ([one.kind for one in found.entries], found.postponed_ms) == (["lease"], 0)

    def test_a_tick_that_never_asked_before_tells_no_jump(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        store.due(ask())
        clock.forward(3_600_000)
        found = store.due(ask(elapsed_ms=None))
        assert ([one.kind for one in found.entries], found.postponed_ms) == (["lease"], 0)

    def test_of_two_ticks_one_postpones(self, connect: Callable[[], Store], clock: Clock) -> None:
        one, two = connect(), connect()
        opened(one, "s0-a")
        claim(one, "s0-a")
        one.due(ask())
        two.due(ask())
        clock.forward(3_600_000)
        found = [store.due(ask(elapsed_ms=500)).postponed_ms for store in (one, two, one)]
        assert found == [3_600_000 - 500, 0, 0]

    def test_a_tick_that_asks_often_beside_one_that_asks_seldom_invents_nothing(
        self, connect: Callable[[], Store], clock: Clock
    ) -> None:
        often, seldom = connect(), connect()
        seldom.due(ask())
        often.due(ask())
        for _ in range(3):
            for _ in range(60):
                clock.forward(1_000)
                assert often.due(ask(elapsed_ms=1_000)).postponed_ms == 0
            assert seldom.due(ask(elapsed_ms=60_000)).postponed_ms == 0

    def test_a_lease_that_began_after_the_jump_is_not_postponed(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a", "s0-b")
        claim(store, "s0-a")
        store.due(ask())
        clock.forward(3_600_000)
        claim(store, "s0-b", claim_id="c2")
        clock.forward(1_000)
        store.due(ask(elapsed_ms=1_000))
        clock.forward(LEASE_MS - 1_000)
        assert ("s0-b", "lease", "c2") in due(store)

    def test_a_clock_that_steps_back_ends_no_lease_early_and_none_lasts_for_ever(
        self, store: Store, clock: Clock
    ) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        store.due(ask())
        clock.back(3_600_000)
        assert store.due(ask(elapsed_ms=1_000)).entries == []
        clock.forward(LEASE_MS - 1)
        assert store.due(ask(elapsed_ms=LEASE_MS - 1)).entries == []
        clock.forward(1)
        assert [one.kind for one in store.due(ask(elapsed_ms=1)).entries] == ["lease"]
