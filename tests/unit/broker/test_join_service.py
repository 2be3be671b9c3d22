"""Opening branches and looking at joins of several sessions together; what one process leaves, others do (rules 1, 7)."""

import threading
from typing import Any

import pytest

from passdown.agents import Done, agent
from passdown.broker.client import Session
from passdown.broker.controller import BRANCHES_MS, Controller
from passdown.broker.joins.followups import FollowUps
from passdown.broker.joins.service import JoinService
from passdown.contracts.codec import encode
from passdown.contracts.errors import PassdownError, QueueFull, Unavailable
from passdown.contracts.ids import branch_id, join_id
from passdown.contracts.plans import FanOut, Next, Plan, Stage
from tests.unit.broker.rig import ROLE, Bells, Rig

MERGER = "merger"
_WITHIN_S = 20.0


def fan(name: str = "fan", role: str = ROLE, **more: Any) -> Plan:
    """Return a plan that opens a branch for each item, and merges them by a role."""
    fan_out = FanOut(each="items", stage="branch", merge=MERGER, **more)
    return Plan(
        name=name, start="split", stages={"split": Stage(fan_out=fan_out), "branch": Stage(role=role)}
    )


def submitted(rig: Rig, count: int, branches: int = 3, **more: Any) -> list[Session]:
    ref = rig.broker.register(fan(**more))
    return [rig.broker.submit(ref, inputs={"items": list(range(branches))}) for _ in range(count)]


def opened(session: Session) -> int:
    return session.state().joins[0].opened


def branch(rig: Rig, session: Session, place: int = 0) -> Session:
    return rig.broker.session(branch_id(join_id(session.id, 1), place))


@agent(MERGER)
def merger(pack: Any, ctx: Any) -> Done:
    """Say how many counted."""
    return Done({"counted": pack.join.counted})


class TestOpeningTogether:
    def test_it_takes_one_round_trip_for_all_branches_and_one_to_record_them(self, rig: Rig) -> None:
        sessions = submitted(rig, 3)
        calls = rig.listen()
        assert JoinService(rig.controller).see_to_all([one.id for one in sessions]) == {}
        assert calls.count("commit") == 2
        assert calls.count("load") == 3
        assert [opened(one) for one in sessions] == [3, 3, 3]
        assert len(rig.take(20)) == 9

    def test_more_than_go_in_one_round_trip(self, rig: Rig) -> None:
        sessions = submitted(rig, 4, branches=60)
        calls = rig.listen()
        assert JoinService(rig.controller).see_to_all([one.id for one in sessions]) == {}
        assert calls.count("commit") == 4  # 240 branches by 100, and what is recorded
        assert [opened(one) for one in sessions] == [60, 60, 60, 60]

    def test_a_session_that_cannot_go_on_stops_no_other(self, rig: Rig) -> None:
        ref = rig.broker.register(fan())
        sessions = [rig.broker.submit(ref, lists={"items": range(3)}) for _ in range(2)]
        rig.fail("before", only=["find"])  # the page of the first one's list
        failed = JoinService(rig.controller).see_to_all([one.id for one in sessions])
        assert list(failed) == [sessions[0].id]
        assert [opened(one) for one in sessions] == [0, 3]
        rig.sweep()
        assert opened(sessions[0]) == 3

    def test_a_session_whose_branches_find_no_room_stops_no_other(self, rig: Rig) -> None:
        (first,) = submitted(rig, 1)
        second = rig.broker.submit(rig.broker.register(fan("other", "other")), inputs={"items": [1, 2]})
        narrow = Controller(rig.store, Bells(), patience_s=0.0, queue_limit=2)
        failed = JoinService(narrow).see_to_all([first.id, second.id])
        assert isinstance(failed.pop(first.id), QueueFull)
        assert failed == {}
        assert (opened(first), opened(second)) == (0, 2)

    def test_where_the_store_is_away_nothing_else_is_tried(self, rig: Rig) -> None:
        sessions = submitted(rig, 2)
        rig.fail(*["before"] * 10, only=["commit"])
        with pytest.raises(Unavailable):
            JoinService(rig.controller).see_to_all([one.id for one in sessions])
        rig.fail()
        rig.sweep()
        assert [opened(one) for one in sessions] == [3, 3]

    def test_what_another_process_opened_needs_no_second_look(self, rig: Rig) -> None:
        (session,) = submitted(rig, 1)
        rig.fail(None, "before", "before", only=["commit"])  # it opens them, and cannot say so
        assert list(JoinService(rig.other()).see_to_all([session.id])) == [session.id]
        assert opened(session) == 0
        calls = rig.listen()
        JoinService(rig.controller).see_to_all([session.id])
        assert calls.count("load") == 1
        assert opened(session) == 3
        assert [event.seq for event in branch(rig, session).events()] == [1, 2, 3]


