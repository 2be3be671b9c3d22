"""What is wrong with a plan: a place, the problem, and how to mend it.

A place is written as TOML would write the key (``stages.pay.tools[0].approve``); the empty place is the
plan as a whole. A *fault* refuses the plan; a *warning* is only said.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Literal

from passdown.contracts.errors import PlanError

Severity = Literal["fault", "warning"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
#: How much of a value is shown (characters).
_SHOWN = 60
#: How many names are looked at for the one that was probably meant.
_LOOKED_AT = 200
_BIGGEST_SHOWN = 10**30


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, where, and what to do."""

    place: str
    problem: str
    mend: str = ""
    severity: Severity = "fault"

    def __str__(self) -> str:
        mend = f"; {self.mend}" if self.mend else ""
        return f"{self.place or 'plan'}: {self.problem}{mend}"


def warning(place: str, problem: str, mend: str = "") -> Fault:
    """Return what is said, but refuses nothing."""
    return Fault(place, problem, mend, "warning")


def place(*parts: str | int) -> str:
    """Return where something stands: keys joined by dots, numbers (from 0) in brackets."""
    written = ""
    for part in parts:
        if isinstance(part, int):
            written += f"[{part}]"
        else:
            key = part if _BARE_KEY.fullmatch(part) and len(part) <= _SHOWN else f'"{_escaped(part)}"'
            written += f".{key}" if written else key
    return written


def within(inner: str, outer: str) -> bool:
    """Whether a place is `outer` itself or below it."""
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))


def around(inner: str) -> Iterator[str]:
    """Yield a place and the places that it is in, innermost first."""
    yield inner
    for at in range(len(inner) - 1, 0, -1):
        if inner[at] in ".[":
            yield inner[:at]


def show(value: object) -> str:
    """Return a short, printable form of what came, for a sentence; containers only by their kind."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"'{_escaped(value)}'"
        case int():
            return str(value) if abs(value) < _BIGGEST_SHOWN else "a huge integer"
        case float():
            return str(value)
        case dict():
            return "a table"
        case list() | tuple():
            return "a list"
        case date() | time():
            return f"the date or time {value}"
        case _:
            return f"a {type(value).__name__}"


def one_line(text: str, limit: int = 240) -> str:
    """Return foreign text as one printable line of at most `limit` characters."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= limit else f"{line[:limit]}…"


def closest(name: str, known: Iterable[str]) -> str:
    """Return what to do about a name that is not known: the one that was probably meant, or all there are.

    Of many names, only the first are looked at.
    """
    names = list(known)
    near = difflib.get_close_matches(name, names[:_LOOKED_AT], n=1) if len(name) <= _SHOWN else []
    if near:
        return f"did you mean {show(near[0])}?"
    listed = ", ".join(_escaped(one) for one in names[:12])
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"there are: {listed}{more}" if names else "there are none"


def twice_faults(where: str, names: Sequence[str]) -> Iterator[Fault]:
    """Yield the fault of each name that is blank or there already in a list, which stands at the place `where`."""
    for n, name in enumerate(names):
        if not name.strip() or name in names[:n]:
            problem = "is there twice" if name.strip() else "is blank"
            yield Fault(f"{where}[{n}]", problem, "leave it out")


def refuse(plan: str, faults: Iterable[Fault]) -> None:
    """Raise PlanError with every fault; warnings refuse nothing."""
    found = serious(faults)
    if found:
        raise PlanError(one_line(plan), [str(fault) for fault in found])


def serious(faults: Iterable[Fault]) -> list[Fault]:
    """Return those that refuse the plan."""
    return [fault for fault in faults if fault.severity == "fault"]


def _escaped(text: str) -> str:
    shown = repr(text[:_SHOWN])[1:-1]
    return shown if len(text) <= _SHOWN else f"{shown}…"
