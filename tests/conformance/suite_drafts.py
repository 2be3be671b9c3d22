"""Drafts: what each person has written about a ticket so far, beside the session's state and gone with it."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import DraftRow, FindDraft, FindTickets
from passdown.broker.stores.records import MOST_BYTES, Draft
from passdown.contracts.errors import Conflict, ContractError, NotFound
from tests.conformance.building import START_MS, Clock, done, step, ticket
from tests.conformance.driver import Driven
from tests.conformance.suite_removal import ended, forget, remove
from tests.conformance.suite_removal import found as removable
from tests.conformance.together import together


def opened(store: Store, *session_ids: str) -> None:
    """Open sessions, each with a ticket."""
    done(store, *(step(name, tickets=[ticket(name)]) for name in session_ids))


def write(
    store: Store,
    body: bytes | None,
    *,
    expected: int | None = None,
    by: str = "user:ann",
    ticket_no: int = 1,
    session: str = "s0-a",
) -> None:
    """Keep a draft."""
    store.put(Draft(session_id=session, ticket_no=ticket_no, by=by, body=body, expected=expected))


def draft(store: Store, by: str = "user:ann", ticket_no: int = 1, session: str = "s0-a") -> DraftRow | None:
    """Return a draft."""
    found = store.find(FindDraft(session_id=session, ticket_no=ticket_no, by=by))
    assert found is None or isinstance(found, DraftRow)
    return found


class DraftSuite(Driven):
    def test_a_draft_is_kept_with_its_version_and_time(self, store: Store, clock: Clock) -> None:
        opened(store, "s0-a", "s0-b")
        assert draft(store) is None
        write(store, b"one")
        assert draft(store) == DraftRow(version=1, at=START_MS, body=b"one")
        clock.forward(5)
        write(store, b"two")
        assert draft(store) == DraftRow(version=2, at=START_MS + 5, body=b"two")

    def test_each_has_their_own_about_each_ticket(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        write(store, b"ann's")
        write(store, b"bob's", by="user:bob")
        write(store, b"on the second", ticket_no=2)
        write(store, b"of the other", session="s0-b")
        write(store, None, by="user:bob", session="s0-b")
        bodies = [
            draft(store),
            draft(store, "user:bob"),
            draft(store, ticket_no=2),
            draft(store, session="s0-b"),
        ]
        assert [one and (one.version, one.body) for one in bodies] == [
            (1, b"ann's"),
            (1, b"bob's"),
            (1, b"on the second"),
            (1, b"of the other"),
        ]
        assert draft(store, "user:bob", session="s0-b") is None
        assert draft(store, session="s0-none") is None

    def test_a_draft_changes_no_session_and_no_ticket(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        before = store.load("s0-a"), store.find(FindTickets())
        write(store, b"one")
        assert (store.load("s0-a"), store.find(FindTickets())) == before

    @pytest.mark.parametrize(
        "body", [b"", bytes(range(256)), b"x" * MOST_BYTES], ids=["empty", "any", "most"]
    )
    def test_it_may_be_any_bytes(self, store: Store, body: bytes) -> None:
        opened(store, "s0-a", "s0-b")
        write(store, body)
        assert draft(store) == DraftRow(version=1, at=START_MS, body=body)

    @pytest.mark.parametrize("by", ["user:zoë \U0001f600", "o'brien", 'a"b', "a:b/c%_", "u" * 2_000])
    def test_it_may_be_anybodys(self, store: Store, by: str) -> None:
        opened(store, "s0-a", "s0-b")
        write(store, b"one", by=by)
        write(store, b"two", by=f"{by}2")
        found = draft(store, by)
        assert found is not None
        assert found.body == b"one"

    def test_one_that_is_too_large_is_refused(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        write(store, b"one")
        with pytest.raises(ContractError, match="65537 bytes"):
            write(store, b"x" * (MOST_BYTES + 1))
        assert draft(store) == DraftRow(version=1, at=START_MS, body=b"one")

    def test_whoever_names_another_version_changes_nothing(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        for expected in (1, 2):
            with pytest.raises(Conflict):
                write(store, b"none yet", expected=expected)
        write(store, b"one", expected=0)
        for body in (b"two", None):
            with pytest.raises(Conflict, match="is at version 1, not 0"):
                write(store, body, expected=0)
        write(store, b"two", expected=1)
        assert draft(store) == DraftRow(version=2, at=START_MS, body=b"two")
        write(store, b"three")
        write(store, b"four", expected=3)
        assert draft(store) == DraftRow(version=4, at=START_MS, body=b"four")

    def test_one_that_is_forgotten_begins_anew(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        write(store, b"one")
        write(store, b"two")
        write(store, None, expected=2)
        assert draft(store) is None
        with pytest.raises(Conflict):
            write(store, b"late", expected=2)
        for expected in (0, None):
            write(store, None, expected=expected)
        write(store, b"anew", expected=0)
        assert draft(store) == DraftRow(version=1, at=START_MS, body=b"anew")
        write(store, None)
        assert draft(store) is None

    def test_there_is_none_without_a_session(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        for body in (b"one", None):
            with pytest.raises(NotFound, match="s0-none"):
                write(store, body, session="s0-none")
        assert draft(store, session="s0-none") is None

    def test_rule_02_of_many_who_write_from_one_version_one_does(self, connect: Callable[[], Store]) -> None:
        stores = [connect(), connect()]
        opened(stores[0], "s0-a")

        def attempt(n: int) -> bool:
            try:
                write(stores[n % 2], b"%d" % n, expected=0)
            except Conflict:
                return False
            return True

        assert Counter(together(8, attempt)) == {True: 1, False: 7}
        found = draft(stores[1])
        assert found is not None
        assert found.version == 1

    def test_what_is_refused_disturbs_nobody_else(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        write(store, b"one")
        turn = count()

        def act(n: int) -> None:
            for _ in range(5):
                if n % 2:
                    done(store, step(f"s0-by-{next(turn)}", tickets=[]))
                    continue
                with pytest.raises(Conflict):
                    write(store, b"never", expected=0)

        together(8, act)
        assert draft(store) == DraftRow(version=1, at=START_MS, body=b"one")

    # -- with its session --------------------------------------------------------------------------------

    def test_it_outlives_its_ticket_and_goes_with_its_session(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        for session in ("s0-a", "s0-b"):
            write(store, b"one", session=session)
            write(store, b"two", session=session, by="user:bob", ticket_no=2)
        done(store, ended("s0-b", 1, tickets=[]))
        assert draft(store, session="s0-b") is not None
        # A draft is nothing that is open.
        assert removable(store) == ["s0-b"]
        remove(store, "s0-b", 2)
        assert draft(store, session="s0-b") is draft(store, "user:bob", 2, "s0-b") is None
        assert draft(store) is not None
        assert draft(store, "user:bob", 2) is not None
        with pytest.raises(NotFound):
            write(store, b"late", session="s0-b")

    @pytest.mark.parametrize("name", ["s0-a", "s0-next"])
    def test_no_later_session_has_the_draft_of_one_that_is_gone(
        self, store: Store, clock: Clock, name: str
    ) -> None:
        opened(store, "s0-a")
        write(store, b"one")
        done(store, ended("s0-a", 1, tickets=[]))
        remove(store, "s0-a", 2)
        forget(store, clock)
        opened(store, name)
        assert draft(store, session=name) is None
        write(store, b"anew", session=name, expected=0)

    def test_a_removal_that_is_refused_takes_no_draft(self, store: Store) -> None:
        opened(store, "s0-a", "s0-b")
        write(store, b"one")
        remove(store, "s0-a", 1)
        assert draft(store) is not None

    @pytest.mark.parametrize("wrong", [-1, 2**70, 1.5, "1", None])
    def test_rule_11_a_ticket_that_is_no_number_is_refused(self, store: Store, wrong: Any) -> None:
        opened(store, "s0-a")
        for body in (b"x", None):
            with pytest.raises(ContractError):
                write(store, body, ticket_no=wrong)
        if wrong != -1:
            with pytest.raises(ContractError):
                draft(store, ticket_no=wrong)

    @pytest.mark.parametrize("wrong", ["\ud800", None, 5])
    def test_rule_11_what_is_no_text_names_no_draft(self, store: Store, wrong: Any) -> None:
        opened(store, "s0-a")
        for names in ({"by": wrong}, {"session": wrong}):
            with pytest.raises(ContractError):
                write(store, b"x", **names)
            with pytest.raises(ContractError):
                draft(store, **names)

    @pytest.mark.parametrize("wrong", [-1, 2**70, "1"])
    def test_rule_11_a_version_that_is_none_is_refused(self, store: Store, wrong: Any) -> None:
        opened(store, "s0-a")
        with pytest.raises(ContractError):
            write(store, b"x", expected=wrong)
