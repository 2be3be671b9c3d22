"""What agent authors hand over (Structs, dataclasses, pydantic models, plain data) as JSON data or JSON Schema."""

import inspect
from collections.abc import Callable
from typing import Any, cast

import msgspec
from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from passdown.contracts.codec import check, clean_text, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.schema import Schema, compile_schema

_REF = "#/$defs/{name}"


def as_json(value: object, *, what: str) -> Any:
    """Return `value` as JSON data that may travel; raises ContractError, with a JSON pointer, where it is not."""
    try:
        built = msgspec.to_builtins(value, str_keys=True, order="deterministic", enc_hook=_dump)
    except Exception as error:  # a model's own serializer may raise anything
        raise ContractError(what, f"not JSON data: {clean_text(str(error), 300)}") from error
    check(built, what=what)
    return built


def schema_of(kind: Any, *, what: str) -> Schema:
    """Return the JSON Schema of a type (or `kind` itself where it is one already).

    Raises ContractError where the type cannot be described or the schema does not compile.
    """
    if isinstance(kind, dict | bool):
        found = cast(Schema, kind)
    else:
        found, defs = described(kind, what=what)
        if defs:
            found = {**found, "$defs": defs}
    compile_schema(found, what=what)
    return found


def described(kind: Any, *, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a type, and the definitions that it refers to as ``#/$defs/Name``."""
    if kind is Any or kind is object:
        return {}, {}
    try:
        (found,), defs = msgspec.json.schema_components([kind], ref_template=_REF)
    except (TypeError, RuntimeError):
        if inspect.isroutine(kind):
            raise ContractError(what, f"{kind!r} is a function, not a type") from None
        return _described_by_pydantic(kind, what)
    return found, defs


def reader_of(kind: Any) -> Callable[[Any], Any]:
    """Return a function that turns JSON data into `kind`; it raises ContractError where the data does not fit."""
    if kind is Any or kind is object:
        return _same
    try:
        msgspec.json.schema_components([kind], ref_template=_REF)
    except (TypeError, RuntimeError):
        return _pydantic_reader(TypeAdapter[Any](kind))

    def read(value: Any) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise ContractError("arguments", str(error)) from error

    return read


def _same(value: Any) -> Any:
    return value


def _pydantic_reader(adapter: TypeAdapter[Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        try:
            return adapter.validate_json(encode(value))
        except ValueError as error:
            raise ContractError("arguments", str(error)) from error

    return read


def _described_by_pydantic(kind: Any, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        found = TypeAdapter[Any](kind).json_schema(ref_template="#/$defs/{model}")
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        raise ContractError(
            what,
            f"{kind!r} cannot be described as JSON Schema; use msgspec or pydantic types, or give the schema",
        ) from error
    return found, found.pop("$defs", {})


def _dump(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        raise NotImplementedError(f"{type(value).__name__} is not JSON data")
    return dump(mode="json", by_alias=True)
