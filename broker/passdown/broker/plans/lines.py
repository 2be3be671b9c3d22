"""On which line of a TOML file something stands: tables and keys, as far as that can be seen line by line."""

import re
import tomllib
from typing import Any, cast

from passdown.broker.plans.faults import Fault, around, place

_TABLE = re.compile(r"\s*\[[^\[\]]+\]\s*(?:#.*)?")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_QUOTES = ('"""', "'''")


def lines_of(text: str) -> dict[str, int]:
    """Return place → line (from 1) of the tables and keys in `text`, which is TOML."""
    found: dict[str, int] = {}
    table: list[str] = []
    inside = ""
    for number, line in enumerate(text.split("\n"), 1):
        if not inside:
            keys = _KEY.match(line)
            if _TABLE.fullmatch(line):
                table = _path(line)
                found.setdefault(place(*table), number)
            elif keys:
                found.setdefault(place(*table, *_path(f"{keys[1]} = 0")), number)
        for quotes in _QUOTES:
            if inside in ("", quotes) and line.count(quotes) % 2:
                inside = "" if inside else quotes
    return found


def with_line(fault: Fault, lines: dict[str, int]) -> Fault:
    """Return `fault` with the line of the innermost table or key that its place is in."""
    line = next((lines[one] for one in around(fault.place) if one in lines), None)
    if line is None:
        return fault
    return Fault(f"{fault.place} (line {line})", fault.problem, fault.mend, fault.severity)


def _path(line: str) -> list[str]:
    try:
        below: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return []
    path: list[str] = []
    while isinstance(below, dict) and below:
        key, below = next(iter(cast("dict[str, Any]", below).items()))
        path.append(key)
    return path
