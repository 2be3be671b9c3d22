"""What a look at a join reads, what it forgets, and when it reads anew (rules 1, 2, 12)."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from passdown.agents import Done, NeedsInput
from passdown.broker.client import Session
from passdown.broker.controller import Controller
from passdown.broker.core.decide import dues
from passdown.broker.core.join import About
from passdown.broker.joins import reading
from passdown.broker.joins.service import JoinService
from passdown.broker.stores.base import Store
from passdown.broker.stores.joining import WOKEN_MS, JoinRow, JoinSeen
from passdown.broker.stores.queries import FindJoin, FindRows, JoinRecord, RowOfJoin
from passdown.contracts.codec import encode
from passdown.contracts.ids import branch_id, join_id
from passdown.contracts.plans import FanOut, Grant, Plan, Stage
from tests.conformance.building import step
from tests.unit.broker.rig import ROLE, Attempt, Bells, Rig, pay


class Watched:
    """A store that counts what is read of joins, and has things happen before it hands it out."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.rows = self.records = 0
        self.seen: list[JoinSeen] = []
        self.then: Callable[[], object] = bool
        self.waits_for: type = FindRows
        self.forgets = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def find(self, query: Any) -> Any:
        found = self._inner.find(query)
        if isinstance(query, FindRows):
            self.rows += len(cast("list[RowOfJoin]", found))
        if isinstance(query, FindJoin):
            self.records += 1
        if isinstance(query, self.waits_for):
            self.then()
        return found

    def put(self, what: Any) -> None:
        if isinstance(what, JoinSeen) and not self.forgets:
            self.seen.append(what)
        else:
            self._inner.put(what)


def watched(rig: Rig) -> tuple[Watched, JoinService]:
    """Return another process's store and join service."""
    store: Any = Watched(rig.store)
    return store, JoinService(Controller(store, Bells(), patience_s=0.0))


def opened(rig: Rig, branches: int, stage: dict[str, Any] | None = None, **contract: Any) -> Session:
    """Return a session whose first branches are opened."""
    of_join: dict[str, Any] = {"merge": "merger", **contract}
    of_branch: dict[str, Any] = {"role": ROLE, "max_attempts": 1, "on_failed": "fail", **(stage or {})}
    stages = {
        "split": Stage(fan_out=FanOut(each="items", stage="branch", **of_join)),
        "branch": Stage(**of_branch),
    }
    ref = rig.broker.register(Plan(name="looks", start="split", stages=stages))
    session = rig.broker.submit(ref, inputs={"items": list(range(branches))})
    JoinService(rig.controller).see_to_all([session.id])
    return session


def claimed(rig: Rig, most: int = 50) -> dict[int, Attempt]:
    """Take and claim what waits; returns the attempts by the places of their branches."""
    packs = rig.take(most)
    return {
        pack.parent.place: rig.claim(pack, f"claim-{pack.session_id[-8:]}-{pack.attempt}")
        for pack in packs
        if pack.parent
    }


def record(rig: Rig, session: Session) -> JoinRecord:
    found = rig.store.find(FindJoin(join_id=join_id(session.id, 1)))
    assert isinstance(found, JoinRecord)
    return found


def kinds(session: Session) -> list[str]:
    return [type(one.event).__name__ for one in session.events()]


def fail(attempt: Attempt) -> None:
    attempt.rig.gateway.fail(attempt.claim, "error", "no", [])


class TestALookThatIsLate:
    def test_rule_01_it_forgets_no_wake_that_came_after_it(self, rig: Rig) -> None:
        """It decides nothing, as the session pauses; the session goes on, and only then does it say that it looked."""
        session = opened(rig, 6, at_once=2)
        session.pause()
        rig.drain()
        store, service = watched(rig)
        store.forgets = False
        service.look(join_id(session.id, 1))
        session.resume()
        (seen,) = store.seen
        rig.store.put(seen)
        rig.clock.forward(WOKEN_MS)
        rig.sweep()
        assert session.state().joins[0].opened == 4

    def test_it_forgets_one_that_came_before(self, rig: Rig) -> None:
        session = opened(rig, 6, at_once=2)
        session.pause()
        rig.drain()
        store, service = watched(rig)
        store.forgets = False
        service.look(join_id(session.id, 1))
        rig.store.put(store.seen[0])
        rig.clock.forward(WOKEN_MS)
        assert rig.tick.once().done == 0


