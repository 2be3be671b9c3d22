"""Doorbells: short, never in the way, and heard over each transport."""

import json
import os
from pathlib import Path
from typing import Any, cast

import kombu
import pytest
import structlog
from celery.app.task import Context as _Context

from passdown.broker import app
from passdown.broker import doorbell as module
from passdown.broker.doorbell import DRAIN_TASK, KombuDoorbell, SilentDoorbell, message, queue_name
from passdown.broker.plans.names import LONGEST_NAME
from passdown.broker.transports import folder, memory
from tests.conformance.together import together

LONGEST_ROLE = "r" * LONGEST_NAME


def transports(tmp_path: Path) -> list[app.Transport]:
    """Return each transport that there is."""
    return [
        app.transport_of(f"sqlite:///{tmp_path}/a.db", "memory://"),
        app.transport_of(f"sqlite:///{tmp_path}/a.db"),
    ]


def hear(transport: app.Transport, role: str, most: int = 100) -> list[Any]:
    """Return the bodies of the messages that lie in a role's queue."""
    with kombu.Connection(transport.url, transport_options=transport.options) as connection:
        queue: Any = connection.SimpleQueue(
            cast("Any", kombu.Queue(queue_name(role), routing_key=queue_name(role)))
        )
        found: list[Any] = []
        for _ in range(most):
            try:
                one = queue.get(timeout=0.05)
            except queue.Empty:
                break
            one.ack()
            found.append(one.payload)
        queue.close()
        return found


def test_it_is_short_for_the_longest_role() -> None:
    assert len(message(LONGEST_ROLE)) < 200


def test_it_names_the_task_and_the_role_and_nothing_else() -> None:
    said = json.loads(message("desk"))
    assert (said["task"], said["args"], said["kwargs"]) == (DRAIN_TASK, ["desk"], {})
    assert json.loads(message("desk"))["id"] != said["id"]
    assert _Context(said).id == said["id"]


@pytest.mark.parametrize("role", ["desk", "a-b_c.d", "Desk.2", LONGEST_ROLE])
def test_a_role_names_its_queue(role: str) -> None:
    assert queue_name(role) == f"passdown.{role}"


def test_roles_whose_packs_are_pushed_share_a_queue_that_no_role_has() -> None:
    assert queue_name("push/desk") == queue_name("push/other") == "passdown.push"
    for role in ("push", "push.desk", "returns", "events", "dead"):
        assert queue_name(role).startswith("passdown.~")


@pytest.mark.parametrize("role", ["", "../../etc", "a/b", "a b", "ü", "x" * 101, "\0", "\ud800", "~"])
def test_an_odd_role_names_no_path_and_is_not_mixed_up(role: str) -> None:
    name = queue_name(role)
    assert name.startswith("passdown.~")
    assert len(name) < 60
    assert name != queue_name(role + "x")


@pytest.mark.parametrize("which", [0, 1], ids=["memory", "folder"])
class TestRinging:
    def test_it_is_heard(self, tmp_path: Path, which: int) -> None:
        transport = transports(tmp_path)[which]
        bell = KombuDoorbell(transport)
        for role in ("desk", "a/b", LONGEST_ROLE):
            bell.ring(role)
            assert [one["args"] for one in hear(transport, role)] == [[role]]
        bell.close()
        bell.ring("desk")
        assert len(hear(transport, "desk")) == 1
        bell.close()

    def test_a_role_that_nobody_serves_fills_nothing(self, tmp_path: Path, which: int) -> None:
        """Fault celery#3239, in small: an hour of packs for a role without workers."""
        transport = transports(tmp_path)[which]
        bell = KombuDoorbell(transport)
        for _ in range(200):
            bell.ring("nobody")
        bell.ring("desk")
        assert len(hear(transport, "nobody")) == (memory.MOST_LYING, folder.MOST_LYING)[which]
        assert len(hear(transport, "desk")) == 1
        bell.ring("nobody")
        assert len(hear(transport, "nobody")) == 1
        bell.close()

    def test_from_many_threads_at_once(self, tmp_path: Path, which: int) -> None:
        transport = transports(tmp_path)[which]
        bell = KombuDoorbell(transport)
        together(8, lambda n: [bell.ring(f"role-{n}") for _ in range(5)])
        assert [len(hear(transport, f"role-{n}")) for n in range(8)] == [5] * 8
        bell.close()

    def test_in_a_forked_process_while_the_lock_is_held(self, tmp_path: Path, which: int) -> None:
        transport = transports(tmp_path)[which]
        bell = KombuDoorbell(transport)
        bell.ring("desk")
        with vars(vars(bell)["_publisher"])["_lock"]:
            child = os.fork()
            if child == 0:
                try:
                    bell.ring("desk")
                    lying = 2 if which else len(hear(transport, "desk"))
                    os._exit(0 if lying == 2 else 1)
                except BaseException:  # noqa: BLE001 - a forked test must not go on as a second test run
                    os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        # What the child rang in memory is the child's.
        assert len(hear(transport, "desk")) == (1, 2)[which]
        bell.close()


class TestFaults:
    def test_a_transport_that_is_away_is_said_and_left_alone_for_a_while(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_QUIET_FIRST_S", 3600.0)
        monkeypatch.setattr(module, "_QUIET_MOST_S", 3600.0)
        (tmp_path / "file").touch()
        bell = KombuDoorbell(app.transport_of("sqlite:///x.db", f"filesystem://{tmp_path}/file/bells"))
        with structlog.testing.capture_logs() as said:
            for _ in range(3):
                bell.ring("desk")
        assert [(one["event"], one["role"]) for one in said] == [("doorbell.lost", "desk")]
        (tmp_path / "file").unlink()
        bell.ring("desk")
        assert not (tmp_path / "file").exists()
        bell.close()

    def test_after_that_it_rings_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_QUIET_FIRST_S", 0.0)
        (tmp_path / "file").touch()
        bell = KombuDoorbell(app.transport_of("sqlite:///x.db", f"filesystem://{tmp_path}/file/bells"))
        bell.ring("desk")
        (tmp_path / "file").unlink()
        bell.ring("desk")
        assert len(list((tmp_path / "file" / "bells").glob("*.msg"))) == 1
        bell.close()

    def test_a_broken_connection_is_made_anew(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        transport = transports(tmp_path)[1]
        bell = KombuDoorbell(transport)
        bell.ring("desk")

        def fail(*_: Any, **__: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(kombu.Producer, "publish", fail)
        with structlog.testing.capture_logs() as said:
            bell.ring("desk")
        assert "ZeroDivisionError" in said[0]["error"]
        monkeypatch.undo()
        vars(bell)["_quiet_until"] = 0.0
        bell.ring("desk")
        assert len(hear(transport, "desk")) == 2
        bell.close()

    def test_a_password_in_the_address_is_not_in_the_log(self) -> None:
        bell = KombuDoorbell(app.transport_of("sqlite:///x.db", "redis://:hunter2@127.0.0.1:1/0"))
        with structlog.testing.capture_logs() as said:
            bell.ring("desk")
        assert "hunter2" not in repr(said)
        bell.close()


def test_silence() -> None:
    SilentDoorbell().ring("desk")
