"""How long to wait before the next try: spread, so that many who lost one server do not come back to it at once."""

import random

#: Waits grow no further after so many failures: 2 to this power is beyond any longest wait.
_DOUBLINGS = 30


def jittered(longest_s: float) -> float:
    """Return a wait between half of `longest_s` and all of it (seconds)."""
    return longest_s * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


def backoff(failures: int, first_s: float, most_s: float) -> float:
    """Return the jittered wait after so many `failures` in a row, from 1: twice as long each time, at most `most_s`."""
    return jittered(min(most_s, first_s * 2 ** min(failures - 1, _DOUBLINGS)))
