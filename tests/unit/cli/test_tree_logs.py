"""`log` of a session that fans out, `why` of an effect of a branch, and what an operator is told who cancels."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from passdown.agents import Refused
from passdown.broker.cli import treelogs
from passdown.contracts.codec import encode
from tests.unit.cli.conftest import Cli
from tests.unit.cli.terminal import on_terminal
from tests.unit.cli.workshop import Workshop, batch_plan, nested_plan, review_plan

DOCS = [{"name": f"doc-{n}"} for n in range(12)]


def events(lines: list[str]) -> list[str]:
    """Return the names of events, in a log for people that goes into a pipe."""
    return [line.split()[3] for line in lines if line[:4].strip().isdigit()]


def test_each_branch_has_a_line_at_its_join(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(review_plan(need=1))
    workshop.hold()
    workshop.says = {"bob": Refused("not mine")}
    workshop.work()
    lines = in_workshop("log", "k").out.splitlines()
    at = next(n for n, line in enumerate(lines) if " Joined " in line)
    ann, bob, carl = (row.session_id for row in session.branches())
    assert lines[at + 1 : at + 4] == [
        f"     cancelled      ann   {ann}  its branch is no longer needed",
        f"     refused        bob   {bob}  not mine",
        f"     done           carl  {carl}",
    ]
    assert events(lines)[-1] == "Completed"
    assert sum(ann in line for line in lines) == 1


def test_branches_of_an_open_join_stand_at_the_end(in_workshop: Cli, workshop: Workshop) -> None:
    workshop.submit(review_plan())
    lines = in_workshop("log", "k").out.splitlines()
    assert [line.split()[:2] for line in lines[-3:]] == [["queued", name] for name in ("ann", "bob", "carl")]


def test_branches_beyond_the_most_are_counted(
    in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treelogs, "LINES", 4)
    workshop.submit(batch_plan(need=2, at_once=6, merge="first"), lists={"documents": DOCS})
    workshop.says = {"doc-5": RuntimeError("no")}
    workshop.work()
    lines = in_workshop("log", "k").out.splitlines()
    (more,) = [line.strip() for line in lines if "more:" in line]
    said = dict(part.split()[::-1] for part in more.partition(": ")[2].split(", "))
    assert more.startswith("and 8 more: ")
    assert sum(int(count) for count in said.values()) == 8
    assert said["failed"] == "1"
    assert "skipped" in said


def test_a_log_for_machines_has_its_events_only(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(review_plan())
    workshop.work()
    lines = in_workshop("log", "k", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, session.state().seq + 1))


def test_the_logs_of_a_tree_are_one_by_time(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(nested_plan())
    workshop.work()
    out = in_workshop("log", "--tree", "k", "--json").out
    entries = [json.loads(line) for line in out.splitlines()]
    times = [one["event"]["at"] for one in entries]
    assert times == sorted(times)
    logs: dict[str, list[int]] = {}
    for one in entries:
        logs.setdefault(one["branch"], []).append(one["event"]["seq"])
    assert len(logs) == 1 + 2 + 4 + 8
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in logs.values())
    deep = session.branch("a").branch("b").branch("a")
    assert {one["sessionId"] for one in entries if one["branch"] == "fan1/a/fan2/b/fan3/a"} == {deep.id}
    lines = in_workshop("log", "--tree", "k").out.splitlines()
    assert len(lines) == len(entries)
    assert any("fan1/a/fan2/b/fan3/a" in line and "Completed" in line for line in lines)


def test_the_tree_of_a_branch_begins_with_it(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(nested_plan())
    out = in_workshop("log", "--tree", session.branch("a").id, "--json").out
    assert {json.loads(line)["branch"] for line in out.splitlines()} == {
        "",
        *(f"fan2/{one}" for one in "ab"),
        *(f"fan2/{one}/fan3/{two}" for one in "ab" for two in "ab"),
    }


def test_a_tree_of_very_many_is_shown_in_part_and_says_so(
    in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treelogs, "LOGS", 5)
    workshop.submit(batch_plan(), lists={"documents": DOCS})
    said = in_workshop("log", "--tree", "k", "--json")
    assert len({json.loads(line)["branch"] for line in said.out.splitlines()}) == 5
    assert said.err == "these are the logs of the first 5 sessions of the tree\n"


@pytest.mark.parametrize("columns", [80, 160])
def test_a_tree_log_fits_its_terminal(
    in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    workshop.submit(nested_plan())
    screen = on_terminal(monkeypatch, columns, "log", "--tree", "k")
    assert max(len(line) for line in screen.lines) <= columns
    assert any("…n1/a/fan2/b/fan3/a " in line or "fan1/a/fan2/b/fan3/a " in line for line in screen.lines)


@pytest.mark.parametrize("args", [("--after", "3"), ("--follow",)])
def test_a_tree_is_shown_whole(in_workshop: Cli, workshop: Workshop, args: tuple[str, ...]) -> None:
    workshop.submit(review_plan())
    said = in_workshop("log", "--tree", "k", *args)
    assert (said.code, said.out) == (2, "")
    assert "--tree shows whole logs" in said.err


def test_an_effect_of_a_branch_says_where_the_branch_hangs(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(nested_plan())
    workshop.otherwise = {"verdict": "fine", "note": True}
    workshop.work()
    inner = session.branch("a").branch("b")
    (effect,) = inner.branch("a").state().effects
    path = f"{session.id} (Task of k) > fan1/a > {session.branch('a').id} > fan2/b > {inner.id} > fan3/a"
    assert f"branch      {path}" in in_workshop("why", effect.effect_id).out
    above = json.loads(in_workshop("why", effect.effect_id, "--json").out)["above"]
    assert [one["sessionId"] for one in above] == [session.id, session.branch("a").id, inner.id]


def test_cancel_says_that_branches_are_called_off_and_they_are(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(nested_plan())
    said = in_workshop("cancel", "k", "--reason", "enough")
    assert said.code == 0
    assert said.out == (
        f"{session.id} will be cancelled once its branches have ended, which are called off\n"
    )
    for one in (session, session.branch("a"), session.branch("b")):
        workshop.catch_up(one)
    for _ in range(3):
        for one in (session.branch("a").branch("a"), session.branch("a"), session.branch("b"), session):
            workshop.catch_up(one)
    assert session.status() == "cancelled"
    deep = session.branch("b").branch("a").branch("a").state()
    assert (deep.status, deep.outcome.reason if deep.outcome else "") == ("cancelled", "enough")


def test_status_of_a_session_that_ends_says_what_it_waits_for(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(review_plan())
    session.cancel("enough")
    (wait,) = json.loads(in_workshop("status", "k", "--json").out)["waits"]
    assert wait["what"] == "3 branches to end, called off, then it is cancelled"
    workshop.settle()
    assert json.loads(in_workshop("status", "k", "--json").out)["waits"] == []


def test_a_retry_of_a_branch_whose_parent_has_ended_is_refused(in_workshop: Cli, workshop: Workshop) -> None:
    workshop.says = {"bob": RuntimeError("no")}
    session = workshop.submit(review_plan(on_short="fail"))
    workshop.work()
    assert session.status() == "failed"
    bob = session.branch("bob")
    before = encode(bob.state())
    said = in_workshop("retry", bob.id)
    assert (said.code, said.out) == (4, "")
    assert "has ended (submit the work anew)" in said.err
    assert encode(bob.state()) == before


def test_a_plan_that_is_gone_hides_neither_status_nor_log(
    in_workshop: Cli, workshop: Workshop, tmp_path: Path
) -> None:
    workshop.submit(review_plan())
    with closing(sqlite3.connect(tmp_path / "workshop.db")) as db:
        db.execute("DELETE FROM documents")
        db.commit()
    assert in_workshop("status", "k").code == 0
    said = in_workshop("log", "k")
    assert said.code == 0
    assert said.out.splitlines()[-1].startswith(
        "     its branches cannot be told: plan review@1: its document"
    )
    shown = in_workshop("show", "k")
    assert (shown.code, shown.out) == (2, "")
    assert "plan review@1: its document" in shown.err
