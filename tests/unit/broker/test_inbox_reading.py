"""What is offered and listed: to a token what it is good for, to everybody all that can be read; and who is denied."""

from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from passdown.broker.access.directory import Person
from passdown.broker.access.policy import Scope
from passdown.broker.client import Broker
from passdown.broker.inbox import Inbox, Ref
from passdown.broker.session import Session
from passdown.broker.stores.base import Loaded
from passdown.broker.stores.queries import FindLanes, LaneRow, Query
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import ContractError, Denied
from passdown.contracts.plans import People, Plan, Stage
from tests.unit.broker.rig import Rig

ANN, BOB = "user:ann", "user:bob"


def desk(name: str, queue: str = "desk", **more: Any) -> Plan:
    return Plan(name=name, start="a", stages={"a": Stage(queue=queue, people=People(), **more)})


def know(rig: Rig, name: str, *groups: str) -> None:
    rig.broker.directory.set_person(Person(name=name, roles=["human"], groups=list(groups)))


def with_token(rig: Rig, *scopes: Scope) -> Inbox:
    text, _ = rig.broker.directory.create_token(ANN, "user:x", scopes=list(scopes))
    return Broker(rig.app, token=text).inbox


@pytest.fixture
def three(rig: Rig) -> dict[str, Session]:
    """Tickets of two plans on one queue, and one on another; Ann serves both queues."""
    know(rig, ANN, "desk", "legal")
    plans = [desk("x"), desk("y"), desk("z", "legal")]
    return {made.name: rig.open(made, task=f"Task {made.name}") for made in plans}


def offered(inbox: Inbox, three: dict[str, Session], queue: str | None = None) -> str:
    """Return the plans whose tickets are on offer."""
    by_id = {session.id: name for name, session in three.items()}
    return " ".join(sorted(by_id[row.session_id] for row in inbox.offered(queue=queue)))


# Scopes


@pytest.mark.parametrize(
    ("resource", "all_", "in_desk"),
    [("plan:x", "x", "x"), ("plan:*", "x y z", "x y"), ("queue:legal", "z", None), ("*", "x y z", "x y")],
)
def test_a_token_is_offered_what_it_may_take(
    rig: Rig, three: dict[str, Session], resource: str, all_: str, in_desk: str | None
) -> None:
    inbox = with_token(rig, Scope(verb="ticket.*", resource=resource))
    assert offered(inbox, three) == all_
    if in_desk is None:
        for call in (inbox.offered, inbox.next, inbox.waiting):
            with pytest.raises(Denied, match="the token is good for"):
                call(queue="desk")
    else:
        assert offered(inbox, three, "desk") == in_desk
        assert len(inbox.waiting("desk")) == len(in_desk.split())
    for _ in all_.split():
        assert inbox.next() is not None
    assert inbox.next() is None


@pytest.mark.parametrize("kind", ["session", "task"])
def test_a_token_for_one_session_or_task_is_offered_that(
    rig: Rig, three: dict[str, Session], kind: str
) -> None:
    state = three["y"].state()
    resource = f"session:{state.session_id}" if kind == "session" else f"task:{state.task_id}"
    inbox = with_token(rig, Scope(verb="ticket.*", resource=resource))
    assert offered(inbox, three) == "y"
    found = inbox.next(queue="desk")
    assert found is not None
    assert found.session_id == state.session_id


def test_a_token_for_reading_is_offered_what_it_may_read_and_takes_nothing(
    rig: Rig, three: dict[str, Session]
) -> None:
    inbox = with_token(rig, Scope(verb="ticket.read"))
    assert offered(inbox, three, "desk") == "x y"
    with pytest.raises(Denied):
        inbox.next(queue="desk")
    mixed = with_token(rig, Scope(verb="ticket.read"), Scope(verb="ticket.claim", resource="plan:y"))
    found = mixed.next()
    assert found is not None
    assert found.session_id == three["y"].id


def test_a_token_for_a_queue_loads_no_session_to_look(rig: Rig, three: dict[str, Session]) -> None:
    inbox = with_token(rig, Scope(verb="ticket.*", resource="queue:desk"))
    inbox.offered()
    calls = rig.listen()
    assert offered(inbox, three) == "x y"
    assert "load" not in calls


# What cannot be read


