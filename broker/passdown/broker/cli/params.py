"""Arguments and options that are more than text: JSON values, inputs, durations, tickets, sessions."""

import re
import sys
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from passdown.broker.cli.words import cut
from passdown.broker.client import Broker
from passdown.broker.joins.lists import LIST_BUDGET
from passdown.broker.plans.durations import LONGEST, seconds, spell
from passdown.contracts import pointers
from passdown.contracts.codec import check, decode_any
from passdown.contracts.errors import ContractError, NotFound
from passdown.contracts.schema import Schema, compile_schema

#: Inputs and values come from people: more than this is a mistake (bytes).
_MOST = 16 * 1024 * 1024
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


class Duration(click.ParamType[float]):
    """A duration with its unit; the value is in seconds."""

    name = "duration"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:  # noqa: ARG002
        """Return what help shows."""
        return "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds, or fail with what was expected."""
        try:
            found = seconds(str(value))
        except (ValueError, OverflowError) as error:
            self.fail(f"{value!r} is no duration; {error}", param, ctx)
        if found > LONGEST:
            self.fail(f"{value!r} is too long, at most {spell(LONGEST)}", param, ctx)
        return found


def read_json(text: str | bytes, what: str) -> Any:
    """Return JSON; raises ContractError where it is none, or may not travel."""
    raw = text.encode() if isinstance(text, str) else text
    found = decode_any(raw, Any, what=what)
    twice = pointers.duplicate(raw)
    if twice is not None:
        raise ContractError(what, "an object has this key twice", pointer=twice)
    check(found, what=what)
    return found


def value_of(text: str, schema: Schema = True, *, what: str = "value") -> Any:
    """Return what a person typed: JSON where it is JSON, else text; ``-`` reads standard input.

    Where `schema` takes the one reading and not the other, that one is meant: ``4711`` is text to a
    schema that wants a string. Raises ContractError for JSON that may not travel.
    """
    if text == "-":
        text = _unicode(_stdin(what), what).strip()
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    except RecursionError:
        return read_json(text, what)
    fits = compile_schema(schema).is_valid
    return text if fits(text) and not fits(found) else read_json(text, what)


def text_of(text: str, *, what: str) -> str:
    """Return a text; ``-`` reads standard input."""
    return _unicode(_stdin(what), what).strip() if text == "-" else text


def input_of(text: str, schema: Schema = True, *, what: str = "input") -> Any:
    """Return one input as a person typed it: text, unless `schema` refuses text and takes it as JSON.

    So that ``orderId=4711`` is what ``{"orderId": "4711"}`` is to the SDK, with or without a schema. ``-``
    reads standard input. Raises ContractError for JSON that may not travel.
    """
    if text == "-":
        text = _unicode(_stdin(what), what).strip()
    fits = compile_schema(schema).is_valid
    if fits(text):
        check(text, what=what)
        return text
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return read_json(text, what) if fits(found) else text


def inputs_of(
    pairs: tuple[str, ...], source: str | None, schema: Schema | None, *, what: str = "inputs"
) -> dict[str, Any]:
    """Return the inputs of ``--inputs FILE`` with each ``--input`` laid over them.

    ``name=value`` is read as `input_of` does, by what `schema` says of that name; ``name:=json`` must be JSON.
    """
    given: Any = read_json(_source(source, what), what) if source else {}
    if not isinstance(given, dict):
        raise ContractError(what, "expected a JSON object")
    inputs = cast("dict[str, Any]", given)
    for pair in pairs:
        name, found, text = pair.partition("=")
        strict = name.endswith(":")
        name = name.removesuffix(":") if strict else name
        if not found or not name:
            raise click.BadParameter(
                f"expected NAME=VALUE or NAME:=JSON, got {cut(pair, 60)!r}", param_hint="--input"
            )
        inputs[name] = (
            read_json(text, f"input {name}")
            if strict
            else input_of(text, _field(schema, name), what=f"input {name}")
        )
    return inputs


def lists_of(pairs: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return the lists of ``--list NAME=FILE``: a JSON array, or a JSON value on each line; ``-`` is standard input.

    Raises ContractError, which names the line, for what is neither.
    """
    lists: dict[str, list[Any]] = {}
    for pair in pairs:
        name, found, source = pair.partition("=")
        if not found or not name or not source:
            problem = f"expected NAME=FILE, got {cut(pair, 60)!r}"
            raise click.BadParameter(problem, param_hint="--list")
        if name in lists:
            raise click.BadParameter(f"list {cut(name, 60)!r} is given twice", param_hint="--list")
        what = f"list {cut(name, 60)}"
        lists[name] = _items(_source(source, "list", LIST_BUDGET), what)
    return lists


def _items(raw: bytes, what: str) -> list[Any]:
    """Return the items of an array; of what is none, of its lines."""
    text = raw.removeprefix(BOM_UTF8).strip()
    lines = text.split(b"\n")
    if text.startswith(b"[") and (len(lines) == 1 or not _is_json(lines[0])):
        return cast("list[Any]", read_json(text, what))
    return [
        read_json(line, f"{what}, line {number}")
        for number, line in enumerate(raw.removeprefix(BOM_UTF8).split(b"\n"), 1)
        if line.strip()
    ]


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _field(schema: Schema | None, name: str) -> Schema:
    """Return what a schema says of one property, where that can be seen at once."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    found = cast("dict[str, Any]", fields).get(name, True) if isinstance(fields, dict) else True
    alone = isinstance(found, bool) or (isinstance(found, dict) and "$ref" not in found)
    return cast("Schema", found) if alone else True


def _source(source: str, what: str, most: int = _MOST) -> bytes:
    if source == "-":
        return _stdin(what, most)
    try:
        with Path(source).open("rb") as file:
            return _bounded(file.read(most + 1), what, most)
    except OSError as error:
        raise click.BadParameter(f"{source}: {error.strerror}", param_hint=f"--{what}") from error


def _stdin(what: str, most: int = _MOST) -> bytes:
    return _bounded(sys.stdin.buffer.read(most + 1), what, most)


def _unicode(raw: bytes, what: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ContractError(what, f"not UTF-8: {error}") from error


def _bounded(raw: bytes, what: str, most: int = _MOST) -> bytes:
    if len(raw) > most:
        raise ContractError(what, f"more than {most} bytes")
    return raw


def schema_file(path: str | None) -> Schema | None:
    """Return the JSON Schema in a file; raises ContractError where it is none."""
    if path is None:
        return None
    schema = read_json(_source(path, "returns"), "returns")
    compile_schema(schema, what="returns")
    return schema


def ticket_of(broker: Broker, name: str) -> tuple[str, int]:
    """Return the id of the session, and the number, that ``SESSION/NO`` names (the session by its id or key)."""
    session, _, number = name.rpartition("/")
    if not session or not _NUMBER.fullmatch(number):
        raise click.BadParameter(f"expected SESSION/NUMBER, got {cut(name, 80)!r}", param_hint="TICKET")
    try:
        return broker.session_id(session), int(number)
    except NotFound as error:
        raise NotFound("ticket", name, f"there is no session {session!r}") from error
