"""What a schema may cost is told before it is compiled."""

from typing import Any

import jsonschema_rs
import pytest

from passdown.contracts.complexity import FOREIGN, META_SCHEMA, TRUSTED, Bounds, check_bounds
from tests.unit.contracts.helpers import refused, seconds

BOUNDS = Bounds(work=110, patterns=3, pattern_bytes=1_000, recursive=True)
NO_RECURSION = BOUNDS._replace(recursive=False)


def check(schema: Any, bounds: Bounds = BOUNDS) -> None:
    check_bounds(schema, bounds, what="schema")


def doubling(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    """Return a schema whose work doubles with each level."""
    twice = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**twice, f"a{levels}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


def unevaluated(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": True}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


def chain(length: int) -> dict[str, Any]:
    links = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(length)}
    return {"$defs": {**links, f"a{length}": True}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object", "properties": {"a": {"enum": list(range(1000))}}},
        {"properties": {name: {"type": "string"} for name in "abcdefghijklmnopqrstuvwxyz"}},
        doubling(3),
        unevaluated(3),
        chain(20),
        {"$ref": "#"},
        {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
        {"$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"},
        {"$defs": {"a b": {"x/y": {"~": True}}}, "$ref": "#/$defs/a%20b/x~1y/~0"},
        {"allOf": [True, {"$ref": "#/allOf/0"}]},
        {"$id": "urn:example:a", "$ref": "#"},
        {"$ref": META_SCHEMA},
        {"const": {"$ref": "https://example.org/is-data", "$id": "data"}, "default": doubling(30)},
        {"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}, "pattern": {}}},
    ],
    ids=range(16),
)
def test_ordinary_schemas_pass(schema: Any) -> None:
    check(schema)


TOO_COMPLEX = "too complex: one value may meet more than 110 subschemas"


@pytest.mark.parametrize(
    "schema",
    [
        doubling(6),
        doubling(2_000 // 40),
        *[doubling(10, keyword) for keyword in ("anyOf", "oneOf", "prefixItems", "x-unknown")],
        unevaluated(6),
        {"properties": {"default": doubling(10)["$defs"]}, **doubling(10)},
        {"properties": {"a": {"items": {"not": {"if": {"$ref": "#/$defs/a0"}}}}}, **doubling(9)},
        {"anyOf": [{"const": n} for n in range(110)]},
        # A name that is a keyword elsewhere hides nothing.
        {"properties": {"const": {"$ref": "#/$defs/a0"}}, "$defs": doubling(9)["$defs"]},
        {"properties": {"$defs": {"$ref": "#/$defs/a0"}}, "$defs": doubling(9)["$defs"]},
        {"properties": {"properties": {"$ref": "#/$defs/a0"}}, "$defs": doubling(9)["$defs"]},
        {"$defs": {"default": {"$ref": "#/$defs/a0"}, **doubling(9)["$defs"]}, "$ref": "#/$defs/default"},
        # Nor does a reference into data, or into a set of schemas as if that were one.
        {"default": {"$ref": "#/$defs/a0"}, "$defs": doubling(9)["$defs"], "$ref": "#/default"},
        {
            "properties": {"allOf": [{"$ref": "#/$defs/a0"}]},
            "$defs": doubling(9)["$defs"],
            "$ref": "#/properties",
        },
        {
            "$defs": {"properties": {"default": {"$ref": "#/$defs/a0"}}, **doubling(9)["$defs"]},
            "$ref": "#/$defs",
        },
        {"allOf": [{"$ref": META_SCHEMA}, {"$ref": META_SCHEMA}]},
    ],
    ids=range(18),
)
def test_work_that_multiplies_is_refused(schema: Any) -> None:
    assert refused(lambda: check(schema)).problem == TOO_COMPLEX


def test_what_is_refused_would_have_kept_the_validator_busy() -> None:
    """Shows that the count is about something: 22 levels of 40 bytes cost a second, 50 a thousand years."""
    counted = doubling(16)
    validator = jsonschema_rs.Draft202012Validator(counted)
    slow = min(seconds(lambda: validator.is_valid(3)) for _ in range(3))
    quick = jsonschema_rs.Draft202012Validator(doubling(10))
    assert slow > 10 * min(seconds(lambda: quick.is_valid(3)) for _ in range(3))
    for bounds in (TRUSTED, FOREIGN):
        refused(lambda bounds=bounds: check(counted, bounds))


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$ref": "#"}, "/$ref"),
        ({"allOf": [{"$ref": "#"}]}, "/allOf/0/$ref"),
        ({"$dynamicAnchor": "a", "items": {"$dynamicRef": "#a"}}, "/items/$dynamicRef"),
        ({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}, "/properties/a/allOf/0/$ref"),
        (
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
            "/$ref/$ref/$ref",
        ),
    ],
)
def test_recursion_is_for_those_who_are_trusted(schema: Any, pointer: str) -> None:
    """A schema that refers to itself twice doubles with each level of the value, which no count can tell."""
    check(schema)
    error = refused(lambda: check(schema, NO_RECURSION))
    assert (error.problem, error.pointer) == ("a reference leads back to where it stands", pointer)


@pytest.mark.parametrize(
    ("schema", "pointer", "problem"),
    [
        (
            {"$ref": "https://example.org/a.json"},
            "/$ref",
            "references stay within the schema (#…), not 'https://",
        ),
        ({"items": {"$ref": "file:///etc/passwd"}}, "/items/$ref", "references stay within the schema"),
        ({"$ref": "other.json#/a"}, "/$ref", "references stay within the schema"),
        ({"$ref": "urn:passdown:pack:1"}, "/$ref", "references stay within the schema"),
        ({"$ref": ""}, "/$ref", "references stay within the schema"),
        ({"$ref": "x" * 10_000}, "/$ref", f"references stay within the schema (#…), not '{'x' * 60}…'"),
        ({"$dynamicRef": "other#x"}, "/$dynamicRef", "references stay within the schema"),
        ({"$ref": "#/$defs/gone"}, "/$ref", "the reference '#/$defs/gone' leads nowhere"),
        ({"$ref": "#gone"}, "/$ref", "the reference '#gone' leads nowhere"),
        ({"allOf": [{"$ref": "#/allOf/1"}]}, "/allOf/0/$ref", "the reference '#/allOf/1' leads nowhere"),
        ({"$ref": "#/allOf/x", "allOf": [True]}, "/$ref", "the reference '#/allOf/x' leads nowhere"),
        ({"$ref": "#/type/x", "type": "string"}, "/$ref", "the reference '#/type/x' leads nowhere"),
        ({"items": {"$id": "https://example.org/"}}, "/items/$id", "a schema within a schema has no $id"),
        (
            {"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}},
            "/$defs/b/$anchor",
            "another subschema has",
        ),
    ],
    ids=range(14),
)
def test_references_that_cannot_be_counted(schema: Any, pointer: str, problem: str) -> None:
    error = refused(lambda: check(schema))
    assert error.pointer == pointer
    assert error.problem.startswith(problem)


def test_a_meta_schema_is_recursive() -> None:
    assert refused(lambda: check({"$ref": META_SCHEMA}, NO_RECURSION)).pointer == "/$ref"


def test_patterns_are_counted_wherever_they_stand() -> None:
    check({"pattern": "a", "patternProperties": {"b": {"pattern": "c"}}})
    error = refused(lambda: check({"pattern": "a", "patternProperties": {"b": {"pattern": "c"}, "d": True}}))
    assert error.problem == "4 patterns, at most 3 may stand in a schema"


def test_long_chains_of_references_are_refused_before_they_exhaust_the_stack() -> None:
    error = refused(lambda: check(chain(500), TRUSTED))
    assert error.problem == "nested and referred deeper than 200"
    check(chain(150), TRUSTED)


def test_a_schema_that_fills_its_budget_is_counted_soon() -> None:
    wide = {"properties": {f"p{n}": {"type": "string", "minLength": 1} for n in range(1_500)}}
    assert seconds(lambda: check(wide, TRUSTED)) < 1
    shared = {"properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(1_500)}, "$defs": {"a": wide}}
    assert seconds(lambda: refused(lambda: check(shared, TRUSTED))) < 1
