"""Draws rows of text with lines at their left, from the rows that lead somewhere to the rows they lead to.

All lines to one target share a lane, a column of its own between the first and the last row that they
touch; a lane that is crossed stays whole, and what crosses passes beneath it.
"""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

#: More lanes than this are not drawn: where the moves lead is said in words, too.
_MOST_LANES = 12
_LEAST_TEXT = 30


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the picture: the `head` of a target, a row that `leads` to one, or neither."""

    text: str = ""
    name: str = ""
    label: str = ""
    head: str | None = None
    leads: str | None = None
    mark: str = ""


@dataclass(slots=True)
class _Lane:
    target: str
    rows: list[int] = field(default_factory=list[int])

    @property
    def span(self) -> range:
        return range(min(self.rows), max(self.rows) + 1)

    def overlaps(self, other: "_Lane") -> bool:
        return self.span.start < other.span.stop and other.span.start < self.span.stop


def draw(rows: list[Row], column: int, width: int) -> list[str]:
    """Return the lines of the picture; `column` is the width of the names, `width` that of it all."""
    margin = 2 * min(len(_place(_lanes(rows))), _MOST_LANES) + column + 5
    whole = [piece for row in rows for piece in _wrap(row, max(width - margin, _LEAST_TEXT))]
    columns = _place(_lanes(whole))[-_MOST_LANES:]
    return [_line(n, row, columns, column).rstrip() for n, row in enumerate(whole)]


def _wrap(row: Row, width: int) -> Iterator[Row]:
    label = f"{row.label}  " if row.label else ""
    pieces = textwrap.wrap(label + row.text, width, subsequent_indent=" " * len(label)) or [""]
    yield replace(row, text=pieces[0])
    for piece in pieces[1:]:
        yield Row(piece)


def _lanes(rows: list[Row]) -> list[_Lane]:
    lanes: dict[str, _Lane] = {}
    for n, row in enumerate(rows):
        target = row.leads or row.head
        if target is not None:
            lanes.setdefault(target, _Lane(target)).rows.append(n)
    led_to = {row.leads for row in rows}
    return [lane for lane in lanes.values() if lane.target in led_to]


def _place(lanes: list[_Lane]) -> list[list[_Lane]]:
    """Return the columns from left to right: short lanes stand next to the text, long ones outside."""
    columns: list[list[_Lane]] = []
    for lane in sorted(lanes, key=lambda one: (len(one.span), one.span.start)):
        free = next((one for one in columns if not any(lane.overlaps(other) for other in one)), None)
        if free is None:
            columns.append([lane])
        else:
            free.append(lane)
    return columns[::-1]


def _line(n: int, row: Row, columns: list[list[_Lane]], column: int) -> str:
    drawn = ""
    running = False
    for lanes in columns:
        lane = next((one for one in lanes if n in one.span), None)
        touches = lane is not None and n in lane.rows
        if lane is None:
            drawn += "─" if running else " "
        elif touches:
            drawn += _corner(n, lane.span)
            running = True
        else:
            drawn += "│"
        drawn += "─" if running else " "
    if row.head is not None:
        mark = row.mark or ("▶" if running else " ")
        return f"{drawn}{'─' if running else ' '}{mark} {row.name:<{column}}  {row.text}"
    bar = ("─" if running else " ") * (column + 3)
    return f"{drawn}{bar}  {row.text}"


def _corner(n: int, span: range) -> str:
    if len(span) == 1:
        return "─"
    return "┌" if n == span.start else "└" if n == span.stop - 1 else "├"
