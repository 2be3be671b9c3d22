"""JSON Schema (2020-12): compiled once, checked by jsonschema-rs. The only caller of that library.

References are never fetched, patterns run in linear time, and what a schema may cost is counted before
it is compiled, so that a hostile schema or document can neither reach out nor stall the broker.
"""

from collections import OrderedDict
from typing import Any, cast

import jsonschema_rs

from passdown.contracts.codec import check, encode
from passdown.contracts.complexity import FOREIGN, TRUSTED, check_bounds
from passdown.contracts.errors import ContractError
from passdown.contracts.pointers import PROBLEM_LIMIT, clip, pointer

Schema = dict[str, Any] | bool

_CACHE_SIZE = 256
#: jsonschema-rs collects all errors before it gives the first: 8 µs and 1.2 kB each. Where the bytes of the
#: schema times those of the value are more than this, only the first problem is looked for.
_ALL_PROBLEMS = 512 * 1024
_compiled: "OrderedDict[bytes, jsonschema_rs.Draft202012Validator]" = OrderedDict()
_Kinds = jsonschema_rs.ValidationErrorKind


def compile_schema(
    schema: Schema, *, what: str = "schema", foreign: bool = False
) -> jsonschema_rs.Draft202012Validator:
    """Return a validator; raises ContractError where `schema` is no valid JSON Schema 2020-12 or too complex.

    `foreign` schemas, which an agent made up while it ran, may cost less than those of plans and tools.
    """
    if not isinstance(cast("object", schema), dict | bool):  # the library would parse a text
        raise ContractError(what, f"a schema is an object or a boolean, not {type(schema).__name__}")
    try:
        key = encode(schema)
    except ContractError:
        check(schema, what=what)  # says where
        raise
    found = None if foreign else _compiled.get(key)
    if found is not None:
        return found
    check(schema, what=what)
    bounds = FOREIGN if foreign else TRUSTED
    check_bounds(schema, bounds, what=what)
    patterns = jsonschema_rs.RegexOptions(size_limit=bounds.pattern_bytes)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schema, offline=True, pattern_options=patterns, validate_formats=True
        )
    except jsonschema_rs.ValidationError as error:
        raise ContractError(
            what, f"not a JSON Schema 2020-12: {first_line(error)}", pointer=pointer(error.instance_path)
        ) from error
    except (jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        raise ContractError(what, f"not a JSON Schema 2020-12: {first_line(error)}") from error
    if not foreign:
        _compiled[key] = validator
        while len(_compiled) > _CACHE_SIZE:
            _compiled.popitem(last=False)
    return validator


def problems(schema: Schema, value: object, *, limit: int = 5) -> list[str]:
    """Return what is wrong with `value`, each as ``/pointer: problem``; empty where it fits."""
    return [f"{place or '/'}: {problem}" for place, problem in _problems(schema, value, limit)]


def require(schema: Schema, value: object, *, what: str) -> None:
    """Raise ContractError naming each place where `value` does not fit `schema`."""
    found = _problems(schema, value, 5)
    if found:
        place, problem = found[0]
        more = "; ".join(f"{other or '/'}: {text}" for other, text in found[1:])
        raise ContractError(what, f"{problem} (and {more})" if more else problem, pointer=place)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return clip((str(error).splitlines() or [type(error).__name__])[0], PROBLEM_LIMIT)


def _problems(schema: Schema, value: object, limit: int) -> list[tuple[str, str]]:
    validator = compile_schema(schema)
    try:
        if validator.is_valid(value):
            return []
        if len(encode(schema)) * len(encode(value)) <= _ALL_PROBLEMS:
            return [
                _told(error) for error, _ in zip(validator.iter_errors(value), range(limit), strict=False)
            ]
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [_told(error)]
    except (ContractError, ValueError, TypeError) as error:
        return [("", f"not JSON data: {first_line(error)}")]
    return []


def _told(error: jsonschema_rs.ValidationError) -> tuple[str, str]:
    """Return the place and the problem; the place of a field that is missing or too much is the field's own."""
    place: list[str | int] = list(error.instance_path)
    kind = error.kind
    if isinstance(kind, _Kinds.Required):
        place.append(kind.property)
    elif isinstance(kind, _Kinds.AdditionalProperties | _Kinds.UnevaluatedProperties):
        place.extend(kind.unexpected[:1])
    return pointer(place), clip(error.message, PROBLEM_LIMIT)
