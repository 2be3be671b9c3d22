"""The one encoding: canonical UTF-8 JSON, its digest, its limits.

Canonical means: struct fields in the order of their declaration, object keys sorted, no white space,
numbers and strings as msgspec writes them. Decoding and encoding again gives the same bytes.

What may travel (I-JSON, RFC 7493; refused whole otherwise, with a JSON pointer to the place, RFC 6901):

* numbers are finite; integers lie within ±(2**53 - 1), which every JSON reader keeps exact; larger ones
  go as strings. ``-0.0`` is a number like any other, and 1.0 is not written as 1;
* strings are Unicode without lone surrogates; NUL and control characters are allowed, and survive;
* no object has a key twice;
* objects and arrays nest at most ``MAX_DEPTH`` deep; what Passdown itself wraps around them (an event in
  its log entry, a return in its event) may be ``ENVELOPE_DEPTH`` deeper.

What others send is read with :func:`receive`, which enforces all of it; what was checked when it came in
is read back with :func:`decode`. What agents and producers hand over as Python objects goes through
:func:`check` or :func:`plain`.
"""

import math
import re
from array import array
from hashlib import sha256
from itertools import accumulate
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from passdown.contracts import pointers
from passdown.contracts.errors import BudgetExceeded, ContractError

KIB = 1024
PACK_BUDGET = 64 * KIB
RETURN_BUDGET = 64 * KIB
STATE_BUDGET = 256 * KIB
#: Results of tools up to this size stand in the state; larger ones stay in their event (bytes).
INLINE_LIMIT = 4 * KIB
MAX_DEPTH = 64
ENVELOPE_DEPTH = 16
MAX_INTEGER = 2**53 - 1
#: The most values (containers, keys aside) that `check` looks at: 10 MB of JSON at the least.
MAX_VALUES = 5_000_000

_TOO_DEEP = f"nested deeper than {MAX_DEPTH}"

T = TypeVar("T")

_encoder = msgspec.json.Encoder(order="deterministic")
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
#: A string, also one that does not end; possessive, so that the time is linear in the data.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_AS_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SPEC = re.compile(r"(?P<family>[a-z.]+)/(?P<version>[1-9][0-9]{0,8})")


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of all that travels or is stored: frozen, camelCase, unknown fields refused."""


class Record(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The base of what Passdown alone stores: defaults are left out of the bytes."""


