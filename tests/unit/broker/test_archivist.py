"""Retention: what ended is archived whole, then removed, and nothing is removed that is not in a finished file."""

import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
from msgspec.structs import replace

from passdown.agents import Done, agent
from passdown.broker.archive import Archive, Archived
from passdown.broker.archivist import Archivist, Pass, Retention, archivist_parts, retention_of
from passdown.broker.cli.views.exports import export_lines
from passdown.broker.cli.views.transitions import prove
from passdown.broker.client import Session
from passdown.broker.settings import load
from passdown.broker.stores.queries import FindPack
from passdown.broker.stores.sqlite.batch import Batch
from passdown.contracts.errors import Conflict, ContractError, NotFound, Unavailable
from tests.conformance.faulty import Script
from tests.conformance.together import together
from tests.unit.broker.rig import ROLE, Rig, plan

AFTER_MS = 3_600_000
#: A session's times are the clock's, and what elapsed in fact beyond that.
WAIT_MS = AFTER_MS + 5_000
KEYS_MS = 7_200_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archive"
    made.mkdir()
    return made


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.broker.register(plan("p"))
    return made


def archivist(rig: Rig, folder: Path | None, **more: Any) -> Archivist:
    return Archivist(rig.store, Retention(AFTER_MS, KEYS_MS, folder), **more)


def ended(rig: Rig, count: int = 1, *, wait_ms: int = WAIT_MS) -> list[Session]:
    """Return sessions that ended so long ago."""
    sessions = [
        rig.broker.submit("p", inputs={"n": n}, key=f"key-{n}", task=f"Task {n}") for n in range(count)
    ]
    rig.drain()
    assert [session.status() for session in sessions] == ["done"] * count
    rig.clock.forward(wait_ms)
    return sessions


def failed(rig: Rig) -> Session:
    """Return a session that failed just now, and can be retried."""

    @agent(ROLE)
    def faulty(pack: Any, ctx: Any) -> Done:
        raise RuntimeError("no")

    session = rig.open(plan("failing", on_failed="fail", max_attempts=1), key="failing")
    rig.drain(faulty)
    assert session.status() == "failed"
    return session


