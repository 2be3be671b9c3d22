"""Waits before the next try."""

import pytest

from passdown.broker.backoff import backoff, jittered


def test_a_wait_is_spread_over_its_upper_half() -> None:
    found = [jittered(2.0) for _ in range(500)]
    assert min(found) >= 1.0
    assert max(found) <= 2.0
    assert max(found) - min(found) > 0.5


@pytest.mark.parametrize(
    ("failures", "longest"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 5.0), (6, 5.0)]
)
def test_it_doubles_up_to_its_longest(failures: int, longest: float) -> None:
    for _ in range(50):
        assert longest / 2 <= backoff(failures, 0.5, 5.0) <= longest


def test_a_server_may_be_away_for_years() -> None:
    assert 2.5 <= backoff(10**6, 0.5, 5.0) <= 5.0
