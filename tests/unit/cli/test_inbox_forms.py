"""Deciding by a form, at a real terminal: what is asked, what is sent, and what is never lost."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from passdown.agents import Question
from passdown.broker.client import Broker, Session
from passdown.broker.inbox import Draft
from passdown.contracts.plans import Next, Plan, Returns, Stage
from tests.unit.cli.desk import Desk, broker_on
from tests.unit.cli.terminal import PASSDOWN
from tests.unit.cli.typing_hands import CTRL_C, CTRL_D, Program, typed

ANN, BOB = "user:ann", "user:bob"

pytestmark = pytest.mark.usefixtures("at_desk")


@pytest.fixture
def ann(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PASSDOWN_AS", ANN)
    broker = broker_on(desk.url, ANN)
    yield broker
    broker.close()


@pytest.fixture
def pay(desk: Desk) -> Session:
    """A session whose refund waits for a yes."""
    session = desk.submit("pay", orderId="4711")
    desk.work()
    return session


@pytest.fixture
def stuck(desk: Desk) -> Session:
    """A session whose agent handed over to people."""
    session = desk.submit("stuck", plan="help", do="escalate")
    desk.work()
    return session


def _events(session: Session, name: str) -> list[dict[str, Any]]:
    found = [json.loads(raw) for raw in session.raw_events()]
    return [one["event"] for one in found if one["event"]["type"] == name]


def test_an_approval_is_shown_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, pay: Session
) -> None:
    done = typed(
        monkeypatch,
        ["inbox", "resolve", "pay/1"],
        [
            ("approve  refunds.create runs once", None),
            ("your decision (1-4): ", ""),
            ("it needs an answer", "7"),
            ("choose one of 1 to 4", "approve"),
            ("note (Enter for none): ", "within the limit"),
            ("send it? [y/n]: ", "maybe"),
            ("answer y or n", "y"),
        ],
    )
    assert done.code == 0, done.screen
    assert '  |   "cents": 5000,' in done.screen
    assert f"{pay.id}/1  decided; the session is queued" in done.screen
    (resolved,) = _events(pay, "TicketResolved")
    assert (resolved["resolution"], resolved["note"]) == ("approve", "within the limit")


def test_an_edit_asks_for_each_argument_and_shows_the_difference(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, pay: Session
) -> None:
    done = typed(
        monkeypatch,
        ["inbox", "resolve", "pay/1", "edit", "--note", "half"],
        [
            ('order_id (text) ["4711"]: ', ""),
            ("cents (a whole number) [5000]: ", "much"),
            ("is not of type", "2500"),
            ("send it?", "y"),
        ],
    )
    assert done.code == 0, done.screen
    for line in ("    order_id: ", "  - cents: 5000", "  + cents: 2500"):
        assert line in done.screen
    (resolved,) = _events(pay, "TicketResolved")
    assert resolved["value"] == {"order_id": "4711", "cents": 2500}


QUESTIONS = [
    Question(id="reason", text="Why \x1b[31mback?", schema={"type": "string", "enum": ["broken", "late"]}),
    Question(id="keep", text="Keep it?", schema={"type": "boolean"}),
    Question(id="days", text="How old?", schema={"type": "integer", "minimum": 1, "maximum": 30}),
    Question(id="names", text="Who?", schema={"type": "array", "items": {"type": "string"}, "minItems": 1}),
    Question(
        id="address",
        text="Where to?",
        schema={
            "type": "object",
            "properties": {"town": {"type": "string"}, "zip": {"$ref": "#/$defs/zip"}},
            "required": ["town"],
            "$defs": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
        },
    ),
    Question(id="more", text="Anything?", schema=True),
]


@pytest.fixture
def asked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session with a question of each kind."""
    stage = Stage(role="helper", ask="desk", next=Next(to="end"))
    desk.broker.register(Plan(name="asks", start="only", stages={"only": stage}))
    desk.ask = QUESTIONS
    session = desk.submit("asked", plan="asks", do="ask")
    desk.work()
    return session


def test_each_question_is_asked_by_its_schema(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, asked: Session
) -> None:
    done = typed(
        monkeypatch,
        ["inbox", "resolve", "asked/1", "answer", "--note", "by phone"],
        [
            ("| Why \\x1b[31mback?", None),
            ("choose (1-2): ", "2"),
            ("keep [y/n]: ", "n"),
            ("days (a whole number, at least 1, at most 30): ", "40"),
            ("40 is greater than the maximum of 30", "12"),
            ("names: a list, at least 1 items; an empty line ends it", None),
            ("names 1 (text; Enter leaves it out): ", ""),
            ("less than 1 item", "ann"),
            ("names 2 (text", "007"),
            ("names 3 (text", ""),
            ("address:", None),
            ("town (text): ", ""),
            ("it needs a value", "Kiel"),
            ("zip (text, like ^[0-9]{5}$; Enter leaves it out): ", "x"),
            ("does not match", "24103"),
            ("more (JSON, or text): ", '{"a": 1}'),
            ("send it?", "y"),
        ],
    )
    assert done.code == 0, done.screen
    assert "\x1b[31mback" not in done.screen
    assert {one.id: one.value for one in asked.state().questions} == {
        "reason": "late",
        "keep": False,
        "days": 12,
        "names": ["ann", "007"],
        "address": {"town": "Kiel", "zip": "24103"},
        "more": {"a": 1},
    }


