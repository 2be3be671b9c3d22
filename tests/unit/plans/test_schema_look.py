from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.broker.plans.faults import serious
from passdown.broker.plans.schema_check import schema_faults
from passdown.broker.plans.schema_look import (
    FieldLook,
    field_of,
    kinds_of,
    may_be_object,
    property_names,
    property_of,
    required_names,
)
from passdown.contracts.schema import problems

ENDLESS = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}


OBJECTS: list[Any] = [
    True,
    {},
    {"type": ["null", "object"]},
    {"enum": ["a", {}]},
    {"const": {}},
    {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "object"}}},
    {"$ref": "https://example.org/unseen"},
    {"$ref": "#/$defs/nowhere"},
    {"$ref": "#"},
    ENDLESS,
]


@pytest.mark.parametrize("schema", OBJECTS)
def test_an_object_may_fit(schema: Any) -> None:
    assert may_be_object(schema)


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "string"},
        {"type": ["string", "null"]},
        {"enum": ["a", 1]},
        {"const": 1},
        {"allOf": [{}, {"type": "array"}]},
        {"allOf": [False]},
        {"anyOf": [{"type": "string"}, False]},
        {"oneOf": [{"type": "string"}]},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"$ref": "#/$defs/c"}, "c": {"type": "integer"}}},
    ],
)
def test_no_object_can_fit(schema: Any) -> None:
    assert not may_be_object(schema)


def field(**schema: Any) -> FieldLook | None:
    return field_of({"type": "object", **schema}, "f")


def test_a_field_is_declared_required_and_has_its_listed_values() -> None:
    assert field() == FieldLook(declared=False, required=False, values=None)
    assert field(required=["f"]) == FieldLook(declared=False, required=True, values=None)
    assert field(properties={"f": {}}) == FieldLook(declared=True, required=False, values=None)
    assert field(properties={"f": {"enum": ["a", "b"]}}, required=["f"]) == FieldLook(True, True, ["a", "b"])


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"const": "a"}, ["a"]),
        ({"type": "boolean"}, [True, False]),
        ({"type": "null"}, [None]),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, ["a", None]),
        ({"anyOf": [{"enum": ["a"]}, {"type": "string"}]}, None),
        ({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}, ["b"]),
        ({"allOf": [{"enum": [1, "a"]}, {"enum": [True, "a"]}]}, ["a"]),
        ({"enum": [1, True, "a", None], "type": "boolean"}, [True]),
        ({"type": ["boolean", "null"]}, [True, False, None]),
        ({"type": ["integer", "null"]}, None),
        ({"type": "string"}, None),
    ],
)
def test_values_are_those_that_the_schema_lists(schema: Any, values: list[Any] | None) -> None:
    look = field(properties={"f": schema})
    assert look is not None
    assert look.values == values


def test_alternatives_count_where_they_all_agree_and_may_be_objects() -> None:
    def arm(value: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"f": {"const": value}}, "required": ["f"]}

    assert field_of({"oneOf": [arm("a"), arm("b")]}, "f") == FieldLook(True, True, ["a", "b"])
    assert field_of({"anyOf": [arm("a"), {"type": "null"}]}, "f") == FieldLook(True, True, ["a"])
    assert field_of({"anyOf": [arm("a"), {"type": "object"}]}, "f") == FieldLook(False, False, None)


def test_what_goes_in_circles_is_not_seen_rather_than_wrong() -> None:
    assert field_of(ENDLESS, "f") is None
    assert may_be_object(ENDLESS)
    assert required_names({"allOf": [{"$ref": "#"}], "required": ["f"]}) == {"f"}


def test_a_look_is_over_after_a_bounded_number_of_steps() -> None:
    levels = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    assert may_be_object({"$ref": "#/$defs/d0", "$defs": {**levels, "d40": {"type": "string"}}})


def test_names_kinds_and_schemas_of_parameters() -> None:
    schema: dict[str, Any] = {
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "allOf": [{"properties": {"b": {}}}],
        "$defs": {"n": {"type": "number"}},
    }
    assert property_names(schema) == ["a", "b"]
    assert property_names(True) is None
    assert property_names({"anyOf": [schema]}) is None
    assert property_names({"type": "object"}) == []
    assert kinds_of(property_of(schema, "a")) == {"number", "integer"}
    assert kinds_of({"type": ["string", "null"]}) == {"string", "null"}
    assert kinds_of({"allOf": [{"type": "string"}, {"type": "integer"}]}) == set()
    assert kinds_of(True) is None
    assert property_of(schema, "zzz") is True
    assert property_of(True, "a") is True


LEAVES: list[Any] = [
    {"type": "string"},
    {"type": "object"},
    {"enum": [1, {}]},
    {"const": "x"},
    {"$ref": "#"},
    {"$ref": "#/$defs/a"},
]
VALUES: list[Any] = [{}, {"f": "x"}, {"f": {}, "g": "x"}, {"f": 1}]
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.sampled_from(LEAVES),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=3),
            "properties": st.dictionaries(st.sampled_from("fg"), inner),
            "required": st.lists(st.sampled_from("fg"), unique=True),
            "$defs": st.fixed_dictionaries({"a": inner}),
        },
    ),
    max_leaves=8,
)


@given(SCHEMAS)
def test_a_schema_that_fits_some_object_is_never_said_to_fit_none(schema: Any) -> None:
    if serious(schema_faults("", schema)):
        return
    for value in VALUES:
        if not problems(schema, value):
            assert may_be_object(schema)
            look = field_of(schema, "f")
            if look and look.required:
                assert "f" in value
            if look and look.values is not None and "f" in value:
                assert value["f"] in look.values
