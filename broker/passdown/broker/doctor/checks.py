"""A check looks at one thing within a time limit; one that fails or hangs is a red line, and stops nothing else."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from passdown.broker.aside import aside
from passdown.broker.findings import Finding
from passdown.contracts.errors import ContractError, NotFound, PassdownError

T = TypeVar("T")

#: How long one check may take (seconds).
WITHIN_S = 8.0


class Check(NamedTuple):
    """``look`` returns what it found about ``what``."""

    what: str
    look: Callable[[], list[Finding]]


def within(act: Callable[[], T], seconds: float) -> T:
    """Return what `act` returns, or raise what it raises; TimeoutError where it takes longer.

    It runs in a thread that is left alone then, and ends with the process at the latest.
    """
    return aside(act, "passdown-check").result(timeout=seconds)


def looked(check: Check, within_s: float = WITHIN_S) -> tuple[list[Finding], bool]:
    """Return what a check found, and whether it came to an end at all: what did not answer is not asked again."""
    try:
        return within(check.look, within_s), True
    except TimeoutError:
        found = f"no answer within {within_s:g} s"
        return [Finding(level="red", what=check.what, found=found, advice="is it up, and reachable?")], False
    except PassdownError as error:
        return [Finding(level="red", what=check.what, found=str(error), advice=_advice(error))], True
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one thing, the others are looked at
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return [Finding(level="red", what=check.what, found=told)], True


def _advice(error: PassdownError) -> str:
    if isinstance(error, ContractError | NotFound):
        return ""  # their sentence says what to do
    return "is it up, and reachable?"
