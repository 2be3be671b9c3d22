"""JSON Schema 2020-12 of each message, self-contained, with examples, and what refers to them; the same at every run."""

import inspect
import json
import re
from functools import cache
from typing import Any, cast

import msgspec

from passdown.broker.schemas import asyncapi
from passdown.broker.schemas.messages import Message, messages
from passdown.contracts.codec import MAX_DEPTH, encode

DIALECT = "https://json-schema.org/draft/2020-12/schema"
URN = "urn:passdown:"
_COMMENT = (
    "Generated from the code by `passdown schema write`. Beyond what is said here: UTF-8 JSON (RFC 7493),"
    f" no key twice in an object, integers within ±(2**53 - 1), nested at most {MAX_DEPTH} deep."
)


@cache
def documents() -> dict[str, str]:
    """Return the text of each document by its path below the folder."""
    schemas = {f"{message.name}.json": _text(message) for message in messages()}
    return {asyncapi.FILE: asyncapi.text(), **schemas}


def _text(message: Message) -> str:
    return json.dumps(_document(message), indent=2, ensure_ascii=False) + "\n"


def _document(message: Message) -> dict[str, Any]:
    (root,), defs = msgspec.json.schema_components([message.kind], ref_template="#/$defs/{name}")
    defs = {name: _tidy(schema) for name, schema in sorted(defs.items())}
    body = _tidy(root)
    if "$ref" in body:
        body = defs.pop(body["$ref"].removeprefix("#/$defs/"))
    title = message.title or body.pop("title")
    description = message.description or body.pop("description")
    head = {
        "$schema": DIALECT,
        "$id": f"{URN}{message.name.replace('/', ':')}:{message.version}",
        "$comment": _COMMENT,
        "title": title,
        "description": _prose(description),
    }
    tail: dict[str, Any] = {"$defs": defs} if defs else {}
    examples = [msgspec.json.decode(encode(example)) for example in message.examples]
    body = {name: value for name, value in body.items() if name not in ("title", "description")}
    return {**head, **body, **tail, "examples": examples}


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Return msgspec's schema of a type without what only OpenAPI knows, and with its text as prose."""
    tidy = {name: value for name, value in schema.items() if name != "discriminator"}
    if "description" in tidy:
        tidy["description"] = _prose(tidy["description"])
    if isinstance(tidy.get("properties"), dict):
        properties = cast("dict[str, Any]", tidy["properties"])
        tidy["properties"] = properties = {name: _one_value(value) for name, value in properties.items()}
        if "const" in properties.get(
            "spec", {}
        ):  # what has one always says it, also where a reader knows better
            tidy["required"] = ["spec", *tidy["required"]]
    if tidy.get("required") == []:
        del tidy["required"]
    return tidy


def _one_value(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a property, with ``const`` for an ``enum`` of one."""
    allowed = schema.get("enum")
    if not isinstance(allowed, list) or len(cast("list[Any]", allowed)) != 1:
        return schema
    return {"const": allowed[0]}


def _prose(text: str) -> str:
    """Return a docstring as one paragraph of plain text."""
    return re.sub(r"\s+", " ", inspect.cleandoc(text)).replace("``", "`")
