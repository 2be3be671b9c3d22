"""Whoever decides too late: they are told who was first, what they wrote is theirs, and what was done is done."""

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from passdown.broker.access.directory import Person
from passdown.broker.access.policy import Scope
from passdown.broker.client import Broker
from passdown.broker.inbox import Draft, Inbox, TicketView
from passdown.broker.session import Session
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import Conflict, ContractError, Denied, NotFound
from passdown.contracts.plans import Grant, Level, People, Plan, Stage
from tests.unit.broker.rig import Rig, pay, plan

#: Which of two drafts is the newer one goes by the store's time.
pytestmark = pytest.mark.usefixtures("still")

ANN, BOB = "user:ann", "user:bob"
LEASE_MS = 60_000
LATE = Draft(resolution="complete", value={"a": 1}, note="long text")


def desk(**people: Any) -> Plan:
    """Return a plan of one stage that is a person's, who goes on to another queue after ten minutes."""
    stage = Stage(
        queue="desk",
        escalation=[Level(queue="desk"), Level(queue="tier2", after_seconds=600.0)],
        people=People(lease_seconds=LEASE_MS / 1000, **people),
    )
    return Plan(name="asks", start="ask", stages={"ask": stage})


def inbox(rig: Rig, name: str = ANN) -> Inbox:
    return rig.person(name).inbox


def know(rig: Rig, name: str, *groups: str, role: Any = "human") -> None:
    rig.broker.directory.set_person(Person(name=name, roles=[role], groups=list(groups)))


def with_token(rig: Rig, verb: str, resource: str) -> Inbox:
    """Return Ann's inbox by a token that is good for this."""
    scopes = [Scope(verb=verb, resource=resource)]
    text, _ = rig.broker.directory.create_token(ANN, "user:x", scopes=scopes)
    return Broker(rig.app, token=text).inbox


def held(rig: Rig, session: Session, name: str = ANN) -> TicketView:
    return inbox(rig, name).claim(session.id, 1)


def send(rig: Rig, session: Session, seen: TicketView, **more: Any) -> None:
    """Send what Ann wrote, as she saw the ticket."""
    as_seen = {"version": seen.version, "lease": seen.lease}
    inbox(rig).resolve(session.id, 1, "complete", LATE.value, note=LATE.note, **as_seen, **more)


def kept(rig: Rig, session: Session, name: str = ANN) -> Draft | None:
    found = inbox(rig, name).draft(session.id, 1)
    return found.draft if found else None


# Whatever became of the ticket


def _taken(rig: Rig, session: Session) -> None:
    rig.clock.forward(LEASE_MS + 1_000)
    held(rig, session, BOB)


def _decided(rig: Rig, session: Session) -> None:
    _taken(rig, session)
    inbox(rig, BOB).resolve(session.id, 1, "complete", {"b": 2})


def _withdrawn(rig: Rig, session: Session) -> None:
    session.cancel("the customer withdrew")


def _escalated(rig: Rig, session: Session) -> None:
    rig.clock.forward(700_000)
    rig.sweep()
    held(rig, session, BOB)


def _handed_on(rig: Rig, session: Session) -> None:
    inbox(rig).reassign(session.id, 1, to_queue="tier2")


MEANWHILE: list[tuple[Callable[[Rig, Session], None], str, str]] = [
    (_taken, BOB, "its lease runs"),
    (_decided, BOB, "complete"),
    (_withdrawn, "user:producer", "withdrawn: the customer withdrew"),
    (_escalated, BOB, "it is in queue tier2 now"),
    (_handed_on, "", "it is in queue tier2 now"),
]


@pytest.mark.parametrize(("happens", "winner", "decided"), MEANWHILE)
def test_what_is_sent_too_late_is_kept_and_it_is_told_who_was_first(
    rig: Rig, happens: Callable[[Rig, Session], None], winner: str, decided: str
) -> None:
    session = rig.open(desk())
    know(rig, ANN, "desk")
    know(rig, BOB, "desk", "tier2")
    seen = held(rig, session)
    happens(rig, session)
    with pytest.raises(Conflict, match="what you typed is kept as your draft") as told:
        send(rig, session, seen)
    assert told.value.winner == winner
    assert told.value.decided.startswith(decided)
    assert kept(rig, session) == LATE
    assert kept(rig, session, BOB) is None
    inbox(rig).forget_draft(session.id, 1)
    inbox(rig).keep_draft(session.id, 1, LATE, expected=0)
    assert kept(rig, session) == LATE, "a form that was open may keep it as well"


def test_rule_10_nothing_is_kept_for_whom_the_ticket_never_was_for(rig: Rig) -> None:
    session = rig.open(desk())
    know(rig, ANN, "legal")
    with pytest.raises(Denied, match=r"is served by the group of its name$"):
        inbox(rig).resolve(session.id, 1, "complete", {"a": 1}, note="x")
    with capture_logs() as logs, pytest.raises(Denied, match="never was theirs"):
        inbox(rig).keep_draft(session.id, 1, LATE)
    assert [one["event"] for one in logs] == ["access.denied"]
    assert kept(rig, session) is None
    session.cancel()
    with pytest.raises(Conflict, match="is no longer open; user:producer"):
        inbox(rig).resolve(session.id, 1, "complete", {"a": 1}, note="x")
    assert kept(rig, session) is None


