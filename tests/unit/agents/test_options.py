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
