"""Where a message is wrong, as a JSON pointer (RFC 6901), and what to say about it.

Nothing here runs before a message was refused; what it says is bounded, however large or hostile the
message is.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

#: A pointer and a problem are cut here (characters): they go into logs, replies and events.
POINTER_LIMIT = 200
PROBLEM_LIMIT = 300
#: Beyond this many bytes nobody looks for the largest fields of a message that is over its budget.
_LARGEST_LOOKED_FOR = 64 * 1024 * 1024
_LARGEST_NAMED = 3
_NAME_LIMIT = 60

#: msgspec ends a message with `` - at `$.stages[...].tools[0].tool` ``; ``[...]`` is some key of an object.
_PLACE = re.compile(r" - at (?:`key` in )?`\$([^`]*)`\Z")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(.*)`\Z", re.DOTALL)
_SOME_KEY = "..."

Steps = list[str]


def pointer(steps: Iterable[str | int]) -> str:
    """Return the steps from the root as a JSON pointer; the empty one is the whole message."""
    return clip(
        "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps), POINTER_LIMIT
    )


def clip(text: str, limit: int) -> str:
    """Return `text`, or its beginning and an ellipsis where it is longer than `limit`."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def explain(error: msgspec.ValidationError, load: Callable[[], Any], kind: Any) -> tuple[str, str]:
    """Return what is wrong and where. `load` returns the whole message as plain data, if that is needed.

    msgspec names the object around a field that is missing or unknown; the pointer names the field.
    """
    message = str(error)
    place = _PLACE.search(message)
    problem = message[: place.start()] if place else message
    steps = [name or index for name, index in _STEP.findall(place[1])] if place else []
    if _SOME_KEY in steps:
        try:
            steps = _with_keys(load(), steps, kind)
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError):  # wrong in more than one way
            steps = ["*" if step == _SOME_KEY else step for step in steps]
    field = _FIELD.match(problem)
    if field:
        steps.append(field[1])
    return clip(problem, PROBLEM_LIMIT), pointer(steps)


def duplicate(data: bytes) -> str | None:
    """Return a pointer to a key that an object in `data` (valid JSON) has twice, or None.

    Such objects are read differently by different programs (RFC 7493 §2.3).
    """
    try:
        json.loads(data, object_pairs_hook=_refuse_duplicates)
    except _DuplicateError:
        return _find_duplicate(json.loads(data, object_pairs_hook=_Pairs), [])
    return None


def largest(data: bytes) -> dict[str, int]:
    """Return the largest fields of a JSON object with their sizes in bytes; empty where that cannot be told."""
    if len(data) > _LARGEST_LOOKED_FOR:
        return {}
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return largest_of({name: len(bytes(raw)) for name, raw in fields.items()})


def largest_of(sizes: dict[str, int]) -> dict[str, int]:
    """Return the largest entries of `sizes`, the largest first."""
    ordered = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))
    return {clip(name, _NAME_LIMIT): size for name, size in ordered[:_LARGEST_NAMED]}


class _DuplicateError(Exception):
    pass


class _Pairs(list[tuple[str, Any]]):
    pass


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        raise _DuplicateError


def _find_duplicate(item: object, steps: list[str | int]) -> str | None:
    """Return the pointer to the first duplicate below `item`, which is nested no deeper than messages are."""
    entries: Iterable[tuple[str | int, object]] = ()
    if isinstance(item, _Pairs):
        entries = item
        seen: set[str] = set()
        for key, _ in item:
            if key in seen:
                return pointer([*steps, key])
            seen.add(key)
    elif isinstance(item, list):
        entries = enumerate(cast("list[object]", item))
    for step, below in entries:
        found = _find_duplicate(below, [*steps, step])
        if found is not None:
            return found
    return None


def _with_keys(document: Any, steps: Steps, kind: Any) -> Steps:
    """Return `steps` with the keys that msgspec does not name, each found by halving its object."""
    named: Steps = []
    for step in steps:
        key = step
        if step == _SOME_KEY:
            entries: dict[str, Any] = _below(document, named)
            keys = list(entries)
            while len(keys) > 1:
                half = keys[: len(keys) // 2]
                fails = _fails(_replaced(document, named, {name: entries[name] for name in half}), kind)
                keys = half if fails else keys[len(keys) // 2 :]
            key = keys[0]
            document = _replaced(document, named, {key: entries[key]})
        named.append(key)
    return named


def _below(document: Any, steps: Steps) -> Any:
    node = document
    for step in steps:
        node = cast("Any", node[int(step)] if isinstance(node, list) else node[step])
    return node


def _replaced(document: Any, steps: Steps, value: Any) -> Any:
    """Return a copy of `document` with `value` at `steps`."""
    if not steps:
        return value
    step, *rest = steps
    if isinstance(document, list):
        listed = cast("list[Any]", document)
        at = int(step)
        return [*listed[:at], _replaced(listed[at], rest, value), *listed[at + 1 :]]
    return {**document, step: _replaced(document[step], rest, value)}


def _fails(document: Any, kind: Any) -> bool:
    try:
        msgspec.convert(document, kind)
    except msgspec.ValidationError:
        return True
    return False
