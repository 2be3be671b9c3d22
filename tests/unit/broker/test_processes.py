"""Everything in one process: it starts whole, says when a part of it dies, and stops in every order."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import structlog

from passdown.broker import app, processes
from passdown.broker.client import Broker
from passdown.broker.processes import Up, limits_of, run_tick, run_up, tick_of
from passdown.broker.settings import Settings
from passdown.contracts.errors import ContractError, NotFound, PassdownError, Unavailable
from tests.integration.site import wait_until
from tests.unit.broker.rig import plan

MODULE = """
import time
from passdown.agents import Done, agent

@agent("desk")
def helpful(pack, ctx):
    time.sleep(pack.inputs.get("sleep", 0))
    return Done({"n": pack.inputs.get("n")})
"""

REDUCERS = """
from passdown.agents import reducer

@reducer("total")
def total(so_far, branch):
    return {}
"""

PLAN = """
name = "greet"
version = 1
start = "only"

[stages.only]
role = "desk"
goal = "Greet."
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "agents_of_up.py").write_text(MODULE)
    (tmp_path / "greet.toml").write_text(PLAN)
    return Settings.model_validate(
        {
            "store": f"sqlite:///{tmp_path}/up.db",
            "transport": "memory://",
            "modules": [str(tmp_path / "agents_of_up.py")],
            "plans": [str(tmp_path / "greet.toml")],
            "as": "user:producer",
            "tick_every": "100ms",
        }
    )


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("passdown-")}


def served(up: Up) -> list[str] | None:
    pool = vars(up)["_pool"]
    return pool.roles if pool else None


class TestUp:
    def test_sessions_go_through_it(self, settings: Settings) -> None:
        with Up(settings) as up:
            assert up.roles == ["desk"]
            assert up.broker.submit("greet", inputs={"n": 1}).result(30).output == {"n": 1}
        wait_until(lambda: not threads() & {"passdown-tick", "passdown-pool"}, "its threads end")
        assert up.faults == []

    def test_two_in_one_process(self, settings: Settings, tmp_path: Path) -> None:
        other = settings.model_copy(update={"store": f"sqlite:///{tmp_path}/other.db"})
        with Up(settings) as one, Up(other) as two:
            for up in (one, two, one, two):
                assert up.broker.submit("greet").result(30).result == "done"

    @pytest.mark.parametrize("merge", [True, False])
    def test_without_agents_it_only_merges(self, settings: Settings, *, merge: bool) -> None:
        with Up(settings.model_copy(update={"modules": [], "merge": merge})) as up:
            assert up.roles == []
            assert up.broker.submit("greet").status() == "queued"
            assert served(up) == (["passdown.merge"] if merge else None)

    def test_merges_are_served_beside_its_agents(self, settings: Settings, tmp_path: Path) -> None:
        (tmp_path / "reducers_of_up.py").write_text(REDUCERS)
        modules = [*settings.modules, str(tmp_path / "reducers_of_up.py")]
        with Up(settings.model_copy(update={"modules": modules})) as up:
            assert up.roles == ["desk", "reduce.total"]
            assert served(up) == ["desk", "reduce.total", "passdown.merge"]
        with Up(settings.model_copy(update={"modules": modules, "merge": False})) as up:
            assert served(up) == ["desk"]

    def test_stopping_is_quick_and_so_is_asking_afterwards(self, settings: Settings) -> None:
        with Up(settings) as up:
            session = up.broker.submit("greet", inputs={"n": 1})
            assert session.result(30).result == "done"
            began = time.monotonic()
        with pytest.raises(Unavailable, match="it was closed here; connect again"):
            session.state()
        assert time.monotonic() - began < 5

    def test_twice_and_at_once(self, settings: Settings) -> None:
        for _ in range(3):
            up = Up(settings)
            up.__enter__()
            up.__exit__()
            up.__exit__()
        Up(settings).__exit__()

    @pytest.mark.parametrize(
        ("update", "error"),
        [
            ({"plans": ["gone.toml"]}, PassdownError),
            ({"modules": ["no_such_module"]}, ContractError),
            ({"store": "nonsense"}, ContractError),
            ({"transport": "nonsense"}, ContractError),
        ],
    )
    def test_what_cannot_start_leaves_nothing_running(
        self, settings: Settings, update: dict[str, Any], error: type[Exception]
    ) -> None:
        before = threads()
        with pytest.raises((error, OSError)), Up(settings.model_copy(update=update)):
            pass
        wait_until(lambda: threads() <= before, "nothing is left running")

    @pytest.mark.parametrize("part", ["tick", "pool"])
    @pytest.mark.parametrize("error", [None, SystemExit(1), KeyError("x")])
    def test_a_part_that_dies_does_not_go_unnoticed(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch, part: str, error: BaseException | None
    ) -> None:
        """Without its tick everything looks alive, and no timer or lost lease is seen to any more."""

        def die(*_: object) -> None:
            if error:
                raise error

        kind: Any = {"tick": processes.Tick, "pool": processes.Pool}[part]
        monkeypatch.setattr(kind, "run", die)
        fault = threading.Event()
        with structlog.testing.capture_logs() as said, Up(settings, on_fault=fault.set) as up:
            assert fault.wait(10)
            assert up.faults == [part]
        assert "up.part_ended" in [one["event"] for one in said]


