"""Durations as people write them: a number of seconds, or a number with its unit (``"500ms"``, ``"5m"``)."""

import math
import re

from passdown.contracts.errors import ContractError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_WRITTEN = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


def seconds_of(value: str | float, *, what: str, zero: bool = False) -> float:
    """Return `value` in seconds; raises ContractError unless it is finite and positive (or zero, where `zero`)."""
    found = _parse(value)
    if found is None or not math.isfinite(found) or found < 0 or (found == 0 and not zero):
        least = "at least 0" if zero else "more than 0"
        raise ContractError(what, f'expected seconds or a duration like "5m", {least}; got {value!r}')
    return found


def _parse(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    match = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) * _UNITS[match[2]] if match else None
