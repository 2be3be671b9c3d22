"""`archive run`, `list` and `show`."""

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from passdown.broker.client import Session
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk

HOURS_AGO_MS = 7_200_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PASSDOWN_RETENTION", "1h")
    monkeypatch.setenv("PASSDOWN_ARCHIVE", "old")
    (tmp_path / "old").mkdir()
    return tmp_path / "old"


def age(desk: Desk) -> None:
    """Let two hours go by, for what is there."""
    with closing(sqlite3.connect(desk.path)) as db, db:
        db.execute("UPDATE sessions SET updated_at = updated_at - ?", (HOURS_AGO_MS,))


def paid(desk: Desk, key: str = "paid") -> Session:
    session = desk.paid(key)
    age(desk)
    return session


def test_run_archives_and_removes_and_says_where(at_desk: Cli, desk: Desk, folder: Path) -> None:
    session = paid(desk)
    open_one = desk.submit("open", orderId="1")
    said = at_desk("archive", "run")
    (file,) = folder.glob("*/*")
    assert (said.code, said.out.split("\n")[0]) == (0, "1 session removed")
    assert str(file.relative_to(folder)) in said.out
    assert [row.session_id for row in desk.broker.sessions()] == [open_one.id]
    nothing: dict[str, object] = {"removed": 0, "branches": 0, "left": 0, "files": []}
    assert json.loads(at_desk("archive", "run", "--json").out) == nothing

    said = at_desk("status", session.id)
    assert said.code == 3
    assert (
        said.err
        == f"passdown: there is no session '{session.id}'; it ended as done, and was removed under the retention rules\n"
    )


@pytest.mark.parametrize("name", ["status", "log", "replay", "cancel", "retry", "pause"])
def test_whatever_asks_for_it_hears_what_became_of_it(
    at_desk: Cli, desk: Desk, folder: Path, name: str
) -> None:
    paid(desk)
    at_desk("archive", "run")
    said = at_desk(name, "paid")
    assert said.code == 3
    assert (
        said.err
        == "passdown: there is no session 'paid'; it ended as done, and was removed under the retention rules\n"
    )


def test_show_prints_what_log_printed_and_proves_it(at_desk: Cli, desk: Desk, folder: Path) -> None:
    session = paid(desk)
    before = at_desk("replay", session.id).out.splitlines()
    exported = at_desk("export").out.splitlines()
    at_desk("archive", "run")
    for name in (session.id, "paid"):
        said = at_desk("archive", "show", name)
        assert said.code == 0
        *transitions, proof = said.out.splitlines()
        assert transitions == before[:-1]
        assert proof.startswith("archived in old/")
        assert proof.endswith(f": {before[-1]}")
    lines = [json.loads(line) for line in at_desk("archive", "show", "paid", "--lines").out.splitlines()]
    # The brief is made anew from these; an archive keeps what it is made of.
    told = [json.loads(line) for line in exported]
    assert [line for line in lines if line["kind"] in ("session", "event", "effect", "ticket")] == [
        line for line in told if line["kind"] != "brief"
    ]
    proof = json.loads(at_desk("archive", "show", "paid", "--json").out.splitlines()[-1])
    assert proof["problems"] == []


def test_list_shows_the_last_first(at_desk: Cli, desk: Desk, folder: Path) -> None:
    for key in ("first", "second"):
        paid(desk, key)
        at_desk("archive", "run")
    said = at_desk("archive", "list")
    assert said.code == 0
    heads = [line.split()[:4] for line in said.out.splitlines()[1:]]
    assert [head[1:] for head in heads] == [["second", "refund@1", "done"], ["first", "refund@1", "done"]]
    found = json.loads(at_desk("archive", "list", "--json", "--limit", "1").out)["archived"]
    assert [(one["key"], one["taskName"], one["status"]) for one in found] == [
        ("second", "Task of second", "done")
    ]


def test_list_of_nothing_is_empty(at_desk: Cli, desk: Desk, folder: Path) -> None:
    assert json.loads(at_desk("archive", "list", "--json").out) == {"archived": []}


def test_list_says_which_file_is_damaged_and_lists_the_others(at_desk: Cli, desk: Desk, folder: Path) -> None:
    paid(desk)
    at_desk("archive", "run")
    (folder / "2020-01-01").mkdir()
    (folder / "2020-01-01" / "20200101T000000000Z-00000000.jsonl.gz").write_bytes(b"dear diary")
    said = at_desk("archive", "list")
    assert said.code == 1
    assert "paid" in said.out
    assert "20200101T000000000Z-00000000.jsonl.gz" in said.err
    assert "it is damaged" in said.err


def test_show_of_a_log_that_does_not_give_its_state_says_so(at_desk: Cli, desk: Desk, folder: Path) -> None:
    paid(desk)
    at_desk("archive", "run")
    (file,) = folder.glob("*/*")
    text = (
        gzip.decompress(file.read_bytes())
        .replace(b'"sent":0', b'"sent":1')
        .replace(b"Task of paid", b"Task of Paul")
    )
    file.write_bytes(gzip.compress(text))
    said = at_desk("archive", "show", "paid")
    assert said.code == 1
    assert "the log does not give the stored state" in said.out


@pytest.mark.parametrize(
    ("command", "settings", "code", "said"),
    [
        (["run"], {"PASSDOWN_RETENTION": "0s"}, 2, "it is 0s: sessions are kept for ever; say how long"),
        (["run"], {"PASSDOWN_ARCHIVE": ""}, 2, "retention is set, so name the folder for what is removed"),
        (
            ["run"],
            {"PASSDOWN_ARCHIVE": "gone"},
            6,
            "the archive gone is unavailable: there is no such folder",
        ),
        (
            ["list"],
            {"PASSDOWN_ARCHIVE": "gone"},
            6,
            "the archive gone is unavailable: there is no such folder",
        ),
        (
            ["list"],
            {"PASSDOWN_ARCHIVE": "none"},
            2,
            "setting archive does not fit its contract: it names no folder",
        ),
        (["show", "x"], {"PASSDOWN_ARCHIVE": ""}, 2, "it names no folder: `--set archive=FOLDER` does"),
        (["show", "x"], {}, 3, "there is no archived session 'x'; in old"),
    ],
)
def test_what_cannot_be_done_is_said(
    at_desk: Cli,
    desk: Desk,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    settings: dict[str, str],
    code: int,
    said: str,
) -> None:
    paid(desk)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    found = at_desk("archive", *command)
    assert found.code == code
    assert said in found.err
    assert len(desk.broker.sessions()) == 1


def test_without_an_archive_run_only_removes(
    at_desk: Cli, desk: Desk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_ARCHIVE", "none")
    paid(desk)
    assert at_desk("archive", "run").out == "1 session removed\n"
    assert desk.broker.sessions() == []
    assert list(folder.iterdir()) == []


def test_a_file_beside_the_settings_means_a_folder_beside_them(cli: Cli, desk: Desk, tmp_path: Path) -> None:
    there = tmp_path / "etc"
    (there / "old").mkdir(parents=True)
    (there / "passdown.toml").write_text(f'store = "{desk.url}"\nretention = "1h"\narchive = "old"\n')
    paid(desk)
    assert cli("--config", there / "passdown.toml", "archive", "run").code == 0
    assert len(list((there / "old").glob("*/*.jsonl.gz"))) == 1