class TestWhatIsRead:
    def test_rule_12_while_a_person_is_asked_no_rows_are_read_to_open_more(self, rig: Rig) -> None:
        session = opened(rig, 40, at_once=4)
        attempts = claimed(rig)
        fail(attempts.pop(0))
        JoinService(rig.controller).look(join_id(session.id, 1))
        assert session.status() == "waiting-human"
        store, service = watched(rig)
        while session.state().joins[0].opened < 40:
            for attempt in attempts.values():
                attempt.give()
            service.look(join_id(session.id, 1))
            service.see_to_all([session.id])
            attempts = claimed(rig)
        assert store.rows == 0
        assert kinds(session).count("JoinShort") == 1

    def test_rule_12_nor_while_it_is_asked_about_a_conflict_until_all_have_ended(self, rig: Rig) -> None:
        session = opened(rig, 24, at_once=8, need=4, merge="vote", vote_on=["x"])
        attempts = claimed(rig)
        name = join_id(session.id, 1)
        for place in range(4):
            attempts.pop(place).give(Done({"x": place % 2}))
        JoinService(rig.controller).look(name)
        assert kinds(session).count("JoinConflict") == 1
        store, service = watched(rig)
        ended = 4
        while attempts:
            assert store.rows == 0
            for attempt in attempts.values():
                attempt.give(Done({"x": 1}))
            ended += len(attempts)
            service.look(name)
            service.see_to_all([session.id])
            attempts = claimed(rig)
        # Then the others have outvoted them, which only the rows say.
        assert ended == store.rows == 24
        assert kinds(session).count("Joined") == 1

    def test_rule_12_they_are_read_once_where_nothing_follows(self, rig: Rig) -> None:
        session = opened(rig, 4, need=2, conflict=["x"])
        attempts = claimed(rig)
        name = join_id(session.id, 1)
        for place in (0, 1):
            attempts[place].give(Done({"x": place}))
        JoinService(rig.controller).look(name)
        for place in (2, 3):
            attempts[place].give(Done({"x": 1}))
        before = session.state().seq
        store, service = watched(rig)
        service.look(name)
        assert (store.rows, session.state().seq) == (4, before)

    def test_a_join_is_read_again_only_where_its_session_moved_on(self, rig: Rig) -> None:
        session = opened(rig, 6, at_once=2)
        session.pause()
        rig.drain()
        store, service = watched(rig)
        service.look(join_id(session.id, 1))
        assert store.records == 1
        store.waits_for = FindJoin
        store.then = session.resume
        service.look(join_id(session.id, 1))
        assert store.records == 3
        assert session.state().joins[0].opening == 4

    def test_rule_02_they_are_read_anew_where_one_that_had_ended_changed_meanwhile(self, rig: Rig) -> None:
        session = opened(rig, 3)
        rig.drain()
        name = join_id(session.id, 1)
        store, service = watched(rig)
        changes = [
            JoinRow(
                join_id=name,
                place=2,
                branch="2",
                session_id=branch_id(name, 2),
                outcome="failed",
                about=encode(About(reason="no")),
            )
        ]

        def meanwhile() -> None:
            if changes:
                rig.store.commit([step("s0-other", join_row=changes.pop())])

        store.then = meanwhile
        service.look(name)
        assert store.rows == 6
        assert kinds(session)[-2:] == ["JoinShort", "TicketOpened"]
        assert session.state().joins[0].outcomes == {}

    def test_rule_12_of_a_join_that_is_closed_none_is_read_before_all_have_ended(self, rig: Rig) -> None:
        session = opened(rig, 3, need="any")
        attempts = claimed(rig)
        name = join_id(session.id, 1)
        attempts[0].give()
        JoinService(rig.controller).look(name)
        store, service = watched(rig)
        attempts[1].give()
        service.look(name)
        assert store.rows == 0
        attempts[2].give()
        service.look(name)
        assert store.rows == 3
        assert kinds(session).count("JoinDrained") == 1


