"""The parts of a process: a part that ends by itself does not go unnoticed, and those that hang keep nobody."""

import threading
from typing import Any

import pytest
import structlog

from passdown.broker import parts as module
from passdown.broker.parts import Parts


class Waits:
    """A part that does as it is told."""

    def run(self, stop: threading.Event) -> None:
        """Wait for the end."""
        stop.wait()


class Breaks:
    """A part that does not."""

    def run(self, stop: threading.Event) -> None:
        """Break."""
        del stop
        raise SystemExit("enough")


class Leaves:
    """A part that thinks that it is done."""

    def run(self, stop: threading.Event) -> None:
        """Return too early."""


@pytest.mark.parametrize("part", [Breaks(), Leaves()])
def test_a_part_that_ends_by_itself_ends_the_process_and_is_named(part: Any) -> None:
    stop = threading.Event()
    parts = Parts(stop, on_fault=stop.set)
    with structlog.testing.capture_logs() as said:
        parts.start_all({"good": Waits(), "bad": part})
        assert stop.wait(10)
        parts.join()
    assert parts.faults == ["bad"]
    assert [one["part"] for one in said if one["event"] == "up.part_ended"] == ["bad"]


def test_parts_that_were_told_to_end_are_no_fault() -> None:
    stop = threading.Event()
    parts = Parts(stop)
    parts.start_all({"one": Waits(), "two": Waits()})
    stop.set()
    parts.join()
    assert parts.faults == []


def test_a_part_that_hangs_is_named_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOIN_WITHIN_S", 0.05)
    stop, let_go = threading.Event(), threading.Event()
    parts = Parts(stop)
    parts.start("stuck", let_go.wait)
    stop.set()
    with structlog.testing.capture_logs() as said:
        parts.join()
    assert [one["event"] for one in said] == ["up.part_stuck"]
    let_go.set()
