import math

import pytest

from passdown.agents import Options
from passdown.contracts.errors import ContractError


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
@pytest.mark.parametrize("name", ["turn_seconds", "async_slots", "verify_seconds", "patience_seconds"])
def test_a_limit_that_means_nothing_is_refused(name: str, value: float):
    with pytest.raises(ContractError, match=f"option {name}"):
        Options(**{name: value})  # pyright: ignore[reportArgumentType]


def test_no_lingering_is_allowed():
    assert Options(linger_seconds=0).linger_seconds == 0


def test_turns_of_any_number_of_takes_are_allowed_and_less_than_none_are_not():
    assert Options(turn_takes=0).turn_takes == 0
    with pytest.raises(ContractError, match="option turn_takes"):
        Options(turn_takes=-1)
