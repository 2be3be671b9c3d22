"""The proof finds what it is there to find: missing, doubled, reordered and altered writes."""

from dataclasses import replace
from typing import Any

import pytest

from passdown.broker.demo.journal import Written
from passdown.broker.demo.ledger import Row
from passdown.broker.demo.proving import journal_faults, ledger_faults
from passdown.broker.demo.record import Called, Run

RUN = Run(
    key="recorded:1:0",
    task_id="1",
    trial="0",
    request="",
    acts=[
        Called(message=1, tool="book_x", args={"a": 1}, result="one", writes=True),
        Called(message=3, tool="get_x", args={}, result="-"),
        Called(message=5, tool="book_x", args={"a": 1}, result="Error", writes=True),
        Called(message=7, tool="send_x", args={"b": 2}, result="two", writes=True),
    ],
)
EXPECTED = RUN.effects()
KEYS = list(EXPECTED)
ROWS = [
    Row(key, call.tool, call.args, "failed" if call.failed else "done", None if call.failed else call.result)
    for key, call in EXPECTED.items()
]
WRITTEN = [
    Written(key=key, tool=call.tool, args=call.args, result=call.result, calls=1, arrivals=2)
    for key, call in EXPECTED.items()
    if not call.failed
]


def test_what_agrees_has_no_faults() -> None:
    assert list(ledger_faults(EXPECTED, ROWS)) == []
    assert list(journal_faults(EXPECTED, WRITTEN)) == []


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[:-1],
        [*ROWS, ROWS[0]],
        [ROWS[1], ROWS[0], ROWS[2]],
        [replace(ROWS[0], status="unknown"), *ROWS[1:]],
        [replace(ROWS[0], result="other"), *ROWS[1:]],
        [replace(ROWS[0], args={"a": 2}), *ROWS[1:]],
        [ROWS[0], replace(ROWS[1], status="done"), ROWS[2]],
    ],
    ids=["missing", "doubled", "reordered", "unsettled", "result", "arguments", "not failed"],
)
def test_a_ledger_that_differs_is_found(rows: list[Row]) -> None:
    assert list(ledger_faults(EXPECTED, rows))


@pytest.mark.parametrize(
    "change",
    [{"calls": 2}, {"result": "other"}, {"args": {}}, {"tool": "other"}, {"key": "s0-1.e-1"}],
    ids=["twice", "result", "arguments", "tool", "key"],
)
def test_an_outside_that_differs_is_found(change: dict[str, Any]) -> None:
    assert list(journal_faults(EXPECTED, [replace(WRITTEN[0], **change), WRITTEN[1]]))


def test_a_write_that_never_arrived_is_found() -> None:
    assert list(journal_faults(EXPECTED, WRITTEN[:1]))
