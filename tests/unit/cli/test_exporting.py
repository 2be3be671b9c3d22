"""`export`: what a check from outside needs, and nothing that it must believe."""

import json
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.cli.exporting import write_whole
from passdown.broker.cli.views.exports import all_sessions, export_lines
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk


def lines(cli: Cli, kind: str = "") -> list[dict[str, Any]]:
    said = cli("export")
    assert (said.code, said.err) == (0, "")
    found = [json.loads(line) for line in said.out.splitlines()]
    return [one for one in found if not kind or one["kind"] == kind]


def test_a_store_without_sessions_has_no_lines(at_desk: Cli, desk: Desk) -> None:
    assert lines(at_desk) == []


def test_each_session_has_a_line_and_one_for_each_event_in_order(at_desk: Cli, desk: Desk) -> None:
    session = desk.paid()
    desk.submit("k", plan="help", do="refuse")
    desk.work()
    first, second = lines(at_desk, "session")
    assert (first["key"], first["status"], first["outcome"]["reason"]) == (
        "k",
        "refused",
        "against the rules",
    )
    assert (second["sessionId"], second["stage"], second["outcome"]["output"]) == (
        session.id,
        "tell",
        {"told": True},
    )
    events = [one for one in lines(at_desk, "event") if one["sessionId"] == session.id]
    stored = [json.loads(raw) for raw in session.raw_events()]
    assert [(one["seq"], one["type"], one["by"], one["prev"]) for one in events] == [
        (one["seq"], one["event"]["type"], one["by"], one["prev"]) for one in stored
    ]


def test_an_open_session_has_no_outcome(at_desk: Cli, desk: Desk) -> None:
    desk.submit("k", orderId="1")
    (line,) = lines(at_desk, "session")
    assert (line["status"], line["outcome"]) == ("queued", None)


def test_an_effect_has_its_key_its_arguments_and_its_result(at_desk: Cli, desk: Desk) -> None:
    desk.paid()
    refund, mail = lines(at_desk, "effect")
    assert refund["key"] in desk.outside
    assert (refund["tool"], refund["ordinal"], refund["status"], refund["attempts"]) == (
        "refunds.create",
        1,
        "done",
        1,
    )
    assert refund["args"] == {"order_id": "4711", "cents": 5000}
    assert refund["result"] == {"id": "rf-4711"}
    assert refund["approvedBy"] == "user:ann"
    assert (mail["tool"], mail["ordinal"], mail["result"]) == ("mail.send", 2, None)


def test_what_the_state_left_in_the_log_is_fetched_from_there(at_desk: Cli, desk: Desk) -> None:
    """Large arguments and results, and those of effects that are not among the latest, stand in events only."""
    desk.big = 6000
    session = desk.submit("k", plan="help", do="mails", count=20)
    desk.work()
    held = session.state().effects
    assert session.status() == "done"
    assert held[0].args is None
    assert held[0].result is None
    effects = lines(at_desk, "effect")
    assert [one["args"] for one in effects] == [{"to": f"{n}@example.org" + "x" * 6000} for n in range(20)]
    assert [one["result"] for one in effects] == [{"sent": n, "text": "y" * 6000} for n in range(20)]


def test_every_ticket_that_was_ever_opened_is_there_with_how_it_ended(at_desk: Cli, desk: Desk) -> None:
    desk.paid()
    escalated = desk.submit("k", plan="help", do="escalate")
    waiting = desk.submit("w", orderId="1")
    desk.work()
    escalated.resolve(1, "send-back", "the newer one")
    tickets = {one["sessionId"]: one for one in lines(at_desk, "ticket")}
    assert len(tickets) == 3
    sent_back = tickets[escalated.id]
    assert (sent_back["status"], sent_back["resolution"], sent_back["value"]) == (
        "resolved",
        "send-back",
        "the newer one",
    )
    assert (sent_back["ticketKind"], sent_back["queue"], sent_back["closedBy"]) == (
        "escalation",
        "operators",
        "user:producer",
    )
    assert (tickets[waiting.id]["status"], tickets[waiting.id]["ticketKind"]) == ("open", "approval")
    waiting.cancel("enough")
    tickets = {one["sessionId"]: one for one in lines(at_desk, "ticket")}
    assert (tickets[waiting.id]["status"], tickets[waiting.id]["withdrawnWhy"]) == ("withdrawn", "enough")


def test_an_edit_exports_what_ran_and_what_was_proposed(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="4711")
    desk.work()
    less = '{"order_id": "4711", "cents": 1}'
    said = at_desk("resolve", f"{session.id}/1", "edit", less, "--version", "1", "--as", "user:ann")
    assert said.code == 0
    desk.work()
    refund, _ = lines(at_desk, "effect")
    assert refund["args"] == {"order_id": "4711", "cents": 1}
    assert refund["proposedArgs"] == {"order_id": "4711", "cents": 5000}


def test_an_events_own_kind_does_not_hide_the_kind_of_the_line(at_desk: Cli, desk: Desk) -> None:
    desk.submit("k", orderId="1")
    desk.work()
    (opened,) = [one for one in lines(at_desk, "event") if one["type"] == "TicketOpened"]
    assert opened["eventKind"] == "approval"


def test_all_sessions_are_exported_page_by_page(desk: Desk) -> None:
    ids = [desk.submit(f"k{n}", orderId="1").id for n in range(205)]
    assert [row.session_id for row in all_sessions(desk.broker)] == ids[::-1]


def test_lines_of_others_follow(desk: Desk) -> None:
    desk.submit("k", orderId="1")
    *_, last = export_lines(desk.broker, ({"kind": "outside", "n": n} for n in range(2)))
    assert json.loads(last) == {"kind": "outside", "n": 1}


def test_a_file_holds_the_same_and_appears_whole(at_desk: Cli, desk: Desk, tmp_path: Path) -> None:
    desk.paid()
    said = at_desk("export", "--out", "all.jsonl")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert (tmp_path / "all.jsonl").read_text() == at_desk("export").out


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_text("old")

    def broken() -> Any:
        yield b"new\n"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_whole(broken(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("out", "code"), [("gone/all.jsonl", 6), (".", 2)])
def test_a_file_that_cannot_be_written_is_said(at_desk: Cli, desk: Desk, out: str, code: int) -> None:
    said = at_desk("export", "--out", out)
    assert said.code == code
    assert said.err.startswith("passdown: ")
