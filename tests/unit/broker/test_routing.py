"""Tickets that nobody known may take, and claims whose holder lost a grant: what the tick sees to (rule 10)."""

import pytest
from structlog.testing import capture_logs

from passdown.broker.access.directory import TRUSTED_S, Person
from passdown.broker.core.parts import Ticket
from passdown.broker.plans.check_people import MOST_APPROVALS
from passdown.broker.routing import UNROUTABLE_S, Looked, Routing
from passdown.broker.session import Session
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict, Denied
from passdown.contracts.plans import ALERTS, Grant, People, Plan, Stage
from tests.unit.broker.rig import Rig, pay, plan


def asking(**people: object) -> Plan:
    """Return a plan of one stage that is a person's."""
    stage = Stage(queue="desk", people=People(**people))  # type: ignore[arg-type]
    return Plan(name="asks", start="ask", stages={"ask": stage})


def known(rig: Rig, name: str, *groups: str, skills: tuple[str, ...] = (), role: str = "human") -> None:
    fields = {"name": name, "roles": [role], "groups": list(groups), "skills": list(skills)}
    rig.broker.directory.set_person(Person(**fields))  # type: ignore[arg-type]


def look(rig: Rig) -> Looked:
    """Look at once, with no patience."""
    return Routing(rig.controller, patience_s=0.0).look()


def ticket(session: Session) -> Ticket:
    (one,) = session.state().tickets
    return one


def test_where_nobody_is_known_everybody_may(rig: Rig) -> None:
    session = rig.open(asking(skills=["french"]))
    assert look(rig) == Looked()
    assert ticket(session).queue == "desk"


@pytest.mark.parametrize(
    ("groups", "skills", "alerted"),
    [(("desk",), ("french",), 0), (("desk",), (), 1), (("legal",), ("french",), 1), (("*",), ("french",), 0)],
)
def test_h05_what_nobody_known_may_take_raises_the_alert(
    rig: Rig, groups: tuple[str, ...], skills: tuple[str, ...], alerted: int
) -> None:
    session = rig.open(asking(skills=["french"]))
    known(rig, "user:ann", *groups, skills=skills)
    with capture_logs() as logs:
        assert look(rig).alerted == alerted
    assert [one["event"] for one in logs] == ["inbox.unroutable"] * alerted
    assert ticket(session).queue == (ALERTS if alerted else "desk")
    assert look(rig) == Looked(), "once is enough"


def test_h05_an_operator_can_take_it_from_the_alerts(rig: Rig) -> None:
    session = rig.open(asking(skills=["french"]))
    known(rig, "user:ann", "desk")
    known(rig, "user:olga", role="operator")
    look(rig)
    with pytest.raises(Denied):
        rig.person("user:ann").inbox.claim(session.id, 1)
    taken = rig.person("user:olga").inbox.next()
    assert taken is not None
    assert (taken.session_id, taken.queue) == (session.id, ALERTS)


def test_h05_four_eyes_may_leave_nobody(rig: Rig) -> None:
    """The only approver submitted the session: whoever could approve it may not."""
    rig.broker.register_tools([pay.spec])
    grant = Grant(tool="pay", approve="desk")
    session = rig.person("user:ann").submit(rig.broker.register(plan(tools=[grant])))
    rig.claim().pay()
    known(rig, "user:ann", "desk")
    with capture_logs() as logs:
        assert look(rig).alerted == 1
    (line,) = logs
    assert "four eyes exclude all who may take it: user:ann" in line["why"]
    assert ticket(session).needs.excluded == ["agent:worker", "user:ann"]


def test_h05_as_many_approvals_as_can_be_asked_for_may_leave_nobody(rig: Rig) -> None:
    """Five must approve, and four are known: once they have, nobody is left."""
    rig.broker.register_tools([pay.spec])
    grant = Grant(tool="pay", approve="desk", approvals=MOST_APPROVALS)
    session = rig.person("user:ann").submit(rig.broker.register(plan(tools=[grant])))
    rig.claim().pay()
    names = [f"user:p{number}" for number in range(1, MOST_APPROVALS)]
    for name in names:
        known(rig, name, "desk")
    for version, name in enumerate(names, 1):
        assert look(rig) == Looked()
        rig.person(name).inbox.resolve(session.id, 1, "approve", version=version)
    assert look(rig).alerted == 1


