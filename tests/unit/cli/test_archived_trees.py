"""Sessions with branches on the command line: exported and proved with them, archived, found and proved again."""

import gzip
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.app import open_store
from passdown.broker.cli import opening
from passdown.broker.client import Session
from passdown.contracts.ids import branch_id, join_id
from tests.unit.broker.groves import REGIONS, grove, regions, tree_in, work
from tests.unit.cli.conftest import Cli, Said
from tests.unit.cli.desk import Desk
from tests.unit.cli.test_archiving import HOURS_AGO_MS
from tests.unit.cli.test_archiving import folder as _folder

folder = _folder


@pytest.fixture
def root(desk: Desk) -> Session:
    """A session with two branches, of which each has two."""
    desk.broker.register(grove())
    session = desk.broker.submit("grove", lists={REGIONS: regions(2, 2)}, key="spread")
    work(desk.broker, session)
    return session


def branch_of(root: Session) -> str:
    """Return a branch of a branch."""
    return branches_of(branches_of(root.id, 2)[1], 2)[0]


def branches_of(session_id: str, count: int) -> list[str]:
    return [branch_id(join_id(session_id, 1), place) for place in range(count)]


@pytest.fixture
def later(at_desk: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run command lines two hours later, by the store's clock."""

    def call(*args: object, stdin: bytes = b"") -> Said:
        with monkeypatch.context() as patch:
            patch.setattr(opening, "open_store", partial(open_store, clock=_two_hours_ahead))
            return at_desk(*args, stdin=stdin)

    return call


def _two_hours_ahead() -> int:
    return time.time_ns() // 1_000_000 + HOURS_AGO_MS


def archived(later: Cli) -> None:
    assert later("archive", "run").out.split("\n")[0] == "1 session removed, with 6 branches"


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


class TestInTheStore:
    def test_export_has_each_branch_after_its_session_and_names_the_parent(
        self, at_desk: Cli, desk: Desk, root: Session
    ) -> None:
        alone = desk.submit("alone", orderId="1")
        lines = objects(at_desk("export").out)
        sessions = [line for line in lines if line["kind"] == "session"]
        assert [line["sessionId"] for line in sessions] == [
            alone.id,
            *tree_in(desk.broker.app.store, root.id),
        ]
        parents = {line["sessionId"]: line["parent"] for line in sessions}
        assert (parents[alone.id], parents[root.id]) == (None, None)
        first = branch_id(join_id(root.id, 1), 1)
        assert parents[branch_of(root)] == {
            "sessionId": first,
            "joinId": join_id(first, 1),
            "branch": "d0",
            "stage": "region",
            "place": 0,
        }
        assert {line["sessionId"] for line in lines if line["kind"] == "event"} == parents.keys()

    def test_of_a_session_that_goes_on_there_is_what_is_open_by_now(self, at_desk: Cli, desk: Desk) -> None:
        desk.broker.register(grove())
        session = desk.broker.submit("grove", lists={REGIONS: regions(1)})
        desk.tick()
        sessions = [line for line in objects(at_desk("export").out) if line["kind"] == "session"]
        assert [line["status"] for line in sessions] == ["waiting-join", "waiting-join"]
        assert sessions[1]["parent"]["sessionId"] == session.id

    def test_rule_06_replay_proves_every_branch_and_names_the_parent(
        self, at_desk: Cli, desk: Desk, root: Session
    ) -> None:
        proofs = objects(at_desk("replay", "--all", "--json").out)
        parents = {proof["sessionId"]: proof["parent"] for proof in proofs}
        assert [*parents] == tree_in(desk.broker.app.store, root.id)
        assert parents[root.id] == ""
        assert parents[branch_of(root)] == branch_id(join_id(root.id, 1), 1)
        said = at_desk("replay", "--all")
        assert said.out.startswith("1 session, 6 branches, ")
        assert said.out.endswith(": every log gives its stored state, byte for byte\n")

    def test_a_branch_whose_state_was_changed_is_named_with_its_parent(
        self, at_desk: Cli, desk: Desk, root: Session
    ) -> None:
        broken = branch_of(root)
        with closing(sqlite3.connect(desk.path)) as db, db:
            sql = "UPDATE sessions SET state = CAST(replace(CAST(state AS TEXT), 'd0', 'd7') AS BLOB) WHERE session_id = ?"
            db.execute(sql, (broken,))
        said = at_desk("replay", "--all")
        assert said.code == 1
        parent = branch_id(join_id(root.id, 1), 1)
        assert f"{broken} (a branch of {parent}): the log does not give the stored state" in said.out
        assert "1 session, 6 branches," in said.out


class TestInTheArchive:
    def test_list_counts_branches_and_lists_none(
        self, at_desk: Cli, later: Cli, root: Session, folder: Path
    ) -> None:
        archived(later)
        (found,) = json.loads(at_desk("archive", "list", "--json").out)["archived"]
        assert (found["sessionId"], found["branches"]) == (root.id, 6)
        assert " 6 " in at_desk("archive", "list").out

    def test_run_counts_them(self, at_desk: Cli, later: Cli, root: Session, folder: Path) -> None:
        said = json.loads(later("archive", "run", "--json").out)
        assert (said["removed"], said["branches"], said["left"], len(said["files"])) == (1, 6, 0, 1)

    def test_show_proves_a_branch_by_its_id(
        self, at_desk: Cli, later: Cli, root: Session, folder: Path
    ) -> None:
        before = at_desk("replay", branch_of(root)).out.splitlines()
        archived(later)
        said = at_desk("archive", "show", branch_of(root))
        assert said.code == 0
        *transitions, proof = said.out.splitlines()
        assert transitions == before[:-1]
        assert proof.endswith(f": {before[-1]}")

    def test_lines_are_those_of_one_session_and_of_what_lay_beside_it(
        self, at_desk: Cli, later: Cli, root: Session, folder: Path
    ) -> None:
        archived(later)
        for name, beside in ((root.id, {"page", "join", "row"}), (branch_of(root), set[str]())):
            lines = objects(at_desk("archive", "show", name, "--lines").out)
            assert {line["sessionId"] for line in lines} == {name}
            assert {line["kind"] for line in lines} == {
                "session",
                "event",
                "state",
                "logged",
                "end",
                *beside,
            } | ({"pack"})

    def test_rule_06_prove_proves_every_log_of_the_tree(
        self, at_desk: Cli, later: Cli, root: Session, folder: Path
    ) -> None:
        ids = [
            root.id,
            *branches_of(root.id, 2),
            *(one for first in branches_of(root.id, 2) for one in branches_of(first, 2)),
        ]
        archived(later)
        for name in ("spread", root.id, branch_of(root)):
            said = at_desk("archive", "prove", name)
            assert said.code == 0
            assert said.out.startswith("archived in old/")
            assert ": 1 session, 6 branches, " in said.out
        proofs = objects(at_desk("archive", "prove", "spread", "--json").out)
        assert sorted(proof["sessionId"] for proof in proofs) == sorted(ids)

    def test_prove_of_a_session_without_branches_proves_that_one(
        self, at_desk: Cli, later: Cli, desk: Desk, folder: Path
    ) -> None:
        for key in ("a", "b"):
            desk.paid(key)
        later("archive", "run")
        said = at_desk("archive", "prove", "a")
        assert said.code == 0
        assert ": 1 session, " in said.out

    def test_prove_says_what_is_in_no_file_and_finds_what_is_in_another(
        self, at_desk: Cli, later: Cli, root: Session, folder: Path
    ) -> None:
        archived(later)
        (path,) = folder.glob("*/*")
        first = branch_id(join_id(root.id, 1), 1)
        _without(path, branch_of(root), path)
        said = at_desk("archive", "prove", "spread")
        assert (said.code, said.err) == (1, f"branch {branch_of(root)} is in no file\n")
        assert ": 1 session, 5 branches, " in said.out
        assert at_desk("archive", "show", branch_of(root)).code == 3

        # What was gone when the newest file was written is in an earlier one.
        earlier = path.with_name("20200101T000000000Z-00000000-00000000.jsonl.gz")
        path.rename(earlier)
        _without(earlier, first, path)
        said = at_desk("archive", "prove", "spread")
        assert (said.code, said.err) == (1, f"branch {branch_of(root)} is in no file\n")
        assert ": 1 session, 5 branches, " in said.out
        assert at_desk("archive", "show", first).code == 0

    def test_prove_of_what_was_changed_says_so(
        self, at_desk: Cli, later: Cli, root: Session, folder: Path
    ) -> None:
        archived(later)
        (path,) = folder.glob("*/*")
        _rewrite(path, path, _lie)
        said = at_desk("archive", "prove", "spread")
        assert said.code == 1
        assert "(a branch of s0-" in said.out


def _without(path: Path, session_id: str, to: Path) -> None:
    """Write a file anew, without one of its sessions."""

    def left(line: bytes) -> bytes:
        return b"" if json.loads(line).get("sessionId") == session_id else line

    _rewrite(path, to, left)


def _lie(line: bytes) -> bytes:
    return line.replace(b'"verdict":"d1"', b'"verdict":"d8"')


def _rewrite(path: Path, to: Path, change: Callable[[bytes], bytes]) -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    to.write_bytes(gzip.compress(b"".join(change(line) for line in lines)))
