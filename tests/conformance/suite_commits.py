"""Commits: one atomic step of a session, compared by version, repeated by command id (rules 2 and 6)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Committed, Documents, Repeated, Stale, Store
from passdown.broker.stores.queries import FindPack
from passdown.contracts.codec import digest, encode
from passdown.contracts.tools import ToolSpec
from tests.conformance.building import (
    START_MS,
    Clock,
    do,
    done,
    events_of,
    names,
    pack,
    stale,
    step,
    take,
)
from tests.conformance.driver import Driven


class CommitSuite(Driven):
    def test_a_session_is_opened_and_read_back(self, store: Store) -> None:
        outcome = done(store, step("s0-a", events=2, state=b'{"stage":"check"}'))
        assert outcome == Committed(version=2, now=START_MS, ring=[])
        loaded = store.load("s0-a")
        assert (loaded.state, loaded.version, loaded.now) == (b'{"stage":"check"}', 2, START_MS)
        assert (loaded.reply, loaded.clash) == (None, False)

    def test_what_is_not_there_loads_as_nothing(self, store: Store) -> None:
        loaded = store.load("s0-none", "cmd", "digest")
        assert (loaded.state, loaded.version, loaded.reply, loaded.clash) == (None, 0, None, False)

    def test_times_are_the_stores_own(self, store: Store, clock: Clock) -> None:
        clock.forward(250)
        assert done(store, step("s0-a")).now == store.load("s0-a").now == START_MS + 250

    def test_the_next_step_needs_the_version_before(self, store: Store) -> None:
        done(store, step("s0-a", events=2))
        assert done(store, step("s0-a", 2)).version == 3
        assert store.load("s0-a").version == 3

    @pytest.mark.parametrize("expected", [1, 3, 0])
    def test_rule_2_a_commit_on_another_version_is_stale_and_writes_nothing(
        self, store: Store, expected: int
    ) -> None:
        done(store, step("s0-a", events=2, state=b"before"))
        outcome = stale(do(store, step("s0-a", expected, command="late", state=b"after"))[0])
        assert outcome == Stale(version=2)
        loaded = store.load("s0-a", "late")
        assert (loaded.state, loaded.version, loaded.reply) == (b"before", 2, None)
        assert len(store.events("s0-a")) == 2

    def test_rule_2_a_commit_on_the_same_version_of_another_history_is_stale(self, store: Store) -> None:
        """After the store lost its last moments, or was put back to a copy, and went on from there."""
        opened = step("s0-a")
        head = digest(opened.events[-1])
        done(store, replace(opened, state=encode({"head": head})))
        lost = replace(step("s0-a", 1, command="lost"), prev=digest(b"another"))
        assert stale(do(store, lost)[0]) == Stale(version=1)
        assert store.load("s0-a", "lost") == store.load("s0-a")
        follows = replace(step("s0-a", 1, command="next"), prev=head)
        assert done(store, follows).version == 2
        again = do(store, follows)[0]
        assert isinstance(again, Repeated), "what is recorded is answered, whatever came after it"

    def test_what_was_decided_before_a_registration_is_stale_where_that_matters(self, store: Store) -> None:
        known = store.load("").catalog
        done(store, replace(step("s0-a"), catalog=known))
        store.put(Documents(tools=[("d", ToolSpec(name="look", params={}))]))
        for late in (step("s0-a", 1, queue=pack()), step("s0-b", queue=pack())):
            before = store.load(late.session_id)
            assert stale(do(store, replace(late, catalog=known))[0]).version == before.version
            assert store.load(late.session_id, late.command_id) == before
        assert names(take(store)) == []
        done(store, replace(step("s0-a", 1, queue=pack()), catalog=known + 1))
        done(store, step("s0-a", 2))

    def test_a_later_step_of_no_session_is_stale(self, store: Store) -> None:
        assert stale(do(store, step("s0-a", 4))[0]) == Stale(version=0)
        assert store.load("s0-a").state is None

    def test_a_repeated_command_answers_what_was_recorded_and_writes_nothing(self, store: Store) -> None:
        first = step("s0-a", queue=pack())
        done(store, first)
        done(store, step("s0-a", 1, state=b"moved on"))
        assert do(store, first) == [Repeated(reply=first.reply)]
        assert store.load("s0-a").state == b"moved on"
        assert len(store.events("s0-a")) == 2

    def test_a_repeated_command_wins_over_the_version(self, store: Store) -> None:
        first = step("s0-a")
        done(store, first)
        done(store, step("s0-a", 1))
        assert do(store, replace(first, expected=2)) == [Repeated(reply=first.reply)]

    def test_a_command_id_with_another_content_clashes(self, store: Store) -> None:
        done(store, step("s0-a", command="pay", content="10 €"))
        outcome = stale(do(store, step("s0-a", 1, command="pay", content="20 €"))[0])
        assert outcome == Stale(version=1, clash=True)
        assert store.load("s0-a").version == 1

    def test_load_returns_the_recorded_outcome(self, store: Store) -> None:
        first = step("s0-a", command="pay", content="10 €")
        other = step("s0-a", command="pay", content="20 €")
        done(store, first)
        done(store, step("s0-a", 1))
        same = store.load("s0-a", "pay", first.command_digest)
        assert (same.version, same.reply, same.clash) == (2, first.reply, False)
        assert store.load("s0-a", "pay").reply == first.reply
        assert store.load("s0-a", "pay", other.command_digest).clash
        assert store.load("s0-a", "something else", first.command_digest).reply is None

    def test_two_steps_of_one_session_in_one_call_see_each_other(self, store: Store) -> None:
        outcomes = do(store, step("s0-a", events=2), step("s0-a", 2), step("s0-a", 2, command="late"))
        assert [type(outcome) for outcome in outcomes] == [Committed, Committed, Stale]
        assert store.load("s0-a").version == 3
        assert store.events("s0-a") == events_of("s0-a", 1, 3)

    def test_a_command_twice_in_one_call_is_done_once(self, store: Store) -> None:
        first = step("s0-a")
        outcomes = do(store, first, first)
        assert outcomes[1] == Repeated(reply=first.reply)
        assert store.load("s0-a").version == 1

    def test_each_commit_of_a_call_stands_by_itself(self, store: Store) -> None:
        done(store, step("s0-b"))
        outcomes = do(store, step("s0-a"), step("s0-b", 5), step("s0-c"))
        assert [type(outcome) for outcome in outcomes] == [Committed, Stale, Committed]
        assert store.load("s0-c").version == 1

    def test_many_commits_in_one_call(self, store: Store) -> None:
        many = [step(f"s0-{n}", queue=pack()) for n in range(500)]
        done(store, *many)
        assert store.load("s0-499").state == many[499].state

    def test_no_commits_are_no_outcomes(self, store: Store) -> None:
        assert store.commit([]) == ([], None)

    def test_events_come_in_order_and_page_by_page(self, store: Store) -> None:
        done(store, step("s0-a", events=3))
        done(store, step("s0-a", 3, events=2))
        done(store, step("s0-b", events=1))
        log = events_of("s0-a", 1, 5)
        assert store.events("s0-a") == log
        assert store.events("s0-a", after=1, limit=3) == log[1:4]
        assert store.events("s0-a", after=4) == log[4:]
        assert store.events("s0-a", after=5) == []
        assert store.events("s0-a", after=9) == []
        assert store.events("s0-none") == []

    def test_a_commit_without_events_keeps_the_version(self, store: Store) -> None:
        done(store, step("s0-a", events=2))
        outcome = done(store, step("s0-a", 2, command="nothing", events=0, state=b"beside"))
        assert outcome.version == 2
        assert store.load("s0-a", "nothing").reply is not None
        assert store.events("s0-a") == events_of("s0-a", 1, 2)

    @pytest.mark.parametrize("size", [0, 4_000, 300_000])
    def test_bytes_come_back_as_they_went_in(self, store: Store, size: int) -> None:
        body = encode("x" * size)
        whole = replace(step("s0-a", state=body), events=[body, b"{}"], reply=body, queue=None)
        done(store, replace(whole, queue=replace(pack(), pack=body)))
        assert store.load("s0-a", whole.command_id).state == body
        assert store.load("s0-a", whole.command_id).reply == body
        assert store.events("s0-a") == [body, b"{}"]
        assert store.find(FindPack(session_id="s0-a", step=1, attempt=1)) == body

    @pytest.mark.parametrize(
        "text", ["a\u0000b", "\u202eright to left", "line\nbreak", "'; DROP TABLE x", "ß" * 200]
    )
    def test_any_text_may_be_in_a_name(self, store: Store, text: str) -> None:
        named = step("s0-a", queue=pack(role=text))
        done(store, replace(named, row=replace(named.row, task_name=text, status=text)))
        assert store.load("s0-a").version == 1

    def test_what_one_connection_wrote_the_next_one_reads(self, connect: Callable[[], Store]) -> None:
        done(connect(), step("s0-a", state=b"kept"))
        assert connect().load("s0-a").state == b"kept"
