"""Patterns that are looked for in text of others: which ones never take long.

They are Python's, whose engine goes back and tries every way in which a pattern may fit. So the ways that there are at
one place of a text are counted here, and patterns with many are refused; with them everything that repeats without a
bound. What is left takes time that grows with the text alone.
"""

import re
from dataclasses import dataclass

#: The most ways in which a pattern may be tried at one place.
MOST_WAYS = 1_000
#: The most that a pattern may find, and have itself (characters).
LONGEST_FOUND = 256
LONGEST_PATTERN = 500

_SET = r"\[\^?\]?(?:\\.|[^\]\\])*\]"
_PART = re.compile(
    rf"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)|(?P<one>\\.|{_SET}|[^()|])",
    re.DOTALL,
)
_SETS = re.compile(rf"\\.|(?P<set>{_SET})", re.DOTALL)
#: What `re` warns of, as it may be read otherwise one day.
_ODD_SET = re.compile(r"^\[\^?\[|--|&&|~~|\|\|")
_REPEAT = re.compile(r"(?P<sign>[*+?])[?+]?|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)(?<!\{)\}[?+]?")
_TIMES = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_BOUND = "say how often at most: {1,20}"


class PatternProblem(Exception):
    """What is wrong with a pattern, and how to mend it."""

    def __init__(self, problem: str, mend: str) -> None:
        super().__init__(problem, mend)
        self.problem = problem
        self.mend = mend


@dataclass(slots=True)
class _Group:
    """What a group, or the whole, is made of so far: alternatives, and the parts of the last of them."""

    ways: int = 1
    width: int = 0
    other_ways: int = 0
    other_width: int = 0

    def add(self, ways: int, width: int) -> None:
        self.ways *= ways
        self.width += width
        if self.ways + self.other_ways > MOST_WAYS:
            raise PatternProblem(
                f"there are more than {MOST_WAYS} ways to try it at one place of a text",
                "repeat fewer parts, fewer times",
            )
        if self.width > LONGEST_FOUND:
            raise PatternProblem(f"it may find more than {LONGEST_FOUND} characters", _BOUND)

    def turn(self) -> None:
        """Begin the next alternative."""
        self.other_ways += self.ways
        self.other_width = max(self.other_width, self.width)
        self.ways, self.width = 1, 0

    def closed(self) -> tuple[int, int]:
        """Return the ways and the width of all alternatives."""
        return self.other_ways + self.ways, max(self.other_width, self.width)


def check_pattern(pattern: str) -> None:
    """Raise PatternProblem where `pattern` does not compile, finds nothing, or may take long."""
    if len(pattern) > LONGEST_PATTERN:
        raise PatternProblem(f"it has {len(pattern)} characters", f"at most {LONGEST_PATTERN}")
    for part in _SETS.finditer(pattern):
        if part["set"] and _ODD_SET.search(part["set"]):
            raise PatternProblem(
                f"{part['set']} may come to mean another set", "put a \\ before [ - & ~ and | in sets"
            )
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternProblem(f"not a pattern of Python's `re`: {error}", "") from error
    _measure(pattern)
    if compiled.search("") is not None:
        raise PatternProblem("it fits where there is nothing", "let it find at least one character")


def _measure(pattern: str) -> None:
    """Count the ways of a pattern that compiles; raise PatternProblem where there are too many, or no bound."""
    groups = [_Group()]
    at = 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        assert part is not None, "every character is some part"  # noqa: S101
        at = part.end()
        match part.lastgroup:
            case "open":
                if pattern[at : at + 1] == "?":
                    raise PatternProblem(
                        "it looks around, or has a group with a name or flags", "groups are (…) or (?:…)"
                    )
                groups.append(_Group())
                continue
            case "bar":
                groups[-1].turn()
                continue
            case "close":
                ways, width = groups.pop().closed()
            case _:
                if re.match(r"\\[1-9]", part[0]):
                    raise PatternProblem("it refers back to a group", "do without")
                ways, width = 1, 1
        at = _repeated(pattern, at, groups[-1], ways, width)


def _repeated(pattern: str, at: int, group: _Group, ways: int, width: int) -> int:
    """Add a part to its group, as often as it may be there by what stands at `at`; return where that ends."""
    repeat = _REPEAT.match(pattern, at)
    if repeat is None:
        group.add(ways, width)
        return at
    least, most = _times(repeat)
    if most is None:
        raise PatternProblem(f"{repeat[0]} repeats without a bound", _BOUND)
    if most * width > LONGEST_FOUND:
        raise PatternProblem(f"it may find more than {LONGEST_FOUND} characters", "repeat less")
    total = 0
    for times in range(least, most + 1):
        total += ways**times
        if total > MOST_WAYS:
            break
    group.add(total, most * width)
    return repeat.end()


def _times(repeat: re.Match[str]) -> tuple[int, int | None]:
    if repeat["sign"]:
        return _TIMES[repeat["sign"]]
    least = int(repeat["least"] or 0)
    if not repeat["comma"]:
        return least, least
    return least, int(repeat["most"]) if repeat["most"] else None
