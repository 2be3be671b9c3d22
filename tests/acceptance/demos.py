"""Demos with real processes for tests: started, and checked from outside by rules that are written down here once more."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

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


@dataclass(frozen=True)
class Demo:
    """Where a demo works: the store's address, what carries its doorbells, and where its own files are.

    Without a ``folder`` those are beside the store.
    """

    store: str
    transport: str = ""
    folder: Path | None = None

    def run(self, *argv: str, timeout_s: float = 110) -> subprocess.CompletedProcess[str]:
        """Run the demo to its end."""
        transport = ["--transport", self.transport] if self.transport else []
        command = [PASSDOWN, "demo", "--store", self.store, *transport, *self._folder(), *argv]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)

    def passdown(self, *argv: str) -> str:
        """Run another command on the store, which must go well; returns what it said."""
        command = [PASSDOWN, *argv, "--store", self.store]
        return fine(subprocess.run(command, capture_output=True, text=True, check=False))

    def export(self) -> dict[str, list[Json]]:
        """Return the lines of an export by kind."""
        found: dict[str, list[Json]] = defaultdict(list)
        for line in self.passdown("export", *self._folder()).splitlines():
            one = json.loads(line)
            found[one["kind"]].append(one)
        return found

    def replays(self) -> None:
        """Rule 6, for every session."""
        self.passdown("replay", "--all")

    def processes(self) -> list[psutil.Process]:
        """Return the processes that work for it now."""
        return [
            one
            for one in psutil.process_iter(["cmdline"])
            if one.pid != os.getpid()
            and any(self.store in word for word in cast(list[str], one.info["cmdline"] or []))
        ]

    def _folder(self) -> list[str]:
        return ["--folder", str(self.folder)] if self.folder else []


@contextmanager
def demo_at(store: str, transport: str = "", folder: Path | None = None) -> Generator[Demo]:
    """Lend a place for a demo; whatever it started is gone at the end."""
    made = Demo(store, transport, folder)
    yield made
    assert not made.processes(), "processes were left behind"


def fine(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a process said, which must have ended well."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def airline() -> Path:
    """Return the recorded runs of others; skips the test where they are missing."""
    path = AIRLINE / "runs.json"
    if not path.exists():
        assert not os.environ.get("CI"), f"{path} is missing, and CI has it"
        pytest.skip(f"{path} is not here: recorded runs of others are checked where they are")
    return path


def check_odd(demo: Demo) -> None:
    """Check the odd runs: each ended as it should, with the effects that it should have."""
    lines = demo.export()
    keys = {one["sessionId"]: one["key"] for one in lines["session"]}
    effects: dict[str, list[tuple[str, str]]] = {key: [] for key in keys.values()}
    for one in sorted(lines["effect"], key=lambda one: one["ordinal"]):
        effects[keys[one["sessionId"]]].append((one["tool"], one["status"]))
    assert effects == ODD_EFFECTS
    statuses = {one["key"]: one["status"] for one in lines["session"]}
    assert statuses == {key: "waiting-human" if key == "recorded:4:0" else "done" for key in ODD_EFFECTS}
    assert [one["queue"] for one in lines["ticket"] if one["status"] == "open"] == ["tier2"]
    check_outside(lines)


def check_outside(lines: dict[str, list[Json]]) -> None:
    """Each effect that is done was applied once outside, and nothing else was."""
    done = sorted(
        (one["sessionId"], one["key"], one["tool"]) for one in lines["effect"] if one["status"] == "done"
    )
    assert sorted((one["sessionId"], one["key"], one["tool"]) for one in lines["outside"]) == done
    assert {one["calls"] for one in lines["outside"]} <= {1}


def check_real(demo: Demo, runs: list[Json]) -> None:
    """Compare with the record itself."""
    lines = demo.export()
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
    check_outside(lines)


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
