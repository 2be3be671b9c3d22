"""A decision at the command line is one on what was seen; and what comes too late is kept, or shown."""

import json
import shlex
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

from passdown.broker.access.directory import Person
from passdown.broker.cli.keeping import Keeper
from passdown.broker.client import Broker, Session
from passdown.broker.inbox import Draft
from passdown.contracts.errors import Conflict, PassdownError
from passdown.contracts.plans import Grant, Level, Next, Plan, Stage
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk, broker_on
from tests.unit.cli.typing_hands import typed

ANN, BOB = "user:ann", "user:bob"
AS_ANN = ("--as", ANN)
LESS = {"to": "less@example.org"}

pytestmark = pytest.mark.usefixtures("at_desk")


@pytest.fixture
def ann(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PASSDOWN_AS", ANN)
    broker = broker_on(desk.url, ANN)
    yield broker
    broker.close()


@pytest.fixture
def bob(desk: Desk) -> Any:
    broker = broker_on(desk.url, BOB)
    yield broker
    broker.close()


@pytest.fixture
def two(desk: Desk) -> Session:
    """A session whose mail waits for the yes of two people."""
    grant = Grant(tool="mail.send", approve="leads", approvals=2)
    only = Stage(role="helper", tools=[grant], next=Next(to="end"))
    desk.broker.register(Plan(name="two", start="only", stages={"only": only}))
    session = desk.submit("two", plan="two", do="mails", count=1)
    desk.work()
    return session


@pytest.fixture
def tiers(desk: Desk) -> Session:
    """A session whose ticket is in tier1, where Ann is; Bob serves tier2 too."""
    path = [Level(queue="tier1"), Level(queue="tier2", after_seconds=3600)]
    stage = Stage(role="helper", escalation=path)
    desk.broker.register(Plan(name="tiers", start="only", stages={"only": stage}))
    for name, groups in ((ANN, ["tier1"]), (BOB, ["tier1", "tier2"])):
        desk.broker.directory.set_person(Person(name=name, roles=["human"], groups=groups))
    session = desk.submit("tiers", plan="tiers", do="escalate")
    desk.work()
    return session


def commands(at_desk: Cli) -> list[str]:
    return json.loads(at_desk("inbox", "show", "two/1", "--json", *AS_ANN).out)["commands"]


def approved_by(session: Session) -> list[str]:
    ticket = session.state().ticket(1)
    assert ticket is not None
    return ticket.approved_by


@pytest.mark.parametrize("words", [["resolve", "two/1"], ["inbox", "resolve", "two/1"]])
@pytest.mark.parametrize("claimed", [True, False])
def test_rule_08_a_yes_says_to_what(
    at_desk: Cli, ann: Broker, two: Session, words: list[str], claimed: bool
) -> None:
    if claimed:
        ann.inbox.claim(two.id, 1)
    for what in (["approve"], ["edit", json.dumps(LESS)]):
        said = at_desk(*words, *what)
        assert (said.code, said.out) == (2, "")
        assert "says at which version the action was seen: --version N" in said.err
    assert approved_by(two) == []
    assert at_desk(*words, "approve", "--version", 2 if claimed else 1).code == 0
    assert approved_by(two) == [ANN]


def test_rule_08_the_command_that_was_shown_is_good_for_what_was_shown(
    at_desk: Cli, bob: Broker, two: Session
) -> None:
    (before,) = (one for one in commands(at_desk) if " approve" in one)
    bob.inbox.resolve(two.id, 1, "edit", LESS, version=1)
    late = at_desk(*shlex.split(before)[1:])
    assert (late.code, "is at version 2, not 1" in late.err) == (4, True)
    assert approved_by(two) == [BOB]
    (now,) = (one for one in commands(at_desk) if " approve" in one)
    assert at_desk(*shlex.split(now)[1:]).code == 0
    assert two.state().tickets == []


def test_several_at_once_are_not_approved(at_desk: Cli, two: Session) -> None:
    said = at_desk("inbox", "resolve", "-", "approve", *AS_ANN, stdin=b"two/1\n")
    assert (said.code, "contract: " in said.out, "--version N" in said.out) == (2, True, True)
    assert approved_by(two) == []


def test_rule_08_at_a_terminal_the_action_is_shown_before_the_yes(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, two: Session
) -> None:
    done = typed(
        monkeypatch,
        ["inbox", "resolve", "two/1", "approve"],
        [("note", ""), ('|   "to": "0@example.org"', None), ("send it? [y/n]: ", "y")],
    )
    assert done.code == 0, done.screen
    assert approved_by(two) == [ANN]


def test_a_yes_with_its_version_asks_nothing_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, two: Session
) -> None:
    done = typed(monkeypatch, ["inbox", "resolve", "two/1", "approve", "--version", "1"], [])
    assert (done.code, "send it?" in done.screen) == (0, False)
    view = ann.inbox.show(two.id, 1)
    leased = typed(monkeypatch, ["inbox", "resolve", "two/1", "approve", "--lease", "x", "--as", BOB], [])
    assert (leased.code, "--version N" in leased.screen) == (2, True)
    assert ann.inbox.show(two.id, 1) == view


