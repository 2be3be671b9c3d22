"""Asking a person at a terminal, line by line, so that nothing that they typed is lost.

The terminal edits the line, as for every program without a screen of its own: this works where it is dumb, too. Another
thread may end the asking (`Prompts.stop`), as Ctrl-C does and a terminal that is closed; the line that is not finished
comes with it.
"""

import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from rich.text import Text

from passdown.broker.cli import output
from passdown.broker.cli.words import clean
from passdown.contracts.errors import ContractError, PassdownError

#: The longest line that a terminal hands over (bytes): what is more of it gets lost there (termios(3), canonical mode).
_LONGEST = 4095
#: Typed in place of an answer, it opens an editor.
EDITOR = ":e"
_LFLAG, _CC = 3, 6
_HANGUPS = ("SIGHUP", "SIGTERM")


class Stopped(Exception):
    """The asking ended. ``typed`` is the line that was not finished; ``error`` says why, None where the person did it."""

    def __init__(self, typed: str = "", error: PassdownError | None = None) -> None:
        super().__init__(typed, error)
        self.typed = typed
        self.error = error


def at_terminal() -> bool:
    """Whether somebody can be asked: standard input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class Prompts:
    """The terminal of this process while it asks. Use it as a context: at its end the terminal is as it was."""

    def __init__(self) -> None:
        self._in = sys.stdin.fileno()
        self._got = bytearray()
        self._error: PassdownError | None = None
        self._ear, self._bell = os.pipe()
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._in)
        changed = termios.tcgetattr(self._in)
        # Ctrl-C would throw away the line that is being typed.
        changed[_LFLAG] |= termios.NOFLSH
        termios.tcsetattr(self._in, termios.TCSANOW, changed)
        for name in _HANGUPS:
            number = getattr(signal, name)
            self._handlers[number] = signal.signal(number, _hang_up)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(termios.error, OSError):
            termios.tcsetattr(self._in, termios.TCSANOW, self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._ear)
        os.close(self._bell)

    def stop(self, error: PassdownError) -> None:
        """End the asking, from another thread: whoever is asked is told why."""
        self._error = error
        with suppress(OSError):  # it has ended by now
            os.write(self._bell, b".")

    def line(self, prompt: str) -> str:
        """Return the next line that is typed. Raises Stopped."""
        while True:
            try:
                sys.stdout.write(prompt)
                sys.stdout.flush()
                raw = self._line()
            except KeyboardInterrupt:  # it may come as soon as the prompt is seen
                raise Stopped(self._rest()) from None
            if len(raw) < _LONGEST:
                return raw.decode(errors="replace").strip()
            self.say(f"a line takes at most {_LONGEST - 1} bytes here; {EDITOR} opens an editor")

    def _line(self) -> bytes:
        try:
            while b"\n" not in self._got:
                self.check()
                ready, _, _ = select.select([self._in, self._ear], [], [])
                if self._ear in ready:
                    continue
                data = os.read(self._in, 65536)
                if not data:
                    raise Stopped(self._rest())
                self._got += data
        except OSError:  # the terminal is gone
            raise Stopped(self._got.decode(errors="replace")) from None
        line, _, rest = bytes(self._got).partition(b"\n")
        self._got = bytearray(rest)
        return line

    def check(self) -> None:
        """Raise Stopped where the asking has ended."""
        if self._error is not None:
            raise Stopped(self._rest(), self._error)

    def _rest(self) -> str:
        """Return what stands in the line that is not finished: not a line yet, it is read as single characters."""
        rest = bytes(self._got)
        self._got.clear()
        with suppress(termios.error, OSError):
            now = termios.tcgetattr(self._in)
            now[_LFLAG] &= ~termios.ICANON
            now[_CC][termios.VMIN] = now[_CC][termios.VTIME] = 0
            termios.tcsetattr(self._in, termios.TCSANOW, now)
            rest += os.read(self._in, 65536)
        return rest.decode(errors="replace").strip()

    # -- what is asked --------------------------------------------------------------------------------------

    def say(self, text: str | Text = "", indent: int = 0, lead: str = "") -> None:
        """Print a line."""
        output.say(text, indent, lead)

    def quote(self, text: str) -> None:
        """Print a text of others: each line after a bar, as in the brief."""
        for one in text.split("\n"):
            output.say(clean(one), 2, "| ")

    def choose(self, options: Sequence[tuple[str, str]], prompt: str, given: str | None = None) -> str:
        """Return which of these names is chosen: by its number, or by itself. Each comes with what it means."""
        names = [name for name, _ in options]
        widest = min(max(len(name) for name in names), 30) + 7
        for number, (name, meaning) in enumerate(options, 1):
            output.say(clean(meaning), widest, Text.assemble(f"{number:>3}  ", (clean(name), "bold"), "  "))
        default = f" [{clean(given)}]" if given in names else ""
        while True:
            typed = self.line(f"{prompt} (1-{len(names)}){default}: ")
            if not typed and given in names:
                return str(given)
            if typed in names:
                return typed
            if typed.isascii() and typed.isdigit() and len(typed) < 6 and 1 <= int(typed) <= len(names):
                return names[int(typed) - 1]
            self.say(
                f"choose one of 1 to {len(names)}" if typed else "it needs an answer; Ctrl-C keeps a draft"
            )

    def yes(self, prompt: str, *, given: bool | None) -> bool:
        """Return whether the answer is yes; an empty one is what was `given`, and asked again where that is None."""
        shown = {None: "y/n", True: "Y/n", False: "y/N"}[given]
        while True:
            typed = self.line(f"{prompt} [{shown}]: ").lower()
            if typed in ("y", "yes", "true"):
                return True
            if typed in ("n", "no", "false"):
                return False
            if not typed and given is not None:
                return given
            self.say("answer y or n")

    def edited(self, text: str, suffix: str) -> str:
        """Return a text as it was left in the person's editor. Raises ContractError where there is none."""
        words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
        if not words:
            raise ContractError("editor", "none is named: set EDITOR")
        with tempfile.TemporaryDirectory(prefix="passdown-") as folder:
            path = Path(folder) / f"value{suffix}"
            path.write_text(text, encoding="utf-8")
            # Ctrl-C is the editor's own while it is open.
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                code = subprocess.run([*words, str(path)], check=False).returncode  # noqa: S603 - the person's own
            except OSError as error:
                raise ContractError("editor", f"{words[0]}: {error.strerror}") from error
            finally:
                signal.signal(signal.SIGINT, before)
            if code:
                raise ContractError(
                    "editor", f"{words[0]} ended with {code}, what was written there is left out"
                )
            return _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise ContractError("editor", "what was written there is not UTF-8") from error


def _hang_up(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
