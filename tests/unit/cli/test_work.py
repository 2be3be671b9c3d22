"""`submit` and `delegate`: hand over work, and wait for it."""

import json
import threading
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk


def test_a_submit_prints_the_sessions_id_and_nothing_else(at_desk: Cli, desk: Desk) -> None:
    said = at_desk("submit", "refund", "--task", "Acme", "--input", "orderId=4711", "--key", "k")
    session = desk.broker.session("k")
    assert (said.code, said.out, said.err) == (0, f"{session.id}\n", "")
    state = session.state()
    assert (state.task_name, state.data, str(state.plan), state.by) == (
        "Acme",
        {"orderId": "4711"},
        "refund@1",
        "user:producer",
    )


def test_the_same_key_again_is_the_same_session(at_desk: Cli, desk: Desk) -> None:
    words = ("submit", "refund@1", "--input", "orderId=4711", "--key", "k")
    first, again = at_desk(*words), at_desk(*words)
    assert first == again
    other = at_desk("submit", "refund", "--input", "orderId=4712", "--key", "k")
    assert other.code == 4
    assert len(desk.broker.sessions()) == 1


def test_a_queue_for_the_outcome_and_an_exchange_are_kept_with_the_session(at_desk: Cli, desk: Desk) -> None:
    words = ("--set", "events=shop.events", "submit", "refund", "--input", "orderId=1", "--key", "a")
    at_desk(*words, "--reply-to", "shop.replies")
    state = desk.broker.session("a").state()
    assert (state.reply_to, state.events_to) == ("shop.replies", "shop.events")
    at_desk("delegate", "desk", "look", "--key", "b", "--reply-to", "shop.replies")
    assert desk.broker.session("b").state().reply_to == "shop.replies"


def test_inputs_come_from_a_file_from_standard_input_and_one_by_one(
    at_desk: Cli, desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "in.json").write_text('{"orderId": "1", "more": [1]}')
    at_desk("submit", "refund", "--inputs", "in.json", "--input", "ask:=true", "--key", "a")
    at_desk("submit", "refund", "--inputs", "-", "--key", "b", stdin=b'\xef\xbb\xbf{"orderId": "2"}'[3:])
    assert desk.broker.session("a").state().data == {"orderId": "1", "more": [1], "ask": True}
    assert desk.broker.session("b").state().data == {"orderId": "2"}


def test_a_value_is_text_as_it_is_to_the_sdk(at_desk: Cli, desk: Desk) -> None:
    at_desk("submit", "refund", "--input", "orderId=4711", "--input", "n=4711", "--key", "a")
    assert desk.broker.session("a").state().data == {"orderId": "4711", "n": "4711"}


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["nope"], 3, "there is no plan 'nope'; registered are: help@1, refund@1"),
        (["refund@9"], 3, "there is no plan 'refund@9'"),
        (["refund"], 2, 'inputs does not fit its contract at /orderId: "orderId" is a required property'),
        (["refund", "--input", "orderId:=5"], 2, "inputs does not fit its contract at /orderId"),
        (["refund", "--input", "orderId"], 2, "expected NAME=VALUE or NAME:=JSON"),
        (["refund", "--inputs", "gone.json"], 2, "gone.json: No such file or directory"),
        (["refund", "--inputs", "-"], 2, "inputs does not fit its contract: not UTF-8 JSON"),
        (["refund", "--input", "orderId=1", "--key", ""], 2, "an empty --key names no session"),
        (
            ["refund", "--input", "orderId=1", "--key", "x" * 201],
            2,
            "submit does not fit its contract at /key",
        ),
        (["refund", "--input", "orderId=1", "--task", "x" * 201], 2, "/taskName"),
        (["refund", "--input", "orderId=1", "--reply-to", ""], 2, "an empty --reply-to names no queue"),
        (
            ["refund", "--input", "orderId=1", "--reply-to", "a b"],
            2,
            "at /replyTo: expected 1 to 100 letters",
        ),
        (["refund", "--input", "orderId=1", "--reply-to", "passdown.desk"], 2, "belongs to Passdown"),
        (["refund", "--input", "orderId=1", "--timeout", "1s"], 2, "--timeout and --progress go with --wait"),
        (["refund", "--input", "orderId=1", "--no-progress"], 2, "--timeout and --progress go with --wait"),
        (
            ["refund", "--input", "orderId=1", "--wait", "--timeout", "5"],
            2,
            "'5' is no duration; write a number with its unit",
        ),
        (["refund", "--input", "orderId=1", "--as", "ann"], 2, "expected kind:name"),
        (["refund", "--input", f"orderId={'x' * 70_000}"], 2, "inputs has "),
        (
            ["refund", "--input", "orderId=1", "--input", f"n:={'[' * 100}{']' * 100}"],
            2,
            "nested deeper than 64",
        ),
    ],
)
def test_a_submit_that_is_wrong_says_so_and_changes_nothing(
    at_desk: Cli, desk: Desk, args: list[str], code: int, said: str
) -> None:
    before = desk.fingerprint()
    found = at_desk("submit", *args)
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    assert found.err.count("\n") == 1
    assert desk.fingerprint() == before


