"""Retention of sessions with branches: a tree is archived whole and removed from its leaves, whoever is interrupted."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from passdown.broker.archive import Archive, Entry, read_tree
from passdown.broker.archivist import Archivist, Pass, Retention
from passdown.broker.cli.views.transitions import prove
from passdown.broker.client import Session
from passdown.broker.stores.base import Told
from passdown.broker.stores.sqlite.batch import Batch
from passdown.contracts import commands as cmd
from passdown.contracts.errors import NotFound, Unavailable
from passdown.contracts.ids import branch_id, join_id
from tests.conformance.faulty import Script
from tests.conformance.together import together
from tests.unit.broker.groves import REGIONS, grove, in_archive, no_merger, regions, tree_in, work
from tests.unit.broker.rig import Rig, plan
from tests.unit.broker.test_outgoing import with_events

AFTER_MS = 3_600_000
WAIT_MS = AFTER_MS + 5_000
#: A session, two branches, and theirs.
SIZES = (2, 3)
WHOLE = 1 + len(SIZES) + sum(SIZES)
TABLES = ("sessions", "log", "joins", "join_rows", "pages", "removed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archive"
    made.mkdir()
    return made


class Grove:
    """A tree that ended long ago."""

    def __init__(self, **how: Any) -> None:
        self.rig = Rig()
        if how.pop("events", False):
            with_events(self.rig)
        self.rig.broker.register(grove())
        self.rig.broker.register(plan("p"))
        self.root = self.submit("k", **how)
        self.ids = tree_in(self.rig.store, self.root.id)
        assert len(self.ids) == WHOLE
        self.rig.clock.forward(WAIT_MS)

    def submit(self, key: str, **how: Any) -> Session:
        given = regions(*SIZES, bad=1)
        session = self.rig.broker.submit("grove", lists={REGIONS: given}, key=key, task="Acme")
        work(self.rig.broker, session, clock=self.rig.clock, **how)
        return session

    def archivist(self, folder: Path | None, **more: Any) -> Archivist:
        return Archivist(self.rig.store, Retention(AFTER_MS, AFTER_MS, folder), **more)

    def branch(self, *places: int) -> Session:
        """Return the branch at the end of a way from the root."""
        session_id = self.root.id
        for place in places:
            session_id = branch_id(join_id(session_id, 1), place)
        return self.rig.broker.session(session_id)

    def reopen(self, branch: Session) -> None:
        """Send back to a branch for which nobody waits, as a join service may that was frozen for long."""
        parent = branch.state().parent
        assert parent
        body = cmd.Rework(join_id=parent.join_id, ticket_no=1, feedback="look again")
        self.rig.controller.run(branch.id, body, "user:ann")

    def there(self) -> set[str]:
        return {one for one in self.ids if self.rig.store.load(one).state is not None}

    def rows(self) -> dict[str, int]:
        """Return how many rows the tables have that grow with sessions."""
        counts: dict[str, int] = {}

        def work(batch: Batch) -> None:
            for table in TABLES:
                counts[table] = batch.settled().execute(f"SELECT count(*) FROM {table}").fetchone()[0]

        vars(self.rig.store.inner)["_writer"].run(work)
        return counts


@pytest.fixture
def tree() -> Grove:
    return Grove()


def objects(folder: Path) -> list[dict[str, Any]]:
    (path,) = Archive(folder).files()
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def entry(folder: Path) -> Entry:
    (found,) = Archive(folder).entries()
    assert isinstance(found, Entry)
    return found


class TestWhole:
    def test_it_goes_with_all_its_branches_into_one_file(self, tree: Grove, folder: Path) -> None:
        done = tree.archivist(folder).once()
        assert done == Pass(removed=1, branches=WHOLE - 1, files=[str(entry(folder).path)])
        assert in_archive(folder, tree.root.id) == Counter(tree.ids)
        assert entry(folder).branches == WHOLE - 1
        left = tree.rows()
        assert left == {**dict.fromkeys(TABLES, 0), "removed": WHOLE}
        assert tree.archivist(folder).once() == Pass()

    def test_what_lay_beside_is_in_it_rows_records_and_lists(self, tree: Grove, folder: Path) -> None:
        tree.archivist(folder).once()
        lines = objects(folder)
        own = [line for line in lines if line.get("sessionId") == tree.root.id]
        (page,) = [line["body"] for line in own if line["kind"] == "page"]
        assert page == regions(*SIZES, bad=1)
        (record,) = [line for line in own if line["kind"] == "join"]
        assert (record["joinId"], record["counts"]) == (join_id(tree.root.id, 1), {"done": 2})
        rows = [line for line in lines if line["kind"] == "row"]
        assert {row["branchSessionId"] for row in rows} == {*tree.ids} - {tree.root.id}
        assert Counter(row["outcome"] for row in rows) == {"done": 5, "failed": 2}
        assert all(row["about"] for row in rows)

    def test_rule_06_every_log_of_it_proves_its_state(self, tree: Grove, folder: Path) -> None:
        tree.archivist(folder).once()
        proofs = [prove(one, one.session_id) for one in read_tree(entry(folder))]
        assert [proof.session_id for proof in proofs if proof.holds] == [one.session_id for one in proofs]
        assert {proof.session_id: proof.parent for proof in proofs}[tree.ids[2]] == tree.ids[1]

    def test_a_branch_is_found_by_its_id(self, tree: Grove, folder: Path) -> None:
        tree.archivist(folder).once()
        for session_id in tree.ids:
            found = Archive(folder).find(session_id)
            assert found.session_id == session_id
            assert found.entry.row.session_id == tree.root.id
            assert prove(found, session_id).holds
        with pytest.raises(NotFound):
            Archive(folder).find(branch_id(join_id(tree.root.id, 1), 2))

    def test_without_an_archive_it_is_only_removed(self, tree: Grove, folder: Path) -> None:
        done = tree.archivist(None).once()
        assert (done.removed, done.branches, done.files) == (1, WHOLE - 1, [])
        assert tree.there() == set()

    def test_others_go_beside_it_and_one_after_the_other(
        self, tree: Grove, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tree.submit("k2")
        tree.rig.open(plan("p"), key="alone")
        tree.rig.drain()
        tree.rig.clock.forward(WAIT_MS)
        monkeypatch.setattr("passdown.broker.archivist._PASS_BRANCHES", 1)
        archivist = tree.archivist(folder)
        passes = [archivist.once(), archivist.once(), archivist.once()]
        assert [(one.removed, one.branches, one.more) for one in passes] == [
            (2, WHOLE - 1, True),
            (1, WHOLE - 1, False),
            (0, 0, False),
        ]
        assert len(list(Archive(folder).files())) == 3


class TestInterrupted:
    """Whoever goes on finds what there is by the session, and what is gone in a finished file."""

    @pytest.mark.parametrize(
        ("point", "counts"),
        [
            ("after_session", range(1, WHOLE + 1)),
            ("before_rename", [1]),
            ("after_rename", [1]),
            ("after_remove", range(1, WHOLE + 1)),
        ],
    )
    def test_whoever_dies_anywhere_loses_nothing_and_doubles_nothing(
        self, tmp_path: Path, point: str, counts: list[int]
    ) -> None:
        for count in counts:
            tree = Grove()
            folder = tmp_path / f"{count}"
            folder.mkdir()
            with pytest.raises(KeyboardInterrupt):
                tree.archivist(folder, hook=dies_at(point, count)).once()
            if tree.there():
                assert tree.root.id in tree.there(), "what is left is found by its session"
            gone = {*tree.ids} - tree.there()
            assert gone <= in_archive(folder, tree.root.id).keys()
            tree.archivist(folder).once()
            assert tree.there() == set()
            assert in_archive(folder, tree.root.id) == Counter(tree.ids)

    @pytest.mark.parametrize("fault", ["before", "after"])
    @pytest.mark.parametrize("method", ["put", "load", "events", "find"])
    def test_a_store_that_fails_at_any_call_loses_nothing(
        self, tmp_path: Path, method: str, fault: Any
    ) -> None:
        for nth in range(0, 40, 3):
            tree = Grove()
            folder = tmp_path / f"{nth}"
            folder.mkdir()
            archivist = tree.archivist(folder)
            tree.rig.fail(*[None] * nth, fault, only={method})
            try:
                done = archivist.once()
            except Unavailable:
                pass
            else:
                assert done.removed == 1, "it was asked less often than that"
            tree.rig.store.plan = Script()
            assert {*tree.ids} - tree.there() <= in_archive(folder, tree.root.id).keys()
            archivist.once()
            assert tree.there() == set()
            assert in_archive(folder, tree.root.id) == Counter(tree.ids)

    def test_the_deepest_go_first(self, tree: Grove, folder: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            tree.archivist(folder, hook=dies_at("after_remove", sum(SIZES))).once()
        kept = {tree.root.id, tree.branch(0).id, tree.branch(1).id}
        assert tree.there() >= kept
        assert not {*tree.ids[:2]} - tree.there()

    def test_a_process_that_stops_leaves_the_rest_to_the_next(self, tree: Grove, folder: Path) -> None:
        class Stopping:
            asked = 0

            def is_set(self) -> bool:
                self.asked += 1
                return self.asked > 12

        stop: Any = Stopping()
        done = tree.archivist(folder).once(stop)
        assert (done.removed, done.left, done.files) == (0, 1, [])
        assert tree.there() == {*tree.ids}
        assert [path for path in folder.rglob("*") if path.is_file()] == []
        assert tree.archivist(folder).once().removed == 1

    def test_a_file_that_is_gone_meanwhile_is_no_hindrance(self, tree: Grove, folder: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            tree.archivist(folder, hook=dies_at("after_remove", 3)).once()
        kept = tree.there()
        (path,) = Archive(folder).files()
        path.unlink()
        assert tree.archivist(folder).once().removed == 1
        assert in_archive(folder, tree.root.id) == Counter(kept)

    def test_two_at_once_lose_nothing(self, tree: Grove, folder: Path) -> None:
        def all_of_it(_: int) -> int:
            archivist = tree.archivist(folder)
            return sum(archivist.once().removed for _ in range(3))

        assert sum(together(3, all_of_it)) >= 1
        # One may have been passed over by two who were in each other's way, but never by all.
        assert tree.archivist(folder).once().removed <= 1
        assert tree.there() == set()
        assert in_archive(folder, tree.root.id).keys() == {*tree.ids}


class TestWhatStays:
    def test_a_branch_that_is_reopened_keeps_its_tree(
        self, tree: Grove, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failed = tree.branch(0, 1)
        assert failed.status() == "failed"
        tree.reopen(failed)
        archivist = tree.archivist(folder)
        with structlog.testing.capture_logs() as logs:
            done = archivist.once()
        assert (done.removed, done.left, done.more, done.files) == (0, 1, False, [])
        assert tree.there() == {*tree.ids}
        (said,) = [one for one in logs if one["event"] == "archive.tree_stays"]
        assert said["session"] == tree.root.id
        assert said["why"] == f"something of its branch {failed.id} is open: it is queued"
        assert archivist.once() == Pass(), "it is left alone for a while"

        failed.cancel()
        assert tree.archivist(folder).once().left == 1, "it ended just now"
        tree.rig.clock.forward(WAIT_MS)
        assert archivist.once() == Pass()
        monkeypatch.setattr("passdown.broker.archivist._AGAIN_S", 0.0)
        assert tree.archivist(folder).once().removed == 1
        assert Archive(folder).find(failed.id).version > 5

    def test_it_is_looked_at_again_after_a_while(
        self, tree: Grove, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("passdown.broker.archivist._AGAIN_S", 0.0)
        tree.reopen(tree.branch(0, 1))
        archivist = tree.archivist(folder)
        assert [archivist.once().left for _ in range(2)] == [1, 1]

    def test_a_tree_that_stays_is_in_no_ones_way(self, tree: Grove, folder: Path) -> None:
        tree.reopen(tree.branch(0, 1))
        tree.rig.open(plan("p"), key="alone")
        tree.rig.drain()
        tree.rig.clock.forward(WAIT_MS)
        archivist = tree.archivist(folder, batch=1)
        assert [archivist.once().removed for _ in range(2)] == [0, 1]

    def test_a_branch_that_changes_while_it_is_written_keeps_its_tree(
        self, tree: Grove, folder: Path
    ) -> None:
        reopen = at("after_session", lambda: tree.reopen(tree.branch(1, 1)))
        done = tree.archivist(folder, hook=reopen).once()
        assert (done.removed, done.files) == (0, [])
        assert tree.there() == {*tree.ids}

    def test_a_branch_that_changes_after_it_was_written_stays_with_those_above_and_is_archived_again(
        self, tree: Grove, folder: Path
    ) -> None:
        changed = tree.branch(0, 1)
        tree.archivist(folder, hook=at("after_rename", lambda: tree.reopen(changed))).once()
        assert tree.there() >= {tree.root.id, tree.branch(0).id, changed.id}
        changed.cancel()
        tree.rig.clock.forward(WAIT_MS)
        assert tree.archivist(folder).once().removed == 1
        assert tree.there() == set()
        twice = {one for one, count in in_archive(folder, tree.root.id).items() if count == 2}
        assert changed.id in twice
        assert in_archive(folder, tree.root.id).keys() == {*tree.ids}
        assert prove(Archive(folder).find(changed.id), changed.id).holds

    def test_a_session_that_is_retried_keeps_its_branches(self, folder: Path) -> None:
        tree = Grove(merges=no_merger)
        assert tree.root.status() == "failed"
        done = tree.archivist(folder, hook=at("after_rename", tree.root.retry)).once()
        assert done.removed == 0
        assert tree.there() == {*tree.ids}

    def test_what_is_still_to_be_told_of_a_branch_keeps_it_and_costs_no_second_file(
        self, folder: Path
    ) -> None:
        tree = Grove(events=True)
        tell(tree, tree.root.id)
        archivist = tree.archivist(folder)
        assert (archivist.once().removed, len(list(Archive(folder).files()))) == (0, 1)
        assert tree.there() == {*tree.ids}
        for branch in tree.ids[1:]:
            tell(tree, branch)
        assert tree.archivist(folder).once() == Pass(removed=1, branches=WHOLE - 1)
        assert in_archive(folder, tree.root.id) == Counter(tree.ids)

    def test_a_branch_whose_log_does_not_give_its_state_keeps_its_tree(
        self, tree: Grove, folder: Path
    ) -> None:
        branch = tree.branch(1, 2).id

        def tamper(batch: Batch) -> None:
            sql = "UPDATE sessions SET state = CAST(replace(CAST(state AS TEXT), 'Acme', 'Amce') AS BLOB) WHERE session_id = ?"
            batch.settled().execute(sql, (branch,))

        vars(tree.rig.store.inner)["_writer"].run(tamper)
        archivist = tree.archivist(folder)
        with structlog.testing.capture_logs() as logs:
            assert archivist.once() == Pass(left=1)
            assert archivist.once() == Pass()
        (said,) = [one for one in logs if one["event"] == "archive.unreadable"]
        assert said["session"] == tree.root.id
        assert said["error"].startswith(f"{branch} cannot be read: log does not fit its contract")
        assert tree.there() == {*tree.ids}


def dies_at(point: str, count: int) -> Callable[[str], None]:
    """Return a hook that ends everything when a point is passed for the `count`-th time."""
    left = [count]

    def hook(passed: str) -> None:
        left[0] -= passed == point
        if passed == point and left[0] == 0:
            raise KeyboardInterrupt

    return hook


def at(point: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Return a hook that acts when a point is passed first."""
    acts = [act]

    def hook(passed: str) -> None:
        if passed == point and acts:
            acts.pop()()

    return hook


def tell(tree: Grove, session_id: str) -> None:
    tree.rig.store.put(Told(session_id=session_id, seq=tree.rig.store.load(session_id).version))