def test_an_output_that_does_not_fit_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, desk: Desk, ann: Broker
) -> None:
    schema = {
        "type": "object",
        "properties": {"decision": {"enum": ["yes", "no"]}, "cents": {"type": "integer"}},
        "required": ["decision"],
    }
    stage = Stage(queue="desk", returns=Returns(schema=schema))
    desk.broker.register(Plan(name="hand", start="only", stages={"only": stage}))
    session = desk.submit("hand", plan="hand")
    done = typed(
        monkeypatch,
        ["inbox", "resolve", f"{session.id}/1", "complete"],
        [
            ("choose (1-2): ", "yes"),
            ("cents (a whole number; Enter leaves it out): ", ""),
            ("note", ""),
            ("send it?", "y"),
        ],
    )
    assert done.code == 0, done.screen
    outcome = session.state().outcome
    assert outcome is not None
    assert outcome.output == {"decision": "yes"}


def test_a_stage_is_chosen_and_no_means_a_draft(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, stuck: Session
) -> None:
    done = typed(
        monkeypatch,
        ["inbox", "resolve", "stuck/1"],
        [("your decision", "redirect"), ("to stage (1-1): ", "1"), ("note", "why not"), ("send it?", "n")],
    )
    assert done.code == 1
    assert "nothing was sent; what you typed is kept as your draft" in done.screen
    ticket = stuck.state().ticket(1)
    assert ticket is not None
    assert ticket.holder is None, "it was claimed for the form alone"
    again = typed(
        monkeypatch,
        ["inbox", "resolve", "stuck/1"],
        [
            ("You have a draft of", None),
            ("go on with it? [Y/n]: ", ""),
            ("your decision (1-4) [redirect]: ", ""),
            ("to stage (1-1) [only]: ", ""),
            ('note ["why not"]: ', ""),
            ("send it?", "y"),
        ],
    )
    assert again.code == 0, again.screen
    assert _events(stuck, "TicketResolved")[0]["note"] == "why not"
    assert ann.inbox.draft(stuck.id, 1) is None


def test_words_are_written_in_an_editor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ann: Broker, stuck: Session
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "one\\ntwo" > "$1"\n')
    editor.chmod(0o700)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    steps = [
        ("what to do better: ", ":e"),
        ("none is named: set EDITOR", lambda: monkeypatch.setenv("EDITOR", str(editor))),
        ("what to do better: ", ":e"),
        ("note", ""),
        ("| one\n  | two", None),
        ("send it?", "y"),
    ]
    done = typed(monkeypatch, ["inbox", "resolve", "stuck/1", "send-back"], steps)
    assert done.code == 0, done.screen
    assert _events(stuck, "TicketResolved")[0]["value"] == "one\ntwo"


def test_a_resolution_that_is_not_allowed_claims_nothing(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, stuck: Session
) -> None:
    done = typed(monkeypatch, ["inbox", "resolve", "stuck/1", "edit"], [])
    assert done.code == 5
    assert "user:ann may not edit this escalation ticket: it allows complete" in done.screen
    assert _events(stuck, "TicketClaimed") == []


def test_a_ticket_that_another_holds_opens_no_form(
    monkeypatch: pytest.MonkeyPatch, desk: Desk, ann: Broker, stuck: Session
) -> None:
    with broker_on(desk.url, BOB) as bob:
        bob.inbox.claim(stuck.id, 1)
    done = typed(monkeypatch, ["inbox", "resolve", "stuck/1"], [])
    assert done.code == 4
    assert "is held; user:bob was first" in done.screen


@pytest.mark.parametrize("how", ["interrupt", "end of input", "closed terminal"])
def test_whatever_ends_a_form_what_was_typed_is_kept(
    desk: Desk, ann: Broker, stuck: Session, how: str
) -> None:
    with Program("inbox", "resolve", "stuck/1", "send-back", folder=desk.path.parent) as program:
        hands = program.hands
        hands.do([("what to do better: ", "call the customer"), ("note (Enter for none): ", None)])
        hands.type("not a line y", enter=False)
        if how == "closed terminal":
            program.close()
            assert program.process.wait(timeout=20) != 0
        else:
            hands.type(CTRL_C if how == "interrupt" else CTRL_D * 2, enter=False)
            assert program.ended() == 130
            assert "what you typed is kept as your draft" in hands.screen
    kept = ann.inbox.draft(stuck.id, 1)
    assert kept is not None
    assert (kept.draft.resolution, kept.draft.value) == ("send-back", "call the customer")
    if how == "interrupt":
        assert kept.draft.note == "not a line y"
    ticket = stuck.state().ticket(1)
    assert ticket is not None
    assert ticket.holder is None


