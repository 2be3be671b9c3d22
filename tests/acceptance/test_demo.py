"""The demos with real processes: the desk over its cases, and recorded runs, calm and under chaos."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from passdown.broker.app import open_store
from passdown.broker.client import Broker
from passdown.broker.demo.outside import outside_lines
from tests.acceptance.demos import (
    PASSDOWN,
    Demo,
    airline,
    check_odd,
    check_outside,
    check_real,
    demo_at,
    fine,
)
from tests.acceptance.recorded_oddities import write_oddities


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """A demo on a file."""
    with demo_at(f"sqlite:///{tmp_path}/store/passdown.db") as made:
        yield made


def test_the_desk_shows_every_case(demo: Demo) -> None:
    shown = fine(demo.run())
    for row in ("sessions", "handoffs", "results", "effects", "retries", "recovered crashes", "tickets"):
        assert row in shown
    assert "2 processes restarted" in shown
    assert "passdown replay --all --store" in shown
    check_outside(demo.export())
    demo.replays()


def test_recorded_runs_with_every_oddity(demo: Demo, tmp_path: Path) -> None:
    fine(demo.run("--recorded", str(write_oddities(tmp_path))))
    check_odd(demo)
    demo.replays()


@pytest.mark.timeout(320)
def test_recorded_runs_with_every_oddity_under_chaos(demo: Demo, tmp_path: Path) -> None:
    fine(demo.run("--recorded", str(write_oddities(tmp_path)), "--chaos", "7", timeout_s=300))
    check_odd(demo)
    demo.replays()


def test_a_killed_demo_leaves_nobody_behind_and_is_gone_on_with(demo: Demo, tmp_path: Path) -> None:
    file = str(write_oddities(tmp_path))
    command = [PASSDOWN, "demo", "--recorded", file, "--store", demo.store]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        _wait(lambda: _some_effect(demo), "an effect in the ledger")
        # One that is frozen hears nothing, and must go all the same.
        psutil.Process(killed.pid).children()[-1].suspend()
        killed.send_signal(signal.SIGKILL)
    _wait(lambda: not demo.processes(), "no process of the demo")
    fine(demo.run("--recorded", file))
    check_odd(demo)


def _some_effect(demo: Demo) -> bool:
    if not Path(demo.store.removeprefix("sqlite:///")).exists():
        return False
    with Broker.connect(demo.store) as broker:
        return any(broker.session(row.session_id).state().effects for row in broker.sessions())


def _wait(met: Any, what: str, timeout_s: float = 60.0) -> None:
    ends = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < ends, f"after {timeout_s:g} s still not: {what}"
        time.sleep(0.1)


def test_the_same_store_with_another_file_is_refused(demo: Demo, tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps([{"task_id": 1, "trial": 0, "traj": [{"role": "user", "content": "a"}]}]))
    other.write_text(json.dumps([{"task_id": 1, "trial": 0, "traj": [{"role": "user", "content": "b"}]}]))
    fine(demo.run("--recorded", str(one)))
    fine(demo.run("--recorded", str(one)))
    refused = demo.run("--recorded", str(other))
    assert refused.returncode == 2
    assert "name another --store" in refused.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "not UTF-8 JSON"),
        (b'[{"task_id": 1, "traj": [{"role": "judge"}]}]', "at /0/traj/0/role: expected user, assistant"),
    ],
)
def test_a_file_of_another_format_is_refused_with_its_place(
    demo: Demo, tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    refused = demo.run("--recorded", str(path))
    assert refused.returncode == 2
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_real_recorded_runs(demo: Demo) -> None:
    path = airline()
    policy = str(path.with_name("policy.md"))
    fine(demo.run("--recorded", str(path), "--policy", policy, "--first", "30"))
    check_real(demo, json.loads(path.read_bytes())[:30])
    demo.replays()


@pytest.mark.soak
@pytest.mark.timeout(700)
@pytest.mark.parametrize("chaos", [None, "1", "2", "3"])
def test_all_real_recorded_runs(demo: Demo, chaos: str | None) -> None:
    path = airline()
    more = [] if chaos is None else ["--chaos", chaos]
    fine(demo.run("--recorded", str(path), *more, timeout_s=600))
    check_real(demo, json.loads(path.read_bytes()))
    demo.replays()


def test_a_folder_is_a_store_as_well_as_the_address_of_a_file_in_it(tmp_path: Path) -> None:
    with demo_at(f"sqlite:///{tmp_path}/passdown.db") as demo:
        shown = fine(Demo(str(tmp_path)).run("--recorded", str(write_oddities(tmp_path))))
        assert f"passdown replay --all --store {demo.store}" in shown
        check_odd(demo)


def test_a_store_of_another_kind_is_refused(tmp_path: Path) -> None:
    refused = Demo("http://u:secret@x").run()
    assert refused.returncode == 2
    assert "expected a folder, sqlite:///path or redis://host:port/db, got 'http://…@x'" in refused.stderr


def test_what_is_beside_a_store_without_a_demo_is_nothing(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'passdown.db'}"
    open_store(address).close()
    assert list(outside_lines(address)) == []
