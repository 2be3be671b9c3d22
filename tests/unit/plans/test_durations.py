from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.broker.plans.durations import LONGEST, seconds, spell
from tests.unit.plans.samples import said_of

EXPECTED = 'write a number with its unit (ms, s, m, h, d), such as "90s", "5m", "2h", "3d" or "1h30m"'


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("90s", 90.0),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("3d", 259_200.0),
        ("250ms", 0.25),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("0s", 0.0),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_a_duration_is_a_number_with_its_unit(written: str | timedelta, expected: float) -> None:
    assert seconds(written) == expected


@pytest.mark.parametrize(
    "written",
    ["", "90", "s", "5 m", "5M", "5min", "30m1h", "1h1h", "-5s", "1e3s", "५s", "nan", ".5s", "5s\n"],
)
def test_anything_else_is_none(written: str) -> None:
    with pytest.raises(ValueError, match="its unit"):
        seconds(written)


@given(st.integers(min_value=0, max_value=int(LONGEST * 1000)))
def test_what_is_spelled_reads_back(milliseconds: int) -> None:
    assert round(seconds(spell(milliseconds / 1000)) * 1000) == milliseconds


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (90, f"a bare number has no unit; {EXPECTED}"),
        (0, f"a bare number has no unit; {EXPECTED}"),
        (-1, f"a bare number has no unit; {EXPECTED}"),
        (float("nan"), f"a bare number has no unit; {EXPECTED}"),
        (True, f"not a duration; {EXPECTED}"),
        (None, f"not a duration; {EXPECTED}"),
        (["5m"], f"not a duration; {EXPECTED}"),
        ("90", f"not a duration; {EXPECTED}"),
        ("-5s", f"a duration is not negative; {EXPECTED}"),
        ("999999999999d", "too long; at most 3650d"),
    ],
)
def test_in_a_plan_the_fault_says_what_a_duration_looks_like(written: object, problem: str) -> None:
    assert said_of({"lease": written}) == [f"stages.a.lease: {problem}"]
