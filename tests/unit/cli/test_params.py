import io
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from passdown.broker.cli.params import Duration, inputs_of, schema_file, value_of
from passdown.contracts.errors import ContractError
from passdown.contracts.schema import Schema

TEXT: Schema = {"type": "string"}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("4711", True, 4711),
        ("4711", TEXT, "4711"),
        ('"4711"', TEXT, "4711"),
        ("4711", {"type": ["string", "integer"]}, 4711),
        ("4711", {"type": "boolean"}, 4711),
        ("true", True, True),
        ("null", True, None),
        ('{"a": [1]}', True, {"a": [1]}),
        ("[1", True, "[1"),
        ("a=b", True, "a=b"),
        ("", True, ""),
        ("NaN", True, "NaN"),
        ("1e999", True, "1e999"),
        ("007", True, "007"),
        ("9007199254740993", TEXT, "9007199254740993"),
        ("ü\n", True, "ü\n"),
        ("5", False, 5),
    ],
)
def test_a_value_is_json_where_it_is_json_unless_text_is_wanted(
    text: str, schema: Schema, value: Any
) -> None:
    found = value_of(text, schema)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["9007199254740993", '{"a": 1, "a": 2}', "[" * 5000 + "]" * 5000, '{"a": 12345678901234567890}']
)
def test_json_that_may_not_travel_is_refused(text: str) -> None:
    with pytest.raises(ContractError):
        value_of(text)


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}\n')))
    assert value_of("-") == {"a": 1}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    with pytest.raises(ContractError, match="not UTF-8"):
        value_of("-")


def test_inputs_lie_over_each_other(tmp_path: Path) -> None:
    file = tmp_path / "inputs.json"
    file.write_text('{"a": 1, "b": 2}')
    number: Schema = {"type": "integer"}
    schema: Schema = {"properties": {"b": number, "c": TEXT, "d": {"$ref": "#/$defs/x"}, "h": number}}
    given = inputs_of(("b=3", "c=4", "d=5", "e:=6", "f=a=b", "g=", "h=x"), str(file), schema)
    # What fits neither way stays text: the broker's own error then names the field.
    assert given == {"a": 1, "b": 3, "c": "4", "d": "5", "e": 6, "f": "a=b", "g": "", "h": "x"}


@pytest.mark.parametrize("schema", [True, False, None, {"properties": 5}, {"properties": {"a": 5}}])
def test_a_schema_that_says_nothing_of_a_name_changes_nothing(schema: Any) -> None:
    assert inputs_of(("a=1",), None, schema) == {"a": "1"}


@pytest.mark.parametrize("pair", ["a", "=1", ":=1", ""])
def test_an_input_without_a_name_or_value_is_refused(pair: str) -> None:
    with pytest.raises(click.BadParameter, match="expected NAME=VALUE or NAME:=JSON"):
        inputs_of((pair,), None, None)


def test_strict_json_must_be_json() -> None:
    with pytest.raises(ContractError, match="input a does not fit its contract: not UTF-8 JSON"):
        inputs_of(("a:=x",), None, None)


@pytest.mark.parametrize("text", ["[]", "5", "null", '"x"'])
def test_inputs_are_an_object(tmp_path: Path, text: str) -> None:
    file = tmp_path / "inputs.json"
    file.write_text(text)
    with pytest.raises(ContractError, match="expected a JSON object"):
        inputs_of((), str(file), None)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match="gone: No such file"):
        inputs_of((), str(tmp_path / "gone"), None)
    with pytest.raises(click.BadParameter, match="Is a directory"):
        schema_file(str(tmp_path))


def test_a_schema_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"type": "object"}')
    assert schema_file(str(file)) == {"type": "object"}
    assert schema_file(None) is None
    file.write_text('{"type": "nothing"}')
    with pytest.raises(ContractError, match="returns"):
        schema_file(str(file))
    file.write_text("5")
    with pytest.raises(ContractError):
        schema_file(str(file))


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10.0), ("0s", 0.0), ("1h30m", 5400.0), ("250ms", 0.25)]
)
def test_a_duration_has_its_unit(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["10", "-1s", "", "s", "none", "1e9s", "99999999999d", "4000d"])
def test_what_is_no_duration_or_longer_than_ten_years_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)