class TestRunUp:
    def run(self, settings: Settings, monkeypatch: pytest.MonkeyPatch, ready: Any) -> int:
        ends: list[Any] = []

        def note(*args: Any) -> None:
            ends.append(args)

        monkeypatch.setattr(processes, "end_within", note)  # it would end this process
        status = run_up(settings, ready)
        assert [args[1] for args in ends] == [status]
        return status

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_ends_it(self, settings: Settings, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        told: list[list[str]] = []

        def ready(broker: Any, roles: list[str]) -> None:
            told.append(roles)
            assert broker.submit("greet").result(30).result == "done"
            os.kill(os.getpid(), number)

        assert self.run(settings, monkeypatch, ready) == 0
        assert told == [["desk"]]

    def test_a_part_that_dies_ends_it_with_status_1(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def die(*_: object) -> None:
            return

        monkeypatch.setattr(processes.Tick, "run", die)
        assert self.run(settings, monkeypatch, None) == 1


class TestRunTick:
    def test_it_sweeps_until_told(self, settings: Settings) -> None:
        with Up(settings.model_copy(update={"modules": []})) as up:
            up.broker.register(plan(deadline_seconds=0.2))
        timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM))
        opened = app.compose(settings.store)
        session = Broker(opened, "user:producer").submit("p")
        timer.start()
        assert run_tick(settings) == 0
        timer.join()
        assert session.status() == "expired"
        opened.close()

    def test_it_waits_for_its_store(
        self, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(app, "_AGAIN_FIRST", 0.02)
        later = settings.model_copy(update={"store": f"sqlite:///{tmp_path}/later/a.db"})

        def come() -> None:
            (tmp_path / "later").mkdir()
            wait_until(lambda: any(one["event"] == "tick.started" for one in said), "the tick has started")
            os.kill(os.getpid(), signal.SIGTERM)

        timer = threading.Timer(0.2, come)
        with structlog.testing.capture_logs() as said:
            timer.start()
            assert run_tick(later) == 0
        timer.join()
        events = [one["event"] for one in said]
        assert "tick.store_away" in events[: events.index("tick.started")]

    def test_what_will_never_do_is_raised(self, settings: Settings) -> None:
        with pytest.raises(ContractError):
            run_tick(settings.model_copy(update={"store": "nonsense"}))


def test_settings_reach_what_they_are_for(settings: Settings) -> None:
    more = settings.model_copy(
        update={
            "claim_by_s": 2.0,
            "role_limits": {"desk": 3},
            "task_limit": 4,
            "tick_every_s": 0.5,
            "store_patience_s": 7.0,
        }
    )
    limits = limits_of(more)
    assert (limits.claim_by_ms, limits.roles, limits.task) == (2_000, {"desk": 3}, 4)
    with Up(more) as up:
        assert vars(up.app.controller)["_patience_s"] == 7.0
        assert vars(tick_of(up.app, more))["_most_wait_ms"] == 500
        with pytest.raises(NotFound):
            up.broker.session("none")
