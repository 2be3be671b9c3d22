"""How far a demo is: a bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

_LINE_SECONDS = 5.0


class Progress:
    """Shows how many sessions have settled; use it as a context."""

    def __init__(self, console: Console, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._total = total
        self._clock = clock
        self._said = clock()
        self._last = -1
        self._bar = Bar(
            TextColumn("sessions"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("sessions", total=total, note="")

    def update(self, settled: int, note: str = "") -> None:
        """Say how many have settled; without a terminal every few seconds, and at the end."""
        self._bar.update(self._task, completed=settled, note=note)
        if self._console.is_terminal or settled == self._last:
            return
        now = self._clock()
        if now - self._said >= _LINE_SECONDS or settled == self._total:
            self._said, self._last = now, settled
            self._console.print(f"{settled} of {self._total} sessions settled{note and f'; {note}'}")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
