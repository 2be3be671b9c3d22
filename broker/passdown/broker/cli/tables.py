"""Lists of things in aligned columns; the last one is text that wraps, below the others where there is no room."""

import sys
from collections.abc import Sequence

from rich.text import Text

from passdown.broker.cli import output
from passdown.broker.cli.words import ago, clean, cut, line, span, when
from passdown.broker.joins.tickets import OpenTicket
from passdown.broker.stores.queries import QueueRow, SessionRow

Cell = str | Text

#: The least room beside the other columns that the last one needs to stand there.
ROOM = 30
#: A longer name of a branch is cut.
_NAME = 30


def show(headings: Sequence[str], rows: Sequence[Sequence[Cell]], nothing: str) -> None:
    """Print rows below their headings, or say on a terminal that there is `nothing`."""
    if not rows:
        output.hint(nothing)
        return
    lines = [[_text(cell) for cell in row] for row in rows]
    head = [Text(heading, style="dim") for heading in headings]
    widths = [max(row[n].cell_len for row in [head, *lines]) for n in range(len(headings) - 1)]
    for row in [head, *lines]:
        _show_row(row, widths)


def _text(cell: Cell) -> Text:
    return Text(cell) if isinstance(cell, str) else cell


def _show_row(row: Sequence[Text], widths: Sequence[int]) -> None:
    lead = Text()
    for cell, width in zip(row, widths, strict=False):
        padded = cell.copy()
        padded.pad_right(width + 2 - cell.cell_len)
        lead += padded
    columns = output.width()
    if not row[-1]:
        lead.rstrip()
        output.say(lead)
        return
    if columns is None or columns - lead.cell_len >= ROOM:
        output.say(row[-1], lead.cell_len, lead)
        return
    lead.rstrip()
    output.say(lead)
    output.say(row[-1], 4)


def show_sessions(rows: Sequence[SessionRow], now: int) -> None:
    """Print sessions."""
    lines: list[list[Cell]] = [
        [
            row.session_id,
            output.status_text(row.status),
            _time(row.updated_at, now),
            f"{cut(clean(row.task_name), 100)} ({clean(row.plan)}, {clean(row.stage)})",
        ]
        for row in rows
    ]
    show(["session", "status", "changed", "task (plan, stage)"], lines, "there are no such sessions")


def show_queues(rows: Sequence[QueueRow]) -> None:
    """Print role queues."""
    lines: list[list[Cell]] = [
        [
            clean(row.role),
            f"{row.ready:,}",
            f"{row.reserved:,}",
            f"{row.running:,}",
            span(row.oldest_ms) if row.ready or row.reserved else "-",
        ]
        for row in rows
    ]
    show(["role", "waiting", "taken", "running", "oldest waits"], lines, "no pack waits or runs")


def show_tickets(rows: Sequence[OpenTicket], now: int, asked_of: str | None = None) -> None:
    """Print open tickets; those of branches say which, and of which session, unless that was asked for."""
    headings = ["ticket", "kind", "queue", "opened", "why"]
    lines: list[list[Cell]] = [
        [
            f"{row.session_id}/{row.ticket_no}",
            row.kind,
            clean(row.queue),
            _time(row.opened_at, now),
            _branch(row, asked_of) + Text(line(row.why)),
        ]
        for row in rows
    ]
    show(headings, lines, "no ticket is open")


def _branch(row: OpenTicket, asked_of: str | None) -> Text:
    """Return which branch a ticket is of, by the names on the way to it from its root; empty for none."""
    if not row.branch:
        return Text()
    path = " > ".join(cut(clean(name), _NAME) for name in row.branch)
    root = "" if row.root == asked_of else f" of {row.root}"
    return Text.assemble((f"branch {path}{root}: ", "dim"))


def _time(at: int, now: int) -> str:
    return ago(at, now) if sys.stdout.isatty() else when(at)
