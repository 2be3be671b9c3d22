"""An example of `examples/` at work as its README tells it, in a copy of its folder."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from passdown.broker.client import Broker, Session

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BIN = Path(sys.executable).parent


class Example:
    """A copy of an example's folder, in which the lines of its README are typed."""

    def __init__(self, name: str, parent: Path) -> None:
        self.folder = parent / name
        ignored = shutil.ignore_patterns("__pycache__", "outside", "*.db*")
        shutil.copytree(EXAMPLES / name, self.folder, ignore=ignored)
        self._readme = (EXAMPLES / name / "README.md").read_text()

    def line(self, begins: str, number: int = 0) -> str:
        """Return a line of the README by its beginning; `number` of several."""
        return [line for line in self._readme.splitlines() if line.startswith(begins)][number]

    @contextmanager
    def up(self) -> Generator[None]:
        """Have the example up, as the README starts it."""
        command = shlex.split(self.line("passdown up").removesuffix("&"))
        with (self.folder / "up.log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=_environment(), stdout=log, stderr=log, start_new_session=True
            )
        self.wait(lambda: "passdown is up" in self.log(), "it is up")
        yield
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0, self.log()

    def log(self) -> str:
        """Return what `up` said."""
        return (self.folder / "up.log").read_text()

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Type a line."""
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.folder,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def fine(self, line: str) -> str:
        """Type a line that must succeed; returns what it printed."""
        done = self.run(line)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def session(self, key: str) -> Generator[Session]:
        """Yield the session of a submit key."""
        with Broker.connect(f"sqlite:///{self.folder / 'passdown.db'}") as broker:
            yield broker.session(key)

    def wait(self, condition: Callable[[], bool], what: str, within_s: float = 60) -> None:
        """Wait until something holds."""
        ends = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < ends, f"{what}: not within {within_s} s; {self.log()[-2000:]}"
            time.sleep(0.02)


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "200"}


def tickets_in(text: str) -> list[str]:
    """Return the tickets that a list of them names, in order."""
    return re.findall(r"s0-[0-9a-f]{24}/[0-9]+", text)
