from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import msgspec
import pytest
from pydantic import BaseModel

from passdown.agents.params import Params, read_params
from passdown.contracts.errors import ContractError
from passdown.contracts.schema import problems


class Address(msgspec.Struct):
    city: str


@dataclass
class Item:
    sku: str


class Money(BaseModel):
    cents: int


def order(
    name: str,
    kind: Literal["new", "old"],
    address: Address,
    items: list[Item],
    money: Money,
    note: Optional[str] = None,  # noqa: UP045  (that is what is tested)
    count: Annotated[int, msgspec.Meta(ge=1)] = 1,
    anything: Any = None,
) -> None: ...


def read(fn: Any, given: Any = None) -> Params:
    return read_params(fn, hidden=set(), given=given, what="tool 't'")


def schema(found: Params) -> dict[str, Any]:
    assert isinstance(found.schema, dict)
    return found.schema


def test_the_schema_says_all_that_the_signature_says():
    found = read(order)
    assert schema(found)["additionalProperties"] is False
    assert schema(found)["required"] == ["name", "kind", "address", "items", "money"]
    assert set(schema(found)["$defs"]) == {"Address", "Item"}
    assert found.defaults == {"note": None, "count": 1, "anything": None}


def test_the_schema_takes_and_refuses_what_the_function_would():
    good = {
        "name": "a",
        "kind": "new",
        "address": {"city": "x"},
        "items": [{"sku": "1"}],
        "money": {"cents": 3},
    }
    found = schema(read(order))
    assert problems(found, good) == []
    assert problems(found, {**good, "kind": "odd"})
    assert problems(found, {**good, "count": 0})
    assert problems(found, {**good, "more": 1})
    assert problems(found, {**good, "money": {}})
    assert problems(found, {name: value for name, value in good.items() if name != "name"})


def test_arguments_are_built_as_annotated():
    found = read(order)
    bound = found.bind(
        {"address": {"city": "x"}, "items": [{"sku": "1"}], "money": {"cents": 3}, "name": "n"}
    )
    assert bound == {"address": Address("x"), "items": [Item("1")], "money": Money(cents=3), "name": "n"}


def test_a_given_schema_is_taken_and_arguments_stay_json():
    def fn(a: Address, **more: Any) -> None: ...

    given = {"type": "object", "properties": {"a": {}, "b": {"default": 5}}}
    found = read(fn, given)
    assert found.schema is given
    assert found.defaults == {"b": 5}
    assert found.bind({"a": {"city": "x"}}) == {"a": {"city": "x"}}


def takes_more(*rest: int) -> None: ...
def takes_all(**rest: int) -> None: ...
def by_position(a: int, /) -> None: ...
def named_after(after: str) -> None: ...
def unknown_name(a: "Nowhere") -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
def odd_default(a: Any = object) -> None: ...


class Thing:
    pass


def strange_type(a: Thing) -> None: ...


@pytest.mark.parametrize(
    ("fn", "says"),
    [  # pyright: ignore[reportUnknownArgumentType]
        (takes_more, "passed by name"),
        (takes_all, "params="),
        (by_position, "passed by name"),
        (named_after, "ctx.call"),
        (unknown_name, "annotations cannot be read"),
        (odd_default, "default of parameter 'a'"),
        (strange_type, "cannot be described as JSON Schema"),
    ],
)
def test_what_cannot_be_told_is_a_clear_error(fn: Any, says: str):
    with pytest.raises(ContractError, match=says):
        read(fn)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"properties": {"b": {}}}, "names 'b', which the function does not take"),
        ({"properties": {}}, "needs 'a'"),
        ({"properties": {"after": {}, "a": {}}}, "'after' cannot be used"),
        ({"type": 7}, "JSON Schema"),
    ],
)
def test_a_given_schema_must_fit_the_function(given: Any, says: str):
    def fn(a: int) -> None: ...

    with pytest.raises(ContractError, match=says):
        read(fn, given)


def test_two_types_of_one_name_are_an_error():
    inner = msgspec.defstruct("Address", [("street", int)], module="elsewhere")

    class Pydantic(BaseModel):
        class Address(BaseModel):
            zip: int

        at: Address

    def fn(a, b) -> None: ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]

    fn.__annotations__ = {"a": Address, "b": Pydantic}  # pyright: ignore[reportFunctionMemberAccess]
    assert inner
    with pytest.raises(ContractError, match="two different types are called 'Address'"):
        read(fn)
