"""Where commands print to: answers on stdout, all else on stderr; colours and progress only on a terminal."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import IO, Any

import click
import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from passdown.contracts.codec import encode

#: How wide lines are where no terminal limits them: nothing is cut or wrapped for a pipe.
_PIPE_WIDTH = 100_000

STYLES = {
    "done": "green",
    "running": "cyan",
    "queued": "blue",
    "waiting-input": "yellow",
    "waiting-human": "yellow",
    "waiting-join": "blue",
    "paused": "magenta",
    "refused": "red",
    "failed": "bold red",
    "cancelled": "red",
    "expired": "red",
    "proposed": "yellow",
    "denied": "red",
    "intended": "cyan",
    "unknown": "bold yellow",
    "not-done": "red",
}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the edge, as every other error."""
        raise BrokenPipeError


def _console(stream: IO[str]) -> Console:
    width = None if stream.isatty() else _PIPE_WIDTH
    return _Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def out() -> Console:
    """Return the console of answers."""
    return _console(sys.stdout)


def err() -> Console:
    """Return the console of what is said beside the answer."""
    return _console(sys.stderr)


def width() -> int | None:
    """Return how wide the terminal of stdout is; None where it is none."""
    return out().width if sys.stdout.isatty() else None


def say(text: str | Text = "", indent: int = 0, lead: str | Text = "") -> None:
    """Print a line of an answer: `lead`, filled up to `indent`, then `text`, which on a terminal wraps within its indent."""
    console, columns = out(), width()
    body = Text(text) if isinstance(text, str) else text
    first = Text(lead) if isinstance(lead, str) else lead.copy()
    first.pad_right(max(indent - first.cell_len, 0))
    lines = [body] if columns is None else list(body.wrap(console, max(columns - indent, 20)))
    for line in lines or [body]:
        line.rstrip()
        console.print(first + line, soft_wrap=True)
        first = Text(" " * indent)


def say_command(command: str, indent: int = 0) -> None:
    """Print a command to type; never broken into lines, so that it can be copied."""
    out().print(Text(" " * indent) + Text(command, style="bold"), soft_wrap=True)


def hint(text: str) -> None:
    """Say something helpful beside the answer, to people only."""
    if sys.stderr.isatty():
        err().print(Text(text, style="dim"), soft_wrap=True)


def status_text(status: str) -> Text:
    """Return a status in its colour."""
    return Text(status, style=STYLES.get(status, ""))


def print_json(value: Any) -> None:
    """Print one JSON document: on one line for machines, indented on a terminal."""
    raw = encode(value)
    if sys.stdout.isatty():
        raw = msgspec.json.format(raw, indent=2)
    click.echo(raw)


def print_line(value: Any) -> None:
    """Print a value as one line of JSON Lines."""
    click.echo(encode(value))


@contextmanager
def progress(title: str, *, hidden: bool = False) -> Generator[Callable[[], None]]:
    """Count on a terminal while long work goes on; call what this gives once for each thing done."""
    if hidden or not sys.stderr.isatty():
        yield lambda: None
        return
    columns = [SpinnerColumn(), TextColumn("{task.completed:,} {task.description}"), TimeElapsedColumn()]
    # Redirecting would send what goes into a pipe to the terminal.
    bar = Progress(*columns, console=err(), transient=True, redirect_stdout=False, redirect_stderr=False)
    with bar:
        task = bar.add_task(title, total=None)
        yield lambda: bar.advance(task)
