"""The demos with real processes: the desk over its cases, and recorded runs, calm and under chaos."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from passdown.broker.app import open_store
from passdown.broker.client import Broker
from passdown.broker.demo.outside import outside_lines
from tests.acceptance.recorded_oddities import write_oddities

PASSDOWN = str(Path(sys.executable).with_name("passdown"))
AIRLINE = Path(__file__).resolve().parents[3] / "shared" / "data" / "tau-airline"

Json = dict[str, Any]
#: Effects of the odd runs: key → (tool, status) in order.
ODD_EFFECTS = {
    "recorded:1:0": [
        ("book_reservation", "done"),
        ("book_reservation", "failed"),
        ("book_reservation", "done"),
    ],
    "recorded:2:0": [("cancel_reservation", "done"), ("cancel_reservation", "done")],
    "recorded:3:0": [("send_certificate", "done")],
    "recorded:4:0": [("update_reservation_baggages", "done")],
    "recorded:5:b": [
        ("send_fax", "done"),
        ("tool.cancel_everything-now-.ebfeaad9", "failed"),
        ("update_nothing", "done"),
        ("book_it", "done"),
    ],
    "recorded:6:0": [],
    "recorded:7:0": [],
    "recorded:1:0#2": [("cancel_reservation", "done")],
    "recorded:long text \U0001f6eb:0": [("update_notes", "done")],
    "recorded:9:0": [("update_reservation_flights", "failed" if n % 7 == 3 else "done") for n in range(18)],
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for a store; whatever a demo started for it is gone at the end."""
    yield tmp_path
    assert not _processes(tmp_path), "processes were left behind"


def _processes(folder: Path) -> list[psutil.Process]:
    return [
        one
        for one in psutil.process_iter(["cmdline"])
        if one.pid != os.getpid()
        and any(str(folder) in word for word in cast(list[str], one.info["cmdline"] or []))
    ]