def test_a_bare_yes_that_comes_too_late_is_no_draft(rig: Rig) -> None:
    session = rig.open(desk())
    _decided(rig, session)
    with pytest.raises(Conflict, match=r"no longer open; user:bob was first \(complete\)"):
        inbox(rig).resolve(session.id, 1, "cancel")
    assert kept(rig, session) is None


# One draft of several


def test_a_newer_draft_is_never_overwritten(rig: Rig) -> None:
    session = rig.open(desk())
    seen = held(rig, session)
    _taken(rig, session)
    rig.clock.forward(1_000)
    phone = Draft(note="the newer text of the phone")
    inbox(rig).keep_draft(session.id, 1, phone)
    with pytest.raises(
        Conflict, match="another draft of yours stands, and what you typed is not kept"
    ) as told:
        send(rig, session, seen)
    assert told.value.winner == BOB
    assert kept(rig, session) == phone


@pytest.mark.parametrize("told_of", [True, False])
def test_the_draft_that_it_was_made_from_is_replaced(rig: Rig, told_of: bool) -> None:
    session = rig.open(desk())
    seen = held(rig, session)
    inbox(rig).keep_draft(session.id, 1, Draft(note="half"))
    rig.clock.forward(1_000)
    _taken(rig, session)
    more = {"draft": 1} if told_of else {}
    for _ in range(2):
        with pytest.raises(Conflict, match="what you typed is kept"):
            send(rig, session, seen, **more)
    assert kept(rig, session) == LATE


def test_a_draft_of_another_device_stands_also_where_it_is_from_before(rig: Rig) -> None:
    """What the form began with is known: the phone's came after that."""
    session = rig.open(desk())
    seen = held(rig, session)
    inbox(rig).keep_draft(session.id, 1, Draft(note="phone"))
    rig.clock.forward(1_000)
    _taken(rig, session)
    with pytest.raises(Conflict, match="another draft of yours stands"):
        send(rig, session, seen, draft=0)
    assert kept(rig, session) == Draft(note="phone")


def test_what_is_too_large_for_a_draft_hides_nothing(rig: Rig) -> None:
    session = rig.open(desk())
    seen = held(rig, session)
    _decided(rig, session)
    with pytest.raises(Conflict, match="could not be kept as your draft") as told:
        inbox(rig).resolve(
            session.id, 1, "complete", {"a": "x" * 70_000}, version=seen.version, lease=seen.lease
        )
    assert (told.value.winner, told.value.decided) == (BOB, "complete")


def test_a_store_that_goes_away_meanwhile_hides_nothing(rig: Rig) -> None:
    session = rig.open(desk())
    seen = held(rig, session)
    _decided(rig, session)
    rig.fail("before", only={"put"})
    with pytest.raises(Conflict, match="could not be kept as your draft") as told:
        send(rig, session, seen)
    assert told.value.winner == BOB


