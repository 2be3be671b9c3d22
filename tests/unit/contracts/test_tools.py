"""A tool's specification: its digest, what makes two calls the same effect, narrowing, the exact action."""

from typing import Any

import pytest

from passdown.contracts.codec import decode, digest_of, encode
from passdown.contracts.schema import problems
from passdown.contracts.tools import ToolSpec, action_digest, identity_of, narrow, tool_digest

PARAMS: dict[str, Any] = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["order"],
}


def test_a_specification_is_pinned_by_its_digest() -> None:
    spec = ToolSpec(name="refunds.create", params=PARAMS, effect=True)
    assert decode(encode(spec), ToolSpec) == spec
    assert tool_digest(spec) == digest_of(spec) == tool_digest(decode(encode(spec), ToolSpec))
    changes: list[dict[str, Any]] = [
        {"description": "x"},
        {"effect": False},
        {"scope": "x"},
        {"owner": "x"},
        {"identity": ["order"]},
        {"dedupes": True},
        {"repeatable": True},
        {"verifies": True},
        {"fresh_for_seconds": 1.0},
        {"params": True},
        {"name": "x"},
    ]
    fields: dict[str, Any] = {"name": "refunds.create", "params": PARAMS, "effect": True}
    digests = {tool_digest(ToolSpec(**{**fields, **change})) for change in changes}
    assert len(digests | {tool_digest(spec)}) == len(changes) + 1


def test_the_identity_is_all_arguments_or_those_that_are_named() -> None:
    args = {"order": "4711", "cents": 5}
    assert identity_of(ToolSpec(name="t", params=PARAMS), args) == args
    assert identity_of(ToolSpec(name="t", params=PARAMS, identity=["order", "gone"]), args) == {
        "order": "4711",
        "gone": None,
    }


def test_a_narrowed_parameter_must_fit_the_old_and_the_new() -> None:
    narrowed = narrow(PARAMS, {"cents": {"maximum": 10}, "note": {"maxLength": 3}})
    assert problems(narrowed, {"order": "a", "cents": 10, "note": "abc"}) == []
    assert problems(narrowed, {"order": "a", "cents": 11}) != []
    assert problems(narrowed, {"order": "a", "cents": 1.5}) != []
    assert problems(narrowed, {"order": "a", "note": "abcd"}) != []
    assert problems(narrowed, {"cents": 1}) != []
    assert PARAMS["properties"]["cents"] == {"type": "integer"}


@pytest.mark.parametrize("params", [True, False, PARAMS])
def test_nothing_narrowed_is_nothing_changed(params: Any) -> None:
    assert narrow(params, {}) is params


def test_parameters_of_any_shape_may_be_narrowed() -> None:
    assert narrow(True, {"a": False}) == {"properties": {"a": {"allOf": [True, False]}}}
    assert narrow(False, {"a": True}) is False
    assert narrow(True, {}) is True


def test_an_approval_binds_to_effect_tool_and_arguments() -> None:
    base = action_digest("e-1", "t", {"b": 1, "a": 2})
    assert base == action_digest("e-1", "t", {"a": 2, "b": 1})
    others = [
        action_digest("e-2", "t", {"a": 2, "b": 1}),
        action_digest("e-1", "u", {"a": 2, "b": 1}),
        action_digest("e-1", "t", {"a": 2, "b": 2}),
        action_digest("e-1", "t", {"a": 2}),
        action_digest("e-1", "t", {"a": 2, "b": "1"}),
    ]
    assert len({base, *others}) == 6
