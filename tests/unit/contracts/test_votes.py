"""What a vote is about, and when it is decided."""

from typing import Any

import pytest

from passdown.contracts.votes import SHOWN_VALUE, ballot, comparable, majority

LONG = "x" * SHOWN_VALUE


@pytest.mark.parametrize(
    ("output", "vote_on", "found"),
    [
        ({"b": 1, "a": 2}, [], '{"a":2,"b":1}'),
        ({"b": 1, "a": 2}, ["b"], "[1]"),
        ({"b": 1, "a": 2}, ["b", "a"], "[1,2]"),
        ({"b": 1}, ["no"], "[null]"),
        ({}, [], "{}"),
        (None, [], ""),
        (None, ["b"], ""),
    ],
)
def test_what_an_output_votes_for(output: dict[str, Any] | None, vote_on: list[str], found: str) -> None:
    assert ballot(output, vote_on) == found


def test_a_long_value_is_told_apart_by_its_digest() -> None:
    at_the_limit = "y" * (SHOWN_VALUE - 2)
    assert comparable(at_the_limit) == f'"{at_the_limit}"'
    assert comparable(at_the_limit + "y").startswith("sha256:")
    assert comparable(LONG) == comparable(LONG) != comparable(LONG + "x")
    # Bytes are counted, not characters.
    assert comparable("é" * (SHOWN_VALUE // 2)).startswith("sha256:")


@pytest.mark.parametrize(
    ("votes", "found"),
    [
        ({}, ""),
        ({"a": 1}, "a"),
        ({"a": 1, "b": 1}, ""),
        ({"a": 1, "b": 2}, "b"),
        ({"a": 2, "b": 1, "c": 1}, ""),
        ({"a": 3, "b": 1, "c": 1}, "a"),
    ],
)
def test_more_than_half_must_agree(votes: dict[str, int], found: str) -> None:
    assert majority(votes) == found
