"""Sizes of tests that may go on for long: whole in a soak of an hour, in proportion in a shorter one, small in `make test`."""

import os

#: From so many minutes on a soak has its whole sizes.
WHOLE_MINUTES = 60.0


def minutes() -> float:
    """Return how long all soak tests together may take (``make soak MINUTES=10``)."""
    return float(os.environ.get("SOAK_MINUTES", "10"))


def scaled(whole: int, *, at_least: int = 1) -> int:
    """Return a size for this soak: ``whole`` in one of an hour or longer, else the same share of it as of the hour."""
    return max(min(at_least, whole), int(whole * min(1.0, minutes() / WHOLE_MINUTES)))


def seconds(share: float) -> float:
    """Return what a share (0 to 1) of this soak is (seconds)."""
    return 60 * share * minutes()
