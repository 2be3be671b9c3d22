"""A tool function's parameters: their JSON Schema, their defaults, and the way from JSON data to arguments."""

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from passdown.agents.jsonable import as_json, described, reader_of
from passdown.contracts.errors import ContractError
from passdown.contracts.schema import Schema, compile_schema

#: What `ctx.call` and the effect key use themselves.
_TAKEN = {"after": "`ctx.call` has an argument of this name", "self": "write tools as plain functions"}
_KINDS = inspect.Parameter


@dataclass(frozen=True, slots=True)
class Params:
    """``schema`` describes the arguments, ``defaults`` are those that have one as JSON, ``readers`` build them."""

    schema: Schema
    defaults: dict[str, Any]
    readers: dict[str, Callable[[Any], Any]]

    def bind(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return checked JSON arguments as what the function's annotations ask for."""
        return {
            name: self.readers[name](value) if name in self.readers else value for name, value in args.items()
        }


def read_params(fn: Callable[..., Any], *, hidden: set[str], given: Schema | None, what: str) -> Params:
    """Return the parameters of `fn` without those in `hidden`; raises ContractError where they cannot be told."""
    shown = {name: one for name, one in inspect.signature(fn).parameters.items() if name not in hidden}
    for name, one in shown.items():
        _require_named(name, one, what, open_ended=given is not None)
    if given is not None:
        return _given_params(given, shown, what)
    hints = _hints(fn, what)
    properties: dict[str, Any] = {}
    defs: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, one in shown.items():
        place = f"parameter {name!r} of {what}"
        schema, more = described(hints.get(name, Any), what=place)
        _merge(defs, more, place)
        if one.default is not _KINDS.empty:
            defaults[name] = as_json(one.default, what=f"the default of {place}")
            schema = {**schema, "default": defaults[name]}
        properties[name] = schema
    schema = _object(properties, [name for name in shown if name not in defaults], defs)
    compile_schema(schema, what=what)
    return Params(schema, defaults, {name: reader_of(hints.get(name, Any)) for name in shown})


def _object(properties: dict[str, Any], required: list[str], defs: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        found["required"] = required
    if defs:
        found["$defs"] = defs
    return found


def _require_named(name: str, one: inspect.Parameter, what: str, *, open_ended: bool) -> None:
    why = _TAKEN.get(name, "")
    if one.kind in (_KINDS.POSITIONAL_ONLY, _KINDS.VAR_POSITIONAL):
        why = "arguments are passed by name"
    elif one.kind is _KINDS.VAR_KEYWORD and not open_ended:
        why = "say with params= which arguments it takes"
    if why:
        raise ContractError(what, f"parameter {name!r} cannot be used: {why}")


def _given_params(given: Schema, shown: dict[str, inspect.Parameter], what: str) -> Params:
    compile_schema(given, what=what)
    properties: dict[str, Any] = given.get("properties", {}) if isinstance(given, dict) else {}
    takes_any = any(one.kind is _KINDS.VAR_KEYWORD for one in shown.values())
    for name in properties:
        if name in _TAKEN:
            raise ContractError(what, f"parameter {name!r} cannot be used: {_TAKEN[name]}")
        if name not in shown and not takes_any:
            raise ContractError(what, f"params= names {name!r}, which the function does not take")
    for name, one in shown.items():
        needed = one.kind is not _KINDS.VAR_KEYWORD and one.default is _KINDS.empty
        if needed and name not in properties:
            raise ContractError(what, f"the function needs {name!r}, which params= does not name")
    defaults: dict[str, Any] = {
        name: sub["default"] for name, sub in properties.items() if isinstance(sub, dict) and "default" in sub
    }
    return Params(given, defaults, {})


def _hints(fn: Callable[..., Any], what: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except Exception as error:  # a name that is not there, or an annotation that raises when evaluated
        raise ContractError(what, f"its annotations cannot be read: {error}") from error


def _merge(defs: dict[str, Any], more: dict[str, Any], place: str) -> None:
    for name, schema in more.items():
        if defs.setdefault(name, schema) != schema:
            raise ContractError(place, f"two different types are called {name!r}; rename one")