def encode(value: object) -> bytes:
    """Return the canonical bytes of a struct or of plain JSON data.

    Raises ContractError where it is not JSON data, but NaN and infinities become ``null`` here without a
    word: data of others goes through :func:`check` first.
    """
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ContractError("data", f"not JSON data: {_said(error)}") from error


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hex digits."""
    return sha256(data).hexdigest()


def digest_of(value: object) -> str:
    """Return the digest of the canonical bytes of `value`."""
    return digest(encode(value))


def decode(data: bytes, kind: type[T], *, what: str = "message", budget: int | None = None) -> T:
    """Return `data` as the struct `kind`; raises as `decode_any` does."""
    return cast("T", decode_any(data, kind, what=what, budget=budget))


def decode_any(data: bytes, kind: Any, *, what: str = "message", budget: int | None = None) -> Any:
    """Return `data` as `kind`, which may be a union of structs.

    Raises ContractError where it is too deep, not UTF-8 JSON, of another shape, or of a newer ``spec``
    than `kind` knows; BudgetExceeded where it has more than `budget` bytes.
    """
    if budget is not None and len(data) > budget:
        raise BudgetExceeded(what, len(data), budget, pointers.largest(data))
    _check_depth(data, what)
    try:
        return _decoder(kind).decode(data)
    except msgspec.ValidationError as error:
        _check_known_spec(data, kind, what)
        problem, pointer = pointers.explain(error, lambda: msgspec.json.decode(data), kind)
        raise ContractError(what, problem, pointer=pointer) from error
    except RecursionError as error:
        raise ContractError(what, _TOO_DEEP) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ContractError(what, f"not UTF-8 JSON: {_said(error)}") from error


def receive(data: bytes, kind: Any, *, what: str, spec: str, budget: int, depth: int = MAX_DEPTH) -> Any:
    """Return what somebody else sent as `kind`; everything that the module's head says is enforced.

    `depth` is how deep the whole message may nest. Raises ContractError or BudgetExceeded.
    """
    if len(data) > budget:
        raise BudgetExceeded(what, len(data), budget, pointers.largest(data))
    check_spec(data, spec, what=what)
    found = decode_any(data, kind, what=what)
    # Canonical bytes cannot have a key twice; what our own writers send is canonical.
    twice = None if encode(found) == data else pointers.duplicate(data)
    if twice is not None:
        raise ContractError(what, "an object has this key twice", pointer=twice)
    _check(msgspec.to_builtins(found), what, depth)
    return found


def convert(value: object, kind: type[T], *, what: str = "message") -> T:
    """Return plain JSON data as `kind`; raises ContractError where it may not travel or the shape differs."""
    check(value, what=what)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, pointer = pointers.explain(error, lambda: value, kind)
        raise ContractError(what, problem, pointer=pointer) from error


def check(value: object, *, what: str) -> None:
    """Raise ContractError unless `value` is JSON data that may travel (see the module's rules)."""
    _check(value, what, MAX_DEPTH)


def _check(value: object, what: str, depth: int) -> None:
    if _travels(value, depth, what):
        return
    steps: list[str | int] = []
    problem = _find_problem(value, depth, steps)
    raise ContractError(what, problem, pointer=pointers.pointer(reversed(steps)))


def plain(value: object, *, what: str) -> Any:
    """Return `value` (a Struct, a dataclass, a pydantic model or JSON data) as checked plain JSON data."""
    try:
        built = msgspec.to_builtins(value, str_keys=True, order="deterministic", enc_hook=_dump)
    except Exception as error:  # a model's own serializer may raise anything
        raise ContractError(what, f"not JSON data: {_said(error)}") from error
    check(built, what=what)
    return built


def check_budget(what: str, data: bytes, budget: int, fields: dict[str, object]) -> None:
    """Raise BudgetExceeded, naming the largest of `fields`, where `data` has more than `budget` bytes."""
    if len(data) > budget:
        sizes = {name: len(encode(value)) for name, value in fields.items()}
        raise BudgetExceeded(what, len(data), budget, pointers.largest_of(sizes))


def check_spec(data: bytes, spec: str, *, what: str) -> None:
    """Raise ContractError unless `data` is of `spec` (``passdown.pack/1``) or of an older version of it."""
    given = decode(data, _Head, what=what).spec
    if given == spec:
        return
    family, _, newest = spec.partition("/")
    parts = _SPEC.fullmatch(given or "")
    if parts is None or parts["family"] != family:
        shown = "none" if given is None else repr(pointers.clip(given, 60))
        raise ContractError(what, f"expected spec {spec!r}, got {shown}", pointer="/spec")
    if int(parts["version"]) > int(newest):
        raise ContractError(
            what,
            f"spec {given!r} is newer than {spec!r}, which is the newest that this version reads; upgrade",
            pointer="/spec",
        )


def clean_text(text: str, limit: int = 2000) -> str:
    """Return `text` fit for storing: lone surrogates made visible, and not longer than `limit` characters.

    A failure's own text must never be the reason that the failure cannot be recorded. Cleaning twice
    changes nothing.
    """
    safe = text[:limit].encode("utf-8", "backslashreplace").decode("utf-8")
    length = len(safe) + max(0, len(text) - limit)
    if length <= limit:
        return safe
    room = max(0, limit - len(f"… ({length} more characters)"))
    return f"{safe[:room]}… ({length - room} more characters)"[:limit]


class _Head(msgspec.Struct):
    spec: str | None = None


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def _said(error: BaseException) -> str:
    return clean_text(str(error), pointers.PROBLEM_LIMIT)


def _dump(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        raise NotImplementedError(f"{type(value).__name__} is not JSON data")
    return dump(mode="json", by_alias=True)


def _check_known_spec(data: bytes, kind: Any, what: str) -> None:
    """Raise where `data` names another spec than the structs of `kind` have: that explains all other misfits."""
    first = (getattr(kind, "__args__", None) or (kind,))[0]
    if not (isinstance(first, type) and issubclass(first, msgspec.Struct)) or b'"spec"' not in data:
        return
    hint = get_type_hints(first).get("spec")
    if get_origin(hint) is Literal and decode(data, _Head, what=what).spec is not None:
        check_spec(data, get_args(hint)[-1], what=what)


def _check_depth(data: bytes, what: str) -> None:
    """Raise where brackets nest too deep, without parsing; what is not JSON at all is left to the decoder."""
    limit = MAX_DEPTH + ENVELOPE_DEPTH
    if data.count(b"[") + data.count(b"{") <= limit:
        return
    steps = array("b", _STRINGS.sub(b"", data).translate(_AS_STEPS, _NO_BRACKETS))
    if max(accumulate(steps), default=0) > limit:
        raise ContractError(what, _TOO_DEEP)


def _travels(value: object, deepest: int, what: str) -> bool:  # noqa: C901, PLR0912 - one loop without calls: this runs on every payload
    """Say whether `value` is JSON data that may travel. Depth first, so that a cycle ends at the depth limit."""
    left = MAX_VALUES
    stack: list[tuple[Any, int]] = [((value,), deepest + 1)]
    while stack:
        container, room = stack.pop()
        left -= len(container)
        if left < 0:
            raise ContractError(what, f"more than {MAX_VALUES} values")
        if room <= 0:
            return False
        if isinstance(container, dict):
            for key in cast("dict[object, object]", container):
                if type(key) is not str or not (key.isascii() or _is_unicode(key)):
                    return False
            container = cast("Any", container.values())
        for item in container:
            kind = cast("type[object]", type(item))
            if kind is str:
                if not (item.isascii() or _is_unicode(item)):
                    return False
            elif kind is dict or kind is list:
                stack.append((item, room - 1))
            elif kind is int:
                if not -MAX_INTEGER <= item <= MAX_INTEGER:
                    return False
            elif kind is float:
                if not math.isfinite(item):
                    return False
            elif item is not None and kind is not bool:
                if not isinstance(item, dict | list | tuple):
                    return False
                stack.append((cast("Any", item), room - 1))
    return True


def _find_problem(item: object, room: int, steps: list[str | int]) -> str:
    """Return the first problem in `item`, and leave the steps to it, innermost first; empty where there is none."""
    problem = _problem(item, room)
    if problem:
        return problem
    entries: Any = ()
    if isinstance(item, dict):
        entries = cast("dict[object, object]", item).items()
    elif isinstance(item, list | tuple):
        entries = enumerate(cast("list[object]", item))
    for step, below in entries:
        if type(step) is not str and isinstance(item, dict):
            return f"object keys are strings, not {type(step).__name__}"
        if type(step) is str and not _is_unicode(step):
            return "a key has a lone surrogate"
        problem = _find_problem(below, room - 1, steps)
        if problem:
            steps.append(step)
            return problem
    return ""


def _problem(item: object, room: int) -> str:
    kind = type(item)
    if isinstance(item, dict | list | tuple):
        return _TOO_DEEP if room <= 0 else ""
    if item is None or kind is bool:
        return ""
    if kind is str:
        return "" if _is_unicode(cast("str", item)) else "a string has a lone surrogate"
    if kind is int:
        fits = -MAX_INTEGER <= cast("int", item) <= MAX_INTEGER
        return "" if fits else "an integer beyond ±(2**53 - 1); send it as a string"
    if kind is float:
        return "" if math.isfinite(cast("float", item)) else "NaN and infinities are not JSON"
    return f"{kind.__name__} is not JSON data"


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