def test_a_draft_that_is_half_done_holds_what_was_answered(desk: Desk, ann: Broker, asked: Session) -> None:
    with Program("inbox", "resolve", "asked/1", "answer", folder=desk.path.parent) as program:
        program.hands.do(
            [
                ("choose (1-2): ", "1"),
                ("keep [y/n]: ", "y"),
                ("days", lambda: program.process.send_signal(signal.SIGTERM)),
            ]
        )
        assert program.ended() == 130
    kept = ann.inbox.draft(asked.id, 1)
    assert kept is not None
    assert kept.draft == Draft(resolution="answer", value={"reason": "broken", "keep": True})


def test_a_lease_that_is_lost_while_typing_is_said_at_once_and_by_whom(
    monkeypatch: pytest.MonkeyPatch, desk: Desk, ann: Broker, stuck: Session
) -> None:
    def take_over() -> None:
        words = ["inbox", "take-over", "stuck/1", "--reason", "the customer is on the phone", "--as", BOB]
        subprocess.run([PASSDOWN, *words], cwd=desk.path.parent, capture_output=True, check=True)

    done = typed(
        monkeypatch,
        ["inbox", "resolve", "stuck/1", "send-back"],
        [("what to do better: ", "call them"), ("note", take_over)],
    )
    assert done.code == 4
    assert (
        f"you no longer hold ticket {stuck.id}/1; what you typed is kept as your draft; user:bob was first"
        " (took it over: the customer is on the phone)" in done.screen
    )
    kept = ann.inbox.draft(stuck.id, 1)
    assert kept is not None
    assert kept.draft.value == "call them"


def test_whoever_sends_too_late_is_told_by_whom_and_keeps_what_was_typed(
    monkeypatch: pytest.MonkeyPatch, desk: Desk, ann: Broker, stuck: Session
) -> None:
    # Nothing notices before it is sent.
    monkeypatch.setattr("passdown.broker.cli.keeping._LOOK_S", 3600)

    def take_over_and_send() -> None:
        with broker_on(desk.url, BOB) as bob:
            bob.inbox.take_over(stuck.id, 1, "mine")

    steps = [("what to do better: ", "call them"), ("note", ""), ("send it?", take_over_and_send), ("", "y")]
    done = typed(monkeypatch, ["inbox", "resolve", "stuck/1", "send-back"], steps)
    assert done.code == 4
    assert "is held; what you typed is kept as your draft; user:bob was first" in done.screen
    kept = ann.inbox.draft(stuck.id, 1)
    assert kept is not None
    assert kept.draft.value == "call them"


def test_what_is_typed_about_a_ticket_that_was_decided_meanwhile_is_kept(
    monkeypatch: pytest.MonkeyPatch, desk: Desk, ann: Broker, stuck: Session
) -> None:
    def decide() -> None:
        with broker_on(desk.url, BOB) as bob:
            bob.inbox.take_over(stuck.id, 1, "mine")
            bob.inbox.resolve(stuck.id, 1, "cancel")

    done = typed(
        monkeypatch,
        ["inbox", "resolve", "stuck/1", "send-back"],
        [("what to do better: ", "call them"), ("note", decide)],
    )
    assert done.code == 4
    assert "user:bob was first (cancel)" in done.screen
    assert "what you typed is kept as your draft" in done.screen
    kept = ann.inbox.draft(stuck.id, 1)
    assert kept is not None
    assert kept.draft.value == "call them"


def test_a_claim_is_extended_while_the_form_is_open(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, stuck: Session
) -> None:
    ann.inbox.claim(stuck.id, 1, lease_s=2)

    def wait() -> None:
        until = time.monotonic() + 20
        while not _events(stuck, "TicketExtended"):
            assert time.monotonic() < until, "it is never extended"
            time.sleep(0.05)

    done = typed(
        monkeypatch,
        ["inbox", "resolve", "stuck/1", "send-back"],
        [
            ("what to do better: ", "call them"),
            ("note (Enter for none): ", wait),
            ("", ""),
            ("send it?", "n"),
        ],
    )
    assert done.code == 1
    ticket = stuck.state().ticket(1)
    assert ticket is not None
    assert ticket.holder is not None, "it was held before the form was opened"
    assert ticket.holder.by == ANN


def test_a_decision_that_is_whole_asks_nothing(
    monkeypatch: pytest.MonkeyPatch, ann: Broker, stuck: Session
) -> None:
    done = typed(monkeypatch, ["inbox", "resolve", "stuck/1", "send-back", "better"], [])
    assert done.code == 0
    assert "send it?" not in done.screen