class Unread(SqliteStore):
    """A store with a log that this version cannot read."""

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return what a newer version wrote."""
        return [] if after else [b'{"fromTheFuture":1}']


def test_a_log_that_cannot_be_read_hides_nothing(rig: Rig) -> None:
    rig.store.inner.close()
    rig.store.inner = Unread(":memory:", clock=rig.clock)
    session = rig.open(desk())
    seen = held(rig, session)
    _decided(rig, session)
    with capture_logs() as logs, pytest.raises(Conflict) as told:
        send(rig, session, seen)
    assert (told.value.winner, told.value.decided) == (BOB, "complete")
    assert {one["event"] for one in logs} == {"inbox.past_unreadable"}


# Done is done


def test_a_decision_stands_where_its_draft_cannot_be_forgotten(rig: Rig) -> None:
    session = rig.open(desk())
    inbox(rig).keep_draft(session.id, 1, LATE)
    rig.fail("before", only={"put"})
    with capture_logs() as logs:
        inbox(rig).resolve(session.id, 1, "complete", {"a": 1})
    assert [one["event"] for one in logs] == ["inbox.draft_not_forgotten"]
    assert session.status() == "done"


@pytest.mark.parametrize("claimed", [True, False])
def test_the_same_decision_sent_again_is_done_and_another_one_is_not(rig: Rig, claimed: bool) -> None:
    session = rig.open(desk())
    if claimed:
        held(rig, session)
    for _ in range(2):
        inbox(rig).resolve(session.id, 1, "complete", {"a": 1}, note="fine")
    before = session.state().seq
    for resolution, value in (("complete", {"a": 2}), ("cancel", None)):
        with pytest.raises(Conflict, match=r"no longer open.*user:ann was first \(complete\)"):
            inbox(rig).resolve(session.id, 1, resolution, value)  # type: ignore[arg-type]
    with pytest.raises(Conflict, match=r"user:ann was first \(complete\)"):
        inbox(rig, BOB).resolve(session.id, 1, "complete", {"a": 1}, note="fine")
    assert session.state().seq == before


@pytest.mark.parametrize("claimed", [True, False])
def test_the_same_yes_of_several_sent_again_is_one(rig: Rig, claimed: bool) -> None:
    session = approving(rig)
    version = held(rig, session).version if claimed else 1
    for _ in range(2):
        inbox(rig).resolve(session.id, 1, "approve", version=version)
    ticket = session.state().ticket(1)
    assert ticket is not None
    assert ticket.approved_by == [ANN]
    with pytest.raises(Denied, match="does not approve it again"):
        inbox(rig).resolve(session.id, 1, "approve", version=ticket.version)


# A yes is one to what was seen


def approving(rig: Rig) -> Session:
    """Return a session in which two people must approve a payment for order a."""
    rig.broker.register_tools([pay.spec])
    session = rig.open(plan(tools=[Grant(tool="pay", approve="desk", approvals=2)]))
    rig.claim().pay("a")
    return session


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize(("resolution", "value"), [("approve", None), ("edit", {"order": "b"})])
def test_rule_08_a_yes_without_the_version_that_was_seen_is_none(
    rig: Rig, claimed: bool, resolution: Any, value: Any
) -> None:
    """A claim does not stand for it: she saw order a, Bob changed it, and then she claimed."""
    session = approving(rig)
    seen = inbox(rig).show(session.id, 1)
    inbox(rig, BOB).resolve(session.id, 1, "edit", {"order": "zzz"}, version=1)
    lease = held(rig, session).lease if claimed else None
    before = session.state().seq
    with pytest.raises(ContractError, match=r"--version N, in Python version=N"):
        inbox(rig).resolve(session.id, 1, resolution, value, lease=lease)
    with pytest.raises(Conflict):
        inbox(rig).resolve(session.id, 1, resolution, value, lease=lease, version=seen.version)
    assert session.state().seq == before


def test_what_lets_nothing_run_needs_no_version(rig: Rig) -> None:
    session = approving(rig)
    inbox(rig).resolve(session.id, 1, "deny", note="no")
    assert session.state().tickets == []


# Whose a draft is


@pytest.mark.parametrize("resource", ["queue:desk", "queue:tier2", "session:*", "plan:asks", "task:*", "*"])
def test_rule_10_a_draft_needs_a_token_for_the_session_or_a_queue_that_it_was_on(
    rig: Rig, resource: str
) -> None:
    session = rig.open(desk())
    know(rig, ANN, "desk")
    know(rig, BOB, "tier2")
    inbox(rig).keep_draft(session.id, 1, LATE)
    _handed_on(rig, session)
    for step in (lambda: None, lambda: inbox(rig, BOB).resolve(session.id, 1, "cancel")):
        step()
        mine = with_token(rig, "ticket.*", resource)
        found = mine.draft(session.id, 1)
        assert found is not None
        mine.keep_draft(session.id, 1, LATE, expected=found.version)
    with_token(rig, "ticket.read", resource).forget_draft(session.id, 1)
    assert kept(rig, session) is None


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("ticket.read", "queue:other"), ("ticket.*", "plan:other"), ("plan.read", "*"), ("ticket.claim", "*")],
)
def test_rule_10_a_token_for_something_else_opens_no_draft(rig: Rig, verb: str, resource: str) -> None:
    session = rig.open(desk())
    know(rig, ANN, "desk")
    inbox(rig).keep_draft(session.id, 1, LATE)
    mine = with_token(rig, verb, resource)
    calls: list[Callable[[], object]] = [
        lambda: mine.draft(session.id, 1),
        lambda: mine.keep_draft(session.id, 1, Draft()),
        lambda: mine.forget_draft(session.id, 1),
    ]
    for call in calls:
        with capture_logs() as logs, pytest.raises(Denied):
            call()
        assert [one["event"] for one in logs] == ["access.denied"]
    assert kept(rig, session) == LATE


def test_rule_10_who_takes_no_tickets_any_more_has_no_drafts(rig: Rig) -> None:
    session = rig.open(desk())
    know(rig, ANN, "desk")
    inbox(rig).keep_draft(session.id, 1, LATE)
    know(rig, ANN, "desk", role="worker")
    for call in (inbox(rig).draft, inbox(rig).forget_draft):
        with pytest.raises(Denied):
            call(session.id, 1)


def test_there_is_no_draft_about_what_there_is_not(rig: Rig) -> None:
    session = rig.open(desk())
    for number in (0, -1, 2, 2**53 - 1):
        for call in (inbox(rig).draft, inbox(rig).forget_draft):
            with pytest.raises(NotFound):
                call(session.id, number)
