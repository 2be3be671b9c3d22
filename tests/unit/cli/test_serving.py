"""`up`, `worker`, `tick`: what they hand to the processes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.cli import serving
from passdown.broker.settings import Settings
from tests.unit.cli.conftest import Cli

Started = dict[str, Any]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """What was started, in place of starting it."""
    seen: Started = {}

    def up(settings: Settings, ready: Callable[[Any, list[str]], None]) -> int:
        seen.update(up=settings)
        ready(None, seen.get("roles", []))
        return 0

    def worker(settings: Settings, roles: list[str]) -> int:
        seen.update(worker=(settings.store, roles, settings.modules, settings.concurrency, settings.pool))
        seen.update(merge=settings.merge)
        return seen.get("status", 0)

    def tick(settings: Settings) -> int:
        seen.update(tick=settings)
        return 0

    monkeypatch.setattr(serving, "run_up", up)
    monkeypatch.setattr(serving, "run_worker", worker)
    monkeypatch.setattr(serving, "run_tick", tick)
    return seen


def test_up_runs_modules_and_plans(cli: Cli, started: Started) -> None:
    started["roles"] = ["analyst", "cashier"]
    said = cli("up", "--module", "a.py", "--module", "b", "--plan", "p.toml", "--concurrency", "3")
    assert (said.code, said.out) == (0, "")
    assert (
        said.err
        == "passdown is up on sqlite:///passdown.db, with agents for analyst, cashier; Ctrl-C ends it\n"
    )
    settings = started["up"]
    assert (settings.modules, settings.plans, settings.concurrency) == (["a.py", "b"], ["p.toml"], 3)


def test_what_flags_leave_open_the_file_says(cli: Cli, started: Started, tmp_path: Path) -> None:
    (tmp_path / "passdown.toml").write_text('modules = ["m"]\nplans = ["p.toml"]\nconcurrency = 2\n')
    assert "no agents (--module names some)" in cli("up").err
    assert (started["up"].modules, started["up"].plans, started["up"].concurrency) == (["m"], ["p.toml"], 2)
    assert cli("worker", "r").code == 0
    assert started["worker"] == ("sqlite:///passdown.db", ["r"], ["m"], 2, "threads")


def test_a_worker_leaves_merges_to_others_where_it_is_told_so(
    cli: Cli, started: Started, tmp_path: Path
) -> None:
    assert cli("worker", "r", "--module", "m").code == 0
    assert started["merge"] is True
    assert cli("worker", "r", "--module", "m", "--no-merge").code == 0
    assert started["merge"] is False
    (tmp_path / "passdown.toml").write_text("merge = false\n")
    assert cli("worker", "r", "--module", "m").code == 0
    assert started["merge"] is False


def test_a_worker_serves_the_roles_and_the_pool_of_its_settings_where_it_is_told_none(
    cli: Cli, started: Started, tmp_path: Path
) -> None:
    (tmp_path / "passdown.toml").write_text('modules = ["m"]\nroles = ["a", "b"]\npool = "prefork"\n')
    assert cli("worker").code == 0
    assert started["worker"] == ("sqlite:///passdown.db", ["a", "b"], ["m"], 8, "prefork")
    assert cli("worker", "c", "--pool", "solo").code == 0
    assert started["worker"] == ("sqlite:///passdown.db", ["c"], ["m"], 8, "solo")


def test_a_worker_runs_roles_once_each_and_its_status_is_the_exit_code(cli: Cli, started: Started) -> None:
    started["status"] = 2
    words = ("worker", "a", "b", "a", "--module", "m", "--concurrency", "16", "--store", "sqlite:///x.db")
    assert cli(*words).code == 2
    assert started["worker"] == ("sqlite:///x.db", ["a", "b"], ["m"], 16, "threads")


def test_a_tick_runs(cli: Cli, started: Started) -> None:
    assert cli("tick", "--set", "tick_every=250ms").code == 0
    assert started["tick"].tick_every_ms == 250


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["worker", "--module", "m"], "a worker needs its roles: name some, or `roles` in passdown.toml"),
        (["worker", "r", "--module", "m", "--pool", "gevent"], "expected one of threads, prefork, solo"),
        (["worker", "r"], "a worker needs its agents: --module, or `modules` in passdown.toml"),
        (
            ["worker", "r", "--module", "m", "--concurrency", "0"],
            "setting concurrency (flag) does not fit its contract",
        ),
        (["up", "--concurrency", "none"], "setting concurrency (flag) does not fit its contract"),
        (["up", "--concurrency", "-1"], "setting concurrency (flag)"),
        (["up", "--module", ""], "setting modules (flag)"),
        (["tick", "x"], "got unexpected extra argument"),
    ],
)
def test_what_cannot_start_says_why(cli: Cli, started: Started, args: list[str], said: str) -> None:
    found = cli(*args)
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert not started
