"""What people see: lines that fit the terminal, colours and progress only where they belong."""

import subprocess
from pathlib import Path

import pytest

from tests.unit.cli.desk import Desk
from tests.unit.cli.terminal import PASSDOWN, in_terminal, on_terminal


@pytest.fixture
def full(desk: Desk) -> Desk:
    """A desk with a session of every kind."""
    desk.paid()
    desk.submit("asked", orderId="1", ask=True)
    desk.submit("proposed", orderId="2")
    desk.submit("escalated", plan="help", do="escalate")
    desk.submit("failing", plan="help", do="fail")
    desk.work()
    desk.submit("queued", orderId="3")
    return desk


def effect_of(desk: Desk) -> str:
    return desk.broker.session("paid").state().effects[0].effect_id


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_every_screen_fits_its_terminal(full: Desk, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    keys = ("paid", "asked", "proposed", "escalated", "failing", "queued")
    commands = [["status", key] for key in keys]
    commands += [["list"], ["tickets"], ["log", "paid"], ["replay", "paid"], ["why", effect_of(full)]]
    commands += [["config"], ["tools", "list"], ["replay", "--all"], ["plan", "show", "refund"]]
    for command in commands:
        screen = on_terminal(monkeypatch, columns, *command, "--store", full.url)
        assert screen.code == 0, command
        copied = [line for line in screen.lines if line.strip().startswith("passdown ")]
        wide = [line for line in screen.lines if len(line) > columns and line not in copied]
        assert wide == [], command


def test_a_command_to_copy_is_never_broken(full: Desk) -> None:
    screen = in_terminal(60, "status", "proposed", "--store", full.url, folder=full.path.parent)
    session = full.broker.session("proposed").id
    assert f"    passdown resolve {session}/1 RESOLUTION --version 1 --as PRINCIPAL" in screen.lines


def test_colours_are_for_terminals_that_want_them(full: Desk) -> None:
    words = ("status", "paid", "--store", full.url)
    folder = full.path.parent
    assert "\x1b[32mdone" in in_terminal(80, *words, folder=folder).raw
    assert "\x1b[" not in in_terminal(80, *words, folder=folder, TERM="dumb").raw
    colourless = in_terminal(80, *words, folder=folder, NO_COLOR="1").raw
    assert "\x1b[32m" not in colourless
    piped = subprocess.run([PASSDOWN, *words], cwd=folder, capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout + piped.stderr


def test_progress_and_hints_are_for_terminals(full: Desk) -> None:
    folder = full.path.parent
    words = ("submit", "refund", "--task", "Task of proposed", "--input", "orderId=2", "--key", "proposed")
    words = (*words, "--as", "user:producer", "--store", full.url)
    screen = in_terminal(80, *words, "--wait", "--timeout", "300ms", folder=folder)
    assert screen.code == 6
    assert any(line.startswith("TicketOpened  ticket 1 (approval") for line in screen.lines)
    assert "pay, attempt 1: waiting-human" in screen.raw
    assert screen.lines[-1].startswith("passdown: the outcome of ")
    assert any("passdown status " in line for line in in_terminal(80, *words, folder=folder).lines)
    piped = subprocess.run([PASSDOWN, *words], cwd=folder, capture_output=True, text=True, check=True)
    assert piped.stderr == ""


def test_json_is_indented_for_people(full: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch, 80, "status", "paid", "--json", "--store", full.url)
    assert screen.lines[0] == "{"
    assert screen.lines[1].startswith('  "sessionId": ')


def test_times_have_milliseconds_where_there_is_room(full: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, length in ((80, 8), (120, 12)):
        screen = on_terminal(monkeypatch, columns, "log", "paid", "--store", full.url)
        assert len(screen.lines[0].split()[1]) == length


def test_a_terminal_that_shows_ascii_only_is_no_reason_to_fail(full: Desk) -> None:
    full.submit("ümläut 漢", plan="help")
    words = [PASSDOWN, "status", "ümläut 漢", "--store", full.url]
    env = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin", "PYTHONUTF8": "1", "HOME": str(Path.home())}
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=True)
    assert "\\xfcml\\xe4ut \\u6f22" in done.stdout