def at(wanted: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Return a hook that acts at a point of a pass."""

    def hook(point: str) -> None:
        if point == wanted:
            act()

    return hook


def tamper(rig: Rig, session: Session) -> None:
    """Change a session's state past its log."""
    sql = "UPDATE sessions SET state = CAST(replace(CAST(state AS TEXT), 'Task', 'Tusk') AS BLOB) WHERE session_id = ?"

    def work(batch: Batch) -> None:
        batch.settled().execute(sql, (session.id,))

    vars(rig.store.inner)["_writer"].run(work)


def there(rig: Rig, sessions: list[Session]) -> list[bool]:
    return [rig.store.load(session.id).state is not None for session in sessions]


def files(folder: Path) -> list[Path]:
    """Return everything in the archive, also what is half-written."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def objects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def found(folder: Path, name: str) -> Archived:
    return Archive(folder).find(name)


class TestOnePass:
    def test_what_ended_long_ago_is_archived_and_removed_and_nothing_else(
        self, rig: Rig, folder: Path
    ) -> None:
        (old,) = ended(rig)
        young = rig.broker.submit("p", key="young")
        rig.drain()
        is_open = rig.broker.submit("p", key="open")
        rig.clock.forward(AFTER_MS - 1_000)
        done = archivist(rig, folder).once()
        assert (done.removed, done.left, done.more) == (1, 0, False)
        assert there(rig, [old, young, is_open]) == [False, True, True]
        assert [str(path) for path in files(folder)] == done.files
        assert archivist(rig, folder).once() == Pass()
        rig.clock.forward(6_000)
        assert archivist(rig, folder).once().removed == 1
        assert there(rig, [young, is_open]) == [False, True]

    def test_a_file_holds_what_export_writes_and_what_was_stored(self, rig: Rig, folder: Path) -> None:
        session, other = ended(rig, 2)
        exported = [json.loads(line) for line in export_lines(rig.broker)]
        loaded = rig.store.load(session.id)
        log = rig.store.events(session.id)
        pack = rig.store.find(FindPack(session_id=session.id, step=1, attempt=1))
        (path,) = map(Path, archivist(rig, folder).once().files)

        head, *lines = objects(path)
        assert (head["kind"], head["spec"]) == ("archive", "passdown.archive/1")
        assert {row["sessionId"] for row in head["sessions"]} == {session.id, other.id}
        mine = [line for line in lines if line["sessionId"] == session.id]
        assert mine in (lines[: len(mine)], lines[-len(mine) :]), "one session after the other"
        as_exported = [line for line in mine if line["kind"] not in ("state", "logged", "pack", "end")]
        facts = [line for line in exported if line["kind"] != "brief"]
        assert as_exported == [line for line in facts if line["sessionId"] == session.id]
        assert mine[-1] == {"kind": "end", "sessionId": session.id}
        kept = found(folder, session.id)
        assert (kept.state, kept.version, kept.logged, kept.packs) == (
            loaded.state,
            loaded.version,
            log,
            [pack],
        )

    def test_rule_06_an_archived_log_proves_its_state(self, rig: Rig, folder: Path) -> None:
        sessions = ended(rig, 3)
        archivist(rig, folder).once()
        for session in sessions:
            kept = found(folder, session.id)
            assert prove(kept, session.id).holds
            broken = kept._replace(logged=kept.logged[:-1])
            assert not prove(broken, session.id).holds

    def test_a_pass_is_bounded_and_says_that_there_is_more(self, rig: Rig, folder: Path) -> None:
        sessions = ended(rig, 5)
        small = archivist(rig, folder, batch=2)
        assert [(one.removed, one.more) for one in (small.once(), small.once(), small.once())] == [
            (2, True),
            (2, True),
            (1, False),
        ]
        assert len(files(folder)) == 3
        assert not any(there(rig, sessions))
        assert {found(folder, session.id).entry.row.key for session in sessions} == {
            f"key-{n}" for n in range(5)
        }

    def test_a_file_is_bounded(self, rig: Rig, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("passdown.broker.archivist._FILE_BYTES", 2_000)
        ended(rig, 3)
        one = archivist(rig, folder)
        assert [(done.removed, done.left) for done in (one.once(), one.once(), one.once())] == [
            (1, 2),
            (1, 1),
            (1, 0),
        ]

    def test_without_an_archive_they_are_only_removed(self, rig: Rig, folder: Path) -> None:
        sessions = ended(rig, 2)
        done = archivist(rig, None).once()
        assert (done.removed, done.files) == (2, [])
        assert not any(there(rig, sessions))
        assert files(folder) == []


class TestWhatGoesWrong:
    def test_a_folder_that_is_not_there_is_said_and_nothing_is_removed(
        self, rig: Rig, tmp_path: Path
    ) -> None:
        sessions = ended(rig, 2)
        folder = tmp_path / "not" / "mounted"
        one = archivist(rig, folder)
        with pytest.raises(
            Unavailable, match=r"not/mounted is unavailable: there is no such folder; make it, or"
        ):
            one.once()
        assert all(there(rig, sessions))
        folder.mkdir(parents=True)
        assert one.once().removed == 2

    def test_a_file_that_cannot_be_written_removes_nothing_and_leaves_nothing(
        self, rig: Rig, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sessions = ended(rig, 2)

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("passdown.broker.archive.os.fsync", full)
            with pytest.raises(Unavailable, match=r"No space left on device, at .*\.jsonl\.gz\.part"):
                archivist(rig, folder).once()
        assert all(there(rig, sessions))
        assert files(folder) == []
        assert archivist(rig, folder).once().removed == 2

    def test_a_store_that_is_away_in_the_middle_leaves_no_half_file(self, rig: Rig, folder: Path) -> None:
        sessions = ended(rig, 3)
        rig.fail("before", only={"events"})
        with pytest.raises(Unavailable, match="faulty store"):
            archivist(rig, folder).once()
        assert files(folder) == []
        assert all(there(rig, sessions))

    def test_a_removal_whose_reply_is_lost_costs_a_double_at_most(self, rig: Rig, folder: Path) -> None:
        sessions = ended(rig, 3)
        rig.fail("after", only={"put"})
        with pytest.raises(Unavailable):
            archivist(rig, folder).once()
        left = there(rig, sessions).count(True)
        assert left < 3
        assert archivist(rig, folder).once().removed == left
        assert all(prove(found(folder, session.id), session.id).holds for session in sessions)

    def test_a_log_that_does_not_give_its_state_stays_and_is_no_ones_hindrance(
        self, rig: Rig, folder: Path
    ) -> None:
        sessions = ended(rig, 3)
        tamper(rig, sessions[1])
        one = archivist(rig, folder, batch=2)
        with structlog.testing.capture_logs() as logs:
            # Which of them ended first is a matter of the milliseconds that their handoffs took.
            assert one.once().removed + one.once().removed == 2
            assert one.once() == Pass()
        assert there(rig, sessions) == [False, True, False]
        (said,) = [entry for entry in logs if entry["event"] == "archive.unreadable"]
        assert said["session"] == sessions[1].id
        assert said["error"] == "log does not fit its contract: folding it does not give the stored state"

    def test_a_session_that_changes_before_it_is_written_is_not_in_the_file(
        self, rig: Rig, folder: Path
    ) -> None:
        (first,) = ended(rig, wait_ms=1_000)
        second = failed(rig)
        rig.clock.forward(WAIT_MS)
        done = archivist(rig, folder, hook=at("after_session", second.retry)).once()
        assert (done.removed, done.left) == (1, 1)
        assert second.status() == "queued"
        assert there(rig, [first, second]) == [False, True]
        with pytest.raises(NotFound, match=f"there is no archived session '{second.id}'; in "):
            found(folder, second.id)

    def test_a_session_that_changes_after_it_was_written_stays_and_is_archived_again(
        self, rig: Rig, folder: Path
    ) -> None:
        session = failed(rig)
        rig.clock.forward(WAIT_MS)
        archivist(rig, folder, hook=at("after_rename", session.retry)).once()
        assert session.status() == "queued"
        session.cancel()
        rig.clock.forward(WAIT_MS)
        assert archivist(rig, folder).once().removed == 1
        kept = found(folder, session.id)
        assert kept.entry.row.status == "cancelled"
        assert prove(kept, session.id).holds

    def test_what_another_archivist_removes_meanwhile_is_in_its_file_whole(
        self, rig: Rig, folder: Path
    ) -> None:
        sessions = ended(rig, 3)
        others: list[Pass] = []

        def overtaken(point: str) -> None:
            if point == "after_session" and not others:
                others.append(archivist(rig, folder).once())

        done = archivist(rig, folder, hook=overtaken).once()
        assert (others[0].removed, done.removed, done.left) == (3, 1, 2)
        for session in sessions:
            assert prove(found(folder, session.id), session.id).holds

    @pytest.mark.parametrize(
        ("method", "nth"), [("load", 1), ("load", 2), ("find", 2), ("events", 1), ("find", 3)]
    )
    def test_what_another_one_removes_while_it_is_read_is_left_to_that_one(
        self, rig: Rig, folder: Path, method: str, nth: int
    ) -> None:
        (session,) = ended(rig)
        seen: list[str] = []

        def overtaken(called: str) -> None:
            seen.append(called)
            if called == method and seen.count(method) == nth:
                rig.store.plan = Script()
                assert archivist(rig, folder).once().removed == 1

        rig.store.plan = overtaken
        with structlog.testing.capture_logs() as logs:
            done = archivist(rig, folder).once()
        assert (done.removed, done.left) == (0, 1)
        assert logs == []
        (file,) = files(folder)
        assert found(folder, session.id).entry.path == file
        assert len(found(folder, session.id).packs) == 1

    def test_two_at_once_lose_nothing(self, rig: Rig, folder: Path) -> None:
        sessions = ended(rig, 30)

        def all_of_it(_: int) -> int:
            one = archivist(rig, folder, batch=7)
            count = 0
            while (done := one.once()) != Pass():
                count += done.removed
            return count

        assert sum(together(3, all_of_it)) >= 30
        assert not any(there(rig, sessions))
        assert all(prove(found(folder, session.id), session.id).holds for session in sessions)

    def test_the_thread_says_what_goes_wrong_and_goes_on(self, rig: Rig, tmp_path: Path) -> None:
        sessions = ended(rig, 5)
        folder = tmp_path / "archive"
        stop = threading.Event()
        passes: list[str] = []

        def hook(point: str) -> None:
            passes.append(point)
            if passes.count("after_remove") == 5:
                stop.set()

        one = archivist(rig, folder, batch=2, every_s=0.01, hook=hook)
        with structlog.testing.capture_logs() as logs:
            thread = threading.Thread(target=one.run, args=(stop,))
            thread.start()
            try:
                while not any(entry["event"] == "archive.failed" for entry in logs):
                    assert thread.is_alive()
                    stop.wait(0.005)
                folder.mkdir()
                assert stop.wait(10)
            finally:
                stop.set()
                thread.join(10)
        assert not any(there(rig, sessions))
        assert "there is no such folder" in next(e["error"] for e in logs if e["event"] == "archive.failed")
        assert sum(e["removed"] for e in logs if e["event"] == "archive.pass") >= 4


class TestAfterwards:
    def removed(self, rig: Rig, folder: Path) -> Session:
        (session,) = ended(rig)
        assert archivist(rig, folder).once().removed == 1
        return session

    def test_whoever_asks_hears_how_it_ended(self, rig: Rig, folder: Path) -> None:
        session = self.removed(rig, folder)
        sentence = (
            f"there is no session '{session.id}'; it ended as done, and was removed under the retention rules"
        )
        for ask in (
            session.state,
            session.status,
            lambda: session.result(0),
            lambda: session.result(5),
            session.resume,
            lambda: rig.broker.session(session.id),
            lambda: rig.broker.submit("p", inputs={"n": 0}, key="key-0", task="Task 0").result(0),
        ):
            with pytest.raises(NotFound) as caught:
                ask()
            assert str(caught.value) == sentence
        with pytest.raises(NotFound, match="'key-0'; it ended as done, and was removed"):
            rig.broker.session("key-0")
        with pytest.raises(NotFound) as caught:
            rig.broker.session("nobody")
        assert str(caught.value) == "there is no session 'nobody'"

    def test_the_same_submit_is_the_same_session_and_opens_nothing(self, rig: Rig, folder: Path) -> None:
        session = self.removed(rig, folder)
        for _ in range(2):
            assert rig.broker.submit("p", inputs={"n": 0}, key="key-0", task="Task 0").id == session.id
        assert rig.broker.sessions() == []

    def test_also_where_the_plan_has_a_newer_version_by_then(self, rig: Rig, folder: Path) -> None:
        session = self.removed(rig, folder)
        for version in (2, 3):
            rig.broker.register(replace(plan("p"), version=version))
        assert rig.broker.submit("p", inputs={"n": 0}, key="key-0", task="Task 0").id == session.id
        assert rig.broker.sessions() == []
        assert rig.broker.submit("p", key="new").state().plan.version == 3

    def test_another_content_under_the_same_key_is_a_conflict(self, rig: Rig, folder: Path) -> None:
        session = self.removed(rig, folder)
        with pytest.raises(
            Conflict,
            match=rf"the key 'key-0' belonged to session {session.id}, .* another content, and ended as done",
        ):
            rig.broker.submit("p", inputs={"n": 99}, key="key-0", task="Task 0")

    def test_the_key_is_kept_while_the_session_is_open_then_its_time_starts(
        self, rig: Rig, folder: Path
    ) -> None:
        """Fault #31 of shared queues: a key that expires while its work is open lets it in twice."""
        session = rig.broker.submit("p", inputs={"n": 0}, key="slow")
        for _ in range(5):
            rig.clock.forward(10 * KEYS_MS)
            rig.sweep()
            archivist(rig, folder).once()
            assert rig.broker.submit("p", inputs={"n": 0}, key="slow").id == session.id
        assert len(rig.broker.sessions()) == 1
        rig.drain()
        rig.clock.forward(WAIT_MS)
        archivist(rig, folder).once()
        rig.clock.forward(KEYS_MS - 1)
        rig.sweep()
        assert rig.broker.submit("p", inputs={"n": 0}, key="slow").id == session.id
        assert rig.broker.sessions() == []
        rig.clock.forward(1)
        rig.sweep()
        assert rig.broker.submit("p", inputs={"n": 0}, key="slow").status() == "queued"


SET = {"retention": "30d", "archive": "old", "keep_keys": "7d"}


def test_the_settings_make_a_retention() -> None:
    day = 86_400_000
    assert retention_of(load(SET, environ={}).settings) == Retention(30 * day, 7 * day, Path("old"))
    without = load({**SET, "archive": "none"}, environ={}).settings
    assert retention_of(without) == Retention(30 * day, 7 * day, None)


def test_by_default_sessions_are_kept_for_ever(rig: Rig) -> None:
    settings = load({}, environ={}).settings
    assert retention_of(settings) is None
    assert archivist_parts(rig.store, settings) == {}
    assert list(archivist_parts(rig.store, load(SET, environ={}).settings)) == ["archivist"]


def test_a_retention_without_an_archive_is_refused_unless_that_is_said(rig: Rig) -> None:
    settings = load({"retention": "1h"}, environ={}).settings
    for start in (lambda: retention_of(settings), lambda: archivist_parts(rig.store, settings)):
        with pytest.raises(
            ContractError, match=r"retention is set, so name the folder .* or 'none' to keep nothing"
        ):
            start()


@pytest.mark.parametrize("name", ["retention", "keep_keys"])
@pytest.mark.parametrize(
    "value", ["0", "-1", "-1s", "none", "never", "59m", "3651d", "99999999999d", 0, 5, None]
)
def test_a_time_that_cannot_be_meant_is_refused(name: str, value: Any) -> None:
    with pytest.raises(
        ContractError, match=rf"setting {name} .*expected a duration with its unit from 1h to 3650d"
    ):
        load({name: value}, environ={})


def test_zero_keeps_sessions_for_ever_and_is_refused_for_keys() -> None:
    assert load({"retention": "0s"}, environ={}).settings.retention_s == 0
    with pytest.raises(ContractError, match="setting keep_keys"):
        load({"keep_keys": "0s"}, environ={})
