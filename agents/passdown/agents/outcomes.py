"""How code of others ended: with a value or with whatever it raised, which then travels as data.

A raised SystemExit would end a thread or an event loop on its way, StopIteration would end a
coroutine; as data neither does.
"""

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from passdown.contracts.codec import clean_text

PROBLEM_LIMIT = 2000
_HERE = Path(__file__).parent
_HEAD_LIMIT = 1000
_FRAMES = 4
_LEAVES = 3


@dataclass(frozen=True, slots=True)
class Value:
    """It returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """It raised."""

    error: BaseException


Outcome = Value | Raised


def capture(act: Callable[[], Any]) -> Outcome:
    """Return how `act` ends."""
    try:
        return Value(act())
    except BaseException as error:  # noqa: BLE001  (that is what this is for)
        return Raised(error)


async def capture_async(act: Callable[[], Awaitable[Any]]) -> Outcome:
    """Return how the awaitable that `act` makes ends; also a cancellation is an outcome."""
    try:
        return Value(await act())
    except BaseException as error:  # noqa: BLE001  (that is what this is for)
        return Raised(error)


def describe(error: BaseException) -> str:
    """Return what an error is and where it came from, fit for storing: at most about 2,000 characters.

    Never raises: the failure path cannot fail on a text, however odd the error.
    """
    try:
        return clean_text(f"{summary(error)}{_because(error)}{_where(error)}", PROBLEM_LIMIT)
    except Exception:  # noqa: BLE001  (an error whose own methods raise)
        return type(error).__name__


def summary(error: BaseException) -> str:
    """Return ``KeyError: 'orderId'``, with what a group of errors holds."""
    try:
        if _parts(error):
            inner = "; ".join(summary(one) for one in _leaves(error)[:_LEAVES])
            return clean_text(f"{type(error).__name__}: {inner}", _HEAD_LIMIT)
        return clean_text("".join(traceback.format_exception_only(error)).strip(), _HEAD_LIMIT)
    except Exception:  # noqa: BLE001  (an error whose own methods raise)
        return type(error).__name__


def _leaves(error: BaseException) -> list[BaseException]:
    parts = _parts(error)
    return [leaf for one in parts for leaf in _leaves(one)] if parts else [error]


def _parts(error: BaseException) -> tuple[BaseException, ...]:
    return cast(Any, error).exceptions if issubclass(type(error), BaseExceptionGroup) else ()


def _because(error: BaseException) -> str:
    return f"\nbecause of {clean_text(summary(error.__cause__), 300)}" if error.__cause__ else ""


def _where(error: BaseException) -> str:
    """Return the last frames; those of this package only where there are no others."""
    every = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in every if Path(frame.filename).parent != _HERE]
    frames = (theirs or every)[-_FRAMES:]
    return "".join(
        f"\n  {frame.filename}:{frame.lineno} {frame.name}: {(frame.line or '')[:160]}" for frame in frames
    )
