"""Hands at a terminal: they wait for what it shows, and type. With the standard library's `pty` alone."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from passdown.broker.cli.root import run
from tests.unit.cli.terminal import PASSDOWN

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PATIENCE_S = 10.0
CTRL_C, CTRL_D = "\x03", "\x04"

#: What is waited for on the screen, and what is then typed, or done, if anything.
Step = tuple[str, str | Callable[[], object] | None]


class Hands:
    """The outer end of a terminal."""

    def __init__(self, outer: int) -> None:
        self._outer = outer
        self._sent = b""
        self._seen = 0

    @property
    def screen(self) -> str:
        """All that was shown, without escapes."""
        return _ESCAPE.sub("", self._sent.decode(errors="replace").replace("\r\n", "\n"))

    def wait_for(self, text: str) -> None:
        """Wait until the terminal shows `text`, below what was waited for before."""
        until = time.monotonic() + _PATIENCE_S
        while (at := self.screen.find(text, self._seen)) < 0:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} never came; the screen shows:\n{self.screen}"
            assert self._read(left), f"it ended before {text!r} came; the screen shows:\n{self.screen}"
        self._seen = at + len(text)

    def type(self, text: str, *, enter: bool = True) -> None:
        """Type a line."""
        os.write(self._outer, (text + ("\n" if enter else "")).encode())

    def do(self, steps: Sequence[Step]) -> None:
        """Wait and type, step by step."""
        for text, act in steps:
            self.wait_for(text)
            if isinstance(act, str):
                self.type(act)
            elif act is not None:
                act()

    def rest(self) -> None:
        """Read to the end."""
        while self._read(_PATIENCE_S):
            pass

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._outer], [], [], max(seconds, 0))
        if not ready:
            return True
        try:
            data = os.read(self._outer, 65536)
        except OSError:  # the other end is closed
            return False
        self._sent += data
        return bool(data)


class Program:
    """`passdown` as a process in a terminal of its own: it gets the signals that a terminal sends."""

    def __init__(self, *args: str, folder: Path, **environ: str) -> None:
        outer, inner = pty.openpty()
        _size(outer, 80)
        self.outer = outer
        self.hands = Hands(outer)
        self.process = subprocess.Popen(
            # Whoever leads a session and opens a terminal gets its signals from then on.
            ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(inner), PASSDOWN, *args],
            cwd=folder,
            env={**os.environ, "TERM": "dumb", **environ},
            start_new_session=True,
        )
        self._inner = inner  # it would be closed before the program has opened it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.let_go()
        with suppress(OSError):
            os.close(self.outer)

    def let_go(self) -> None:
        """Have nobody but the program at the inner end."""
        with suppress(OSError):
            os.close(self._inner)

    def close(self) -> None:
        """Close the terminal."""
        self.let_go()
        os.close(self.outer)

    def ended(self) -> int:
        """Wait until it has ended; returns its exit code."""
        self.let_go()
        self.hands.rest()
        return self.process.wait(timeout=_PATIENCE_S)


def _size(fd: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))


class Typed:
    """What one command line left behind that was typed to."""

    def __init__(self, code: int, screen: str) -> None:
        self.code = code
        self.screen = screen


def typed(
    monkeypatch: pytest.MonkeyPatch, args: list[str], steps: Sequence[Step], columns: int = 80
) -> Typed:
    """Run a command line in this process, in a terminal to which hands type."""
    outer, inner = pty.openpty()
    _size(outer, columns)
    hands = Hands(outer)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("COLUMNS", raising=False)

    def work() -> None:
        try:
            hands.do(steps)
        except AssertionError:
            hands.type(CTRL_D * 2, enter=False)  # whoever still asks is told that nobody is there
            raise
        finally:
            hands.rest()

    with ThreadPoolExecutor(1) as pool:
        with (
            os.fdopen(os.dup(inner), "r", encoding="utf-8") as keys,
            os.fdopen(inner, "w", encoding="utf-8") as screen,
            monkeypatch.context() as patch,
        ):
            patch.setattr(sys, "stdin", keys)
            patch.setattr(sys, "stdout", screen)
            patch.setattr(sys, "stderr", screen)
            done = pool.submit(work)
            code = run(args)
        done.result(timeout=2 * _PATIENCE_S)
    os.close(outer)
    return Typed(code, hands.screen)
