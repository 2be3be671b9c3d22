"""Processes of a demo: started again when they end, given up when they cannot work, ended with the demo."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from passdown.broker.demo.fleet import Fleet
from passdown.broker.demo.place import Where, place
from passdown.contracts.errors import Unavailable


def wait_until(met: Callable[[], object], what: str) -> None:
    ends = time.monotonic() + 20
    while not met():
        assert time.monotonic() < ends, f"still not: {what}"
        time.sleep(0.01)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(place(Where(str(tmp_path)), "test"))


def test_a_killed_process_is_started_again_and_the_frozen_one_is_seen(fleet: Fleet) -> None:
    with fleet:
        fleet.add("one", "worker", "http.server", "0")
        fleet.members["one"].command = ["sleep"]  # what is added after it is how often it was started
        fleet.members["one"].starts = 100
        fleet.kill("one")
        fleet.freeze("one")
        wait_until(lambda: fleet.frozen() == ["one"], "the process is stopped")
        fleet.thaw("one")
        wait_until(lambda: fleet.frozen() == [], "the process goes on")
        process = fleet.members["one"].process
        assert process is not None
        process.kill()
        process.wait()
        fleet.mend()
        assert fleet.restarts == 2
        last = fleet.members["one"].process
    assert last is not None
    assert last.poll() is not None


def test_one_that_always_ends_at_once_is_given_up_with_its_last_words(fleet: Fleet) -> None:
    with fleet:
        fleet.add("one", "worker", "no.such.module", "x")
        with pytest.raises(Unavailable, match="No module named"):
            wait_until(fleet.mend, "given up")
