"""Every store behind faults: who retries by command id ends where they would have ended without (rule 1)."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest

from passdown.broker.stores.base import (
    Commit,
    Committed,
    Count,
    Documents,
    Outcome,
    Quarantine,
    Repeated,
    Stale,
    Store,
)
from passdown.broker.stores.queries import Beside, FindBeside, FindCatalog, FindQuarantine
from passdown.contracts.errors import Unavailable
from tests.conformance.building import (
    CLAIM_BY_MS,
    RESERVE_MS,
    Clock,
    back,
    claim,
    do,
    done,
    due,
    entry,
    events_of,
    lease,
    names,
    opened,
    pack,
    renew,
    request,
    step,
    take,
)
from tests.conformance.driver import Driven
from tests.conformance.faulty import Chance, Fault, FaultyStore, Script
from tests.conformance.suite_reading import tool

T = TypeVar("T")
LOST: list[Fault] = ["before", "after"]


def until_answered(act: Callable[[], T], tries: int = 50) -> T:
    """Repeat `act` until the store answers."""
    for _ in range(tries):
        try:
            return act()
        except Unavailable:
            continue
    pytest.fail(f"no answer in {tries} tries")


def insist(store: Store, commit: Commit) -> Outcome:
    """Commit as the controller does: retry what got no answer, and what conflicts though nothing moved."""
    while True:
        outcome = until_answered(lambda: do(store, commit))[0]
        if not isinstance(outcome, Stale) or outcome.version != commit.expected:
            return outcome


class FaultSuite(Driven):
    @pytest.mark.parametrize("fault", ["before", "after", "stale"])
    def test_an_act_whose_reply_is_lost_happens_once(self, store: Store, fault: Fault) -> None:
        faulty = FaultyStore(store, Script(fault))
        act = step("s0-a", events=2, queue=pack())
        outcome = insist(faulty, act)
        assert faulty.given == [("commit", fault)]
        assert isinstance(outcome, Repeated if fault == "after" else Committed)
        assert store.events("s0-a") == act.events
        assert names(take(store, slots=9)) == ["s0-a"]

    @pytest.mark.parametrize("fault", LOST)
    def test_a_fault_before_the_write_leaves_nothing_one_after_it_all(
        self, store: Store, fault: Fault
    ) -> None:
        faulty = FaultyStore(store, Script(fault))
        with pytest.raises(Unavailable):
            do(faulty, step("s0-a"))
        assert store.load("s0-a").version == (1 if fault == "after" else 0)

    def test_a_conflict_that_is_none_writes_nothing_and_takes(self, store: Store) -> None:
        opened(store, "s0-a")
        outcomes, taken = FaultyStore(store, Script("stale")).commit([step("s0-b")], request())
        assert outcomes == [Stale(version=0)]
        assert taken is not None
        assert names(taken) == ["s0-a"]
        assert store.load("s0-b").state is None

    @pytest.mark.parametrize("seed", range(8))
    def test_whole_sessions_go_through_faults_unharmed(self, store: Store, clock: Clock, seed: int) -> None:
        faulty = FaultyStore(store, Chance(seed=seed, rate=0.3))
        sessions = [f"s0-{n}" for n in range(6)]
        for name in sessions:
            insist(faulty, step(name, queue=pack(), dues=[entry(after_ms=60_000)]))
        claimed: list[str] = []
        while len(claimed) < len(sessions):
            for name in names(until_answered(lambda: take(faulty, slots=2))):
                insist(faulty, step(name, 1, queue="withdraw", lease=lease(f"claim-{name}")))
                claimed.append(name)
            # What was taken without an answer is takeable again once its reservation ran out.
            clock.forward(CLAIM_BY_MS)
        assert Counter(claimed) == Counter(sessions)
        for name in sessions:
            assert until_answered(lambda name=name: renew(faulty, name, f"claim-{name}")) == "held"
            insist(faulty, step(name, 2, events=2, dues=[], lease="end"))
        assert len(faulty.given) > 5
        for name in sessions:
            assert store.events(name) == events_of(name, 1, 4)
        clock.forward(3_600_000)
        assert (due(store), names(take(store))) == ([], [])

    @pytest.mark.parametrize("fault", LOST)
    def test_a_take_without_an_answer_costs_time_only(self, store: Store, clock: Clock, fault: Fault) -> None:
        opened(store, "s0-a")
        with pytest.raises(Unavailable):
            take(FaultyStore(store, Script(fault)))
        clock.forward(CLAIM_BY_MS)
        assert names(take(store)) == ["s0-a"]

    @pytest.mark.parametrize("fault", LOST)
    def test_a_due_entry_without_an_answer_comes_again(
        self, store: Store, clock: Clock, fault: Fault
    ) -> None:
        done(store, step("s0-a", dues=[entry(after_ms=0)]))
        with pytest.raises(Unavailable):
            due(FaultyStore(store, Script(fault)))
        clock.forward(RESERVE_MS)
        assert due(store) == [("s0-a", "deadline", "")]

    @pytest.mark.parametrize("fault", LOST)
    def test_renewing_and_handing_back_again_are_harmless(self, store: Store, fault: Fault) -> None:
        opened(store, "s0-a", "s0-b")
        take(store, slots=2)
        claim(store, "s0-a")
        faulty = FaultyStore(store, Script(fault, None, fault))
        assert until_answered(lambda: renew(faulty, "s0-a")) == "held"
        until_answered(lambda: faulty.hand_back(back("s0-b")))
        assert names(take(store)) == ["s0-b"]

    @pytest.mark.parametrize("fault", LOST)
    def test_registering_again_changes_nothing(self, store: Store, fault: Fault) -> None:
        faulty = FaultyStore(store, Script(fault))
        documents = Documents(tools=[tool("pay.send")])
        until_answered(lambda: faulty.put(documents))
        assert until_answered(lambda: faulty.find(FindCatalog())) == store.find(FindCatalog())
        assert store.load("s0-none").catalog == 1

    def test_what_is_only_kept_or_counted_may_come_twice_but_is_not_lost(self, store: Store) -> None:
        faulty = FaultyStore(store, Script("after", None, "before", None))
        until_answered(lambda: faulty.put(Count(session_id="s0-a", name="fenced")))
        until_answered(lambda: faulty.put(Quarantine(source="http", reason="junk", body=b"[")))
        assert store.find(FindBeside(session_id="s0-a")) == Beside(counts={"fenced": 2})
        kept = store.find(FindQuarantine())
        assert isinstance(kept, list)
        assert len(kept) == 1

    def test_a_script_may_be_about_some_methods_only(self, store: Store) -> None:
        faulty = FaultyStore(store, Script("before", only={"take"}))
        done(faulty, step("s0-a", queue=pack()))
        with pytest.raises(Unavailable):
            take(faulty)
        assert names(take(faulty)) == ["s0-a"]

    def test_chance_is_the_same_each_time(self) -> None:
        one, two = Chance(seed=3, rate=0.5), Chance(seed=3, rate=0.5)
        assert [one("commit") for _ in range(50)] == [two("commit") for _ in range(50)]
