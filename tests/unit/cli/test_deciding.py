"""`answer` and `resolve`: what people decide, under their own name, once."""

import pytest

from passdown.contracts.plans import Next, Plan, Stage
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk


@pytest.fixture
def asked(desk: Desk) -> str:
    """A session that waits for an answer."""
    session = desk.submit("asked", orderId="1", ask=True)
    desk.work()
    return session.id


@pytest.fixture
def proposed(desk: Desk) -> str:
    """A ticket that waits for an approval."""
    session = desk.submit("proposed", orderId="1")
    desk.work()
    return f"{session.id}/1"


def test_an_answer_lets_the_session_go_on_and_is_given_once(at_desk: Cli, desk: Desk, asked: str) -> None:
    said = at_desk("answer", "asked", "reason", "42")
    assert (said.code, said.out) == (0, f"reason is answered; {asked} is queued\n")
    assert desk.broker.session("asked").state().questions[0].value == "42"
    assert at_desk("answer", asked, "reason", "42").code == 0
    other = at_desk("answer", asked, "reason", "43")
    assert other.code == 4
    assert at_desk("answer", asked, "reason", "43", "--as", "user:ann").code == 4


def test_the_same_answer_is_the_same_after_the_session_moved_on(at_desk: Cli, desk: Desk, asked: str) -> None:
    assert at_desk("answer", asked, "reason", "42").code == 0
    desk.work()
    assert desk.broker.session("asked").state().questions == []
    assert at_desk("answer", asked, "reason", "42").code == 0


def test_an_answer_comes_from_standard_input_and_may_begin_with_a_dash(
    at_desk: Cli, desk: Desk, asked: str
) -> None:
    assert at_desk("answer", asked, "reason", "-", stdin=b"because\n").code == 0
    assert desk.broker.session("asked").state().questions[0].value == "because"
    desk.submit("other", orderId="1", ask=True)
    desk.work()
    assert at_desk("answer", "other", "reason", "--", "-5").code == 0


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["nope", "reason", "x"], 3, "there is no session 'nope'"),
        (["asked", "nope", "x"], 3, "there is no open question '1/nope'; open are: 1/reason"),
        (["asked", "reason", "x", "--attempt", "7"], 3, "there is no open question '7/reason'"),
        (["asked", "reason", "x", "--attempt", "0"], 2, "0 is not in the range x>=1"),
        (["asked", "reason", '{"a": 1}', "--attempt", "1"], 0, ""),
        (["asked", "reason", "-"], 2, "not UTF-8"),
        (["asked", "reason"], 2, "missing argument 'VALUE'"),
        (["asked", "reason", "x" * 70_000], 2, "answer has "),
    ],
)
def test_an_answer_that_is_wrong_says_so_and_changes_nothing(
    at_desk: Cli, desk: Desk, asked: str, args: list[str], code: int, said: str
) -> None:
    before = desk.fingerprint()
    found = at_desk("answer", *args, stdin=b"\xff")
    assert found.code == code
    assert said in found.err
    assert (desk.fingerprint() == before) == (code != 0)


def test_an_approval_is_given_by_another_person(at_desk: Cli, desk: Desk, proposed: str) -> None:
    mine = at_desk("resolve", proposed, "approve")
    assert (mine.code, mine.out) == (5, "")
    assert "whoever initiated or proposed an action does not decide on it" in mine.err
    yes = ("resolve", proposed, "approve", "--version", "1", "--as", "user:ann", "--note", "fine")
    said = at_desk(*yes)
    assert (said.code, said.out) == (0, f"ticket {proposed}: approve; the session is queued\n")
    desk.work()
    again = at_desk(*yes)
    assert (again.code, again.out) == (0, f"ticket {proposed}: approve; the session is done\n")
    late = at_desk("resolve", proposed, "deny", "--as", "user:bob")
    assert late.code == 4
    assert late.err.startswith(f"passdown: ticket {proposed} is no longer open")


