import math
from typing import Any

import pytest

from passdown.agents.durations import seconds_of
from passdown.contracts.errors import ContractError


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("250ms", 0.25),
        ("5m", 300.0),
        ("1.5h", 5400.0),
        ("2d", 172_800.0),
        (7, 7.0),
        (0.5, 0.5),
        ("30s", 30.0),
    ],
)
def test_durations_are_read_with_their_unit(written: str | float, seconds: float):
    assert seconds_of(written, what="x") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written", ["5", "m", "-1s", "5 m", "", True, None, -1, math.nan, math.inf, "1e3s", [], 0]
)
def test_anything_else_is_a_clear_error(written: Any):
    with pytest.raises(
        ContractError, match=r'time_limit.*expected seconds or a duration like "5m", more than 0'
    ):
        seconds_of(written, what="time_limit")


def test_zero_only_where_it_means_something():
    assert seconds_of("0s", what="x", zero=True) == 0.0
