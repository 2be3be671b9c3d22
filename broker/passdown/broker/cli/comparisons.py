"""Branches side by side, on a screen, and what to type about them."""

import shlex
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from passdown.broker.cli.output import out, say, say_command, status_text, width
from passdown.broker.cli.screens import heading, label
from passdown.broker.cli.trees import counts_text
from passdown.broker.cli.words import brief, clean, cut, line, span
from passdown.broker.core.given import as_object
from passdown.broker.joins.comparing import Comparison, EffectSide, FieldView, Said, Side
from passdown.broker.joins.showing import ABSENT
from passdown.contracts.codec import encode
from passdown.contracts.returns import Uncertainty

#: The least width of a branch's column; where lines have no end, so many stand side by side, each so wide at most.
_COLUMN, _IN_A_PIPE, _PIPE_COLUMN = 24, 4, 60
#: How much of a value, and how many effects and pieces of evidence, stand in a column.
_CELL, _LISTED = 300, 6


def show_comparison(view: Comparison, now: int) -> None:
    """Print what a person decides on, and the commands that decide it."""
    join = view.join
    say(Text(clean(view.why), style="bold"))
    label("ticket", f"{view.ticket}, {view.kind} in {clean(view.queue)} for {span(now - view.opened_at)}")
    label("join", f"stage {clean(join.stage)}: {join.rule}; {counts_text(join.outcomes) or 'no branch'}")
    if view.differ:
        heading("differ")
        _show_fields(view.differ)
    if view.agree:
        heading("agree")
        _show_fields(view.agree)
    if view.sides:
        heading("side by side")
        _show_sides(view.sides)
    if view.more:
        say(f"and {view.more:,} more: passdown list --branches-of {join_session(view)}", 2)
    heading("decide")
    for command in commands(view):
        say_command(command, 2)


def join_session(view: Comparison) -> str:
    """Return the session that the ticket belongs to."""
    return view.ticket.rpartition("/")[0]


def _show_fields(fields: Sequence[FieldView]) -> None:
    widest = min(max(len(one.name) for one in fields), 24) + 4
    for one in fields:
        lead: Text = Text(f"  {cut(clean(one.name), 24)}", style="" if one.decides else "dim")
        for said in one.said:
            say(_said(said), widest, lead)
            lead = Text()


def _said(said: Said) -> Text:
    found = Text(brief(said.value, 200))
    names = ", ".join(clean(one) for one in said.branches)
    more = f" and {said.count - len(said.branches):,} more" if said.count > len(said.branches) else ""
    return found.append(f" by {names}{more}", style="cyan")


def _show_sides(sides: list[Side]) -> None:
    columns = width()
    at_once = _IN_A_PIPE if columns is None else max(1, (columns - 14) // (_COLUMN + 2))
    for start in range(0, len(sides), at_once):
        if start:
            say("")
        _show_some(sides[start : start + at_once], None if columns else _PIPE_COLUMN)


def _show_some(sides: Sequence[Side], most: int | None) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("", style="dim", no_wrap=True)
    for side in sides:
        table.add_column(Text(clean(side.name)), max_width=most, overflow="fold", ratio=None if most else 1)
    for name, cells in _rows(sides):
        if any(cell.plain for cell in cells):
            table.add_row(Text(f"  {name}"), *cells)
    console = out()
    for one in console.render_lines(table, pad=False):
        text = Text.assemble(*((part.text, part.style or "") for part in one))
        text.rstrip()
        console.print(text, soft_wrap=True)


def _rows(sides: Sequence[Side]) -> list[tuple[str, list[Text]]]:
    names = dict.fromkeys(name for side in sides for name in as_object(side.output))
    rows: list[tuple[str, list[Text]]] = [("status", [_status(side) for side in sides])]
    rows += [(cut(clean(name), 20), [_field(side, name) for side in sides]) for name in names]
    return [
        *rows,
        ("reason", [Text(line(side.reason)) for side in sides]),
        ("waits for", [Text(clean("; ".join(side.waits))) for side in sides]),
        ("uncertainty", [_uncertainty(side.uncertainty) for side in sides]),
        ("evidence", [_lines([f"{one.claim}: {one.source}" for one in side.evidence]) for side in sides]),
        ("effects", [_lines([_effect(one) for one in side.effects]) for side in sides]),
        ("by", [Text(clean(side.by)) for side in sides]),
        (
            "session",
            [Text(side.session_id if side.status not in ABSENT else "") for side in sides],
        ),
    ]


def _status(side: Side) -> Text:
    found = status_text(side.status)
    return found if side.counts or side.status in ABSENT else found.append(", does not count")


def _field(side: Side, name: str) -> Text:
    output = as_object(side.output)
    return Text(brief(output[name], _CELL) if name in output else "")


def _uncertainty(found: Uncertainty | None) -> Text:
    if found is None:
        return Text()
    notes = "; ".join(clean(note) for note in found.notes)
    return Text(f"{found.level:g}{f' ({notes})' if notes else ''}")


def _effect(one: EffectSide) -> str:
    status = "" if one.status == "done" else f" ({one.status})"
    args = "" if one.args is None else f" {encode(one.args).decode()}"
    return f"{one.tool}{args}{status}"


def _lines(texts: list[str]) -> Text:
    shown = [cut(clean(text), 120) for text in texts[:_LISTED]]
    more = [f"and {len(texts) - _LISTED} more"] if len(texts) > _LISTED else []
    return Text("\n".join([*shown, *more]))


def commands(view: Comparison) -> list[str]:
    """Return what to type to decide, each way that the ticket allows, filled in as far as it can be."""
    begin = f"passdown resolve {view.ticket}"
    best = next((side.name for side in view.sides if side.counts and side.status == "done"), "")
    others = [one.said[-1].branches[0] for one in view.differ][:1]
    others = others or [side.name for side in view.sides if not side.counts and not side.waits][:3] or [best]
    back = " ".join(f"--branch {_word(name)}" for name in others if name) or "--branch NAME"
    stages = [stage for stage in view.stages if stage != view.join.stage] or view.stages
    filled = {
        "choose": f"choose {_word(best)}" if best else "",
        "merge": "merge",
        "complete": "complete '{…}'",
        "send-back": f"send-back {back} --note 'what to do better'",
        "redirect": f"redirect {stages[0]}" if stages else "",
        "cancel": "cancel",
    }
    return [f"{begin} {filled[one]}" for one in view.actions if filled.get(one)]


def _word(text: str) -> str:
    return shlex.quote(clean(text))
