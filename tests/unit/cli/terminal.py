"""Runs a command line in a terminal of a given width; returns what the terminal was sent."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from passdown.broker.cli.root import run

PASSDOWN = str(Path(sys.executable).with_name("passdown"))
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen(NamedTuple):
    """What came: with its escapes, and as lines without them."""

    code: int
    raw: str
    lines: list[str]


def in_terminal(columns: int, *args: str, folder: Path, **environ: str) -> Screen:
    """Run `passdown` as a process, with standard input, output and error in one terminal."""
    inner, outer = pty.openpty()
    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")
    }
    env |= {"TERM": "xterm-256color", **environ}
    process = subprocess.Popen(
        [PASSDOWN, *args],
        stdin=outer,
        stdout=outer,
        stderr=outer,
        cwd=folder,
        env=env,
        start_new_session=True,
    )
    os.close(outer)
    sent = _read(inner)
    return _screen(process.wait(timeout=30), sent)


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, *args: str) -> Screen:
    """Run one command line in this process, which takes a fraction of the time; width is what COLUMNS says."""
    inner, outer = pty.openpty()
    for name, value in {"COLUMNS": str(columns), "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)
    with ThreadPoolExecutor(1) as reader, os.fdopen(outer, "w", encoding="utf-8") as stream:
        sent = reader.submit(_read, inner)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            code = run(args)
        stream.close()
        return _screen(code, sent.result(timeout=30))


def _read(inner: int) -> bytes:
    sent = b""
    while True:
        try:
            data = os.read(inner, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        sent += data
    os.close(inner)
    return sent


def _screen(code: int, sent: bytes) -> Screen:
    raw = sent.decode().replace("\r\n", "\n")
    lines = [line.rpartition("\r")[2] for line in _ESCAPE.sub("", raw).splitlines()]
    return Screen(code, raw, lines)
