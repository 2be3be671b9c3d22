"""The histories find faults: each deliberate breakage of the product is found within a few of them."""

from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.histories.machine import Histories
from tests.conformance.histories.mutants import MUTANTS
from tests.conformance.histories.surroundings import in_slow_motion

#: Within how many histories a breakage must be found; most take fewer than twenty, the rarest some two hundred.
WITHIN = 1_500

_quick = settings(
    max_examples=WITHIN,
    stateful_step_count=25,
    deadline=None,
    database=None,
    # What is found here is only counted: nobody reads it shrunk.
    phases=[Phase.generate],
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(autouse=True)
def slow_motion() -> Generator[None]:
    with in_slow_motion():
        yield


class Mutated(Histories):
    """Histories of a product that may be broken; they are not counted."""


def test_the_product_as_it_is_breaks_no_rule() -> None:
    """Else the tests below would find what is broken anyway."""
    run_state_machine_as_test(Mutated, settings=settings(_quick, max_examples=20))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_breakage_is_found(name: str) -> None:
    # Any error will do: a broken product may also fail in ways that no rule names.
    with MUTANTS[name](), pytest.raises(Exception):  # noqa: B017, PT011
        run_state_machine_as_test(Mutated, settings=_quick)
