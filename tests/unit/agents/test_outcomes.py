import asyncio

import pytest

from passdown.agents.outcomes import PROBLEM_LIMIT, Raised, Value, capture, capture_async, describe, summary


class Odd(Exception):
    def __init__(self, *, needed: str) -> None:
        super().__init__(needed)

    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def raised(error: BaseException) -> BaseException:
    outcome = capture(lambda: (_ for _ in ()).throw(error))
    assert isinstance(outcome, Raised)
    return outcome.error


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), SystemExit(1), KeyboardInterrupt(), MemoryError(), StopIteration(), GeneratorExit()],
)
def test_whatever_is_raised_becomes_data(error: BaseException):
    def act() -> None:
        raise error

    assert capture(act) == Raised(error)
    assert capture(lambda: 3) == Value(3)


def test_a_cancellation_becomes_data_too():
    async def act() -> None:
        raise asyncio.CancelledError

    assert isinstance(asyncio.run(capture_async(act)), Raised)


def test_a_problem_names_the_error_and_where_it_was_raised():
    text = describe(raised(KeyError("orderId")))
    assert text.startswith("KeyError: 'orderId'")
    assert "test_outcomes.py" in text


def test_a_problem_names_its_cause():
    error = ValueError("outer")
    error.__cause__ = KeyError("inner")
    assert "because of KeyError: 'inner'" in describe(error)


def test_a_group_shows_what_it_holds():
    group = ExceptionGroup("many", [KeyError("a"), ExceptionGroup("deep", [ValueError("b")])])
    assert summary(group) == "ExceptionGroup: KeyError: 'a'; ValueError: b"


@pytest.mark.parametrize(
    "text", ["\x00 nul", "\ud800 lone", "x" * 1_000_000, "line\n" * 100_000, "\u202e rtl"]
)
def test_odd_texts_are_fit_for_storing(text: str):
    problem = describe(raised(ValueError(text)))
    problem.encode("utf-8")
    assert len(problem) < PROBLEM_LIMIT + 100


def test_an_error_without_a_text_is_still_described():
    assert "Odd" in describe(raised(Odd(needed="x")))
