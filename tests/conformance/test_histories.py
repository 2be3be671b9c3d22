"""Generated histories: whatever happens in whatever order, the rules of DESIGN §3 hold (habit 41)."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.histories.machine import Histories
from tests.conformance.histories.surroundings import in_slow_motion

HISTORIES = 500


@pytest.mark.timeout(600)
def test_histories() -> None:
    Histories.finished = 0
    with in_slow_motion():
        run_state_machine_as_test(
            Histories,
            settings=settings(max_examples=HISTORIES, stateful_step_count=25, deadline=None, print_blob=True),
        )
    print(Histories.finished, Histories.seen)
    assert Histories.finished >= HISTORIES
