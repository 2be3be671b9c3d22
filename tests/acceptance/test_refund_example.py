"""The refund of `examples/refund`, as its README tells it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.examples import Example


@pytest.fixture
def refund(tmp_path: Path) -> Iterator[Example]:
    """The example, up."""
    example = Example("refund", tmp_path)
    with example.up():
        yield example


def _written(example: Example) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((example.folder / "outside").glob("*.json"))]


def test_the_plan_is_sound(tmp_path: Path) -> None:
    example = Example("refund", tmp_path)
    example.fine(example.line("passdown plan check"))


def test_a_refund_waits_for_a_person_and_is_paid_once(refund: Example) -> None:
    refund.fine(refund.line("passdown submit"))
    with refund.session("order-4711") as session:
        refund.wait(lambda: session.status() == "waiting-human", "a person is asked")
        assert "refunds.create" in refund.fine(refund.line("passdown tickets"))
        refused = refund.run(f"passdown resolve order-4711/1 approve --as {session.state().by}")
        assert refused.returncode == 5, "nobody approves what they asked for"
        assert not (refund.folder / "outside").exists()
        refund.fine(refund.line("passdown resolve"))
        assert session.result(30).output == {"said": "We have refunded your order (refund-4711)."}
    assert sorted(one.get("id", "mail") for one in _written(refund)) == ["mail", "refund-4711"]
    for line in ("passdown status", "passdown log", "passdown replay"):
        refund.fine(refund.line(line))


def test_an_old_order_is_denied_without_a_person(refund: Example) -> None:
    refund.fine("passdown submit refund --input orderId=4712 --key order-4712 --wait")
    with refund.session("order-4712") as session:
        assert session.state().tickets_opened == 0
    assert [one["to"] for one in _written(refund)] == ["Bolt & Sons"]
