"""Folders on the disk that is measured, medians, and figures beside their targets."""

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder beside the sources (a folder for temporary files may be in memory), and remove it."""
    made = Path(tempfile.mkdtemp(prefix=".bench-", dir=Path(__file__).parent))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def median(values: list[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def at_least(name: str, value: float, least: float) -> list[str]:
    """Print a figure beside its target; returns its name where it is missed."""
    met = value >= least
    print(f"{name}: {value:.2f} (target: at least {least:g}) {'ok' if met else 'MISSED'}")
    return [] if met else [name]


def at_most(name: str, value: float, most: float) -> list[str]:
    """Print a figure beside its target; returns its name where it is missed."""
    met = value <= most
    print(f"{name}: {value:.2f} (target: at most {most:g}) {'ok' if met else 'MISSED'}")
    return [] if met else [name]
