"""Processes that start, and end: too early, on the wrong file, told once or twice, or left by their parent."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from passdown.broker.client import Broker
from tests.integration.site import DESK, PASSDOWN, Site, one_stage, types, wait_until

STUBBORN = """
import time
from pathlib import Path
from passdown.agents import Done, agent

@agent("waiter")
def waiter(pack, ctx):
    Path(pack.inputs["gate"]).touch()
    time.sleep(600)
"""


def passdown(*argv: str, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([PASSDOWN, *argv], capture_output=True, text=True, timeout=timeout, check=False)


def children(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children()


class TestAWorkerThatIsEarly:
    def test_it_waits_for_the_folder_of_its_store(self, site: Site) -> None:
        folder = site.folder / "later"
        store = f"sqlite:///{folder}/a.db"
        worker = site.run(PASSDOWN, "--store", store, "worker", "flaky", "--module", DESK)
        wait_until(lambda: site.log().count("worker.store_away") >= 2, "it says that it waits")
        folder.mkdir()
        wait_until((folder / "a.db").exists, "it makes its store")
        with Broker.connect(store, by="user:producer") as broker:
            broker.register(one_stage("p", "flaky"))
            session = broker.submit("p", inputs={"kind": "SystemExit"})
            wait_until(lambda: "ReturnRejected" in types(session), "it works")
        site.kill(worker, signal.SIGTERM)
        assert worker.returncode == 0

    def test_it_waits_for_a_file_that_is_locked_and_can_be_told_to_stop(self, site: Site) -> None:
        with closing(sqlite3.connect(site.folder / "passdown.db", isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            site.broker.close()
            other.execute("BEGIN EXCLUSIVE")
            impatient = site.passdown("worker", "flaky", "--module", DESK)
            patient = site.passdown("worker", "flaky", "--module", DESK)
            wait_until(lambda: children(impatient) and children(patient), "both have their child")
            time.sleep(2.0)
            began = time.monotonic()
            site.kill(impatient, signal.SIGTERM)
            assert time.monotonic() - began < 10
            assert impatient.returncode == 0
            assert patient.poll() is None
        with Broker.connect(site.store, by="user:producer") as broker:
            broker.register(one_stage("p", "flaky"))
            session = broker.submit("p", inputs={"kind": "KeyError"})
            wait_until(lambda: "ReturnRejected" in types(session), "the other one works", 60)
        site.kill(patient, signal.SIGTERM)
        assert patient.returncode == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("worker", "flaky", "--module", DESK),
        ("tick",),
        ("up", "--module", DESK),
        ("list",),
        ("status", "s0-none"),
        ("delegate", "desk", "Do it."),
    ],
    ids=lambda argv: argv[0],
)
def test_a_store_of_a_newer_version_is_one_clear_line_and_is_left_alone(
    tmp_path: Path, argv: tuple[str, ...]
) -> None:
    path = tmp_path / "a.db"
    Broker.connect(f"sqlite:///{path}", by="user:producer").close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    before = (path.read_bytes(), sorted(tmp_path.iterdir()))

    found = passdown("--store", f"sqlite:///{path}", "--as", "user:ann", *argv)

    assert (found.returncode, found.stdout) == (2, "")
    (line,) = found.stderr.splitlines()
    assert line.startswith(f"passdown: the store {path} does not fit its contract: its format is 99")
    assert "upgrade Passdown" in line
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before


class TestEnds:
    def waiting(self, site: Site, *start: str) -> "subprocess.Popen[bytes]":
        """Start a process whose agent hangs, and wait until it does."""
        module = site.folder / "stubborn_agents.py"
        module.write_text(STUBBORN)
        site.broker.register(one_stage("wait", "waiter"))
        process = site.passdown(*start, "--module", str(module))
        gate = site.folder / "gate"
        site.broker.submit("wait", inputs={"gate": str(gate)}, key="k")
        wait_until(gate.exists, "the agent hangs", 60)
        return process

    def test_an_agent_that_never_ends_is_left_and_its_work_handed_back(self, site: Site) -> None:
        site.broker.register(one_stage("wait", "waiter"))
        module = site.folder / "stubborn_agents.py"
        module.write_text(STUBBORN)
        spec = site.spec(["waiter"], grace_s=0.5).replace(DESK, str(module))
        worker = site.start("passdown.broker.worker", spec)
        gate = site.folder / "gate"
        session = site.broker.submit("wait", inputs={"gate": str(gate)})
        wait_until(gate.exists, "the agent hangs", 60)
        began = time.monotonic()
        site.kill(worker, signal.SIGTERM)
        assert time.monotonic() - began < 25
        assert worker.returncode == 0
        assert types(session)[-2:] == ["ClaimReleased", "PackIssued"]

    @pytest.mark.parametrize(
        ("start", "code"), [(("up",), 128 + signal.SIGINT), (("worker", "waiter"), 128 + signal.SIGKILL)]
    )
    def test_told_twice_it_ends_on_the_spot(self, site: Site, start: tuple[str, ...], code: int) -> None:
        process = self.waiting(site, *start)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == code
        assert time.monotonic() - began < 5

    def test_a_worker_whose_watcher_was_killed_ends_by_itself(self, site: Site) -> None:
        watcher = site.passdown("worker", "waiter", "--module", DESK)
        site.broker.register(one_stage("wait", "waiter"))
        gate = site.folder / "gate"
        session = site.broker.submit("wait", inputs={"gate": str(gate)})
        wait_until(lambda: session.state().claim, "it is claimed", 60)
        (child,) = children(watcher)
        site.kill(watcher)
        wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "it ends", 40)
        assert session.state().claim is None, "what it held was given back or handed in"

    def test_a_worker_that_is_killed_is_started_again(self, site: Site) -> None:
        watcher = site.passdown("worker", "flaky", "--module", DESK)
        wait_until(lambda: children(watcher), "it has its child", 60)
        (first,) = children(watcher)
        os.kill(first.pid, signal.SIGKILL)
        wait_until(
            lambda: [one.pid for one in children(watcher)] not in ([], [first.pid]), "it has another", 60
        )
        assert "killed by SIGKILL" in site.log()
        site.broker.register(one_stage("p", "flaky"))
        session = site.broker.submit("p", inputs={"kind": "KeyError"})
        wait_until(lambda: "ReturnRejected" in types(session), "it works", 60)
        site.kill(watcher, signal.SIGTERM)
        assert watcher.returncode == 0


def test_no_list_of_processes_shows_what_a_worker_was_told(site: Site) -> None:
    watcher = site.passdown("worker", "flaky", "--module", DESK)
    wait_until(lambda: children(watcher), "it has its child", 60)
    (child,) = children(watcher)
    shown = ["-m", "passdown.broker.worker", "-", str(watcher.pid)]
    wait_until(lambda: child.cmdline()[-4:] == shown, "the child shows its own command")
    site.kill(watcher, signal.SIGTERM)


def test_a_worker_whose_watcher_was_gone_before_it_looked_ends_by_itself(site: Site) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    command = [sys.executable, "-m", "passdown.broker.worker", site.spec(["searcher"]), str(gone.pid)]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0
