"""Logs say what happened, in one line, and never stop the work."""

import io
import json
import sys
from collections.abc import Callable, Iterator

import pytest
import structlog

from passdown.broker.logs import set_up_logs


class Stream(io.StringIO):
    """A standard error that may be full, or closed."""

    error: Exception | None = None

    def write(self, text: str) -> int:
        if self.error:
            raise self.error
        return super().write(text)


SetUp = Callable[[str, str], Stream]


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[SetUp]:
    """Set logs up on a standard error of our own; pytest puts its own there before each test."""
    before = structlog.get_config()

    def set_up(level: str, style: str) -> Stream:
        stream = Stream()
        monkeypatch.setattr(sys, "stderr", stream)
        set_up_logs(level, style)
        return stream

    yield set_up
    structlog.configure(**before)


def test_for_machines(set_up: SetUp) -> None:
    stream = set_up("info", "json")
    structlog.get_logger("x").info("worker.started", roles=["a"], text="ü\n")
    structlog.get_logger("x").debug("not shown")
    line = json.loads(stream.getvalue())
    assert {name: line[name] for name in ("event", "level", "roles", "text")} == {
        "event": "worker.started",
        "level": "info",
        "roles": ["a"],
        "text": "ü\n",
    }


def test_for_people_an_error_comes_with_its_traceback(set_up: SetUp) -> None:
    stream = set_up("info", "console")
    try:
        {}["a\x1b[2Jb"]
    except KeyError:
        structlog.get_logger("x").exception("tick.broken", session="s0-1")
    said = stream.getvalue()
    assert "tick.broken" in said
    assert "session=s0-1" in said
    assert "KeyError" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    "text", ["a\nlevel=info forged", "\x1b[31mred", "\u202eback", "nul\0", "\ud800", "a\rb", "\x9b2J"]
)
def test_for_people_no_text_looks_like_a_line_or_moves_the_cursor(set_up: SetUp, text: str) -> None:
    stream = set_up("info", "console")
    structlog.get_logger("x").warning("agent.failed", error=text)
    said = stream.getvalue()
    assert said.count("\n") == 1
    assert said.rstrip("\n").isprintable()


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), BrokenPipeError(), ValueError("closed")]
)
def test_a_log_that_cannot_be_written_stops_no_work(set_up: SetUp, style: str, error: Exception) -> None:
    """The store and the log of one full disk: the tick must not die of the line that says so."""
    stream = set_up("info", style)
    stream.error = error
    for say in ("debug", "info", "warning", "error", "critical", "exception"):
        getattr(structlog.get_logger("x"), say)("tick.store_away")
    stream.error = None
    structlog.get_logger("x").info("back")
    assert stream.getvalue().count("\n") == 1


def test_a_level_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"expected one of .*warning.*, got 'loud'"):
        set_up_logs("loud")
