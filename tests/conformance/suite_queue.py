"""Role queues: taking reserves, by score and within limits; handing back, claiming and withdrawing end it."""

import pytest

from passdown.broker.stores.base import Committed, Full, Repeated, Store, TakenPack
from passdown.broker.stores.queries import Beside, FindBeside, FindPack, FindQueues, QueueRow
from tests.conformance.building import (
    CLAIM_BY_MS,
    START_MS,
    Clock,
    back,
    claim,
    do,
    done,
    lease,
    names,
    opened,
    pack,
    request,
    row,
    step,
    take,
)
from tests.conformance.driver import Driven


class QueueSuite(Driven):
    def test_a_pack_comes_with_the_state_that_it_belongs_to(self, store: Store) -> None:
        done(store, step("s0-a", state=b"before"))
        issued = step("s0-a", 1, events=2, state=b"now", queue=pack(step=4, attempt=2, solo=True))
        done(store, issued)
        taken = take(store)
        assert taken.packs == [
            TakenPack(
                session_id="s0-a",
                step=4,
                attempt=2,
                pack=pack(step=4, attempt=2).pack,
                state=b"now",
                version=3,
                solo=True,
            )
        ]
        assert (taken.more, taken.now, taken.catalog) == (False, START_MS, store.load("s0-a").catalog)

    def test_an_empty_queue_gives_nothing(self, store: Store) -> None:
        taken = take(store, slots=5)
        assert (taken.packs, taken.more) == ([], False)

    def test_a_reserved_pack_is_not_given_twice(self, store: Store) -> None:
        opened(store, "s0-a")
        assert names(take(store)) == ["s0-a"]
        assert names(take(store)) == []

    def test_a_reservation_that_ran_out_leaves_the_pack_takeable(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        take(store)
        clock.forward(CLAIM_BY_MS - 1)
        assert names(take(store)) == []
        clock.forward(1)
        assert names(take(store)) == ["s0-a"]

    def test_older_packs_come_first(self, store: Store, clock: Clock) -> None:
        for name in ("s0-c", "s0-a", "s0-b"):
            opened(store, name)
            clock.forward(1)
        assert names(take(store, slots=3)) == ["s0-c", "s0-a", "s0-b"]

    @pytest.mark.parametrize(("later_ms", "first"), [(59_999, "s0-late"), (60_001, "s0-early")])
    def test_a_priority_is_worth_a_minute_so_that_nothing_starves(
        self, store: Store, clock: Clock, later_ms: int, first: str
    ) -> None:
        done(store, step("s0-early", queue=pack()))
        clock.forward(later_ms)
        done(store, step("s0-late", queue=pack(priority=1)))
        assert names(take(store, slots=2))[0] == first

    def test_slots_bound_what_is_taken_and_more_says_that_some_remain(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b", "s0-c")
        first = take(store, slots=2)
        assert (len(first.packs), first.more) == (2, True)
        last = take(store, slots=2)
        assert (len(last.packs), last.more) == (1, False)
        assert {*names(first), *names(last)} == {"s0-a", "s0-b", "s0-c"}

    def test_no_slots_take_nothing_and_see_what_is_there(self, store: Store) -> None:
        opened(store, "s0-a")
        taken = take(store, slots=0)
        assert (taken.packs, taken.more) == ([], True)

    def test_each_role_has_its_own_queue(self, store: Store) -> None:
        opened(store, "s0-a", role="analyst")
        opened(store, "s0-b", role="writer")
        assert names(take(store, "writer", slots=9)) == ["s0-b"]

    def test_a_claim_takes_the_pack_off_the_queue(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        take(store)
        claim(store, "s0-a")
        clock.forward(CLAIM_BY_MS)
        assert names(take(store)) == []

    def test_a_new_pack_replaces_the_one_before_and_its_reservation(self, store: Store) -> None:
        opened(store, "s0-a")
        take(store)
        done(store, step("s0-a", 1, queue=pack("writer", attempt=2)))
        assert names(take(store, slots=9)) == []
        assert take(store, "writer").packs[0].attempt == 2

    def test_a_withdrawn_pack_is_gone_and_other_commits_leave_the_queue_alone(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        done(store, step("s0-a", 1, queue="withdraw"), step("s0-b", 1))
        assert names(take(store, slots=9)) == ["s0-b"]

    def test_a_pack_is_kept_for_audit(self, store: Store) -> None:
        opened(store, "s0-a")
        done(store, step("s0-a", 1, queue=pack(attempt=2)))
        done(store, step("s0-a", 2, queue="withdraw"))
        assert store.find(FindPack(session_id="s0-a", step=1, attempt=1)) == pack().pack
        assert store.find(FindPack(session_id="s0-a", step=1, attempt=2)) == pack(attempt=2).pack
        assert store.find(FindPack(session_id="s0-a", step=2, attempt=1)) is None

    # -- handing back --

    def test_a_pack_that_is_handed_back_waits_and_says_why(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a")
        take(store)
        store.hand_back(back("s0-a", after_ms=2_000, why="tool pay.send differs"))
        assert store.find(FindBeside(session_id="s0-a")) == Beside(handed_back="tool pay.send differs")
        clock.forward(1_999)
        assert names(take(store)) == []
        clock.forward(1)
        assert names(take(store)) == ["s0-a"]

    def test_a_pack_that_is_handed_back_at_once_is_takeable_at_once(self, store: Store) -> None:
        opened(store, "s0-a")
        take(store)
        store.hand_back(back("s0-a"))
        assert names(take(store)) == ["s0-a"]

    def test_handing_back_what_was_claimed_or_withdrawn_or_issued_anew_does_nothing(
        self, store: Store
    ) -> None:
        opened(store, "s0-a", "s0-b", "s0-c")
        take(store, slots=3)
        claim(store, "s0-a")
        done(store, step("s0-b", 1, queue="withdraw"), step("s0-c", 1, queue=pack(attempt=2)))
        for name in ("s0-a", "s0-b", "s0-c", "s0-none"):
            store.hand_back(back(name, after_ms=60_000))
        assert names(take(store, slots=9)) == ["s0-c"]

    # -- limits --

    def test_a_roles_limit_counts_reservations_and_claims(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b", "s0-c")
        assert len(take(store, slots=1, role_limit=2).packs) == 1
        claim(store, names(take(store, slots=5, role_limit=2))[0])
        full = take(store, slots=5, role_limit=2)
        assert (full.packs, full.more) == ([], False)

    def test_a_limit_is_free_again_when_a_claim_ends_or_a_reservation_runs_out(
        self, store: Store, clock: Clock
    ) -> None:
        opened(store, "s0-a", "s0-b", "s0-c")
        first = names(take(store, role_limit=1))[0]
        claim(store, first)
        clock.forward(CLAIM_BY_MS)
        assert names(take(store, role_limit=1)) == []
        done(store, step(first, 2, lease="end"))
        second = names(take(store, role_limit=1))
        assert len(second) == 1
        clock.forward(CLAIM_BY_MS)
        assert len(take(store, slots=5, role_limit=1).packs) == 1

    def test_a_lease_that_ran_out_still_counts_until_it_ends(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a", "s0-b")
        claim(store, names(take(store))[0])
        clock.forward(10 * 60_000)
        assert names(take(store, role_limit=1)) == []

    def test_a_claim_that_is_over_does_not_count_a_cancelled_one_does(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b", "s0-c")
        claim(store, "s0-a")
        done(store, step("s0-a", 2, lease="cancel"))
        assert names(take(store, role_limit=1)) == []
        done(store, step("s0-a", 3, lease="tell"))
        assert len(take(store, slots=5, role_limit=1).packs) == 1

    def test_a_tasks_limit_counts_over_all_roles_and_lets_other_tasks_pass(
        self, store: Store, clock: Clock
    ) -> None:
        for name, task in (("s0-a", "t1"), ("s0-b", "t1"), ("s0-c", "t1"), ("s0-d", "t2"), ("s0-e", "t1")):
            role = "writer" if name == "s0-e" else "analyst"
            done(store, step(name, row=row(name, 1, task_id=task), queue=pack(role)))
            clock.forward(1)
        assert names(take(store, slots=9, task_limit=1)) == ["s0-a", "s0-d"]
        assert names(take(store, "writer", task_limit=1)) == []
        done(store, step("s0-a", 1, row=row("s0-a", 2, task_id="t1"), queue="withdraw", lease=lease()))
        assert names(take(store, slots=9, task_limit=2)) == ["s0-b"]

    # -- solo --

    def test_a_solo_pack_comes_alone(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-solo", solo=True)
        clock.forward(1)
        opened(store, "s0-b")
        taken = take(store, slots=5)
        assert (names(taken), taken.packs[0].solo, taken.more) == (["s0-solo"], True, True)

    def test_a_drain_that_holds_packs_leaves_solo_ones_to_others(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-solo", solo=True)
        clock.forward(1)
        opened(store, "s0-b")
        taken = take(store, slots=5, holding=True)
        assert (names(taken), taken.more) == (["s0-b"], True)
        assert names(take(store, slots=5)) == ["s0-solo"]

    def test_a_solo_pack_behind_others_is_left_for_the_next_drain(self, store: Store, clock: Clock) -> None:
        for name, solo in (("s0-a", False), ("s0-solo", True), ("s0-b", False)):
            opened(store, name, solo=solo)
            clock.forward(1)
        taken = take(store, slots=5)
        assert (names(taken), taken.more) == (["s0-a", "s0-b"], True)

    # -- taking with a commit --

    def test_a_commit_takes_in_the_same_step_and_sees_what_it_enqueued(self, store: Store) -> None:
        opened(store, "s0-a")
        claim(store, names(take(store))[0])
        outcomes, taken = store.commit(
            [step("s0-a", 2, queue=pack(attempt=2), lease="end")], request(slots=3)
        )
        assert len(outcomes) == 1
        assert taken is not None
        assert [(one.session_id, one.attempt, one.version) for one in taken.packs] == [("s0-a", 2, 3)]

    def test_a_commit_that_is_stale_takes_nevertheless(self, store: Store) -> None:
        opened(store, "s0-a")
        _, taken = store.commit([step("s0-a", 5)], request())
        assert taken is not None
        assert names(taken) == ["s0-a"]

    def test_queues_show_depth_and_age(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a", "s0-b", "s0-c", "s0-d")
        opened(store, "s0-e", role="writer")
        clock.forward(5_000)
        claim(store, names(take(store))[0])
        take(store)
        assert store.find(FindQueues()) == [
            QueueRow(role="analyst", ready=2, reserved=1, running=1, oldest_ms=5_000),
            QueueRow(role="writer", ready=1, reserved=0, running=0, oldest_ms=5_000),
        ]

    def test_a_full_queue_opens_no_new_session(self, store: Store) -> None:
        for n in range(3):
            done(store, step(f"s0-{n}", queue=pack(), room=3))
        (full,) = do(store, step("s0-3", queue=pack(), room=3))
        assert full == Full(role="analyst", waiting=3)
        assert store.load("s0-3").state is None
        # Another role has room, and so has who names no limit.
        done(store, step("s0-4", queue=pack("cashier"), room=3))
        done(store, step("s0-5", queue=pack()))

    def test_an_open_session_is_never_refused_for_it(self, store: Store) -> None:
        opened(store, "s0-1", "s0-2")
        claim(store, "s0-1")
        done(store, step("s0-1", 2, queue=pack(step=2), lease="end", room=1))

    def test_a_full_queue_has_room_when_packs_were_taken_off(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-1", "s0-2")
        assert isinstance(do(store, step("s0-3", queue=pack(), room=2))[0], Full)
        claim(store, "s0-1")
        clock.forward(1_000)  # a long queue is not counted each time
        done(store, step("s0-3", queue=pack(), room=2))

    def test_the_same_submit_again_is_answered_though_the_queue_is_full(self, store: Store) -> None:
        first = step("s0-1", queue=pack(), room=1)
        done(store, first)
        assert isinstance(do(store, first)[0], Repeated)

    def test_one_call_fills_a_queue_up_to_its_limit(self, store: Store) -> None:
        outcomes = do(store, *(step(f"s0-{n}", queue=pack(), room=2) for n in range(4)))
        assert [type(one) for one in outcomes] == [Committed, Committed, Full, Full]
