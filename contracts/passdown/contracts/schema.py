"""JSON Schema (2020-12): compiled once, checked by jsonschema-rs. The only caller of that library.

References are never fetched and patterns run in linear time, so that a hostile schema or document
can neither reach out nor stall the broker.
"""

from collections import OrderedDict
from typing import Any

import jsonschema_rs

from passdown.contracts.codec import encode
from passdown.contracts.errors import ContractError

Schema = dict[str, Any] | bool

_CACHE_SIZE = 512
_compiled: "OrderedDict[bytes, jsonschema_rs.Draft202012Validator]" = OrderedDict()


def compile_schema(schema: Schema, *, what: str = "schema") -> jsonschema_rs.Draft202012Validator:
    """Return a validator; raises ContractError where `schema` is no valid JSON Schema 2020-12."""
    key = encode(schema)
    found = _compiled.get(key)
    if found is not None:
        return found
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schema, offline=True, pattern_options=jsonschema_rs.RegexOptions(), validate_formats=True
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        raise ContractError(what, f"not a JSON Schema 2020-12: {first_line(error)}") from error
    _compiled[key] = validator
    while len(_compiled) > _CACHE_SIZE:
        _compiled.popitem(last=False)
    return validator


def problems(schema: Schema, value: object, *, limit: int = 5) -> list[str]:
    """Return what is wrong with `value`, each as ``/pointer: problem``; empty where it fits."""
    validator = compile_schema(schema)
    if validator.is_valid(value):
        return []
    found: list[str] = []
    for error in validator.iter_errors(value):
        pointer = "".join(f"/{part}" for part in error.instance_path)
        found.append(f"{pointer or '/'}: {error.message[:300]}")
        if len(found) == limit:
            break
    return found


def require(schema: Schema, value: object, *, what: str) -> None:
    """Raise ContractError naming each place where `value` does not fit `schema`."""
    found = problems(schema, value)
    if found:
        pointer, _, problem = found[0].partition(": ")
        rest = f" (and {'; '.join(found[1:])})" if found[1:] else ""
        raise ContractError(what, f"{problem}{rest}", pointer=pointer)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return (str(error).splitlines() or [type(error).__name__])[0]
