"""Identifiers are derived, so they are pinned: a change would make retries into new acts."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.contracts import ids
from tests.unit.contracts.helpers import JSON, TEXTS, refused


def test_pinned() -> None:
    assert ids.session_id("order-4711") == "s0-120f622b10a08d26e0fa9997"
    assert ids.session_id("order-4711", 16) == "s11-120f622b10a08d26e0fa9997"
    assert ids.task_id("s0-1") == "t-e9b9fa6ba6eed4d0cdf24d55"
    assert ids.effect_id("s0-1", 2, "mail.send", {"to": "a"}, 1) == "s0-1.e-3178c33add29d01812a5036c"
    assert ids.identity_digest({"b": 1, "a": 2}) == "82c9656ed6aa58d0ca5d0008"
    assert ids.command_id("s0-1", "answer", 1, "id", "user:ann") == "125c614306753fb71044a250"


@given(TEXTS, st.integers(1, 1024))
@settings(deadline=None)
def test_a_session_says_its_shard(key: str, shards: int) -> None:
    found = ids.session_id(key, shards)
    shard, _, name = found.partition("-")
    assert 0 <= int(shard[1:]) < shards
    assert name == ids.session_id(key).partition("-")[2]


@given(TEXTS, st.integers(1, 9), TEXTS, JSON, st.integers(1, 9))
@settings(deadline=None)
def test_an_effect_says_its_session(key: str, step: int, tool: str, identity: Any, n: int) -> None:
    session = ids.session_id(key)
    effect = ids.effect_id(session, step, tool, identity, n)
    assert ids.session_of(effect) == session
    assert effect == ids.effect_id(session, step, tool, identity, n)
    assert (
        len(
            {
                effect,
                *(ids.effect_id(session, s, tool, identity, n + m) for s, m in [(step, 1), (step + 1, 0)]),
            }
        )
        == 3
    )


@pytest.mark.parametrize("identifier", ["s0-abc", "s0-abc.e-123", "s0-abc/3/1", "s0-abc/12", "s0-abc.e-1/2"])
def test_the_session_of_whatever_is_named_after_it(identifier: str) -> None:
    assert ids.session_of(identifier) == "s0-abc"


def test_the_order_of_an_identity_does_not_matter() -> None:
    assert ids.identity_digest({"b": 1, "a": 2}) == ids.identity_digest({"a": 2, "b": 1})
    assert ids.effect_id("s", 1, "t", {"b": 1, "a": 2}, 1) == ids.effect_id("s", 1, "t", {"a": 2, "b": 1}, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b"), ("ab",)),
        (("a", "b"), ("b", "a")),
        ((1,), ("1",)),
        ((None,), ("",)),
        ((True,), (1,)),
        ((1,), (1.0,)),
    ],
)
def test_different_parts_are_different_acts(one: tuple[object, ...], other: tuple[object, ...]) -> None:
    assert ids.command_id(*one) != ids.command_id(*other)


def test_what_is_no_data_has_no_identity() -> None:
    refused(lambda: ids.identity_digest({"a": object()}))
    refused(lambda: ids.session_id("\ud800"))
