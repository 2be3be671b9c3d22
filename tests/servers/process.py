"""What all servers of the tests share: a port, a folder, a process that never outlives the tests, and its log."""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NoReturn

import pytest

HOST = "127.0.0.1"
START_S = 60.0
STOP_S = 30.0

# Below the range from which systems give ports to outgoing connections: none of those can sit on the port of a
# server that is down for a moment.
_PORTS = range(20_000, 32_000)

# A server gets SIGKILL when the thread that started it ends, and this one ends with the process, however that ends.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="server-starter")


def wait_until(met: Callable[[], object], what: Callable[[], str], timeout_s: float) -> None:
    """Wait for a condition; fails the test with `what`, asked then, where it is not met in time."""
    ends = time.monotonic() + timeout_s
    while not met():
        if time.monotonic() > ends:
            raise AssertionError(f"after {timeout_s:g} s still not: {what()}")
        time.sleep(0.005)


def free_ports(count: int = 1) -> int:
    """Return the first of `count` neighbouring loopback ports on which nobody listens."""
    for _ in range(200):
        first = random.choice(_PORTS)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError(f"no {count} free ports side by side between {_PORTS.start} and {_PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except OSError:
            return False
    return True


def missing(server: str, how: str) -> NoReturn:
    """Skip the test for want of a server, saying how to get it; in CI, which must have all, fail it."""
    text = f"{server} is not installed here; to get it: {how}"
    if os.environ.get("CI"):
        pytest.fail(f"{text} (CI must have it)", pytrace=False)
    pytest.skip(text)


class ServerProcess:
    """A server's process in a folder of its own: ended, frozen and started again by tests.

    Subclasses say how it is started and when it is ready. Its output is in ``log`` in the folder.
    """

    def __init__(self, folder: Path, argv: list[str], env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.argv = argv
        self.env = env
        #: How long the last start took until the server answered.
        self.start_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process's id; fails where the server is down."""
        return self._living().pid

    @property
    def running(self) -> bool:
        """Whether there is a process; a frozen one counts."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and wait until it answers; fails with its log where it does not."""
        assert not self.running, f"{self.argv[0]} is running already"
        began = time.monotonic()
        self._process = _starter.submit(self._popen).result()
        wait_until(self._answers, lambda: f"{self.argv[0]} answers. It said:\n{self.log()}", START_S)
        self.start_s = time.monotonic() - began

    def kill(self) -> None:
        """End it with SIGKILL: it writes nothing any more."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an administrator does, with SIGTERM."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Start it again on the same port and folder, after a stop where it is running."""
        if self.running:
            self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        self._living().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._living().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it for good, whatever state it is in, and remove its folder."""
        if self.running:
            self.kill()
        self._let_go()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """Return the end of what it printed."""
        path = self.folder / "log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def _ready(self) -> bool:
        """Whether it answers as it should; raises OSError where it does not listen yet."""
        raise NotImplementedError

    def _let_go(self) -> None:
        """Close what the tests hold of a process that has ended."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _answers(self) -> bool:
        if not self.running:
            raise AssertionError(
                f"{self.argv[0]} ended with {self._code()} at its start. It said:\n{self.log()}"
            )
        try:
            return self._ready()
        except OSError:
            return False

    def _popen(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*_die_with_parent(), *self.argv],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests, which then end it
            )

    def _end(self, number: Literal[signal.Signals.SIGKILL, signal.Signals.SIGTERM]) -> None:
        process = self._living()
        process.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"{self.argv[0]} did not stop in {STOP_S:g} s. It said:\n{self.log()}"
            ) from None
        finally:
            self._let_go()

    def _living(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.argv[0]} was not started"
        assert self._process.poll() is None, f"{self.argv[0]} is down. It said:\n{self.log()}"
        return self._process

    def _code(self) -> int | None:
        return self._process.returncode if self._process is not None else None


def _die_with_parent() -> list[str]:
    """Return the command before a server's that has the kernel end it with its parent (util-linux)."""
    return ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
