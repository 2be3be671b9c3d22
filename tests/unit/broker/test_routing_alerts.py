"""The alert about tickets that nobody known may take: when it is raised, when it ends, and what it may never stop."""

from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from passdown.broker.access.directory import PRINCIPAL
from passdown.broker.core.parts import Ticket
from passdown.broker.routing import ROUTING, UNROUTABLE_S, Looked, Routing
from passdown.broker.session import Session
from passdown.broker.stores.queries import FindOffered, FindRecords, Found, Query
from passdown.contracts import events as ev
from passdown.contracts.errors import ContractError, Denied
from passdown.contracts.plans import ALERTS, People, Plan, Stage
from tests.unit.broker.rig import Rig
from tests.unit.broker.test_routing import asking, known, look, ticket


class Looking:
    """One process that looks, with a clock of its own."""

    def __init__(self, rig: Rig) -> None:
        self.now = 0.0
        self.routing = Routing(rig.controller, monotonic=lambda: self.now)

    def after(self, seconds: float) -> Looked:
        """Let time pass, and look."""
        self.now += seconds
        return self.routing.look()


def on(queue: str, name: str = "", **people: object) -> Plan:
    """Return a plan of one stage that a person does on a queue."""
    stage = Stage(queue=queue, people=People(**people))  # type: ignore[arg-type]
    return Plan(name=name or queue, start="ask", stages={"ask": stage})


def alerted(rig: Rig, **people: object) -> Session:
    """Return a session whose ticket went from queue `desk` to the alerts: only somebody of another queue is known."""
    session = rig.open(asking(**people))
    known(rig, "user:ann", "legal")
    assert look(rig).alerted == 1
    return session


def waits(session: Session) -> tuple[str, list[str], list[str]]:
    one: Ticket = ticket(session)
    return one.queue, one.needs.candidates, one.needs.skills


# Who counts


@pytest.mark.parametrize("queue", ["operators", "desk"])
def test_where_only_operators_are_known_they_take_everything(rig: Rig, queue: str) -> None:
    session = rig.open(on(queue, skills=["french"]))
    known(rig, "user:olga", role="operator")
    assert look(rig) == Looked()
    taken = rig.person("user:olga").inbox.next()
    assert taken is not None
    assert taken.session_id == session.id


def test_the_queue_of_operators_is_theirs_whoever_else_is_known(rig: Rig) -> None:
    rig.open(on("operators"))
    known(rig, "user:olga", role="operator")
    known(rig, "user:ann", "desk")
    assert look(rig) == Looked()


# When


def test_making_everybody_known_one_by_one_raises_no_alert(rig: Rig) -> None:
    session, looking = rig.open(on("legal", skills=["french"])), Looking(rig)
    known(rig, "user:ann", "desk")
    looking.after(0)
    assert looking.after(UNROUTABLE_S - 1) == Looked()
    known(rig, "user:bob", "legal", skills=("french",))
    assert looking.after(2) == Looked()
    rig.broker.directory.remove_person("user:bob")
    assert looking.after(5) == Looked(), "from here on it counts anew"
    assert looking.after(UNROUTABLE_S) == Looked(alerted=1)
    assert ticket(session).queue == ALERTS


def test_what_nobody_touched_goes_back_once_somebody_may_take_it(rig: Rig) -> None:
    session = alerted(rig, skills=["french"])
    known(rig, "user:bob", "desk")
    assert look(rig) == Looked()
    assert ticket(session).queue == ALERTS, "she has no french"
    known(rig, "user:bob", "desk", skills=("french",))
    assert look(rig) == Looked()
    *_, last = session.events()
    assert (last.by, last.event) == (
        ROUTING,
        ev.TicketReassigned(ticket_no=1, to_queue="desk", reason="somebody who may take it is known again"),
    )
    assert rig.person("user:bob").inbox.next() is not None


def test_what_somebody_touched_stays_in_the_alerts(rig: Rig) -> None:
    session = alerted(rig)
    olga = rig.person("user:olga").inbox
    olga.release(session.id, 1, lease=olga.claim(session.id, 1).lease)
    known(rig, "user:bob", "desk")
    look(rig)
    assert ticket(session).queue == ALERTS


def test_it_does_not_go_back_to_those_whom_four_eyes_exclude(rig: Rig) -> None:
    reference = rig.broker.register(asking(exclude_initiator=True))
    session = rig.person("user:bob").submit(reference)
    known(rig, "user:ann", "legal")
    assert look(rig).alerted == 1
    known(rig, "user:bob", "desk")
    look(rig)
    assert ticket(session).queue == ALERTS