# Too late


def test_a_whole_decision_that_is_too_late_is_kept(
    at_desk: Cli, ann: Broker, bob: Broker, tiers: Session
) -> None:
    bob.inbox.reassign(tiers.id, 1, to_queue="tier2")
    bob.inbox.claim(tiers.id, 1)
    said = at_desk("inbox", "resolve", "tiers/1", "send-back", "call them", *AS_ANN)
    assert said.code == 4
    assert (
        f"passdown: ticket {tiers.id}/1 is no longer yours to decide; what you typed is kept as your draft;"
        " user:bob was first (it is in queue tier2 now)\n" in said.err
    )
    shown = json.loads(at_desk("inbox", "draft", "tiers/1", "--json", *AS_ANN).out)
    assert (shown["resolution"], shown["value"]) == ("send-back", "call them")
    bob.inbox.resolve(tiers.id, 1, "cancel")
    assert at_desk("inbox", "draft", "tiers/1", "--forget", *AS_ANN).code == 0


def test_a_form_whose_ticket_goes_on_to_another_queue_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, tiers: Session
) -> None:
    monkeypatch.setattr("passdown.broker.cli.keeping._LOOK_S", 0.02)

    def hand_on() -> None:
        ann.inbox.reassign(tiers.id, 1, to_queue="tier2", reason="needs the bank")

    done = typed(
        monkeypatch,
        ["inbox", "resolve", "tiers/1", "send-back"],
        [("what to do better: ", "call them"), ("note", hand_on)],
    )
    assert done.code == 4
    assert (
        f"you no longer hold ticket {tiers.id}/1; what you typed is kept as your draft"
        " (it was handed on: needs the bank)" in done.screen
    )
    kept = ann.inbox.draft(tiers.id, 1)
    assert kept is not None
    assert kept.draft.value == "call them"


@pytest.mark.parametrize("bob_claims", [True, False])
def test_whoever_held_a_ticket_that_went_on_is_told_who_has_it(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, bob: Broker, tiers: Session, bob_claims: bool
) -> None:
    monkeypatch.setattr("passdown.broker.cli.keeping._LOOK_S", 0.01)
    lost: Queue[PassdownError] = Queue()
    keeper = Keeper(ann, ann.inbox.claim(tiers.id, 1), lost.put)
    bob.inbox.take_over(tiers.id, 1, "it is for tier2")
    bob.inbox.reassign(tiers.id, 1, to_queue="tier2")
    if bob_claims:
        bob.inbox.claim(tiers.id, 1)
    with keeper:
        error = lost.get(timeout=10)
    assert isinstance(error, Conflict)
    assert (error.winner, error.decided) == (BOB if bob_claims else "", "it was handed on")


def test_a_draft_whose_place_is_taken_is_on_the_screen(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, tiers: Session
) -> None:
    long = Draft(resolution="complete", note="a long text " * 40 + "to its end")
    ann.inbox.keep_draft(tiers.id, 1, long)
    steps: list[tuple[str, str | None]] = [
        ("your draft: ", None),
        ("what to do better: ", "call"),
        ("note", ""),
        ("send it?", "n"),
    ]
    done = typed(monkeypatch, ["inbox", "resolve", "tiers/1", "send-back"], steps)
    assert done.code == 1
    assert "takes the place of your draft" in done.screen
    assert "to its end" in done.screen
    kept = ann.inbox.draft(tiers.id, 1)
    assert kept is not None
    assert kept.draft.value == "call"


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_form_that_sends_too_late_overwrites_no_newer_draft(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, bob: Broker, tiers: Session, elsewhere: bool
) -> None:
    # Nothing notices before it is sent.
    monkeypatch.setattr("passdown.broker.cli.keeping._LOOK_S", 3600)
    phone = Draft(note="the newer text of the phone")

    def meanwhile() -> None:
        if elsewhere:
            ann.inbox.keep_draft(tiers.id, 1, phone)
        bob.inbox.take_over(tiers.id, 1, "mine")
        bob.inbox.resolve(tiers.id, 1, "cancel")

    steps: list[tuple[str, str | Callable[[], object] | None]] = [
        ("what to do better: ", "call them"),
        ("note", ""),
        ("send it?", meanwhile),
        ("", "y"),
    ]
    done = typed(monkeypatch, ["inbox", "resolve", "tiers/1", "send-back"], steps)
    assert done.code == 4
    assert "user:bob was first (cancel)" in done.screen
    kept = ann.inbox.draft(tiers.id, 1)
    assert kept is not None
    assert (kept.draft == phone) is elsewhere
    assert ('"value":"call them"' in done.screen) is elsewhere
    assert ("another draft of yours stands" in done.screen) is elsewhere
