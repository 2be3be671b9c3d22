"""Durations as people write them: a number and its unit, ``90s``, ``5m``, ``2h``, ``3d``, ``1h30m``, ``250ms``.

A bare number is refused, because nobody can see whether it means seconds or minutes. In Python a
``datetime.timedelta`` will do as well. Plans are stored in seconds.
"""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

#: Seconds in each unit, in the order in which they may stand.
UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
#: The shortest and the longest duration that a plan may name (10 ms, ten years), in seconds.
SHORTEST = 0.01
LONGEST = 3_650 * UNITS["d"]

_EXPECTED = 'write a number with its unit (ms, s, m, h, d), such as "90s", "5m", "2h", "3d" or "1h30m"'
_WRITTEN = re.compile(
    "".join(rf"(?:(?P<{unit}>\d{{1,12}}(?:\.\d{{1,6}})?){unit})?" for unit in UNITS), re.ASCII
)


def seconds(value: str | timedelta) -> float:
    """Return a duration in seconds; raises ValueError, which says what was expected, where it is none."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    found = _WRITTEN.fullmatch(value)
    if not value or found is None:
        raise ValueError(_EXPECTED)
    return sum((float(number) * UNITS[unit] for unit, number in found.groupdict().items() if number), 0.0)


def spell(value: float) -> str:
    """Return seconds as a person would write them: 90.0 is ``1m30s``."""
    left = round(value * 1000)
    parts: list[str] = []
    for unit, size in UNITS.items():
        count, left = divmod(left, round(size * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _read(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise _wrong("a bare number has no unit")
    if not isinstance(value, str):
        raise _wrong("not a duration")
    if value.startswith("-"):
        raise _wrong("a duration is not negative")
    try:
        return timedelta(seconds=seconds(value))
    except ValueError:
        raise _wrong("not a duration") from None
    except OverflowError:
        raise PydanticCustomError(
            "passdown", "{problem}", {"problem": "too long", "mend": f"at most {spell(LONGEST)}"}
        ) from None


def _wrong(problem: str) -> PydanticCustomError:
    return PydanticCustomError("passdown", "{problem}", {"problem": problem, "mend": _EXPECTED})


Duration = Annotated[str | timedelta, PlainValidator(_read)]
