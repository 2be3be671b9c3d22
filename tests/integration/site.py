"""A site of real processes on one store and one transport: workers and ticks that tests start, kill and start again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from passdown.broker.client import Broker, Session
from passdown.broker.pool import Kind
from passdown.broker.worker import WorkerSpec
from passdown.contracts.codec import encode
from passdown.contracts.plans import Backoff, Grant, Level, Next, Plan, Returns, Stage

ROOT = Path(__file__).resolve().parents[2]
DESK = str(Path(__file__).with_name("desk.py"))
ROLES = ["searcher", "writer", "notifier"]

PASSDOWN = str(Path(sys.executable).with_name("passdown"))

LEASE_S = 2.0


def wait_until(met: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
    """Wait for a condition; fails the test, naming it, where it is not met in time."""
    ends = time.monotonic() + timeout_s
    while not met():
        if time.monotonic() > ends:
            raise AssertionError(f"after {timeout_s:g} s still not: {what}")
        time.sleep(0.02)


def stage(role: str, **more: object) -> Stage:
    """Return a stage with short times."""
    fields = {"lease_seconds": LEASE_S, "backoff": Backoff(first_seconds=0.05), "max_attempts": 3, **more}
    return Stage(role=role, **fields)  # type: ignore[arg-type]


def refund_plan() -> Plan:
    """Search, write, notify: the plan that is killed at every point."""
    return Plan(
        name="refund",
        start="search",
        stages={
            "search": stage("searcher", tools=[Grant(tool="search.orders")], next=Next(to="write")),
            "write": stage(
                "writer", tools=[Grant(tool="refunds.create")], recovery="continue", next=Next(to="notify")
            ),
            "notify": stage("notifier", tools=[Grant(tool="mail.send")], recovery="continue"),
        },
    )


def one_stage(name: str, role: str, **more: object) -> Plan:
    """Return a plan of one stage."""
    return Plan(name=name, start="only", stages={"only": stage(role, **more)})


class Site:
    """A folder; the processes that were started in it end with the test.

    ``store`` is an address, by default that of a SQLite file in the folder; ``transport`` another, by default what
    goes with the store.
    """

    def __init__(self, folder: Path, store: str = "", transport: str = "") -> None:
        self.folder = folder
        self.store = store or f"sqlite:///{folder / 'passdown.db'}"
        self.transport = transport
        self.outside = folder / "outside.jsonl"
        self.desk = DESK
        self.broker = Broker.connect(self.store, transport=transport, by="user:producer")
        self._processes: list[subprocess.Popen[bytes]] = []

    def spec(
        self, roles: list[str], *, concurrency: int = 4, grace_s: float = 5.0, pool: Kind = "threads"
    ) -> str:
        """Return a worker's specification as text."""
        spec = WorkerSpec(
            store=self.store,
            transport=self.transport,
            roles=roles,
            modules=[DESK],
            concurrency=concurrency,
            pool=pool,
            grace_s=grace_s,
            log_level="warning",
        )
        return encode(spec).decode()

    def start(self, *argv: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """Start a Python module as a process."""
        return self.run(*prefix, sys.executable, "-m", *argv)

    def passdown(self, *argv: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """Start the command line as a process, on this site's store and transport."""
        over = ("--transport", self.transport) if self.transport else ()
        return self.run(*prefix, PASSDOWN, "--store", self.store, *over, *argv)

    def run(self, *argv: str) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own; its log goes to ``log`` in the folder."""
        env = {**os.environ, "OUTSIDE": str(self.outside), "PYTHONWARNINGS": "error"}
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                argv, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(process)
        return process

    def worker(self, *roles: str, **options: float | Kind) -> subprocess.Popen[bytes]:
        """Start a worker without anybody who watches it."""
        return self.start("passdown.broker.worker", self.spec(list(roles or ROLES), **options))  # type: ignore[arg-type]

    def worker_command(self, *roles: str) -> list[str]:
        """Return the command that starts a worker, to be run under another one."""
        return [sys.executable, "-m", "passdown.broker.worker", self.spec(list(roles or ROLES))]

    def killing_worker(self, point: str, marker: Path) -> subprocess.Popen[bytes]:
        """Start a worker that dies at `point`, unless the marker says that this has happened."""
        return self.start("tests.integration.killing", self.spec(ROLES), point, str(marker))

    def tick(self, prefix: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """Start a tick."""
        return self.passdown("tick", prefix=prefix)

    def kill(self, process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
        """End a process, and wait for its end."""
        process.send_signal(number)
        process.wait(timeout=30)

    def end(self) -> None:
        """End what is still running."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=10)

    def close(self) -> None:
        """End what is still running, and let go of the store."""
        self.end()
        self.broker.close()

    def log(self) -> str:
        """Return what the processes logged."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""


def types(session: Session) -> list[str]:
    """Return the types of a session's events in order."""
    return [type(logged.event).__name__ for logged in session.events()]


__all__ = [
    "LEASE_S",
    "ROLES",
    "Level",
    "Returns",
    "Site",
    "one_stage",
    "refund_plan",
    "stage",
    "types",
    "wait_until",
]
