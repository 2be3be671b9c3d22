import math
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, Field

from passdown.agents.jsonable import as_json, reader_of, schema_of
from passdown.contracts.errors import ContractError


class Line(msgspec.Struct):
    sku: str
    count: int = 1


@dataclass
class Order:
    lines: list[Line]


class Model(BaseModel):
    amount: int = Field(ge=0, alias="theAmount")


class Rude(BaseModel):
    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (Order([Line("a")]), {"lines": [{"sku": "a", "count": 1}]}),
        (Model(theAmount=3), {"theAmount": 3}),
        ([Model(theAmount=3)], [{"theAmount": 3}]),
        ({"deep": {"model": Model(theAmount=3)}}, {"deep": {"model": {"theAmount": 3}}}),
        ({"b", "a"}, ["a", "b"]),
        (None, None),
    ],
)
def test_structs_dataclasses_and_models_become_json(value: object, data: object):
    assert as_json(value, what="x") == data


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, math.nan]}, "/a/1"),
        ({"a": math.inf}, "/a"),
        ({"a": 2**60}, "/a"),
        ({"a": "\ud800"}, "/a"),
        ({"a": object()}, ""),
        (Rude(), ""),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(value: object, where: str):
    with pytest.raises(ContractError) as caught:
        as_json(value, what="output")
    assert caught.value.pointer == where


def test_a_value_that_holds_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ContractError):
        as_json(loop, what="output")


def test_schemas_come_from_types_or_are_taken_as_they_are():
    assert schema_of({"type": "string"}, what="x") == {"type": "string"}
    assert schema_of(True, what="x") is True
    assert schema_of(Literal["a", "b"], what="x") == {"enum": ["a", "b"]}
    order: Any = schema_of(Order, what="x")
    assert set(order["$defs"]) == {"Order", "Line"}
    model: Any = schema_of(Model, what="x")
    assert model["properties"]["theAmount"]["minimum"] == 0


@pytest.mark.parametrize("kind", [{"type": 3}, object.__class__, lambda: 0])
def test_what_describes_nothing_is_a_clear_error(kind: object):
    with pytest.raises(ContractError):
        schema_of(kind, what="x")


def test_readers_build_what_the_annotation_says():
    assert reader_of(Line)({"sku": "a"}) == Line("a", 1)
    assert reader_of(Model)({"theAmount": 3}) == Model(theAmount=3)
    assert reader_of(list[Model])([{"theAmount": 3}]) == [Model(theAmount=3)]
    assert reader_of(Any)(5) == 5


@pytest.mark.parametrize(("kind", "value"), [(Line, {"sku": 1}), (Model, {"theAmount": -1})])
def test_readers_refuse_what_does_not_fit(kind: object, value: object):
    with pytest.raises(ContractError):
        reader_of(kind)(value)
