"""The watcher of a worker process: restarts, signals, exit codes; and what a worker refuses to start with."""

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import structlog

from passdown.agents import Done, agent
from passdown.broker import app, worker
from passdown.broker.client import Broker
from passdown.broker.worker import WorkerSpec, serve
from passdown.contracts.codec import decode, encode
from passdown.contracts.errors import ContractError, Unavailable
from tests.integration.site import wait_until
from tests.unit.broker.rig import plan

#: A child that notes its start and its specification, and then does what the test says.
CHILD = """
import os, signal, sys, time
given = sys.stdin.read()
with open({notes!r}, "a") as notes:
    notes.write(given + "\\n")
{act}
"""
WAIT = """
def end(number, frame):
    sys.exit({status})
signal.signal(signal.SIGTERM, end)
open({notes!r} + ".ready", "w").close()
time.sleep(60)
"""


class Watched:
    """A watcher in a thread, with children of our own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
        self.notes = folder / "notes"
        act = act.replace("{notes!r}", repr(str(self.notes)))
        code = CHILD.replace("{notes!r}", repr(str(self.notes))).replace("{act}", act)
        monkeypatch.setattr(worker, "_COMMAND", [sys.executable, "-c", code])
        monkeypatch.setattr(worker, "_RESTART_FIRST", 0.01)
        self.spec = WorkerSpec(store="sqlite:///secret.db", roles=["desk"], modules=["m"])
        self._watcher = vars(worker)["_Watcher"](self.spec)
        self.status: list[int] = []
        self.thread = threading.Thread(target=lambda: self.status.append(self._watcher.run()))
        self.thread.start()

    def starts(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def ready(self) -> None:
        wait_until(Path(f"{self.notes}.ready").exists, "the child is ready")

    def tell(self, number: int = signal.SIGTERM) -> None:
        self._watcher.heard(number)

    def ended(self) -> int:
        self.thread.join(20)
        assert self.status
        return self.status[0]


class TestWatcher:
    def test_the_specification_comes_on_standard_input(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No list of processes may show what an address holds."""
        assert not any("secret" in word for word in worker._COMMAND)  # pyright: ignore[reportPrivateUsage]
        watched = Watched(tmp_path, monkeypatch, "")
        assert watched.ended() == 0
        assert decode(watched.starts()[0].encode(), WorkerSpec) == watched.spec

    @pytest.mark.parametrize("status", [0, 2])
    def test_one_that_ended_well_or_cannot_work_is_not_started_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
    ) -> None:
        watched = Watched(tmp_path, monkeypatch, f"sys.exit({status})")
        assert watched.ended() == status
        assert len(watched.starts()) == 1

    @pytest.mark.parametrize(
        ("act", "how"),
        [("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"), ("sys.exit(1)", "exit status 1")],
    )
    def test_a_crash_loop_is_said_and_slows_down(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, how: str
    ) -> None:
        with structlog.testing.capture_logs() as said:
            watched = Watched(tmp_path, monkeypatch, act)
            wait_until(lambda: len(watched.starts()) >= 4, "four starts")
            watched.tell()
            watched.ended()
        told = [one for one in said if one["event"] == "worker.ended"]
        assert {one["how"] for one in told} == {how}
        assert [one["again_s"] for one in told[:3]] == [0.02, 0.04, 0.08]

    def test_told_to_stop_between_two_starts_it_starts_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(worker, "_RESTART_MOST", 60.0)
        watched = Watched(tmp_path, monkeypatch, "sys.exit(1)")
        monkeypatch.setattr(worker, "_RESTART_FIRST", 30.0)
        wait_until(watched.starts, "a start")
        watched.tell()
        assert watched.ended() in (0, 1)
        assert len(watched.starts()) <= 2

    @pytest.mark.parametrize(("status", "code"), [(0, 0), (1, 1), (7, 7)])
    def test_a_stop_is_passed_on_and_its_status_is_the_childs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, code: int
    ) -> None:
        watched = Watched(tmp_path, monkeypatch, WAIT.replace("{status}", str(status)))
        watched.ready()
        watched.tell(signal.SIGINT)
        assert watched.ended() == code
        assert len(watched.starts()) == 1

    def test_one_that_was_told_before_it_could_hear_ended_well(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        act = "open({notes!r} + '.ready', 'w').close(); time.sleep(60)"
        watched = Watched(tmp_path, monkeypatch, act)
        watched.ready()
        watched.tell()
        assert watched.ended() == 0

    def test_the_second_time_it_is_killed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        act = "signal.signal(signal.SIGTERM, signal.SIG_IGN); open({notes!r} + '.ready', 'w').close(); time.sleep(60)"
        watched = Watched(tmp_path, monkeypatch, act)
        watched.ready()
        watched.tell()
        watched.tell()
        assert watched.ended() == 128 + signal.SIGKILL


@agent("desk")
def helpful(pack: Any, ctx: Any) -> Done:
    """Be done."""
    return Done({})


MODULE = """
from passdown.agents import Done, agent, reducer

@agent("desk")
def helpful(pack, ctx):
    return Done({})

@reducer("total")
def total(so_far, branch):
    return {}
"""


@pytest.fixture
def spec(tmp_path: Path) -> WorkerSpec:
    module = tmp_path / "agents_here.py"
    module.write_text(MODULE)
    return WorkerSpec(
        store=f"sqlite:///{tmp_path}/a/b.db",
        roles=["desk"],
        modules=[str(module)],
        concurrency=2,
        grace_s=1.0,
    )


class TestServe:
    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (
                {"roles": ["desk", "clerk"]},
                "no agent for clerk in its modules; they define desk, reduce.total",
            ),
            ({"roles": []}, "no agent for no role"),
            ({"roles": ["reduce.sum"]}, "no agent for reduce.sum in its modules; they define desk, "),
            ({"modules": []}, "they define none"),
            ({"modules": ["no_such_module"]}, "no_such_module cannot be imported"),
            ({"store": "nonsense"}, "expected sqlite:///path"),
            ({"transport": "nonsense"}, "transport address"),
            ({"pool": "prefork", "store": "sqlite:///:memory:"}, "its children reach, not memory"),
            ({"pool": "prefork", "transport": "memory://"}, "its children reach, not memory"),
        ],
    )
    def test_what_it_cannot_start_with_is_said(
        self, spec: WorkerSpec, more: dict[str, Any], said: str
    ) -> None:
        given = decode(encode({**json.loads(encode(spec)), **more}), WorkerSpec)
        with pytest.raises(ContractError) as refused:
            serve(given, threading.Event())
        assert said in str(refused.value)

    def test_it_waits_for_its_store(
        self, spec: WorkerSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Started before its folder is there (a volume that is mounted later)."""
        monkeypatch.setattr(app, "_AGAIN_FIRST", 0.02)
        stop = threading.Event()
        with structlog.testing.capture_logs() as said:
            thread = threading.Thread(target=serve, args=(spec, stop))
            thread.start()
            wait_until(lambda: len(said) >= 3, "it says that it waits")
            (tmp_path / "a").mkdir()
            with Broker.connect(spec.store, by="user:producer") as broker:
                broker.register(plan(role="desk"))
                assert broker.submit("p").result(30).result == "done"
            stop.set()
            thread.join(20)
        assert not thread.is_alive()
        events = [one["event"] for one in said]
        assert events[0] == "worker.store_away"
        assert "worker.started" in events
        assert events[-1] == "worker.stopped"

    @pytest.mark.parametrize(
        ("more", "served"),
        [
            ({}, ["desk", "reduce.total", "passdown.merge"]),
            ({"merge": False}, ["desk"]),
            ({"roles": ["passdown.merge"], "merge": False}, ["passdown.merge"]),
            ({"roles": ["reduce.total"]}, ["reduce.total", "passdown.merge"]),
        ],
    )
    def test_merges_are_served_beside_its_roles(
        self, spec: WorkerSpec, tmp_path: Path, more: dict[str, Any], served: list[str]
    ) -> None:
        (tmp_path / "a").mkdir()
        given = decode(encode({**json.loads(encode(spec)), **more}), WorkerSpec)
        stop = threading.Event()
        with structlog.testing.capture_logs() as said:
            thread = threading.Thread(target=serve, args=(given, stop))
            thread.start()
            wait_until(lambda: any(one["event"] == "worker.started" for one in said), "it has started")
            stop.set()
            thread.join(20)
        assert not thread.is_alive()
        assert next(one["roles"] for one in said if one["event"] == "worker.started") == served

    def test_told_to_stop_while_it_waits_it_ends(self, spec: WorkerSpec) -> None:
        stop = threading.Event()
        thread = threading.Thread(target=serve, args=(spec, stop))
        thread.start()
        stop.set()
        thread.join(20)
        assert not thread.is_alive()

    def test_a_store_that_goes_away_before_its_tools_are_published(
        self, spec: WorkerSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a").mkdir()
        monkeypatch.setattr(app, "_AGAIN_FIRST", 0.02)
        tries: list[int] = []
        stop = threading.Event()

        def start(_: object) -> None:
            tries.append(1)
            if len(tries) < 3:
                raise Unavailable("the store", "gone")
            stop.set()

        monkeypatch.setattr(worker.Runtime, "start", start)
        thread = threading.Thread(target=serve, args=(spec, stop))
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
        assert len(tries) == 3
