"""JSON Schema: what compiles, what is said about a value, and that neither can hurt."""

import math
import socket
import subprocess
import sys
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings

from passdown.contracts import schema as module
from passdown.contracts.codec import encode
from passdown.contracts.complexity import META_SCHEMA, Bounds
from passdown.contracts.schema import Schema, compile_schema, first_line, problems, require
from tests.unit.contracts.helpers import JSON, TAGGED, nested, refused, seconds

PERSON: Schema = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"name": "Ann", "age": 3}, []),
        ({"name": "Ann", "age": 3.0}, []),
        ({}, ['/name: "name" is a required property']),
        ({"name": 1}, ['/name: 1 is not of type "string"']),
        ({"name": "Ann", "age": -1}, ["/age: -1 is less than the minimum of 0"]),
        (
            {"name": "Ann", "agee": 1},
            ["/agee: Additional properties are not allowed ('agee' was unexpected)"],
        ),
        (
            {"age": "x"},
            ['/age: "x" is not of type "integer"', '/name: "name" is a required property'],
        ),
        (None, ['/: null is not of type "object"']),
        ([], ['/: [] is not of type "object"']),
    ],
)
def test_what_is_wrong_with_a_value(value: object, found: list[str]) -> None:
    assert sorted(problems(PERSON, value)) == found


def test_pointers_are_escaped_and_hold_keys_that_look_like_text() -> None:
    tricky: Schema = {"properties": {"a/b: ~": {"items": {"type": "string"}}}}
    assert problems(tricky, {"a/b: ~": ["x", 3]}) == ['/a~1b: ~0/1: 3 is not of type "string"']
    assert refused(lambda: require(tricky, {"a/b: ~": [3]}, what="x")).pointer == "/a~1b: ~0/0"


def test_require_names_the_first_place_and_tells_the_others() -> None:
    require(PERSON, {"name": "Ann"}, what="inputs")
    error = refused(lambda: require({"items": {"type": "string"}}, [1, "a", 2], what="inputs"))
    assert error.pointer == "/0"
    assert error.problem == '1 is not of type "string" (and /2: 2 is not of type "string")'
    assert refused(lambda: require(PERSON, 3, what="inputs")).pointer == ""


def test_there_are_as_many_problems_as_asked_for() -> None:
    values = list(range(100))
    assert len(problems({"items": {"type": "string"}}, values)) == 5
    assert len(problems({"items": {"type": "string"}}, values, limit=50)) == 50
    assert len(problems({"items": {"type": "string"}}, [1] * 100_000)) == 1


@pytest.mark.parametrize(
    ("schema", "pointer", "problem"),
    [
        ({"type": "objekt"}, "/type", '"objekt" is not valid under any of the schemas'),
        ({"properties": {"a": {"type": 12}}}, "/properties/a/type", "12 is not valid"),
        ({"properties": {"a/b": 5}}, "/properties/a~1b", "5 is not of types"),
        ({"minLength": -1}, "/minLength", "-1 is less than the minimum of 0"),
        ({"multipleOf": 0}, "/multipleOf", "0 is less than or equal to the minimum of 0"),
        ({"required": "name"}, "/required", '"name" is not of type "array"'),
        ({"enum": 3}, "/enum", '3 is not of type "array"'),
        ({"pattern": "("}, "/pattern", '"(" is not a "regex"'),
        ({"pattern": "(a)\\1"}, "/pattern", '"(a)\\\\1" is not a "regex"'),
        ({"pattern": "(?=a)"}, "/pattern", '"(?=a)" is not a "regex"'),
        ({"pattern": "((a{100}){100}){100}"}, "/pattern", "is not a"),
        ({"exclusiveMinimum": True}, "/exclusiveMinimum", 'true is not of type "number"'),
    ],
    ids=range(12),
)
def test_what_is_no_schema(schema: Any, pointer: str, problem: str) -> None:
    error = refused(lambda: compile_schema(schema, what="params of x"))
    assert (error.what, error.pointer) == ("params of x", pointer)
    assert error.problem.startswith("not a JSON Schema 2020-12: ")
    assert problem in error.problem


@pytest.mark.parametrize("schema", [[], None, "true", "{}", 3, b"{}"])
def test_a_schema_is_an_object_or_a_boolean(schema: Any) -> None:
    assert refused(lambda: compile_schema(schema)).problem.startswith(
        "a schema is an object or a boolean, not "
    )


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"const": math.nan}, "/const"),
        ({"maximum": 2**70}, "/maximum"),
        ({"title": "\ud800"}, "/title"),
        ({"enum": [{1}]}, "/enum/0"),
        ({1: 2}, ""),
        (nested(101), "/a/0" * 32),
        ({"$ref": "http://127.0.0.1:1/x.json"}, "/$ref"),
        ({"$ref": "file:///etc/passwd"}, "/$ref"),
        ({"$ref": "#/$defs/gone"}, "/$ref"),
    ],
    ids=range(9),
)
def test_what_is_no_data_or_reaches_out(schema: Any, pointer: str) -> None:
    error = refused(lambda: compile_schema(schema, what="x"))
    assert (error.what, error.pointer) == ("x", pointer)


def test_nothing_is_fetched_even_if_a_reference_went_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncounted(schema: Any, bounds: Bounds, *, what: str) -> None:
        pass

    monkeypatch.setattr(module, "check_bounds", uncounted)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x.json"
        assert "Retrieval is disabled" in refused(lambda: compile_schema({"$ref": address})).problem
        with pytest.raises(BlockingIOError):
            server.accept()