def _demo(folder: Path, *argv: str, timeout_s: float = 110) -> subprocess.CompletedProcess[str]:
    command = [PASSDOWN, "demo", "--store", str(folder / "store"), *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def _fine(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _address(folder: Path) -> str:
    return f"sqlite:///{folder / 'store' / 'passdown.db'}"


def _passdown(folder: Path, *argv: str) -> str:
    command = [PASSDOWN, *argv, "--store", _address(folder)]
    return _fine(subprocess.run(command, capture_output=True, text=True, check=False))


def _export(folder: Path) -> dict[str, list[Json]]:
    """Return the lines of an export by kind."""
    found: dict[str, list[Json]] = defaultdict(list)
    for line in _passdown(folder, "export").splitlines():
        one = json.loads(line)
        found[one["kind"]].append(one)
    return found


def _replays(folder: Path) -> None:
    _passdown(folder, "replay", "--all")


def _check_odd(folder: Path) -> None:
    lines = _export(folder)
    keys = {one["sessionId"]: one["key"] for one in lines["session"]}
    effects: dict[str, list[tuple[str, str]]] = {key: [] for key in keys.values()}
    for one in sorted(lines["effect"], key=lambda one: one["ordinal"]):
        effects[keys[one["sessionId"]]].append((one["tool"], one["status"]))
    assert effects == ODD_EFFECTS
    statuses = {one["key"]: one["status"] for one in lines["session"]}
    assert statuses == {key: "waiting-human" if key == "recorded:4:0" else "done" for key in ODD_EFFECTS}
    assert [one["queue"] for one in lines["ticket"] if one["status"] == "open"] == ["tier2"]
    _check_outside(lines)


def _check_outside(lines: dict[str, list[Json]]) -> None:
    """Each effect that is done was applied once outside, and nothing else was."""
    done = sorted(
        (one["sessionId"], one["key"], one["tool"]) for one in lines["effect"] if one["status"] == "done"
    )
    assert sorted((one["sessionId"], one["key"], one["tool"]) for one in lines["outside"]) == done
    assert {one["calls"] for one in lines["outside"]} <= {1}


def _check_real(folder: Path, runs: list[Json]) -> None:
    """Compare with the record itself, by rules written down here once more."""
    lines = _export(folder)
    sessions = {one["key"]: one for one in lines["session"]}
    effects: dict[str, list[Json]] = defaultdict(list)
    for one in sorted(lines["effect"], key=lambda one: one["ordinal"]):
        effects[one["sessionId"]].append(one)
    answers: dict[str, list[str]] = defaultdict(list)
    for one in lines["event"]:
        if one["type"] == "InputProvided":
            answers[one["sessionId"]].append(one["value"])
    assert len(sessions) == len(runs)
    for run in runs:
        session = sessions[f"recorded:{run['task_id']}:{run['trial']}"]
        _check_run(run, session, effects[session["sessionId"]], answers[session["sessionId"]])
    _check_outside(lines)


def _check_run(run: Json, session: Json, effects: list[Json], answers: list[str]) -> None:
    traj: list[Json] = run["traj"]
    following: list[Json] = [*traj[1:], {}]
    names = set[str]()
    writes: list[tuple[str, Json, str]] = []
    turns: list[str] = []
    for message, after in zip(traj, following, strict=True):
        calls: list[Json] = message.get("tool_calls") or []
        if message["role"] == "assistant" and not calls:
            turns.append(after["content"])
        for one in calls:
            name = one["function"]["name"]
            names.add(name)
            if name.startswith(("book_", "cancel_", "update_", "send_")):
                writes.append((name, json.loads(one["function"]["arguments"]), after["content"]))
    transferred = "transfer_to_human_agents" in names
    assert session["status"] == ("waiting-human" if transferred else "done")
    assert answers == turns
    assert [(one["tool"], one["args"]) for one in effects] == [(name, args) for name, args, _ in writes]
    for one, (_, _, content) in zip(effects, writes, strict=True):
        failed = content.startswith("Error")
        assert one["status"] == ("failed" if failed else "done")
        assert (one["error"] if failed else one["result"]) == content


def _airline() -> Path:
    path = AIRLINE / "runs.json"
    if not path.exists():
        assert not os.environ.get("CI"), f"{path} is missing, and CI has it"
        pytest.skip(f"{path} is not here: recorded runs of others are checked where they are")
    return path


def test_the_desk_shows_every_case(folder: Path) -> None:
    shown = _fine(_demo(folder))
    for row in ("sessions", "handoffs", "results", "effects", "retries", "recovered crashes", "tickets"):
        assert row in shown
    assert "2 processes restarted" in shown
    assert "passdown replay --all --store" in shown
    _check_outside(_export(folder))
    _replays(folder)


def test_recorded_runs_with_every_oddity(folder: Path) -> None:
    _fine(_demo(folder, "--recorded", str(write_oddities(folder))))
    _check_odd(folder)
    _replays(folder)


@pytest.mark.timeout(320)
def test_recorded_runs_with_every_oddity_under_chaos(folder: Path) -> None:
    _fine(_demo(folder, "--recorded", str(write_oddities(folder)), "--chaos", "7", timeout_s=300))
    _check_odd(folder)
    _replays(folder)


def test_a_killed_demo_leaves_nobody_behind_and_is_gone_on_with(folder: Path) -> None:
    file = str(write_oddities(folder))
    store = folder / "store"
    command = [PASSDOWN, "demo", "--recorded", file, "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as demo:
        _wait(lambda: _some_effect(store), "an effect in the ledger")
        # One that is frozen hears nothing, and must go all the same.
        psutil.Process(demo.pid).children()[-1].suspend()
        demo.send_signal(signal.SIGKILL)
    _wait(lambda: not _processes(folder), "no process of the demo")
    _fine(_demo(folder, "--recorded", file))
    _check_odd(folder)


def _some_effect(store: Path) -> bool:
    path = store / "passdown.db"
    if not path.exists():
        return False
    with Broker.connect(f"sqlite:///{path}") as broker:
        return any(broker.session(row.session_id).state().effects for row in broker.sessions())


def _wait(met: Any, what: str, timeout_s: float = 60.0) -> None:
    ends = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < ends, f"after {timeout_s:g} s still not: {what}"
        time.sleep(0.1)


def test_the_same_store_with_another_file_is_refused(folder: Path) -> None:
    one, other = folder / "one.json", folder / "other.json"
    one.write_text(json.dumps([{"task_id": 1, "trial": 0, "traj": [{"role": "user", "content": "a"}]}]))
    other.write_text(json.dumps([{"task_id": 1, "trial": 0, "traj": [{"role": "user", "content": "b"}]}]))
    _fine(_demo(folder, "--recorded", str(one)))
    _fine(_demo(folder, "--recorded", str(one)))
    refused = _demo(folder, "--recorded", str(other))
    assert refused.returncode == 2
    assert "name another --store" in refused.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not UTF-8 JSON"),
        (b"\xff\xfe\x00", "not UTF-8 JSON"),
        (b"[" * 100_000, "not UTF-8 JSON"),
        (b"{}", "expected a list of at least one run"),
        (b"[]", "expected a list of at least one run"),
        (b"[1]", "at /0: expected a run, got 1"),
        (b'[{"task_id": 1}]', "at /0/traj: expected the list of messages"),
        (b'[{"traj": []}]', "at /0/task_id: expected a number or a string, got None"),
        (b'[{"task_id": 1, "traj": ["hi"]}]', "at /0/traj/0: expected a message, got 'hi'"),
        (b'[{"task_id": 1, "traj": [{"role": "judge"}]}]', "at /0/traj/0/role: expected user, assistant"),
        (
            b'[{"task_id": 1, "traj": [{"role": "user", "content": 5}]}]',
            "at /0/traj/0/content: expected text",
        ),
        (
            b'[{"task_id": 1, "traj": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}]',
            "at /0/traj/0/tool_calls/0/function/name: expected the name of a tool",
        ),
    ],
)
def test_a_file_of_another_format_is_refused_with_its_place(folder: Path, content: bytes, said: str) -> None:
    path = folder / "bad.json"
    path.write_bytes(content)
    refused = _demo(folder, "--recorded", str(path))
    assert refused.returncode == 2
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (folder / "store").exists()


def test_real_recorded_runs(folder: Path) -> None:
    path = _airline()
    policy = str(path.with_name("policy.md"))
    _fine(_demo(folder, "--recorded", str(path), "--policy", policy, "--first", "30"))
    _check_real(folder, json.loads(path.read_bytes())[:30])
    _replays(folder)


@pytest.mark.soak
@pytest.mark.timeout(700)
@pytest.mark.parametrize("chaos", [None, "1", "2", "3"])
def test_all_real_recorded_runs(folder: Path, chaos: str | None) -> None:
    path = _airline()
    more = [] if chaos is None else ["--chaos", chaos]
    _fine(_demo(folder, "--recorded", str(path), *more, timeout_s=600))
    _check_real(folder, json.loads(path.read_bytes()))
    _replays(folder)


def test_a_store_that_is_no_folder_and_no_sqlite_is_refused(folder: Path) -> None:
    refused = subprocess.run(
        [PASSDOWN, "demo", "--store", "redis://x"], capture_output=True, text=True, check=False, cwd=folder
    )
    assert refused.returncode == 2
    assert "expected a folder or sqlite:///path" in refused.stderr


def test_what_is_beside_a_store_without_a_demo_is_nothing(folder: Path) -> None:
    address = f"sqlite:///{folder / 'passdown.db'}"
    open_store(address).close()
    assert list(outside_lines(address)) == []
