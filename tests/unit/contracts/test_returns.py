"""The four results, the fence, and what a return says by default. Bad returns: test_bad_input."""

from typing import Any

import pytest
from hypothesis import given, settings

from passdown.contracts.codec import decode_any, encode
from passdown.contracts.returns import (
    UNSET,
    DoneReturn,
    EscalateReturn,
    Fence,
    NeedsInputReturn,
    Question,
    RefusedReturn,
    Return,
    Uncertainty,
    read_return,
)
from tests.unit.contracts.helpers import JSON, raw, refused, sample_return

OTHERS: list[tuple[dict[str, Any], type[Any]]] = [
    ({"result": "done", "output": None}, DoneReturn),
    ({"result": "needs-input", "output": ..., "questions": [{"id": "a", "text": "?"}]}, NeedsInputReturn),
    ({"result": "refused", "output": ..., "reason": "too old"}, RefusedReturn),
    ({"result": "escalate", "output": ..., "reason": "chargeback"}, EscalateReturn),
]


@pytest.mark.parametrize(("changes", "kind"), OTHERS)
def test_the_result_tells_the_kind(changes: dict[str, Any], kind: type[Any]) -> None:
    found = read_return(raw(sample_return(**changes)))
    assert type(found) is kind
    assert read_return(encode(found)) == found
    assert found.fence == Fence(step=1, attempt=1, claim_id="claim-0001")
    assert (found.evidence, found.uncertainty, found.usage) == ([], Uncertainty(), {})


@given(JSON)
@settings(deadline=None)
def test_any_output_survives(value: Any) -> None:
    found = read_return(raw(sample_return(output=value, usage={"more": value})))
    assert isinstance(found, DoneReturn)
    assert found.output == value
    assert decode_any(encode(found), Return) == found


def test_a_hand_over_of_null_is_not_none_at_all() -> None:
    changes: dict[str, Any] = {"result": "escalate", "output": ..., "reason": "r"}
    without = read_return(raw(sample_return(**changes)))
    null = read_return(raw(sample_return(**changes, handOver=None)))
    assert isinstance(without, EscalateReturn)
    assert isinstance(null, EscalateReturn)
    assert (without.hand_over, null.hand_over) == (UNSET, None)
    assert b"handOver" not in encode(without)
    assert b'"handOver":null' in encode(null)


def test_every_optional_field_is_written() -> None:
    """A reader in another language needs no defaults."""
    data = encode(read_return(raw(sample_return())))
    for name in ("spec", "evidence", "uncertainty", "usage"):
        assert b'"%s":' % name.encode() in data


def test_questions_are_limited() -> None:
    def asking(count: int) -> bytes:
        questions = [{"id": str(n), "text": "?"} for n in range(count)]
        return raw(sample_return(result="needs-input", output=..., questions=questions))

    assert isinstance(read_return(asking(20)), NeedsInputReturn)
    assert refused(lambda: read_return(asking(21))).pointer == "/questions"
    assert Question(id="a", text="?").schema is True


def test_a_fence_is_shown_short() -> None:
    assert str(Fence(step=2, attempt=3, claim_id="0123456789abcdef")) == "2/3/01234567"
