"""The inbox on a screen: the list that people work from, and one ticket below its brief."""

from collections.abc import Sequence
from typing import NamedTuple

import click
from rich.text import Text

from passdown.broker.cli import output, tables
from passdown.broker.cli.comparisons import show_comparison
from passdown.broker.cli.output import say, say_command
from passdown.broker.cli.screens import heading, label
from passdown.broker.cli.views.tickets import DraftJson, ListedTicket, ShownTicket, TicketJson
from passdown.broker.cli.words import ago, brief, clean, cut, line, span, when
from passdown.broker.core.brief_render import render
from passdown.broker.joins.comparing import Comparison

#: From less than this on a screen it is hard to read what a ticket is about beside the columns.
_ABOUT = 40
_TASK, _NAME = 60, 40


class _Column(NamedTuple):
    heading: str
    cells: list[Text]
    #: What it is called before what the ticket is about, where there is no room for a column.
    folded: str = "{}"
    #: Whether it stands there already where there is little room beside the columns, not only where there is none.
    early: bool = False

    @property
    def width(self) -> int:
        return max(cell.cell_len for cell in [Text(self.heading), *self.cells]) + 2

    @property
    def empty(self) -> bool:
        return all(cell.plain in ("", "-", "0") for cell in self.cells)


def show_list(rows: Sequence[ListedTicket], now: int, by: str, nothing: str) -> None:
    """Print tickets, one a row. Where the terminal is narrow, what all share or none has is left out."""
    if not rows:
        output.hint(nothing)
        return
    columns = _columns(rows, now, by)
    about = [_about(row) for row in rows]
    width = output.width()
    if width is not None:
        columns = [one for one in columns if not (one.empty and one.heading in ("pri", "due", "held by"))]
        columns, about = _folded(columns, about, width)
    lines = [[one.cells[n] for one in columns] + [about[n]] for n in range(len(rows))]
    # Where it stands below each row, a heading of its own would only be in the way.
    last = "" if width is not None and width - _lead(columns) < tables.ROOM else "about"
    tables.show([*(one.heading for one in columns), last], lines, nothing)


def _folded(columns: list[_Column], about: list[Text], width: int) -> tuple[list[_Column], list[Text]]:
    """Put columns for which there is no room before what each ticket is about, the last one first."""
    for one in reversed(columns[1:]):
        if _lead(columns) + (_ABOUT if one.early else 0) <= width:
            continue
        columns = [other for other in columns if other is not one]
        about = [_before(one, cell, text) for cell, text in zip(one.cells, about, strict=True)]
    return columns, about


def _lead(columns: Sequence[_Column]) -> int:
    return sum(one.width for one in columns)


def _before(column: _Column, cell: Text, text: Text) -> Text:
    if cell.plain in ("", "-"):
        return text
    before, _, after = column.folded.partition("{}")
    return Text.assemble(before, cell, after, (" · ", "dim"), text)


def _columns(rows: Sequence[ListedTicket], now: int, by: str) -> list[_Column]:
    return [
        _Column("ticket", [Text(row.ticket) for row in rows]),
        _Column("pri", [Text(str(row.priority)) for row in rows], "priority {}"),
        _Column("due", [_due(row, now) for row in rows], "due {}"),
        _Column("age", [Text(span(now - row.opened_at)) for row in rows], "{} old"),
        _Column("kind", [Text(row.kind) for row in rows]),
        _Column("queue", [Text(cut(clean(row.queue), _NAME), style="dim") for row in rows], early=True),
        _Column("held by", [_held(row, now, by) for row in rows], early=True),
    ]


def _due(row: ListedTicket, now: int) -> Text:
    if row.due_at is None:
        return Text("-", style="dim")
    if row.due_at > now:
        return Text(f"in {span(row.due_at - now)}")
    return Text(f"{span(now - row.due_at)} overdue", style="bold red")


def _held(row: ListedTicket, now: int, by: str) -> Text:
    if row.snoozed:
        return Text(f"snoozed {_left(row.until, now)}", style="magenta")
    if not row.held_by:
        return Text("-", style="dim")
    who = "you" if row.held_by == by else cut(clean(row.held_by), _NAME)
    return Text(f"{who} {_left(row.until, now)}", style="cyan")


def _left(until: int | None, now: int) -> str:
    if until is None:
        return ""
    return f"for {span(until - now)}" if until > now else "(lapsed)"


def _about(row: ListedTicket) -> Text:
    said = Text(line(row.why))
    return Text.assemble((f"{cut(clean(row.task), _TASK)}: ", "bold"), said) if row.task else said


def show_ticket(found: ShownTicket, by: str, sides: Comparison | None) -> None:
    """Print the brief of a ticket, then who holds it, what was written about it, and what to type.

    Of a ticket on a join its branches stand side by side, with what decides about them.
    """
    click.echo(render(found.brief, output.width()), nl=False)
    heading("ticket")
    _show_facts(found.ticket, by, found.now)
    if found.draft is not None:
        show_draft(found.draft, found.now)
    if sides is not None:
        heading("branches")
        show_comparison(sides, found.now)
    elif found.commands:
        heading("what to type")
        for command in found.commands:
            say_command(command, 2)


def _show_facts(ticket: TicketJson, by: str, now: int) -> None:
    label("ticket", f"{ticket.ticket} (version {ticket.version})")
    label("queue", clean(ticket.queue) + (f", level {ticket.level} of its path" if ticket.level else ""))
    if ticket.priority:
        label("priority", str(ticket.priority))
    if ticket.due_at is not None:
        overdue = f"{span(now - ticket.due_at)} overdue" if ticket.due_at <= now else ago(ticket.due_at, now)
        label("due", f"{when(ticket.due_at)} ({overdue})")
    label("held by", _holder(ticket, by, now))
    if ticket.lapses:
        label("lapses", f"{ticket.lapses} (claims of it that ran out)")
    if ticket.comments:
        label("comments", f"{ticket.comments}; the latest stand in the brief")
    if ticket.why_not and ticket.holder != by:
        label("not yours", f"you may not take it: {clean(ticket.why_not)}")


def _holder(ticket: TicketJson, by: str, now: int) -> str:
    if ticket.snoozed_until is not None:
        return f"nobody; snoozed until {when(ticket.snoozed_until)} ({ago(ticket.snoozed_until, now)})"
    if not ticket.holder:
        return "nobody"
    who = "you" if ticket.holder == by else clean(ticket.holder)
    return f"{who}, {until(ticket.until, now)}"


def until(at: int | None, now: int) -> str:
    """Say until when a claim lasts."""
    if at is None:
        return "for good"
    return (
        f"until {when(at)} ({ago(at, now)})" if at > now else f"since its lease ran out {span(now - at)} ago"
    )


def show_draft(draft: DraftJson, now: int) -> None:
    """Print what this person has written."""
    heading(f"your draft of {ago(draft.at, now)}")
    label("decision", draft.resolution or "not chosen")
    if draft.value is not None:
        label("value", brief(draft.value, 4000))
    if draft.note:
        for one in draft.note.split("\n"):
            say(clean(one), 12, Text("note", style="dim") if one is draft.note else "")