def test_foreign_schemas_may_cost_less() -> None:
    recursive: Schema = {"properties": {"below": {"$ref": "#"}}}
    compile_schema(recursive)
    refused(lambda: compile_schema(recursive, foreign=True))
    wide: Schema = {"pattern": "^(a{100}){500}$"}
    compile_schema(wide)
    refused(lambda: compile_schema(wide, foreign=True))
    assert compile_schema(PERSON, foreign=True).is_valid({"name": "Ann"})


def test_a_parameter_may_be_a_schema() -> None:
    assert problems({"properties": {"schema": {"$ref": META_SCHEMA}}}, {"schema": {"type": "string"}}) == []
    assert problems({"properties": {"schema": {"$ref": META_SCHEMA}}}, {"schema": {"type": 5}}) != []


HOSTILE: list[tuple[Schema, Any]] = [
    ({"pattern": "^(a+)+$"}, "a" * 60_000 + "!"),
    ({"pattern": "^(a|aa)+$"}, "a" * 60_000 + "!"),
    ({"pattern": r"(\w|b)*a(a|b){900}$"}, "abbab" * 12_000),
    ({"patternProperties": {"^(x+x+)+y$": False}}, {"x" * 60_000: 1}),
    ({"format": "email"}, "a" * 60_000),
    ({"format": "regex"}, "(" * 60_000),
    ({"format": "date-time"}, "1" * 60_000),
    ({"uniqueItems": True}, [{"a": n} for n in range(8_000)]),
    ({"uniqueItems": True}, [[n] * 3 for n in range(8_000)]),
    ({"items": {"anyOf": [{"const": n} for n in range(2_000)]}}, list(range(10_000, 20_000))),
    ({"items": {"oneOf": [{"const": n} for n in range(2_000)]}}, list(range(10_000, 20_000))),
    ({"unevaluatedProperties": False}, {f"k{n}": n for n in range(8_000)}),
]


@pytest.mark.parametrize(("schema", "value"), HOSTILE, ids=range(12))
def test_hostile_patterns_and_values_cost_little(schema: Schema, value: Any) -> None:
    assert seconds(lambda: problems(schema, value)) < 1


_MANY_FAULTS = """
from passdown.contracts.schema import problems
schema = {"items": {"anyOf": [{"const": n} for n in range(2000)]}}
found = problems(schema, list(range(10_000, 20_000)))
(peak,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(len(found), peak.split()[1])
"""


def test_many_faults_do_not_fill_the_memory() -> None:
    """jsonschema-rs would collect twenty million errors here before it gave the first."""
    run = subprocess.run([sys.executable, "-c", _MANY_FAULTS], capture_output=True, text=True, check=True)
    count, kilobytes = run.stdout.split()
    assert int(count) == 1
    assert int(kilobytes) < 300_000


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1}, {1, 2}, object(), {1: 2}, [b"x"]], ids=range(6))
def test_a_value_that_is_no_data_is_a_problem_like_any_other(value: object) -> None:
    (found,) = problems({"type": "integer"}, value)
    assert found.startswith("/: ")
    refused(lambda: require({"type": "integer"}, value, what="x"))


@given(JSON)
@settings(deadline=None)
def test_any_data_as_a_schema_compiles_or_is_a_contract_error(value: Any) -> None:
    try:
        compile_schema(value)
    except module.ContractError:
        return
    problems(value, value)


@given(JSON)
@settings(deadline=None)
def test_any_data_is_equal_to_itself_and_of_some_type(value: Any) -> None:
    assert problems({"const": value}, value) == []
    assert problems(True, value) == []
    assert problems(False, value) != []


@pytest.mark.parametrize("value", TAGGED, ids=str)
def test_tagged_objects_are_data(value: Any) -> None:
    assert problems({"type": "object", "const": value}, value) == []


def test_formats_are_checked() -> None:
    assert problems({"format": "date"}, "2026-02-30") == ['/: "2026-02-30" is not a "date"']
    assert problems({"format": "no-such-format"}, "x") == []


def test_schemas_of_pydantic_models_are_taken_as_they_are() -> None:
    class Node(pydantic.BaseModel):
        name: str
        below: "list[Node]" = []

    schema: Schema = Node.model_json_schema()
    assert problems(schema, {"name": "a", "below": [{"name": "b"}]}) == []
    assert problems(schema, {"name": "a", "below": [dict[str, Any]()]}) == [
        '/below/0/name: "name" is a required property'
    ]


def test_a_schema_is_compiled_once() -> None:
    first = compile_schema({"a": 1, "type": "string"})
    assert compile_schema({"type": "string", "a": 1}) is first


def test_the_cache_is_bounded() -> None:
    for number in range(300):
        compile_schema({"title": str(number)})
        compile_schema({"title": str(number)}, foreign=True)
    assert len(module._compiled) <= 256  # pyright: ignore[reportPrivateUsage]
    assert encode({"title": "299"}) in module._compiled  # pyright: ignore[reportPrivateUsage]


def test_the_first_line_of_an_error() -> None:
    assert first_line(ValueError("a\nb")) == "a"
    assert first_line(ValueError()) == "ValueError"
    assert first_line(ValueError("x" * 1_000)) == "x" * 300 + "…"
