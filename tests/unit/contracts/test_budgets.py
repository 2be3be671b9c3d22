"""Budgets at their limit, one byte over it, and far beyond (rule 12; FAULTS 66)."""

from collections.abc import Callable
from typing import Any

import pytest

from passdown.contracts.codec import (
    PACK_BUDGET,
    RETURN_BUDGET,
    STATE_BUDGET,
    check_budget,
    decode_any,
)
from passdown.contracts.errors import BudgetExceeded
from passdown.contracts.pack import read_pack
from passdown.contracts.returns import read_return
from tests.unit.contracts.helpers import raw, refused, sample_pack, sample_return, seconds


def return_of(size: int) -> bytes:
    empty = len(raw(sample_return(output={"text": ""})))
    return raw(sample_return(output={"text": "x" * (size - empty)}))


def pack_of(size: int) -> bytes:
    empty = len(sample_pack(inputs={"text": ""})[1])
    return sample_pack(inputs={"text": "x" * (size - empty)})[1]


READERS = [
    pytest.param(read_return, return_of, RETURN_BUDGET, "return", "output", id="return"),
    pytest.param(read_pack, pack_of, PACK_BUDGET, "pack", "inputs", id="pack"),
]


@pytest.mark.parametrize(("read", "make", "budget", "what", "field"), READERS)
def test_a_message_may_be_as_large_as_its_budget(
    read: Callable[[bytes], Any], make: Callable[[int], bytes], budget: int, what: str, field: str
) -> None:
    data = make(budget)
    assert len(data) == budget
    read(data)


@pytest.mark.parametrize("over", [1, 10_000_000, 100_000_000])
@pytest.mark.parametrize(("read", "make", "budget", "what", "field"), READERS)
def test_a_larger_one_is_refused_with_its_sizes_and_soon(
    read: Callable[[bytes], Any], make: Callable[[int], bytes], budget: int, what: str, field: str, over: int
) -> None:
    data = make(budget + over)
    error = refused(lambda: read(data), BudgetExceeded)
    assert (error.what, error.size, error.budget) == (what, budget + over, budget)
    assert seconds(lambda: refused(lambda: read(data), BudgetExceeded)) < 1
    if over < 100_000_000:
        assert next(iter(error.largest)) == field
        assert error.largest[field] > budget - 1_000
        assert len(error.largest) == 3
    assert str(error).endswith("; pass bulk as a resource with its uri and digest")


@pytest.mark.parametrize("data", [b"[" * 200_000, b"\xff" * 200_000, b'"' * 200_000, b"[" + b"1," * 100_000])
def test_what_is_no_object_is_refused_for_its_size_alone(data: bytes) -> None:
    error = refused(lambda: read_return(data), BudgetExceeded)
    assert error.largest == {}


def test_names_of_large_fields_are_cut() -> None:
    error = refused(lambda: read_return(raw({"k" * 100_000: 1, "b": "x" * 50})), BudgetExceeded)
    assert error.largest == {"b": 52, "k" * 60 + "…": 1}


def test_decode_holds_to_the_budget_that_it_is_given() -> None:
    data = raw("x" * (STATE_BUDGET - 2))
    assert len(decode_any(data, str, budget=STATE_BUDGET)) == STATE_BUDGET - 2
    refused(lambda: decode_any(data + b" ", str, budget=STATE_BUDGET), BudgetExceeded)
    assert len(decode_any(raw("x" * 10_000_000), str)) == 10_000_000


def test_check_budget_names_the_largest_of_the_fields() -> None:
    check_budget("state", b"x" * 10, 10, {})
    fields: dict[str, object] = {"a": "x" * 10, "b": [1, 2], "c": "x" * 20, "d": None}
    error = refused(lambda: check_budget("state", b"x" * 11, 10, fields), BudgetExceeded)
    assert error.largest == {"c": 22, "a": 12, "b": 5}
    assert list(error.largest) == ["c", "a", "b"]
    assert str(error) == (
        "state has 11 bytes, its budget is 10 (largest fields: c 22, a 12, b 5);"
        " pass bulk as a resource with its uri and digest"
    )
