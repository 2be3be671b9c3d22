"""The refund of `examples/refund`, as its README tells it."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.client import Broker, Session

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "refund"
BIN = Path(sys.executable).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, to work in."""
    copy = tmp_path / "refund"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__", "outside", "*.db*"))
    return copy


@pytest.fixture
def up(folder: Path) -> Iterator[Path]:
    """The example's folder, with everything up in it."""
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            _readme_line("passdown up").removesuffix("&").split(),
            cwd=folder,
            env=_environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    yield folder
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(30) == 0, (folder / "up.log").read_text()


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


def _readme_line(begins: str, number: int = 0) -> str:
    lines = (EXAMPLE / "README.md").read_text().splitlines()
    return [line for line in lines if line.startswith(begins)][number]


def _passdown(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        shlex.split(line),
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _fine(folder: Path, line: str) -> str:
    done = _passdown(folder, line)
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


def _wait_for(session: Session, status: str) -> None:
    ends = time.monotonic() + 30
    while session.status() != status:
        assert time.monotonic() < ends, f"still {session.status()}, not {status}"
        time.sleep(0.02)


def _session(folder: Path, key: str) -> tuple[Broker, Session]:
    broker = Broker.connect(f"sqlite:///{folder / 'passdown.db'}")
    return broker, broker.session(key)


def _written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / "outside").glob("*.json"))]


def test_the_plan_is_sound(folder: Path) -> None:
    _fine(folder, _readme_line("passdown plan check"))


def test_a_refund_waits_for_a_person_and_is_paid_once(up: Path) -> None:
    _wait_for_plan(up)
    _fine(up, _readme_line("passdown submit"))
    broker, session = _session(up, "order-4711")
    with broker:
        _wait_for(session, "waiting-human")
        assert "refunds.create" in _fine(up, _readme_line("passdown tickets"))
        refused = _passdown(up, f"passdown resolve order-4711/1 approve --as {session.state().by}")
        assert refused.returncode == 5, "nobody approves what they asked for"
        assert not (up / "outside").exists()
        _fine(up, _readme_line("passdown resolve"))
        assert session.result(30).output == {"said": "We have refunded your order (refund-4711)."}
    assert sorted(one.get("id", "mail") for one in _written(up)) == ["mail", "refund-4711"]
    for line in ("passdown status", "passdown log", "passdown replay"):
        _fine(up, _readme_line(line))


def test_an_old_order_is_denied_without_a_person(up: Path) -> None:
    _wait_for_plan(up)
    _fine(up, "passdown submit refund --input orderId=4712 --key order-4712 --wait")
    broker, session = _session(up, "order-4712")
    with broker:
        assert session.state().tickets_opened == 0
    assert [one["to"] for one in _written(up)] == ["Bolt & Sons"]


def _wait_for_plan(folder: Path) -> None:
    ends = time.monotonic() + 30
    while "passdown is up" not in (folder / "up.log").read_text():
        assert time.monotonic() < ends, (folder / "up.log").read_text()
        time.sleep(0.05)
