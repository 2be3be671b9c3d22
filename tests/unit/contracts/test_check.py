"""What may travel as a Python object: `check`, `plain`, `convert`."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import math
import uuid
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.contracts import codec
from passdown.contracts.codec import MAX_DEPTH, MAX_INTEGER, Wire, check, convert, decode_any, encode, plain
from tests.unit.contracts.helpers import JSON, ODD_TEXTS, TAGGED, nested, refused, seconds


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    YES = "yes"


class Pair(tuple[int, int]):
    __slots__ = ()


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Ratio(float):
    __slots__ = ()


@given(JSON)
@settings(deadline=None)
def test_json_data_may_travel_and_survives(value: Any) -> None:
    check(value, what="value")
    assert decode_any(encode(value), object) == value


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=3)
    | st.dates()
    | st.decimals()
    | st.sampled_from([Text("a"), Whole(2), Ratio(0.5), Number.ONE, Word.YES, object(), int, ..., {1, 2}]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.tuples(below)
        | st.dictionaries(st.text(st.characters(), max_size=2) | st.integers(), below, max_size=3)
        | st.dictionaries(st.text(max_size=2), below, max_size=3).map(collections.OrderedDict)
    ),
    max_leaves=8,
)


@given(ANYTHING)
@settings(deadline=None, max_examples=500)
def test_what_passes_the_check_is_encoded_without_loss(value: Any) -> None:
    try:
        check(value, what="value")
    except codec.ContractError:
        return
    assert msgspec.json.decode(encode(value)) == listed(value)


def listed(value: Any) -> Any:
    """Return `value` with its tuples as lists, which is what JSON makes of them."""
    if isinstance(value, dict):
        return {key: listed(below) for key, below in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [listed(below) for below in value]  # pyright: ignore[reportUnknownVariableType]
    return value


@pytest.mark.parametrize("value", [*ODD_TEXTS, *TAGGED], ids=lambda value: ascii(value)[:20])
def test_odd_texts_and_tagged_objects_may_travel(value: Any) -> None:
    check({"value": value}, what="value")


@pytest.mark.parametrize(
    ("value", "pointer", "problem"),
    [
        (math.nan, "", "NaN and infinities are not JSON"),
        ({"a": [0, math.inf]}, "/a/1", "NaN and infinities are not JSON"),
        ({"a": {"b": -math.inf}}, "/a/b", "NaN and infinities are not JSON"),
        (2**53, "", "an integer beyond ±(2**53 - 1); send it as a string"),
        ([-(2**53)], "/0", "an integer beyond ±(2**53 - 1); send it as a string"),
        ({"n": 2**64}, "/n", "an integer beyond ±(2**53 - 1); send it as a string"),
        ({"n": 10**5000}, "/n", "an integer beyond ±(2**53 - 1); send it as a string"),
        ({"a/b~c": "\ud800"}, "/a~1b~0c", "a string has a lone surrogate"),
        ({"a": {"\udc00": 1}}, "/a", "a key has a lone surrogate"),
        ({"a": {1: 2}}, "/a", "object keys are strings, not int"),
        ({"a": {None: 2}}, "/a", "object keys are strings, not NoneType"),
        ({"a": {Text("k"): 2}}, "/a", "object keys are strings, not Text"),
        ({"a": {1, 2}}, "/a", "set is not JSON data"),
        ({"a": b"x"}, "/a", "bytes is not JSON data"),
        ({"a": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}, "/a", "datetime is not JSON data"),
        ({"a": decimal.Decimal(1)}, "/a", "Decimal is not JSON data"),
        ({"a": Text("x")}, "/a", "Text is not JSON data"),
        ({"a": Whole(1)}, "/a", "Whole is not JSON data"),
        ({"a": Ratio(1)}, "/a", "Ratio is not JSON data"),
        ({"a": object}, "/a", "type is not JSON data"),
        ([1, "ok", {"z": math.nan, "a": {1}}], "/2/z", "NaN and infinities are not JSON"),
    ],
    ids=range(21),
)
def test_what_may_not_travel_is_named_with_its_place(value: Any, pointer: str, problem: str) -> None:
    error = refused(lambda: check(value, what="inputs"))
    assert (error.what, error.pointer, error.problem) == ("inputs", pointer, problem)


@pytest.mark.parametrize(
    "value", [MAX_INTEGER, -MAX_INTEGER, 1e308, 5e-324, -0.0, True, None, (), Pair((1, 2))]
)
def test_what_may_travel_just_so(value: Any) -> None:
    check({"a": [value]}, what="value")


def test_depth_counts_containers() -> None:
    check(nested(MAX_DEPTH), what="value")
    check(nested(MAX_DEPTH - 1, leaf=[]), what="value")
    error = refused(lambda: check(nested(MAX_DEPTH, leaf={}), what="value"))
    assert error.problem == "nested deeper than 64"
    assert error.pointer == "/0/a" * (MAX_DEPTH // 2)


def test_very_deep_data_and_cycles_are_refused() -> None:
    refused(lambda: check(nested(100_000), what="value"))
    circle: list[Any] = []
    circle.extend([circle, circle])
    refused(lambda: check(circle, what="value"))
    knot: dict[str, Any] = {}
    knot.update(a=knot, b=[knot])
    refused(lambda: check(knot, what="value"))


def test_shared_parts_that_would_multiply_are_refused_soon() -> None:
    value: Any = 1
    for _ in range(60):
        value = [value, value]
    said: list[str] = []
    assert seconds(lambda: said.append(refused(lambda: check(value, what="value")).problem)) < 10
    assert said == ["more than 5000000 values"]


def test_a_place_below_long_keys_is_cut() -> None:
    value = {"k" * 1_000_000: {"l" * 1_000_000: [math.nan]}}
    error = refused(lambda: check(value, what="value"))
    assert error.pointer == "/" + "k" * 199 + "…"


ORDINARY = {
    "items": [
        {"id": n, "name": f"thing {n}", "tags": ["a", "b"], "price": 1.5, "there": True, "none": None}
        for n in range(500)
    ]
}


def test_an_ordinary_payload_costs_less_than_a_microsecond_for_each_value() -> None:
    values = 2 + 500 * 9
    best = min(seconds(lambda: check(ORDINARY, what="value")) for _ in range(5))
    assert best / values < 1e-6


HUGE: list[Any] = [
    [1] * 4_900_000,
    ["é" * 40] * 200_000,
    {str(n): n for n in range(200_000)},
    ["é" * 50_000_000],
    [[]] * 1_000_000,
]


@pytest.mark.parametrize("value", HUGE, ids=range(5))
def test_huge_payloads_are_linear(value: Any) -> None:
    assert seconds(lambda: check(value, what="value")) < 3


def test_a_fault_at_the_end_of_a_huge_payload_is_found() -> None:
    error = refused(lambda: check([*([1] * 1_000_000), math.nan], what="value"))
    assert error.pointer == "/1000000"


class Amount(pydantic.BaseModel):
    cents: int = pydantic.Field(serialization_alias="theCents")


@dataclasses.dataclass
class Line:
    sku: str
    amount: Amount


class Order(msgspec.Struct, rename="camel"):
    order_id: str
    lines: list[Line]


class Stubborn(pydantic.BaseModel):
    value: int

    @pydantic.model_serializer
    def refuse(self) -> Any:
        raise RuntimeError("never")


def test_plain_takes_structs_dataclasses_and_models_within_each_other() -> None:
    order = Order("4711", [Line("a", Amount(cents=5))])
    assert plain(order, what="order") == {
        "orderId": "4711",
        "lines": [{"sku": "a", "amount": {"theCents": 5}}],
    }
    assert plain(Amount(cents=5), what="amount") == {"theCents": 5}


def test_plain_gives_data_that_is_checked() -> None:
    odd = {"at": dt.date(2026, 1, 2), 3: (uuid.UUID(int=1), {"b", "a"}, decimal.Decimal("1.50"))}
    assert encode(plain(odd, what="x")) == (
        b'{"3":["00000000-0000-0000-0000-000000000001",["a","b"],"1.50"],"at":"2026-01-02"}'
    )
    assert refused(lambda: plain({"a": math.nan}, what="x")).pointer == "/a"
    assert refused(lambda: plain({"a": 2**60}, what="x")).pointer == "/a"
    assert refused(lambda: plain(["\ud800"], what="x")).pointer == "/0"


@pytest.mark.parametrize(
    "value", [object(), lambda: 1, Stubborn(value=1), [Stubborn(value=1)], nested(100_000)]
)
def test_plain_refuses_what_is_no_data(value: object) -> None:
    assert refused(lambda: plain(value, what="x")).problem.startswith("not JSON data: ")


class Corner(Wire, frozen=True, kw_only=True):
    x_axis: int
    below: dict[str, "Corner"] = {}


def test_convert_builds_the_type_from_data_that_may_travel() -> None:
    assert convert({"xAxis": 1, "below": {"a": {"xAxis": 2}}}, Corner) == Corner(
        x_axis=1, below={"a": Corner(x_axis=2)}
    )


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({}, "/xAxis"),
        ({"xAxis": "1"}, "/xAxis"),
        ({"xAxis": 1, "yAxis": 2}, "/yAxis"),
        ({"xAxis": 1, "below": {"ok": {"xAxis": 2}, "a/b": {"xAxis": None}}}, "/below/a~1b/xAxis"),
        ({"xAxis": 1, "below": {"ok": {"xAxis": 2}, "bad": {}}}, "/below/bad/xAxis"),
        ({"xAxis": 1, "below": {"a": math.nan}}, "/below/a"),
        (3, ""),
    ],
)
def test_convert_says_where_the_shape_differs(value: Any, pointer: str) -> None:
    assert refused(lambda: convert(value, Corner, what="corner")).pointer == pointer