class TestLookingTogether:
    def test_what_follows_takes_one_round_trip(self, rig: Rig) -> None:
        sessions = submitted(rig, 3)
        service = JoinService(rig.controller)
        service.see_to_all([one.id for one in sessions])
        rig.drain()
        calls = rig.listen()
        assert service.look_all([join_id(one.id, 1) for one in sessions]) == {}
        assert calls.count("commit") == 1
        rig.drain(merger, role=MERGER)
        assert [one.result(0).output for one in sessions] == [{"counted": 3}] * 3

    def test_rule_01_looking_twice_joins_once(self, rig: Rig) -> None:
        (session,) = submitted(rig, 1)
        service = JoinService(rig.controller)
        service.see_to_all([session.id])
        rig.drain()
        name = join_id(session.id, 1)
        assert service.look_all([name, name]) == {}
        service.look(name)
        assert [type(one.event).__name__ for one in session.events()].count("Joined") == 1

    def test_a_look_after_which_nothing_follows_is_not_due_again(self, rig: Rig) -> None:
        (session,) = submitted(rig, 1, at_once=1)
        service = JoinService(rig.controller)
        service.see_to_all([session.id])
        session.pause()
        rig.drain()
        assert service.look_all([join_id(session.id, 1)]) == {}
        rig.clock.forward(BRANCHES_MS)
        assert rig.tick.once().done == 0
        session.resume()
        rig.clock.forward(BRANCHES_MS)
        rig.sweep()
        assert opened(session) == 2

    def test_a_join_that_cannot_be_read_stops_no_other(self, rig: Rig) -> None:
        sessions = submitted(rig, 2)
        service = JoinService(rig.controller)
        service.see_to_all([one.id for one in sessions])
        rig.drain()
        rig.fail("before", only=["find"])
        names = [join_id(one.id, 1) for one in sessions]
        assert list(service.look_all(names)) == names[:1]
        assert [one.status() for one in sessions] == ["waiting-join", "queued"]


class Quiet:
    """Takes notes, and does nothing."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def note(self, what: str, subject: str) -> None:
        self.notes.append((what, subject))

    def close(self) -> None:
        pass


class TestWhoOpens:
    def test_what_a_process_can_do_itself_is_left_to_it_for_a_moment(self, rig: Rig) -> None:
        rig.controller.afterwards = Quiet()
        (session,) = submitted(rig, 1)
        assert rig.tick.once().done == 0
        rig.clock.forward(BRANCHES_MS)
        rig.sweep()
        assert opened(session) == 3

    def test_without_anybody_who_follows_up_the_tick_does_it_at_once(self, rig: Rig) -> None:
        (session,) = submitted(rig, 1)
        rig.sweep()
        assert opened(session) == 3

    def test_it_is_noted_only_where_there_is_something_to_do(self, rig: Rig) -> None:
        quiet = rig.controller.afterwards = Quiet()
        (session,) = submitted(rig, 1)
        service = JoinService(rig.controller)
        service.see_to_all([session.id])
        rig.drain()
        service.look(join_id(session.id, 1))
        assert quiet.notes == [("see-to", session.id), ("look", join_id(session.id, 1))]


class Broken(JoinService):
    """Raises what nobody expects the first time."""

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.tries: list[list[str]] = []
        self.tried = threading.Semaphore(0)

    def see_to_all(self, session_ids: Any, going_on: Any = bool) -> dict[str, PassdownError]:
        self.tries.append(list(session_ids))
        try:
            if len(self.tries) == 1:
                raise RuntimeError("no")
            return super().see_to_all(self.tries[-1], going_on)
        finally:
            self.tried.release()


class TestFollowUps:
    def test_a_fault_with_one_leaves_it_to_the_tick_and_the_next_are_done(self, rig: Rig) -> None:
        service = Broken(rig.controller)
        rig.controller.afterwards = FollowUps(service)
        (first,) = submitted(rig, 1)
        assert service.tried.acquire(timeout=_WITHIN_S)
        (second,) = submitted(rig, 1)
        assert service.tried.acquire(timeout=_WITHIN_S)
        rig.controller.afterwards.close()
        assert (opened(first), opened(second)) == (0, 3)
        rig.clock.forward(BRANCHES_MS)
        rig.sweep()
        assert opened(first) == 3

    def test_a_close_finishes_what_was_noted(self, rig: Rig) -> None:
        """A command line that submits and ends at once leaves nothing to wait for a tick."""
        rig.controller.afterwards = FollowUps(JoinService(rig.controller))
        sessions = submitted(rig, 5)
        rig.controller.afterwards.close()
        assert [opened(one) for one in sessions] == [3] * 5

    def test_nothing_is_done_after_the_close(self, rig: Rig) -> None:
        service = Broken(rig.controller)
        follow_ups = FollowUps(service)
        follow_ups.close()
        follow_ups.note("see-to", "s0-none")
        assert service.tries == []


def test_a_stage_after_a_join_may_fan_out_again(rig: Rig) -> None:
    """Of two joins one changes in a commit, so the second fan-out has to wait for the first one's: it is noted, too."""
    fan_out = FanOut(each="items", stage="branch", merge=MERGER)
    stages = {
        "split": Stage(fan_out=fan_out, next=Next(to="again")),
        "again": Stage(fan_out=fan_out),
        "branch": Stage(role=ROLE),
    }
    session = rig.broker.submit(
        rig.broker.register(Plan(name="twice", start="split", stages=stages)), inputs={"items": [1]}
    )
    service = JoinService(rig.controller)
    for _ in range(2):
        service.see_to_all([session.id])
        rig.drain()
        service.look(session.state().joins[-1].join_id)
        rig.drain(merger, role=MERGER)
    assert encode(session.result(0).output) == b'{"counted":1}'