def test_rule_10_who_loses_a_group_loses_what_they_hold(rig: Rig) -> None:
    session = rig.open(asking())
    known(rig, "user:ann", "desk")
    ann = rig.person("user:ann")
    held = ann.inbox.claim(session.id, 1)
    known(rig, "user:ann", "legal")
    known(rig, "user:bob", "desk")
    with pytest.raises(Denied):
        rig.person("user:ann").inbox.resolve(session.id, 1, "complete", {}, lease=held.lease)
    with capture_logs() as logs:
        assert look(rig) == Looked(released=1)
    assert [one["event"] for one in logs] == ["inbox.claim_ended"]
    *_, last = session.events()
    assert last.event == ev.TicketReleased(
        ticket_no=1,
        holder="user:ann",
        why="access",
        reason="queue desk is served by the group of its name",
    )
    assert ticket(session).holder is None
    assert look(rig) == Looked()
    assert rig.person("user:bob").inbox.next() is not None


def test_rule_10_a_process_that_has_not_heard_of_it_yet_does_not_keep_a_claim(rig: Rig) -> None:
    """What it read a moment ago lets it claim once more: the tick looks until nobody trusts that any more."""
    session = rig.open(asking())
    known(rig, "user:ann", "desk")
    ann = rig.person("user:ann")
    ann.inbox.claim(session.id, 1)
    known(rig, "user:ann", "legal")
    now = [0.0]
    routing = Routing(rig.controller, monotonic=lambda: now[0])
    assert routing.look().released == 1
    ann.inbox.claim(session.id, 1)
    assert routing.look().released == 1
    now[0] = TRUSTED_S + 1
    assert routing.look().released == 0
    assert rig.broker.directory.sweeps() == []


def test_rule_10_who_is_removed_loses_what_they_hold(rig: Rig) -> None:
    session = rig.open(asking())
    known(rig, "user:ann", "desk")
    known(rig, "user:bob", "desk")
    rig.person("user:ann").inbox.claim(session.id, 1)
    rig.broker.directory.remove_person("user:ann")
    assert look(rig) == Looked(released=1)


def test_who_keeps_what_a_ticket_asks_for_keeps_the_ticket(rig: Rig) -> None:
    session = rig.open(asking())
    known(rig, "user:ann", "desk", "legal")
    rig.person("user:ann").inbox.claim(session.id, 1)
    known(rig, "user:ann", "desk")
    assert look(rig) == Looked()
    held = ticket(session).holder
    assert held is not None
    assert held.by == "user:ann"


def test_the_tick_looks_now_and_then(rig: Rig) -> None:
    session = rig.open(asking(skills=["french"]))
    known(rig, "user:ann", "desk")
    rig.tick.once()
    assert ticket(session).queue == "desk", "somebody may be made known in a moment"
    rig.clock.forward(int(UNROUTABLE_S * 1000))
    rig.tick.once()
    assert ticket(session).queue == ALERTS
    other = rig.broker.submit("asks", key="another")
    rig.tick.once()
    assert ticket(other).queue == "desk", "it looked a moment ago"
    rig.clock.forward(5_000)
    rig.tick.once()
    assert ticket(other).queue == ALERTS


def test_a_ticket_that_was_decided_meanwhile_is_left_alone(rig: Rig) -> None:
    session = rig.open(asking())
    known(rig, "user:ann", "desk")
    rig.person("user:ann").inbox.claim(session.id, 1)
    known(rig, "user:ann")
    with pytest.raises(Conflict, match="is held"):
        rig.person("user:olga").inbox.claim(session.id, 1)
    rig.person("user:olga").inbox.take_over(session.id, 1, "she left")
    assert look(rig) == Looked()