def test_a_ticket_is_found_by_the_sessions_key(at_desk: Cli, desk: Desk) -> None:
    desk.submit("a/b", plan="help", do="escalate")
    desk.work()
    assert at_desk("resolve", "a/b/1", "send-back", "42").code == 0
    desk.work()
    assert desk.broker.session("a/b").status() == "done"


@pytest.mark.parametrize(
    ("resolution", "value", "event"),
    [
        ("send-back", "5", '"value":"5"'),
        ("redirect", "only", '"value":"only"'),
        ("complete", '{"by": "hand"}', '"value":{"by":"hand"}'),
        ("cancel", None, '"resolution":"cancel"'),
    ],
)
def test_each_resolution_takes_its_kind_of_value(
    at_desk: Cli, desk: Desk, resolution: str, value: str | None, event: str
) -> None:
    session = desk.submit("k", plan="help", do="escalate")
    desk.work()
    said = at_desk("resolve", f"{session.id}/1", resolution, *([] if value is None else [value]))
    assert (said.code, said.err) == (0, "")
    resolved = next(raw for raw in session.raw_events() if b'"TicketResolved"' in raw)
    assert event in resolved.decode()


def test_a_ticket_with_questions_is_answered_by_an_object(at_desk: Cli, desk: Desk) -> None:
    stage = Stage(role="analyst", ask="desk", next=Next(field="decision", cases={"approve": "end"}))
    desk.broker.register(Plan(name="asks", start="only", stages={"only": stage}))
    session = desk.submit("k", plan="asks", orderId="1", ask=True)
    desk.work()
    wrong = at_desk("resolve", f"{session.id}/1", "answer", '{"why": "x"}')
    assert wrong.code == 2
    assert "expected an object with reason" in wrong.err
    assert at_desk("resolve", f"{session.id}/1", "answer", '{"reason": "x"}').code == 0
    assert session.state().questions[0].value == "x"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["{t}", "approve", "5", "--as", "user:ann"], 2, "approve takes no VALUE; say why with --note"),
        (["{t}", "nope"], 2, "'nope' is not one of 'answer', 'approve'"),
        (
            ["{t}", "complete", "{}", "--as", "user:ann"],
            5,
            "user:ann may not complete this approval ticket: it allows approve, deny",
        ),
        (["{t}", "edit", "--as", "user:ann"], 2, "the changed arguments are a JSON object"),
        (
            ["{t}", "edit", "[1]", "--version", "1", "--as", "user:ann"],
            2,
            "the changed arguments are a JSON object",
        ),
        (
            ["{t}", "edit", '{"order_id": "1"}', "--version", "1", "--as", "user:ann"],
            2,
            "edit does not fit its contract at /value",
        ),
        (
            ["{t}", "approve", "--as", "user:ann"],
            2,
            "approve says at which version the action was seen: --version N",
        ),
        (["{t}9", "approve", "--as", "user:ann"], 3, "there is no ticket"),
        (["nope/1", "approve"], 3, "there is no ticket 'nope/1'; there is no session 'nope'"),
        (["nope", "approve"], 2, "expected SESSION/NUMBER, got 'nope'"),
        (["proposed/x", "approve"], 2, "expected SESSION/NUMBER"),
        (["proposed/9999999999", "approve"], 2, "expected SESSION/NUMBER"),
        (["/1", "approve"], 2, "expected SESSION/NUMBER"),
        (["proposed/0", "approve"], 2, "expected SESSION/NUMBER"),
    ],
)
def test_a_resolution_that_is_wrong_says_so_and_changes_nothing(
    at_desk: Cli, desk: Desk, proposed: str, args: list[str], code: int, said: str
) -> None:
    before = desk.fingerprint()
    found = at_desk("resolve", *(arg.replace("{t}", proposed) for arg in args))
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    assert desk.fingerprint() == before