def test_branches_that_ask_and_are_answered_keep_no_join_open(rig: Rig) -> None:
    session = opened(rig, 10, {"ask": "people"}, need=2)
    attempts = claimed(rig)
    name = join_id(session.id, 1)
    attempts[0].give()
    attempts[1].give()
    asking = [attempts[9]]
    store, service = watched(rig)

    def meanwhile() -> None:
        """Let a branch that does not count ask, and be answered."""
        asking[-1].give(NeedsInput([{"id": "q", "text": "?", "schema": True}]))
        branch = rig.broker.session(branch_id(name, 9))
        branch.resolve(branch.state().tickets[0].ticket_no, "answer", {"q": 1})
        asking.append(rig.claim(None, f"claim-{len(asking):08}"))

    store.then = meanwhile
    service.look(name)
    assert session.state().joins[0].closed
    assert len(asking) == 2


class TestWhatIsNoLongerDue:
    def test_branches_are_not_opened_for_an_entry_that_is_over(self, rig: Rig) -> None:
        """A tick was handed the entry, and the session is paused before it is carried out."""
        ref = rig.broker.register(
            Plan(
                name="p",
                start="split",
                stages={"split": Stage(fan_out=FanOut(each="items", stage="b")), "b": Stage(role=ROLE)},
            )
        )
        session = rig.broker.submit(ref, inputs={"items": [1, 2]})
        (entry,) = [one for one in dues(session.state()) if one.kind == "branches"]
        session.pause()
        before = session.state().seq
        JoinService(rig.controller).branches(session.id, entry)
        assert (session.state().seq, session.state().joins[0].opened) == (before, 0)
        assert rig.store.load(branch_id(join_id(session.id, 1), 0)).state is None
        session.resume()
        rig.sweep()
        assert session.state().joins[0].opened == 2

    def test_a_join_is_not_over_while_something_is_to_be_sent_back(self, rig: Rig) -> None:
        """All branches have ended, and the session is called off: but one of them is about to be opened again."""
        session = opened(rig, 2)
        attempts = claimed(rig)
        fail(attempts[0])
        attempts[1].give()
        service = JoinService(rig.controller)
        name = join_id(session.id, 1)
        service.look(name)
        session.resolve(1, "send-back", {"branches": ["1"], "feedback": "again"})
        session.cancel("no longer wanted")
        service.look(name)
        assert session.status() == "waiting-join"
        assert "JoinDrained" not in kinds(session)
        for _ in range(3):
            rig.sweep()
            rig.clock.forward(WOKEN_MS)
        assert session.status() == "cancelled"
        assert rig.broker.session(branch_id(name, 1)).state().over
        assert kinds(rig.broker.session(branch_id(name, 1))).count("Reopened") == 1
        assert kinds(session)[-2:] == ["JoinDrained", "Cancelled"]


@pytest.mark.parametrize(
    ("most", "of", "named", "more"), [(50, 20, 6, 0), (3, 20, 3, 3), (50, 2, 4, 2), (2, 1, 2, 4)]
)
def test_rule_12_of_effects_that_do_not_count_some_are_named(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, most: int, of: int, named: int, more: int
) -> None:
    monkeypatch.setattr(reading, "_MOST_LATE", most)
    monkeypatch.setattr(reading, "_MOST_LATE_BRANCHES", of)
    rig.broker.register_tools([pay.spec])
    session = opened(rig, 4, {"tools": [Grant(tool="pay")]}, need="any")
    attempts = claimed(rig)
    for place in (1, 2, 3):
        for order in "ab":
            attempts[place].pay(order)
            rig.gateway.report(attempts[place].claim, attempts[place].effect_id(order), "done")
    for place in range(4):
        attempts[place].give()
        JoinService(rig.controller).look(join_id(session.id, 1))
    (drained,) = [one.event for one in session.events() if type(one.event).__name__ == "JoinDrained"]
    told: Any = drained
    assert (len(told.effects), told.more) == (named, more)
