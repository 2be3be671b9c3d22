"""Places: from steps, from msgspec's messages, of keys that stand twice, of keys that msgspec does not name."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.contracts import pointers
from passdown.contracts.codec import Wire, decode
from tests.unit.contracts.helpers import JSON, TEXTS, raw, refused


class Leaf(Wire, frozen=True, kw_only=True):
    size: int


class Tree(Wire, frozen=True, kw_only=True):
    leaves: dict[str, Leaf] = {}
    trees: dict[str, "Tree"] = {}
    rows: list[dict[str, list[Leaf]]] = []
    counters: dict[str, int] = {}


@pytest.mark.parametrize(
    ("steps", "pointer"),
    [
        ([], ""),
        ([""], "/"),
        (["a", 0, "b"], "/a/0/b"),
        (["a/b", "m~n", "~1"], "/a~1b/m~0n/~01"),
        (["x" * 300], "/" + "x" * 199 + "…"),
    ],
)
def test_steps_as_a_pointer(steps: list[str | int], pointer: str) -> None:
    assert pointers.pointer(steps) == pointer


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({"leaves": {"a.b[0]": {"size": "x"}}}, "/leaves/a.b[0]/size"),
        ({"leaves": {"good": {"size": 1}, "a/b": {}}}, "/leaves/a~1b/size"),
        ({"leaves": {str(n): {"size": n if n != 700 else None} for n in range(1000)}}, "/leaves/700/size"),
        ({"trees": {"a": {"trees": {"b": {"counters": {"c": 1.5}}}}}}, "/trees/a/trees/b/counters/c"),
        ({"trees": {"a": {}, "b": {"trees": {"c": {}, "d": 3}}}}, "/trees/b/trees/d"),
        ({"rows": [{}, {"x": [{"size": 1}], "y": [{"size": 1}, {"sise": 1}]}]}, "/rows/1/y/1/sise"),
        ({"counters": {"`": 1, "- at `$.leaves`": "x"}}, "/counters/- at `$.leaves`"),
        ({"counters": {"": "x"}}, "/counters/"),
    ],
)
def test_keys_that_msgspec_does_not_name_are_found(data: Any, pointer: str) -> None:
    assert refused(lambda: decode(raw(data), Tree)).pointer == pointer


@pytest.mark.parametrize(
    "data",
    [
        b'{"leaves":{"a":{"size":"x"}},"leaves":{}}',
        b'{"leaves":{"a":{"size":"x"}},"leaves":3}',
        b'{"leaves":{"a":{"size":"x"}}} trailing',
        b'{"leaves":{"a":{"size":"x"}},"counters":{"n":1e999}}',
        b'{"leaves":{"a":{"size":"x"}},"counters":{"\xff":1}}',
    ],
)
def test_where_a_message_is_wrong_twice_some_key_is_a_star(data: bytes) -> None:
    assert refused(lambda: decode(data, Tree)).pointer == "/leaves/*/size"


@given(st.dictionaries(TEXTS, st.integers(0, 9), min_size=1, max_size=30), st.data())
@settings(deadline=None)
def test_the_one_bad_key_is_found_wherever_it_stands(counters: dict[str, Any], chance: st.DataObject) -> None:
    bad = chance.draw(st.sampled_from(sorted(counters)))
    error = refused(lambda: decode(raw({"counters": {**counters, bad: "no number"}}), Tree))
    assert error.pointer == pointers.pointer(["counters", bad])


def test_a_hostile_name_of_a_field_cannot_make_the_message_large() -> None:
    error = refused(lambda: decode(raw({"x` - at `$." + "y" * 100_000: 1}), Leaf))
    assert len(str(error)) < 700


@given(JSON)
@settings(deadline=None)
def test_valid_data_has_no_duplicates(value: Any) -> None:
    assert pointers.duplicate(raw(value)) is None


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        (b'{"a":1,"a":1}', "/a"),
        (b'[0,{"b":{"a":1}},{"b":{"a":1,"c":[],"a":2}}]', "/2/b/a"),
        (b'{"a":{"x":1,"x":2},"a":3}', "/a"),
        (b"[[[]]]", None),
        (b"3", None),
    ],
)
def test_a_duplicate_is_found(data: bytes, pointer: str | None) -> None:
    assert pointers.duplicate(data) == pointer


def test_the_largest_fields() -> None:
    assert pointers.largest(b'{"a":"xxxx","b":[1, 2, 3],"c":1,"d":"xx"}') == {"b": 9, "a": 6, "d": 4}
    assert list(pointers.largest_of({"b": 1, "a": 1, "c": 2})) == ["c", "a", "b"]


@pytest.mark.parametrize("data", [b"", b"[1]", b'{"a"', b"\xff", b'{"a":' * 100_000])
def test_no_largest_fields_where_there_are_none(data: bytes) -> None:
    assert pointers.largest(data) == {}


def test_explain_without_a_place() -> None:
    error = msgspec.ValidationError("Expected `int`, got `str`")
    assert pointers.explain(error, lambda: None, int) == ("Expected `int`, got `str`", "")
