"""`doctor`: one line for each thing looked at, and an exit code that a script can go by."""

import json
import sqlite3
from pathlib import Path

import pytest

from passdown.broker.app import open_store, transport_of
from passdown.broker.doctor import Patient, examine
from passdown.broker.settings import load
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk
from tests.unit.cli.terminal import in_terminal

EXPECTED = [
    "settings",
    "store kind",
    "durability",
    "disk",
    "file system",
    "store clock",
    "store speed",
    "tick",
    "outgoing events",
    "role queues",
    "tickets for operators",
    "tickets for alerts",
    "quarantine",
    "transport",
]


def test_each_thing_is_one_line(at_desk: Cli, desk: Desk) -> None:
    said = at_desk("doctor")
    assert said.code == 0, said.out
    lines = [line.split("  ") for line in said.out.splitlines()]
    found = {line[1].strip() or line[2].strip(): line[0] for line in lines[1:-2]}
    assert list(found) == EXPECTED
    assert set(found.values()) == {"green", "yellow"}
    assert said.out.splitlines()[-1] == "1 yellow, 13 green"


def test_as_json_it_is_one_document(at_desk: Cli) -> None:
    found = json.loads(at_desk("doctor", "--json").out)
    assert found["level"] == "yellow"
    assert [one["what"] for one in found["findings"]] == EXPECTED
    tick = next(one for one in found["findings"] if one["what"] == "tick")
    assert (tick["level"], tick["found"]) == ("yellow", "no tick ever looked; nothing is overdue yet")


def test_settings_in_force_are_shown_with_their_origin_and_without_passwords(
    at_desk: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_STOER", "x")
    monkeypatch.setenv("PASSDOWN_TRANSPORT", "amqp://ann:secret@127.0.0.1:9/")
    said = at_desk("doctor", "--set", "tick_every=2s")
    assert "tick_every = 2s (flag)" in said.out
    assert "transport = amqp://…@127.0.0.1:9/ (PASSDOWN_TRANSPORT)" in said.out
    assert (
        "PASSDOWN_STOER is in the environment, and is no setting; did you mean 'PASSDOWN_STORE'?" in said.out
    )
    assert "secret" not in said.out + said.err


def test_what_does_not_work_is_red_and_the_rest_is_looked_at(cli: Cli, tmp_path: Path) -> None:
    said = cli("doctor")
    assert said.code == 6
    assert "red    store" in said.out
    assert "there is no store 'passdown.db'" in said.out
    assert "green  transport" in said.out
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"


def test_a_file_that_is_no_store_is_red(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "passdown.db").write_bytes(b"x" * 4096)
    said = cli("doctor")
    assert said.code == 6
    assert "it is not a database" in said.out


def test_a_store_that_takes_no_writes_is_red_in_time(desk: Desk) -> None:
    """The other checks of the store are not tried: it would not answer them either."""
    holder = sqlite3.connect(desk.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    patient = Patient(
        loaded=load({"store": desk.url}, environ={}),
        open_store=lambda: open_store(desk.url),
        transport=lambda: transport_of(desk.url),
        environ={},
        within_s=0.5,
    )
    found = list(examine(patient))
    holder.execute("ROLLBACK")
    holder.close()
    red = [(one.what, one.found) for one in found if one.level == "red"]
    assert red == [
        ("store speed", "no answer within 0.5 s"),
        ("store", "not looked at further: it does not answer"),
    ]
    assert found[-1].what == "transport"


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_lines_fit_and_have_colours(desk: Desk, tmp_path: Path, columns: int) -> None:
    screen = in_terminal(columns, "doctor", "--store", desk.url, folder=tmp_path)
    assert screen.code == 0
    assert max(len(line) for line in screen.lines) <= columns
    assert "\x1b[32mgreen" in screen.raw
    assert any("→ start one: `passdown tick`" in line for line in screen.lines)
