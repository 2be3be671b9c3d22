"""Values by their JSON Schema, asked for field by field. What does not fit is asked for again, with what is wrong."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
from rich.text import Text

from passdown.broker.cli.params import read_json, value_of
from passdown.broker.cli.prompts import EDITOR, Prompts, Stopped
from passdown.broker.cli.words import brief, clean, cut
from passdown.contracts.codec import encode
from passdown.contracts.errors import ContractError
from passdown.contracts.schema import Schema, problems

#: Stands for a value that is not there.
NOTHING: Any = msgspec.UNSET
#: Deeper than this, and where a field has no one type, JSON is asked for.
_DEEPEST = 4
_SHOWN, _CHOICES = 60, 30
#: Typed in place of an answer: an empty text, and no value for a field that may be left out.
_EMPTY, _NONE = '""', "-"
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "format": "as {}",
    "pattern": "like {}",
}
_KINDS = {"integer": "a whole number", "number": "a number", "string": "text", "boolean": "true or false"}


class Form:
    """Asks for values at a terminal."""

    def __init__(self, prompts: Prompts, root: Schema = True) -> None:
        """`root` is the schema whose definitions the others refer to."""
        self._prompts = prompts
        self._root = root

    def fields(self, schema: Schema, into: dict[str, Any], depth: int = 0) -> None:
        """Ask for the fields of an object, each kept in `into` as soon as it is typed; what stands there is the default."""
        shape = self._shape(schema)
        required = cast("list[str]", shape.get("required", []))
        properties = cast("dict[str, Schema]", shape.get("properties", {}))
        # A schema is kept with its names sorted; those that are required stand as their author listed them.
        for name in dict.fromkeys([*required, *properties]):
            one = properties.get(name, True)
            self._field(name, one, into, required=name in required, depth=depth)

    def _field(self, name: str, schema: Schema, into: dict[str, Any], *, required: bool, depth: int) -> None:
        shape = self._shape(schema)
        for text in (shape.get("title"), shape.get("description")):
            if isinstance(text, str):
                self._prompts.say(Text(cut(clean(text), 300), style="dim"), 2)
        if shape.get("type") == "object" and shape.get("properties") and depth < _DEEPEST:
            self._nested(name, schema, into, required=required, depth=depth)
            return
        try:
            given = into.get(name, NOTHING)
            found = self.value(
                schema,
                name,
                given,
                required=required,
                depth=depth,
                keep=lambda begun: into.update({name: begun}),
            )
        except Stopped as stopped:
            if stopped.typed and shape.get("type") == "string":
                into[name] = stopped.typed
            raise
        if found is NOTHING:
            into.pop(name, None)
        else:
            into[name] = found

    def _nested(self, name: str, schema: Schema, into: dict[str, Any], *, required: bool, depth: int) -> None:
        before = into.get(name)
        known = isinstance(before, dict)
        if not required and not self._prompts.yes(f"give {clean(name)}?", given=known):
            into.pop(name, None)
            return
        self._prompts.say(Text(f"{clean(name)}:", style="bold"))
        inner: dict[str, Any] = dict(cast("dict[str, Any]", before)) if known else {}
        into[name] = inner
        while True:
            self.fields(schema, inner, depth + 1)
            if not self.wrong(schema, inner):
                return

    def value(
        self,
        schema: Schema,
        label: str,
        given: Any = NOTHING,
        *,
        required: bool = True,
        depth: int = 0,
        keep: Callable[[Any], None] = lambda _: None,
    ) -> Any:
        """Return a value that fits; NOTHING where none is `required` and none is given. Raises Stopped.

        What is long is given to `keep` when it is begun.
        """
        shape = self._shape(schema)
        choices = [shape["const"]] if "const" in shape else shape.get("enum")
        if isinstance(choices, list) and 0 < len(cast("list[Any]", choices)) <= _CHOICES and required:
            return self._chosen(cast("list[Any]", choices), label, given)
        kind = shape.get("type")
        if kind == "boolean" and required:
            return self._prompts.yes(clean(label), given=given if isinstance(given, bool) else None)
        items = shape.get("items")
        if kind == "array" and isinstance(items, dict) and depth < _DEEPEST:
            kept = self._kept(label, given)
            return (
                kept
                if kept is not NOTHING
                else self._items(schema, label, keep, required=required, depth=depth)
            )
        return self._typed(schema, label, given, required=required)

    def _chosen(self, choices: list[Any], label: str, given: Any) -> Any:
        shown = [one if isinstance(one, str) else encode(one).decode() for one in choices]
        default = shown[choices.index(given)] if given is not NOTHING and given in choices else None
        self._prompts.say(Text(f"{clean(label)}:"))
        return choices[shown.index(self._prompts.choose([(one, "") for one in shown], "choose", default))]

    def _kept(self, label: str, given: Any) -> Any:
        """Return a list that was given before, if it is to be kept."""
        if not isinstance(given, list):
            return NOTHING
        self._prompts.say(f"{clean(label)} is {brief(given, 200)}")
        return cast("list[Any]", given) if self._prompts.yes("keep it?", given=True) else NOTHING

    def _items(
        self, schema: Schema, label: str, keep: Callable[[Any], None], *, required: bool, depth: int
    ) -> Any:
        shape = self._shape(schema)
        while True:
            self._prompts.say(f"{clean(label)}: {_what(shape, 'a list')}; an empty line ends it")
            found: list[Any] = []
            keep(found)
            self._listed(cast("Schema", shape["items"]), label, found, depth)
            if not found and not required:
                return NOTHING
            if not self.wrong(schema, found):
                return found

    def _listed(self, items: Schema, label: str, into: list[Any], depth: int) -> None:
        shape = self._shape(items)
        nested = shape.get("type") == "object" and bool(shape.get("properties"))
        while True:
            name = f"{label} {len(into) + 1}"
            if nested:
                if not self._prompts.yes(f"give {clean(name)}?", given=False):
                    return
                inner: dict[str, Any] = {}
                self._nested(name, items, inner, required=True, depth=depth + 1)
                into.append(inner[name])
                continue
            one = self.value(items, name, required=False, depth=depth + 1)
            if one is NOTHING:
                return
            into.append(one)

    def _typed(self, schema: Schema, label: str, given: Any, *, required: bool) -> Any:
        """Ask for a value on one line; an empty one is what was given, or nothing where that may be."""
        shape = self._shape(schema)
        optional = (
            "" if required else ("; - leaves it out" if given is not NOTHING else "; Enter leaves it out")
        )
        default = "" if given is NOTHING else f" [{brief(given, _SHOWN)}]"
        prompt = f"{clean(label)} ({_what(shape, _KINDS.get(str(shape.get('type')), 'JSON, or text'))}{optional}){default}: "
        while True:
            typed = self._prompts.line(prompt)
            if not typed and (given is not NOTHING or not required):
                return given
            if typed == _NONE and not required:
                return NOTHING
            if not typed:
                self._prompts.say(f"it needs a value; {_EMPTY} is an empty text, {EDITOR} opens an editor")
                continue
            found = self._read(typed, schema, given)
            if found is not NOTHING and not self.wrong(schema, found):
                return found

    def _read(self, typed: str, schema: Schema, given: Any) -> Any:
        """Return what was typed, or what was left in an editor; NOTHING for what is neither, which is said."""
        try:
            if typed == EDITOR:
                text = given if isinstance(given, str) else "" if given is NOTHING else pretty(given)
                typed = self._prompts.edited(text, ".txt" if isinstance(given, str) else ".json")
            if typed == _EMPTY:
                return ""
            if self._shape(schema).get("type") == "string":
                return typed
            return value_of(typed, self._bound(schema)) if typed != "-" else typed
        except ContractError as error:
            self._prompts.say(Text(clean(str(error)), style="red"))
            return NOTHING

    def json(self, schema: Schema, given: Any) -> Any:
        """Return JSON that fits, from a line or from an editor."""
        return self._typed(schema, "value", given, required=True)

    def wrong(self, schema: Schema, value: Any) -> bool:
        """Say what is wrong with a value; returns whether anything is."""
        found = problems(self._bound(schema), value)
        for one in found:
            self._prompts.say(Text(clean(one.removeprefix("/: ")), style="red"))
        return bool(found)

    def _bound(self, schema: Schema) -> Schema:
        """Return a part of the root with the definitions that it may refer to."""
        if not isinstance(schema, dict) or not isinstance(self._root, dict):
            return schema
        return {**{key: self._root[key] for key in ("$defs", "definitions") if key in self._root}, **schema}

    def _shape(self, schema: Schema) -> dict[str, Any]:
        """Return what is known of a schema at a glance: references followed, what all must hold laid together."""
        shape: dict[str, Any] = {}
        todo: list[Any] = [schema]
        for _ in range(20):
            if not todo:
                break
            one = todo.pop(0)
            if not isinstance(one, dict):
                continue
            found = cast("dict[str, Any]", one)
            shape |= {key: value for key, value in found.items() if key not in ("$ref", "allOf")}
            todo += [self._referred(found["$ref"])] if isinstance(found.get("$ref"), str) else []
            todo += cast("list[Any]", found["allOf"]) if isinstance(found.get("allOf"), list) else []
        return shape

    def _referred(self, ref: str) -> Any:
        found: Any = self._root
        if not ref.startswith("#/"):
            return True
        for part in ref[2:].split("/"):
            found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
        return found


def pretty(value: Any) -> str:
    """Return JSON data over several lines."""
    return msgspec.json.format(encode(value), indent=2).decode()


def from_editor(prompts: Prompts, value: Any) -> Any:
    """Return a value as it was left in an editor, as JSON. Raises ContractError."""
    return read_json(prompts.edited(pretty(value), ".json"), "value")


def _what(shape: dict[str, Any], kind: str) -> str:
    bounds = [text.format(cut(clean(str(shape[key])), 60)) for key, text in _BOUNDS.items() if key in shape]
    choices = shape.get("enum")
    if isinstance(choices, list):
        bounds.append(f"one of {brief(choices, 200)}")
    return ", ".join([kind, *bounds])