def test_a_wait_ends_with_the_session(at_desk: Cli, desk: Desk) -> None:
    worker = threading.Timer(0.3, desk.work)
    worker.start()
    said = at_desk("submit", "help", "--input", "a:=1", "--key", "k", "--wait", "--timeout", "30s")
    worker.join()
    session = desk.broker.session("k").id
    assert (said.code, said.err) == (0, "")
    assert said.out == f'{session}\n{session} is done: {{"helped":{{"a":1}}}}\n'


def test_progress_shows_each_event_once_beside_the_answer(at_desk: Cli, desk: Desk) -> None:
    desk.submit("k", plan="help")
    desk.work()
    said = at_desk("submit", "help", "--task", "Task of k", "--key", "k", "--wait", "--progress")
    assert said.code == 0
    assert [line.split()[0] for line in said.err.splitlines()] == [
        "SessionOpened",
        "StageEntered",
        "PackIssued",
        "Claimed",
        "Returned",
        "Completed",
    ]
    assert said.out.count("\n") == 2


@pytest.mark.parametrize(
    ("do", "code", "said"), [("refuse", 1, "is refused: against the rules"), ("nothing", 0, "is done: ")]
)
def test_only_a_session_that_is_done_exits_with_0(
    at_desk: Cli, desk: Desk, do: str, code: int, said: str
) -> None:
    desk.submit("k", plan="help", do=do)
    desk.work()
    words = ("submit", "help", "--task", "Task of k", "--input", f"do={do}", "--key", "k", "--wait")
    found = at_desk(*words)
    assert found.code == code
    assert said in found.out
    document = json.loads(at_desk(*words, "--json").out)
    assert document["status"] == ("done" if code == 0 else "refused")
    assert document["outcome"]["result"] == document["status"]


def test_a_cancelled_session_says_why(at_desk: Cli, desk: Desk) -> None:
    desk.submit("k", plan="help").cancel("enough")
    said = at_desk("submit", "help", "--task", "Task of k", "--key", "k", "--wait")
    assert said.code == 1
    assert said.out.endswith("is cancelled: enough\n")


@pytest.mark.parametrize(
    ("ask", "waits"),
    [
        (False, "after 0ms it is waiting-human for ticket 1 (approval) in refund-approvers"),
        (True, "it is waiting-input for an answer to reason"),
    ],
)
def test_a_timeout_says_for_whom_the_session_waits(at_desk: Cli, desk: Desk, ask: bool, waits: str) -> None:
    desk.submit("k", orderId="1", ask=ask)
    desk.work()
    words = (
        "submit",
        "refund",
        "--task",
        "Task of k",
        "--input",
        "orderId=1",
        "--input",
        f"ask={str(ask).lower()}",
    )
    said = at_desk(*words, "--key", "k", "--wait", "--timeout", "0s")
    assert said.code == 6
    assert waits in said.err
    assert said.err.endswith("; a retry is safe\n")


def test_as_json_a_submit_names_session_key_and_status(at_desk: Cli, desk: Desk) -> None:
    said = json.loads(at_desk("submit", "help", "--json").out)
    assert said["status"] == "queued"
    assert desk.broker.session(said["key"]).id == said["sessionId"]


def test_work_is_delegated_to_a_role_without_a_plan(at_desk: Cli, desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text('{"type": "object", "required": ["helped"]}')
    words = ("delegate", "helper", "Help Ann", "--input", "a=1", "--returns", "out.json", "--key", "k")
    said = at_desk(*words)
    assert said.code == 0
    desk.work()
    state = desk.broker.session("k").state()
    assert (state.status, state.task_name) == ("done", "Help Ann")
    assert at_desk(*words) == said


def test_a_delegation_makes_a_store_where_there_is_none(cli: Cli, tmp_path: Path) -> None:
    assert cli("delegate", "helper", "Help").code == 0
    assert (tmp_path / "passdown.db").exists()
    assert cli("list").code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["helper", "Help", "--returns", "gone.json"], "gone.json: No such file"),
        (["helper", "Help", "--returns", "-"], "returns does not fit its contract"),
        (["helper", "Help", "--returns", "-", "--inputs", "-"], "only one of --inputs and --returns"),
        (["", "Help"], "plan delegate to ''"),
        (["helper"], "missing argument 'GOAL'"),
        (["a role", "Help"], "plan delegate to 'a role'"),
    ],
)
def test_a_delegation_that_is_wrong_says_so_and_changes_nothing(
    at_desk: Cli, desk: Desk, args: list[str], said: str
) -> None:
    before = desk.fingerprint()
    found = at_desk("delegate", *args)
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert desk.fingerprint() == before
