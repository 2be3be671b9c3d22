"""The processes of a demo: workers and a tick, each in a process group of its own, started and ended here.

A process whose standard input ends stops by itself (see `process`), so none outlives the demo, however that
ends.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from passdown.broker.demo.place import FOLDER_VARIABLE, Place
from passdown.contracts.errors import Unavailable

Kind = Literal["worker", "tick"]

_GRACE_SECONDS = 5.0
#: A process that ends this often within seconds of its start will not do better.
_EARLY_ENDS, _EARLY_SECONDS = 5, 3.0


@dataclass(slots=True)
class Member:
    """One process. ``command`` is followed by how often it was started before."""

    name: str
    kind: Kind
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    started: float = 0.0
    early_ends: int = 0


@dataclass(slots=True)
class Fleet:
    """Processes under one roof; use it as a context."""

    place: Place
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    restarts: int = 0

    def add(self, name: str, kind: Kind, module: str, specification: str) -> None:
        """Start ``python -m module SPECIFICATION STARTS``."""
        member = Member(name, kind, [sys.executable, "-m", module, specification])
        self.members[name] = member
        self._start(member)

    def names(self, kind: Kind) -> list[str]:
        """Return the names of all processes of a kind."""
        return [one.name for one in self.members.values() if one.kind == kind]

    def log(self, name: str) -> Path:
        """Return where a process's standard error goes."""
        return self.place.logs / f"{name}.log"

    def mend(self) -> None:
        """Start again what ended. Raises Unavailable, with its last words, for one that always ends at once."""
        for member in self.members.values():
            if member.process is not None and member.process.poll() is not None:
                member.early_ends = member.early_ends + 1 if self._gave_up(member) else 0
                if member.early_ends >= _EARLY_ENDS:
                    raise Unavailable(f"the process {member.name}", self._last_words(member))
                self.restarts += 1
                self._start(member)

    def kill(self, name: str) -> None:
        """End a process on the spot, and start it again."""
        member = self.members[name]
        self._signal(member, signal.SIGKILL)
        if member.process is not None:
            member.process.wait()
        self.restarts += 1
        self._start(member)

    def freeze(self, name: str) -> None:
        """Stop a process in its tracks."""
        self._signal(self.members[name], signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let a frozen process go on."""
        self._signal(self.members[name], signal.SIGCONT)

    def frozen(self) -> list[str]:
        """Return the names of the processes that are stopped in their tracks now, whoever stopped them."""
        return [one.name for one in self.members.values() if one.process and _is_stopped(one.process)]

    def stop(self) -> None:
        """End all processes: politely first, then for good."""
        for member in self.members.values():
            self._close_input(member)
            self._signal(member, signal.SIGTERM)
            self._signal(member, signal.SIGCONT)
        until = time.monotonic() + _GRACE_SECONDS
        for member in self.members.values():
            process, member.process = member.process, None
            if process is None:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, member: Member) -> None:
        self._close_input(member)
        environment = {**os.environ, FOLDER_VARIABLE: str(self.place.folder)}
        with self.log(member.name).open("ab") as log:
            member.process = subprocess.Popen(  # noqa: S603 - this very Python, on a module of ours
                [*member.command, str(member.starts)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                process_group=0,
            )
        member.starts += 1
        member.started = time.monotonic()

    def _close_input(self, member: Member) -> None:
        if member.process is not None and member.process.stdin is not None:
            with contextlib.suppress(OSError):
                member.process.stdin.close()

    def _signal(self, member: Member, number: signal.Signals) -> None:
        if member.process is not None and member.process.poll() is None:
            member.process.send_signal(number)

    def _gave_up(self, member: Member) -> bool:
        """Whether a process ended by itself soon after its start; one that was killed did not."""
        status = member.process.returncode if member.process else 0
        return status >= 0 and time.monotonic() - member.started < _EARLY_SECONDS

    def _last_words(self, member: Member) -> str:
        status = member.process.returncode if member.process else None
        tail = self.log(member.name).read_text(errors="replace").splitlines()[-3:]
        return f"it ended {member.early_ends} times at once, with status {status}: {' | '.join(tail)}"


def _is_stopped(process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        return False
    # Without WNOWAIT the stop would be reported once only.
    return os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
