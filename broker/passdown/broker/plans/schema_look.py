"""What a schema says about the value as a whole and about one of its fields, as far as it can be seen.

References within the schema, ``allOf``, ``anyOf`` and ``oneOf`` are looked through. A schema that goes
in circles or is too large for this is taken to allow anything: what is not seen is never a fault.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from passdown.contracts.schema import Schema

_STEPS = 5_000
_LEVELS = 50
#: The JSON type of values, by their class.
_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True)
class FieldLook:
    """One field of an object: named in ``properties``, always there, and its values where they are listed."""

    declared: bool
    required: bool
    values: list[Any] | None


def may_be_object(schema: Schema) -> bool:
    """Whether an object can fit `schema`."""
    try:
        return _Look(schema).may_be_object(schema)
    except _TooFarError:
        return True


def property_names(schema: Schema) -> list[str] | None:
    """Return the parameters that `schema` names; None where it allows others, too."""
    try:
        look = _Look(schema)
        parts = look.parts(schema)
    except _TooFarError:
        return None
    if not any(parts) or any(
        key in part for part in parts for key in ("anyOf", "oneOf", "patternProperties")
    ):
        return None
    return [name for part in parts for name in part.get("properties", {})]


def required_names(schema: Schema) -> set[str]:
    """Return the fields that an object must have, as far as that can be seen."""
    try:
        return {name for part in _Look(schema).parts(schema) for name in part.get("required", [])}
    except _TooFarError:
        return set()


def kinds_of(schema: Schema) -> set[str] | None:
    """Return the JSON types that `schema` allows; None where it does not say."""
    try:
        parts = _Look(schema).parts(schema)
    except _TooFarError:
        return None
    found: set[str] | None = None
    for part in parts:
        if "type" in part:
            kinds = _kinds(part["type"])
            found = kinds if found is None else found & kinds
    return found


def property_of(schema: Schema, name: str) -> Schema:
    """Return the schema of a property, with what it refers to; True where none is seen."""
    if not isinstance(schema, dict):
        return True
    try:
        own = [
            part["properties"][name]
            for part in _Look(schema).parts(schema)
            if name in part.get("properties", {})
        ]
    except _TooFarError:
        return True
    return (
        {"allOf": own, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}
        if own
        else True
    )


def field_of(schema: Schema, field: str) -> FieldLook | None:
    """Return what `schema` says about a field of the object; None where that cannot be seen."""
    try:
        return _Look(schema).field(schema, field)
    except _TooFarError:
        return None


class _TooFarError(Exception):
    pass


class _Look:
    """One look at one schema, of a bounded number of steps."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _STEPS
        self._level = 0

    def parts(self, schema: Any) -> list[dict[str, Any]]:
        """Return all that must hold together: the schema, what it refers to, and the members of ``allOf``."""
        found: list[dict[str, Any]] = []
        todo: list[Any] = [schema]
        while todo:
            self._step()
            one = todo.pop()
            if one is False:
                found.append({"enum": []})
            if not isinstance(one, dict) or any(one is known for known in found):
                continue
            part = cast("dict[str, Any]", one)
            found.append(part)
            todo.extend(part.get("allOf", []))
            if "$ref" in part:
                todo.append(self._resolve(part["$ref"]))
        return found

    def may_be_object(self, schema: Any) -> bool:
        parts = self.parts(schema)
        if not all(_allows_object(part) for part in parts):
            return False
        with self._deeper():
            return all(any(self.may_be_object(one) for one in choice) for choice in _choices(parts))

    def values(self, schema: Any) -> list[Any] | None:
        """Return the only values that fit, where the schema lists them."""
        parts = self.parts(schema)
        listed = [found for part in parts if (found := _listed(part)) is not None]
        for choice in _choices(parts):
            with self._deeper():
                each = [self.values(one) for one in choice]
            if all(one is not None for one in each):
                listed.append([value for one in each for value in one or []])
        if not listed:
            return None
        return [value for value in listed[0] if all(_has(other, value) for other in listed[1:])]

    def field(self, schema: Any, name: str) -> FieldLook:
        parts = self.parts(schema)
        own = [part["properties"][name] for part in parts if name in part.get("properties", {})]
        required = any(name in part.get("required", []) for part in parts)
        declared = bool(own)
        listed = self.values({"allOf": own}) if own else None
        for choice in _choices(parts):
            with self._deeper():
                each = [self.field(one, name) for one in choice if self.may_be_object(one)]
            declared = declared or all(one.declared for one in each)
            required = required or all(one.required for one in each)
            if listed is None and all(one.values is not None for one in each):
                listed = [value for one in each for value in one.values or []]
        return FieldLook(declared, required, listed)

    def _resolve(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        found: Any = self._root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                return True
            found = cast("dict[str, Any]", found)[key]
        return found if reference == "#" or reference.startswith("#/") else True

    @contextmanager
    def _deeper(self) -> Generator[None]:
        self._level += 1
        if self._level > _LEVELS:
            raise _TooFarError
        yield
        self._level -= 1

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _TooFarError


def _choices(parts: list[dict[str, Any]]) -> list[list[Any]]:
    return [part[key] for part in parts for key in ("anyOf", "oneOf") if key in part]


def _allows_object(part: dict[str, Any]) -> bool:
    if "object" not in _kinds(part.get("type", "object")):
        return False
    if "const" in part:
        return isinstance(part["const"], dict)
    return "enum" not in part or any(isinstance(one, dict) for one in part["enum"])


def _kinds(written: Any) -> set[str]:
    kinds = {written} if isinstance(written, str) else set(written)
    return kinds | {"integer"} if "number" in kinds else kinds


def _listed(part: dict[str, Any]) -> list[Any] | None:
    kinds = _kinds(part["type"]) if "type" in part else set(_KINDS.values())
    if "const" in part or "enum" in part:
        listed: list[Any] = [part["const"]] if "const" in part else part["enum"]
        return [value for value in listed if _kind(value) in kinds]
    if kinds <= {"boolean", "null"}:
        return [value for value in (True, False, None) if _kind(value) in kinds]
    return None


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "")


def _has(values: list[Any], value: Any) -> bool:
    return any(one == value and isinstance(one, bool) == isinstance(value, bool) for one in values)
