"""At the edges of a desk: who is made known or removed while tickets are held, two devices, and lists with a bad row."""

from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from passdown.agents import NeedsInput, Question
from passdown.broker.access.directory import Person
from passdown.broker.access.policy import Scope
from passdown.broker.acts import name_of
from passdown.broker.client import Broker
from passdown.broker.inbox import Draft
from passdown.broker.session import Session
from passdown.broker.stores.base import Loaded
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import Conflict, ContractError, Denied, Unavailable
from passdown.contracts.plans import Plan, Stage
from tests.unit.broker.rig import Rig, plan

ANN, BOB = "user:ann", "user:bob"


def desk() -> Plan:
    return Plan(name="asks", start="ask", stages={"ask": Stage(queue="desk")})


def know(rig: Rig, name: str, *groups: str, role: Any = "human") -> None:
    rig.broker.directory.set_person(Person(name=name, roles=[role], groups=list(groups)))


@pytest.mark.parametrize(("group", "held"), [("other", ""), ("desk", ANN)])
def test_rule_10_who_was_the_owner_and_is_made_known_holds_what_they_may(
    rig: Rig, group: str, held: str
) -> None:
    session = rig.open(desk())
    rig.person(ANN).inbox.claim(session.id, 1)
    know(rig, ANN, group)
    for _ in range(3):
        rig.clock.forward(6_000)
        rig.tick.once()
    (ticket,) = session.state().tickets
    assert (ticket.holder.by if ticket.holder else "") == held
    assert rig.broker.directory.sweeps() == []


def test_rule_10_whoever_was_removed_is_given_no_ticket(rig: Rig) -> None:
    """Nobody else is known, and whom the store does not know may be given one: but not them."""
    session = rig.open(desk())
    know(rig, ANN, "desk")
    rig.broker.directory.remove_person(ANN)
    inbox = rig.person(BOB).inbox
    with pytest.raises(Denied, match="not known here"):
        inbox.reassign(session.id, 1, to=ANN)
    assert inbox.reassign(session.id, 1, to="user:sue").holder == "user:sue"


@pytest.mark.parametrize(("seen", "stands"), [(1, True), (2, False), (None, False)])
def test_a_decision_forgets_the_draft_that_it_was_made_from_and_no_newer_one(
    rig: Rig, seen: int | None, stands: bool
) -> None:
    session = rig.open(desk())
    inbox = rig.person(ANN).inbox
    inbox.keep_draft(session.id, 1, Draft(note="half"))
    inbox.keep_draft(session.id, 1, Draft(note="the newer text of the phone"))
    inbox.resolve(session.id, 1, "complete", {"a": 1}, draft=seen)
    assert (inbox.draft(session.id, 1) is not None) is stands
    assert session.status() == "done"


@pytest.mark.parametrize("decided", [True, False])
@pytest.mark.parametrize(
    ("resource", "kept"), [("queue:other", "mine"), ("plan:asks", "late"), ("queue:desk", "late")]
)
def test_rule_10_a_token_for_something_else_writes_no_draft(
    rig: Rig, decided: bool, resource: str, kept: str
) -> None:
    session = rig.open(desk())
    know(rig, ANN, "desk")
    know(rig, BOB, "desk")
    rig.person(ANN).inbox.keep_draft(session.id, 1, Draft(note="mine"))
    bob = rig.person(BOB).inbox
    bob.claim(session.id, 1)
    if decided:
        bob.resolve(session.id, 1, "cancel")
    scopes = [Scope(verb="ticket.*", resource=resource)]
    text, _ = rig.broker.directory.create_token(ANN, "user:x", scopes=scopes)
    with pytest.raises(Conflict if decided or kept == "late" else Denied) as told:
        Broker(rig.app, token=text).inbox.resolve(session.id, 1, "complete", {}, note="late", draft=1)
    assert ("is kept as your draft" in str(told.value)) is (kept == "late")
    found = rig.person(ANN).inbox.draft(session.id, 1)
    assert found is not None
    assert found.draft.note == kept


@pytest.mark.parametrize("away", [True, False])
def test_a_session_that_is_too_busy_is_passed_over(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    busy = rig.open(desk(), key="busy")
    rig.clock.forward(1_000)
    other = rig.open(desk(), key="other")
    real = rig.controller.run

    def run(session_id: str, *args: Any, **more: Any) -> Any:
        if session_id == busy.id:
            raise Unavailable("the store" if away else name_of(busy.id), "it does not answer")
        return real(session_id, *args, **more)

    monkeypatch.setattr(rig.controller, "run", run)
    inbox = rig.person(ANN).inbox
    if away:
        with pytest.raises(Unavailable):
            inbox.next()
        return
    found = inbox.next()
    assert found is not None
    assert found.session_id == other.id
    assert inbox.next() is None


@pytest.mark.parametrize(
    ("roles", "scope", "may"),
    [
        (["producer"], None, False),
        (["producer", "human"], None, True),
        (["producer", "human"], "session.*", False),
        (["producer", "human"], "*", True),
        (["operator"], "session.*", False),
    ],
)
def test_rule_10_a_question_that_is_asked_of_people_is_a_ticket_however_it_is_answered(
    rig: Rig, roles: Any, scope: str | None, may: bool
) -> None:
    session = rig.open(plan(ask="desk"))
    rig.claim().give(NeedsInput([Question(id="why", text="Why?")]))
    producer = "user:producer"
    rig.broker.directory.set_person(Person(name=producer, roles=roles, groups=["desk"]))
    scopes = None if scope is None else [Scope(verb=scope)]
    text, _ = rig.broker.directory.create_token(producer, "user:x", scopes=scopes)
    by_token = Broker(rig.app, token=text).session(session.id)
    if may:
        by_token.answer("why", "so")
        return
    with capture_logs() as logs, pytest.raises(Denied):
        by_token.answer("why", "so")
    assert [one["event"] for one in logs] == ["access.denied"]
    assert len(session.state().tickets) == 1


class Newer(SqliteStore):
    """A store in which a newer version of Passdown has written one session."""

    unread = ""

    def load(self, session_id: str, command_id: str = "", command_digest: str = "") -> Loaded:
        """Return a session; a newer one has a field that this version does not know."""
        loaded = super().load(session_id, command_id, command_digest)
        if session_id != self.unread or loaded.state is None:
            return loaded
        return replace(loaded, state=loaded.state[:-1] + b',"fromTheFuture":1}')


def test_one_session_that_cannot_be_read_leaves_the_rest_of_a_list(rig: Rig) -> None:
    rig.store.inner.close()
    rig.store.inner = store = Newer(":memory:", clock=rig.clock)
    bad, good = rig.open(desk(), key="bad"), rig.open(desk(), key="good")
    know(rig, "user:producer", role="producer")
    store.unread = bad.id
    producer = rig.person("user:producer")
    assert [row.session_id for row in producer.sessions()] == [good.id]
    assert len(rig.person("user:owner").tickets()) == 2
    with pytest.raises(ContractError):
        Session(producer, bad.id).state()
