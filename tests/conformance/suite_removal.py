"""Removal after the end: nothing is left but how it ended and what opened it, and in the end not even that."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Commit, Committed, Count, Loaded, Remove, Repeated, Stale, Store, Told
from passdown.broker.stores.queries import (
    Beside,
    FindBeside,
    FindEnded,
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
    entry,
    events_of,
    lease,
    names,
    opened,
    pack,
    renew,
    row,
    step,
    take,
    ticket,
)
from tests.conformance.driver import Driven

KEEP_MS = 3_600_000
#: Of a session that rests after its end, each by itself keeps it from being removed.
OPEN: dict[str, dict[str, Any]] = {
    "a pack": {"queue": pack()},
    "a claim": {"lease": lease()},
    "a due entry": {"dues": [entry(after_ms=9)]},
    "a ticket": {"tickets": [ticket("s0-a")]},
    "something to tell": {"tell": True},
}


def ended(
    session_id: str, expected: int = 1, *, at: int = START_MS, status: str = "done", **more: Any
) -> Commit:
    """Return the step with which a session ends, and which is its last change at `at`."""
    last = replace(row(session_id, expected + 1, status=status), updated_at=at)
    return step(session_id, expected, row=last, **more)


def a_life(store: Store, session_id: str, at: int = START_MS) -> Commit:
    """Open a session, let it live and end it at version 4; return the commit that opened it."""
    first = step(session_id, queue=pack(), dues=[entry(after_ms=50_000)], tickets=[ticket(session_id)])
    done(store, first)
    claim(store, session_id, claim_id=f"c-{session_id}")
    store.put(Count(session_id=session_id, name="fenced"))
    done(store, step(session_id, 2, tell=True))
    store.put(Told(session_id=session_id, seq=3))
    done(store, ended(session_id, 3, at=at, dues=[], tickets=[], lease="end"))
    return first


def remove(store: Store, session_id: str, version: int, status: str = "done") -> None:
    """Remove a session, and keep what opened it for an hour."""
    store.put(Remove(session_id=session_id, version=version, status=status, keep_ms=KEEP_MS))


def found(store: Store, older_ms: int = 0, limit: int = 50) -> list[str]:
    """Return the ids of the sessions that may be removed."""
    rows = store.find(FindEnded(older_ms=older_ms, limit=limit))
    return [one.session_id for one in cast("list[SessionRow]", rows)]


def forget(store: Store, clock: Clock) -> None:
    """Let the time go by after which nothing is left, and a tick ask."""
    clock.forward(KEEP_MS + 1)
    store.due(ask())


class RemovalSuite(Driven):
    def test_nothing_is_left_but_how_it_ended(self, store: Store) -> None:
        a_life(store, "s0-a")
        a_life(store, "s0-b")
        remove(store, "s0-a", 4)
        assert store.load("s0-a") == Loaded(state=None, version=0, now=START_MS, catalog=0, removed="done")
        assert store.events("s0-a") == []
        assert store.find(FindPack(session_id="s0-a", step=1, attempt=1)) is None
        assert store.find(FindBeside(session_id="s0-a")) == Beside()
        assert renew(store, "s0-a", "c-s0-a") == "lost"
        # The other one lost nothing.
        assert store.events("s0-b") == events_of("s0-b", 1, 4)
        assert store.load("s0-b").version == 4
        assert store.find(FindBeside(session_id="s0-b")) == Beside(counts={"fenced": 1})
        (other,) = cast("list[SessionRow]", store.find(FindSessions()))
        assert other.session_id == "s0-b"

    @pytest.mark.parametrize("status", ["done", "refused", "failed", "cancelled", "expired"])
    def test_how_it_ended_is_what_the_removal_said(self, store: Store, status: str) -> None:
        done(store, step("s0-a"), ended("s0-a", status=status))
        remove(store, "s0-a", 2, status)
        assert store.load("s0-a").removed == status

    def test_a_session_that_is_there_was_not_removed(self, store: Store) -> None:
        done(store, step("s0-a"), ended("s0-a"))
        assert store.load("s0-a").removed == store.load("s0-none").removed == ""

    def test_the_command_that_opened_it_is_still_answered_and_no_other(self, store: Store) -> None:
        first = a_life(store, "s0-a")
        last = store.load("s0-a", "s0-a/3")
        assert last.reply is not None
        remove(store, "s0-a", 4)
        again = store.load("s0-a", first.command_id, first.command_digest)
        assert (again.state, again.version, again.reply, again.clash) == (None, 0, first.reply, False)
        assert again.removed == "done"
        assert store.load("s0-a", first.command_id).reply == first.reply
        other = store.load("s0-a", first.command_id, "another digest")
        assert (other.reply, other.clash, other.removed) == (None, True, "done")
        assert store.load("s0-a", "s0-a/3").reply is None

    def test_the_submit_sent_again_opens_nothing(self, store: Store) -> None:
        first = a_life(store, "s0-a")
        remove(store, "s0-a", 4)
        changed = replace(first, command_digest="another digest")
        another = replace(first, command_id="another command")
        assert do(store, first) == [Repeated(reply=first.reply)]
        assert do(store, changed) == [Stale(version=0, clash=True)]
        assert do(store, another, first) == [Stale(version=0), Repeated(reply=first.reply)]
        assert do(store, step("s0-a", 4)) == [Stale(version=0)]
        assert store.load("s0-a").state is None
        assert names(take(store)) == []

    def test_after_its_time_nothing_is_left_and_the_key_is_free(self, store: Store, clock: Clock) -> None:
        first = a_life(store, "s0-a")
        remove(store, "s0-a", 4)
        clock.forward(KEEP_MS - 1)
        store.due(ask())
        assert store.load("s0-a").removed == "done"
        clock.forward(2)
        store.due(ask())
        loaded = store.load("s0-a", first.command_id)
        assert (loaded.state, loaded.reply, loaded.removed) == (None, None, "")
        done(store, first)
        assert store.events("s0-a") == events_of("s0-a", 1, 1)
        assert names(take(store)) == ["s0-a"]

    def test_the_time_begins_with_the_removal_however_long_the_session_lived(
        self, store: Store, clock: Clock
    ) -> None:
        first = step("s0-a", queue=pack())
        done(store, first)
        for _ in range(5):
            clock.forward(10 * KEEP_MS)
            store.due(ask())
            assert do(store, first) == [Repeated(reply=first.reply)]
        done(store, ended("s0-a", queue="withdraw"))
        remove(store, "s0-a", 2)
        clock.forward(KEEP_MS - 1)
        store.due(ask())
        assert do(store, first) == [Repeated(reply=first.reply)]

    def test_many_are_forgotten_by_and_by(self, store: Store, clock: Clock) -> None:
        firsts = [step(f"s0-{n}") for n in range(2_500)]
        done(store, *firsts)
        done(store, *(ended(one.session_id) for one in firsts))
        for one in firsts:
            remove(store, one.session_id, 2)
        forget(store, clock)
        for _ in range(50):
            store.due(ask())
        assert not any(store.load(one.session_id).removed for one in firsts)

    def test_at_another_version_it_stays(self, store: Store) -> None:
        a_life(store, "s0-a")
        for version in (0, 3, 5):
            remove(store, "s0-a", version)
        assert store.load("s0-a").version == 4
        assert len(store.events("s0-a")) == 4

    def test_what_never_was_cannot_be_removed(self, store: Store) -> None:
        remove(store, "s0-none", 0)
        assert store.load("s0-none").removed == ""
        done(store, step("s0-none"))

    def test_a_second_removal_changes_nothing(self, store: Store, clock: Clock) -> None:
        first = a_life(store, "s0-a")
        remove(store, "s0-a", 4)
        clock.forward(KEEP_MS - 1)
        remove(store, "s0-a", 4, "failed")
        remove(store, "s0-a", 0, "failed")
        assert store.load("s0-a", first.command_id).reply == first.reply
        assert store.load("s0-a").removed == "done"
        clock.forward(2)
        store.due(ask())
        assert store.load("s0-a").removed == ""

    @pytest.mark.parametrize("what", OPEN)
    def test_with_anything_open_it_stays_and_is_not_found(
        self, store: Store, clock: Clock, what: str
    ) -> None:
        done(store, step("s0-a"), ended("s0-a", **OPEN[what]))
        clock.forward(1)
        assert found(store) == []
        remove(store, "s0-a", 2)
        assert store.load("s0-a").version == 2

    def test_before_its_end_it_stays_and_is_not_found(self, store: Store, clock: Clock) -> None:
        for name, status in (("s0-a", "queued"), ("s0-b", "paused"), ("s0-c", "waiting-human")):
            done(store, step(name, row=row(name, 1, status=status)))
            clock.forward(9_000)
            remove(store, name, 1, status)
            assert store.load(name).version == 1
        assert found(store) == []

    def test_a_claim_that_is_over_keeps_nothing_though_its_worker_may_still_ask(self, store: Store) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        done(store, ended("s0-a", 2, status="cancelled", lease="tell"))
        assert renew(store, "s0-a") == "cancelled"
        assert found(store) == ["s0-a"]
        remove(store, "s0-a", 3, "cancelled")
        assert store.load("s0-a").removed == "cancelled"
        assert renew(store, "s0-a") == "lost"
        # Nor has the next session anything of it, where its number is given anew.
        opened(store, "s0-b")
        assert renew(store, "s0-b") == "lost"

    def test_a_removed_session_is_neither_due_nor_told_of(self, store: Store, clock: Clock) -> None:
        a_life(store, "s0-a")
        remove(store, "s0-a", 4)
        store.put(Told(session_id="s0-a", seq=4))
        clock.forward(120_000)
        asked = store.due(ask(tell=9))
        assert (asked.entries, asked.tell, asked.ring) == ([], [], [])
        assert store.find(FindTickets()) == []

    def test_once_told_it_is_found_and_may_be_removed(self, store: Store) -> None:
        done(store, step("s0-a"), ended("s0-a", tell=True))
        assert found(store) == []
        store.put(Told(session_id="s0-a", seq=1))
        assert found(store) == []
        store.put(Told(session_id="s0-a", seq=2))
        assert found(store) == ["s0-a"]
        remove(store, "s0-a", 2)
        assert store.load("s0-a").removed == "done"

    def test_those_that_ended_are_found_longest_ago_first(self, store: Store, clock: Clock) -> None:
        for n, name in enumerate(("s0-b", "s0-c", "s0-a")):
            done(store, step(name), ended(name, at=START_MS + n))
        done(store, step("s0-open"))
        clock.forward(100)
        assert found(store) == ["s0-b", "s0-c", "s0-a"]
        assert found(store, limit=2) == ["s0-b", "s0-c"]
        assert found(store, older_ms=100) == ["s0-b"]
        assert found(store, older_ms=101) == []
        remove(store, "s0-b", 2)
        assert found(store) == ["s0-c", "s0-a"]

    def test_they_are_found_as_they_stand(self, store: Store) -> None:
        last = ended("s0-a", status="refused")
        done(store, step("s0-a"), last)
        assert store.find(FindEnded(older_ms=0)) == [last.row]

    def test_a_change_after_the_end_puts_the_removal_off(self, store: Store, clock: Clock) -> None:
        done(store, step("s0-a"), ended("s0-a"))
        clock.forward(1_000)
        done(store, ended("s0-a", 2, at=START_MS + 1_000))
        assert found(store, older_ms=1_000) == []
        clock.forward(1_000)
        assert found(store, older_ms=1_000) == ["s0-a"]

    def test_what_was_reopened_is_not_found(self, store: Store) -> None:
        done(store, step("s0-a"), ended("s0-a", status="failed"))
        done(store, step("s0-a", 2))
        assert found(store) == []

    def test_one_of_two_who_remove_does_and_nothing_breaks(self, connect: Callable[[], Store]) -> None:
        one, two = connect(), connect()
        a_life(one, "s0-a")
        for store in (one, two):
            remove(store, "s0-a", 4)
        assert one.load("s0-a").removed == two.load("s0-a").removed == "done"

    def test_a_session_after_another_has_nothing_of_it(self, store: Store, clock: Clock) -> None:
        """Where numbers are given anew, nothing that belonged to the one before may be left."""
        a_life(store, "s0-a")
        remove(store, "s0-a", 4)
        outcome = done(store, step("s0-b", queue=pack()))
        assert isinstance(outcome, Committed)
        assert store.events("s0-b") == events_of("s0-b", 1, 1)
        assert store.find(FindBeside(session_id="s0-b")) == Beside()
        assert names(take(store)) == ["s0-b"]
        forget(store, clock)
        done(store, step("s0-a"))
        assert store.find(FindBeside(session_id="s0-a")) == Beside()
        assert store.events("s0-a") == events_of("s0-a", 1, 1)

    def test_a_clock_that_steps_back_keeps_no_key_for_longer_than_was_said(
        self, store: Store, clock: Clock
    ) -> None:
        a_life(store, "s0-a")
        store.due(ask())
        remove(store, "s0-a", 4)
        clock.back(86_400_000)
        store.due(ask(elapsed_ms=1_000))
        clock.forward(KEEP_MS + 1)
        store.due(ask(elapsed_ms=1_000))
        assert store.load("s0-a").removed == ""