class Newer(SqliteStore):
    """A store in which a newer version of Passdown has written these sessions, and a lane."""

    sessions: tuple[str, ...] = ()

    def load(self, session_id: str, command_id: str = "", command_digest: str = "") -> Loaded:
        """Return a session; a newer one has a field that this version does not know."""
        loaded = super().load(session_id, command_id, command_digest)
        if session_id not in self.sessions or loaded.state is None:
            return loaded
        return replace(loaded, state=loaded.state[:-1] + b',"fromTheFuture":1}')

    def find(self, query: Query) -> Any:
        """Return what is found; of the lanes one more."""
        found: Any = super().find(query)
        return [LaneRow(lane='{"queue":"desk","floor":3}'), *found] if isinstance(query, FindLanes) else found


@pytest.fixture
def newer(rig: Rig) -> Newer:
    store = Newer(":memory:", clock=rig.clock)
    rig.store.inner.close()
    rig.store.inner = store
    return store


def test_a_session_that_cannot_be_read_is_passed_over_and_logged(rig: Rig, newer: Newer) -> None:
    """In a rolling upgrade; also where there are more of them than are looked at in one go."""
    ref = rig.broker.register(desk("new", priority=5))
    unread = [rig.broker.submit(ref, key=f"new-{n}").id for n in range(25)]
    good = rig.open(desk("old"))
    newer.sessions = tuple(unread)
    inbox = rig.person(ANN).inbox
    with capture_logs() as logs:
        found = inbox.next()
    assert found is not None
    assert found.session_id == good.id
    passed = {one["session"] for one in logs if one["event"] == "inbox.passed_over"}
    assert passed == set(unread)
    assert [one["log_level"] for one in logs if one["event"] == "inbox.lane_passed_over"] == ["warning"] * 2
    assert inbox.next() is None
    assert len(inbox.offered()) == 25, "they are on offer, to whoever can read them"


def test_what_cannot_be_read_leaves_the_rest_of_a_list(rig: Rig, newer: Newer) -> None:
    know(rig, ANN, "desk")
    sessions = [rig.open(desk(name)) for name in ("a", "b", "c")]
    for session in sessions:
        rig.person(ANN).inbox.claim(session.id, 1)
    newer.sessions = (sessions[1].id,)
    inbox = with_token(rig, Scope(verb="ticket.*", resource="plan:*"))
    good = {sessions[0].id, sessions[2].id}
    assert {row.session_id for row in inbox.mine()} == good
    assert {row.session_id for row in inbox.waiting("desk")} == good
    refs = [Ref(session.id, 1) for session in sessions]
    found = inbox.each(refs, lambda ref: inbox.release(ref.session_id, ref.ticket_no))
    assert [type(one.error) for one in found] == [type(None), ContractError, type(None)]
    assert {row.session_id for row in inbox.offered()} == good


def test_a_lease_that_is_none_is_no_fault_of_the_tickets(rig: Rig) -> None:
    rig.open(desk("x"))
    with capture_logs() as logs, pytest.raises(ContractError, match="at most 86400 seconds"):
        rig.person(ANN).inbox.next(lease_s=90_000)
    assert logs == []


# Who is denied


@pytest.mark.parametrize("to", [BOB, "user:stranger", "user:producer"])
def test_rule_10_whoever_may_not_be_given_a_ticket_is_logged_once(rig: Rig, to: str) -> None:
    session = rig.open(desk("x"))
    know(rig, ANN, "desk")
    know(rig, BOB, "legal")
    rig.broker.directory.set_person(Person(name="user:producer", roles=["producer"]))
    inbox = rig.person(ANN).inbox
    inbox.claim(session.id, 1)
    with capture_logs() as logs, pytest.raises(Denied):
        inbox.reassign(session.id, 1, to=to)
    (line,) = logs
    assert (line["event"], line["by"], line["verb"]) == ("access.denied", ANN, "ticket.reassign")


def test_rule_10_each_denial_of_a_verb_is_logged_once(rig: Rig) -> None:
    session = rig.open(desk("x"))
    know(rig, BOB, "legal")
    inbox = rig.person(BOB).inbox
    calls: dict[str, Any] = {
        "show": (),
        "claim": (),
        "take_over": ("mine",),
        "extend": (),
        "release": (),
        "snooze": (60,),
        "wake": (),
        "comment": ("hm",),
        "resolve": ("complete", {}),
    }
    for name, more in calls.items():
        with capture_logs() as logs, pytest.raises(Denied):
            getattr(inbox, name)(session.id, 1, *more)
        assert [one["event"] for one in logs] == ["access.denied"], name
    know(rig, ANN, "desk")
    with capture_logs() as logs, pytest.raises(Denied, match="it allows"):
        rig.person(ANN).inbox.resolve(session.id, 1, "approve")
    assert [one["event"] for one in logs] == ["access.denied"]
