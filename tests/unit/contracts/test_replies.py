"""Replies: recorded, read back, and the error that one records raised again."""

from typing import Any, cast, get_args

import pytest

from passdown.broker.schemas.command_examples import REPLIES
from passdown.contracts import replies
from passdown.contracts.codec import encode
from passdown.contracts.errors import (
    BudgetExceeded,
    Conflict,
    ContractError,
    Denied,
    Fenced,
    NotFound,
    PassdownError,
)
from passdown.contracts.replies import Refusal, Reply, raise_refusal, read_reply, refusal
from tests.unit.contracts.helpers import raw, refused

KINDS = cast("tuple[type[Any], ...]", get_args(Reply))


@pytest.mark.parametrize("reply", REPLIES, ids=[type(reply).__name__ for reply in REPLIES])
def test_a_retry_gets_the_reply_that_was_recorded(reply: Reply) -> None:
    assert read_reply(encode(reply)) == reply


def test_every_reply_has_a_tag_of_its_own() -> None:
    assert {type(reply) for reply in REPLIES} == set(KINDS)
    assert len({kind.__struct_config__.tag for kind in KINDS}) == len(KINDS)


ERRORS = [
    ContractError("return", "expected int", pointer="/output/cents"),
    ContractError("return", "not JSON"),
    BudgetExceeded("return", 70_000, 65_536, {"output": 69_000}),
    Conflict("ticket 3 is resolved", "user:ann", "deny"),
    Fenced("1/1/a", "1/2/b", "its lease ran out"),
    Denied("agent:cashier", "call mail.send", "stage pay does not grant it"),
    NotFound("question", "1/account"),
]


@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ for error in ERRORS])
def test_a_refusal_raises_the_same_error_again(error: Any) -> None:
    recorded = read_reply(encode(refusal(error)))
    kind = cast("type[PassdownError]", type(error))
    again = refused(lambda: raise_refusal(recorded), kind)
    assert type(again) is kind
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


def test_other_replies_raise_nothing() -> None:
    for reply in REPLIES:
        if not isinstance(reply, Refusal):
            raise_refusal(reply)


def test_no_text_can_keep_a_refusal_from_being_recorded() -> None:
    recorded = refusal(NotFound("tool", "\ud800" + "x" * 100_000))
    assert read_reply(encode(recorded)) == recorded
    assert len(recorded.facts[1]) <= 2_000


@pytest.mark.parametrize(
    "reply",
    [
        Refusal(code="from-the-future", facts=[]),
        Refusal(code="fenced", facts=["one"]),
        Refusal(code="fenced", facts=["a", "b", "c", "d"]),
    ],
)
def test_a_refusal_that_this_version_does_not_know_is_a_contract_error(reply: Refusal) -> None:
    assert refused(lambda: raise_refusal(reply)).what == "error"


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({"reply": "maybe"}, "/reply"),
        ({}, "/reply"),
        ({"reply": "held"}, "/leaseMs"),
        ({"reply": "held", "leaseMs": 1.5}, "/leaseMs"),
        ({"reply": "accepted", "more": 1}, "/more"),
    ],
)
def test_a_reply_that_is_not_known_is_a_hard_stop(data: Any, pointer: str) -> None:
    assert refused(lambda: read_reply(raw(data))).pointer == pointer
    assert refused(lambda: read_reply(b"[")).what == "reply"


def test_the_module_names_its_replies() -> None:
    assert all(getattr(replies, kind.__name__) is kind for kind in KINDS)
