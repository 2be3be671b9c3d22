from typing import Any

import pytest

from passdown.broker.plans.faults import serious
from passdown.broker.plans.schema_check import SCHEMA_DEPTH, schema_faults


def nested(depth: int) -> Any:
    schema: Any = True
    for _ in range(depth - 1):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"pattern": "^a+$"}}},
        {"$ref": "#"},
        {"const": {"$ref": "https://example.org/is-data"}},
        {"format": "no-such-format"},
        nested(SCHEMA_DEPTH),
    ],
)
def test_a_good_schema_has_no_faults(schema: Any) -> None:
    assert schema_faults("here", schema) == []


FAULTS: list[Any] = [
    ([], "here: a schema is a table or a boolean, not a list"),
    ({"minimum": float("nan")}, "here: in the schema at /minimum: NaN and infinities are not JSON"),
    ({"minimum": 2**60}, "here: in the schema at /minimum: an integer beyond "),
    ({"enum": [{1, 2}]}, "here: in the schema at /enum/0: set is not JSON data"),
    ({"title": "\ud800"}, "here: in the schema at /title: a string has a lone surrogate"),
    ({"type": "strin"}, 'here: in the schema at /type: "strin" is not valid'),
    ({"properties": {"a": 5}}, "here: in the schema at /properties/a: 5 is not of types"),
    ({"items": [{}]}, "here: in the schema at /items: "),
    (
        {"properties": {"a": {"$ref": "https://example.org/a.json"}}},
        "here: in the schema at /properties/a/$ref: ",
    ),
    ({"allOf": [{"$ref": "other.json"}]}, "here: in the schema at /allOf/0/$ref: "),
    ({"$ref": "#/$defs/missing"}, "here: in the schema at /$ref: "),
    ({"properties": {"a": {"pattern": "(?=a)b"}}}, "here: in the schema at /properties/a/pattern: "),
    ({"patternProperties": {"(a)\\1": {}}}, "here: in the schema at /patternProperties/"),
    (nested(SCHEMA_DEPTH + 1), f"here: nested deeper than {SCHEMA_DEPTH}; "),
    (nested(5000), "here: in the schema at /not/not"),
]


@pytest.mark.parametrize(("schema", "fault"), FAULTS)
def test_a_fault_says_where_in_the_schema(schema: Any, fault: str) -> None:
    found = schema_faults("here", schema)
    assert len(found) == 1
    assert str(found[0]).startswith(fault)


def test_what_to_do_is_said_where_the_reason_is_not_plain() -> None:
    assert (
        schema_faults("", {"$ref": "x.json"})[0].mend
        == "put what is meant under $defs and refer to it as #/$defs/…"
    )
    linear = "patterns run in linear time: do without look-around and back-references"
    assert schema_faults("", {"not": {"pattern": "(?!x)"}})[0].mend == linear
    assert schema_faults("", {"patternProperties": {"(?!x)": True}})[0].mend == linear


def test_all_faults_of_a_schema_come_at_once() -> None:
    schema: dict[str, Any] = {
        "type": "objekt",
        "minimum": "x",
        "properties": {"a": 5, "b": {"required": ["x", "x"]}, "c": 6},
    }
    found = {
        fault.problem.split(": ")[0].removeprefix("in the schema at ")
        for fault in schema_faults("here", schema)
    }
    assert found == {"/type", "/minimum", "/properties/a", "/properties/b/required", "/properties/c"}
    assert schema["properties"]["a"] == 5  # cut out of a copy
    patterns = {
        "properties": {"a": {"pattern": "(?!x)"}, "b": {"pattern": "(?<=x)"}},
        "allOf": [{}, {"$ref": "x:y"}],
    }
    assert len(schema_faults("here", patterns)) == 3


def test_another_dialect_is_only_said() -> None:
    found = schema_faults("here", {"$schema": "http://json-schema.org/draft-07/schema#"})
    assert [fault.severity for fault in found] == ["warning"]
    assert serious(found) == []
    assert schema_faults("here", {"$schema": "https://json-schema.org/draft/2020-12/schema#"}) == []