# What it asks for


def test_rule_10_an_alert_takes_nothing_from_what_a_ticket_asks_for(rig: Rig) -> None:
    session = alerted(rig, candidates=["user:gone"], skills=["french"])
    assert waits(session) == (ALERTS, ["user:gone"], ["french"])
    olga = rig.person("user:olga").inbox
    olga.reassign(session.id, 1, to_queue="desk")
    assert waits(session) == ("desk", ["user:gone"], ["french"])
    known(rig, "user:gone", "desk")
    known(rig, "user:bob", "desk", skills=("french",))
    for name in ("user:gone", "user:bob"):
        with pytest.raises(Denied):
            rig.person(name).inbox.claim(session.id, 1)


# What it never stops


def test_rule_10_one_that_cannot_be_decided_stops_no_other_and_no_release(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, odd = rig.open(asking()), rig.open(on("legal"))
    other = rig.broker.submit("legal", key="other")
    known(rig, "user:ann", "desk")
    rig.person("user:ann").inbox.claim(held.id, 1)
    known(rig, "user:ann")
    known(rig, "user:bob", "desk")
    real = rig.store.load

    def load(session_id: str, *more: str) -> object:
        if session_id == odd.id:
            raise ContractError("state", "of a newer version")
        return real(session_id, *more)

    monkeypatch.setattr(rig.store, "load", load)
    assert look(rig) == Looked(alerted=1, released=1)
    assert (ticket(held).holder, ticket(other).queue) == (None, ALERTS)


def test_what_was_claimed_since_the_look_is_no_alarm(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    session = rig.open(asking())
    known(rig, "user:ann", "legal")
    real = rig.store.find

    def find(query: Query) -> Found:
        rows = real(query)
        if isinstance(query, FindOffered):
            rig.person("user:owner").inbox.claim(session.id, 1)
        return rows

    monkeypatch.setattr(rig.store, "find", find)
    with capture_logs() as logs:
        assert look(rig) == Looked()
    assert logs == []
    assert ticket(session).queue == "desk"


def test_where_it_cannot_be_read_who_is_known_no_alarm_is_raised(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody whom a newer version made known may be the one who can take it."""
    session = rig.open(asking())
    known(rig, "user:ann", "legal")
    known(rig, "user:newer", "desk")
    real = rig.store.find

    def find(query: Query) -> Any:
        rows: Any = real(query)
        if not isinstance(query, FindRecords) or query.kind != PRINCIPAL:
            return rows
        newer = b'{"fromTheFuture":1}'
        return [replace(row, body=newer) if row.name == "user:newer" else row for row in rows]

    monkeypatch.setattr(rig.store, "find", find)
    with capture_logs() as logs:
        assert look(rig) == Looked()
    assert [one["event"] for one in logs] == ["inbox.not_routed"]
    assert ticket(session).queue == "desk"


def test_two_that_raise_the_same_alert_say_the_same(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one looks, who is known changes, and another raises the alert about the same version."""
    session = rig.person("user:ann").submit(rig.broker.register(asking(exclude_initiator=True)))
    known(rig, "user:ann", "desk")
    real = rig.store.find

    def find(query: Query) -> Found:
        found = real(query)
        if isinstance(query, FindOffered):
            monkeypatch.undo()
            known(rig, "user:ann", "legal")
            assert look(rig).alerted == 1
        return found

    monkeypatch.setattr(rig.store, "find", find)
    with capture_logs() as logs:
        assert look(rig).alerted == 1
    assert {one["event"] for one in logs} == {"inbox.unroutable"}
    assert [type(one.event) for one in session.events()].count(ev.TicketReassigned) == 1


def test_h05_one_behind_many_others_is_found(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look reads a page, and goes on where the last one ended."""
    monkeypatch.setattr("passdown.broker.routing._PAGE", 3)
    reference = rig.broker.register(asking(exclude_initiator=True))
    for number in range(4):
        rig.broker.submit(reference, key=f"{number}")
    session = rig.person("user:ann").submit(reference, key="mine")
    known(rig, "user:ann", "desk")
    routing = Routing(rig.controller, patience_s=0.0)
    assert [routing.look().alerted for _ in range(3)] == [0, 1, 0]
    assert ticket(session).queue == ALERTS
