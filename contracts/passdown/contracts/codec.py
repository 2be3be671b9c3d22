"""The one encoding: canonical UTF-8 JSON, its digest, its limits.

Canonical means: struct fields in the order of their declaration, object keys sorted, no white space,
numbers and strings as msgspec writes them. Decoding and encoding again gives the same bytes.

What may travel (refused whole otherwise, with a JSON pointer to the place, RFC 6901):

* numbers are finite; integers lie within ±(2**53 - 1), which every JSON reader keeps exact (RFC 7493
  §2.2); larger ones go as strings;
* strings are Unicode without lone surrogates; NUL and control characters are allowed;
* objects nest at most ``MAX_DEPTH`` deep.
"""

import hashlib
import math
import re
from typing import Any, TypeVar, cast

import msgspec

from passdown.contracts.errors import BudgetExceeded, ContractError

KIB = 1024
PACK_BUDGET = 64 * KIB
RETURN_BUDGET = 64 * KIB
STATE_BUDGET = 256 * KIB
#: Results of tools up to this size stand in the state; larger ones stay in their event (bytes).
INLINE_LIMIT = 4 * KIB
MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1

T = TypeVar("T")

_encoder = msgspec.json.Encoder(order="deterministic")
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of all that travels or is stored: frozen, camelCase, unknown fields refused."""


class Record(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The base of what Passdown alone stores: defaults are left out of the bytes."""


def encode(value: object) -> bytes:
    """Return the canonical bytes of a struct or of plain JSON data.

    NaN and infinities become ``null`` here without a word: data of others goes through
    :func:`check` first.
    """
    return _encoder.encode(value)


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: object) -> str:
    """Return the digest of the canonical bytes of `value`."""
    return digest(encode(value))


def decode(data: bytes, kind: type[T], *, what: str = "message", budget: int | None = None) -> T:
    """Return `data` as the struct `kind`; raises as `decode_any` does."""
    return cast("T", decode_any(data, kind, what=what, budget=budget))


def decode_any(data: bytes, kind: Any, *, what: str = "message", budget: int | None = None) -> Any:
    """Return `data` as `kind`, which may be a union of structs.

    Raises ContractError where it is too deep, not UTF-8 JSON or of another shape; BudgetExceeded where
    it has more than `budget` bytes.
    """
    if budget is not None and len(data) > budget:
        raise BudgetExceeded(what, len(data), budget)
    _check_depth(data, what)
    try:
        return _decoder(kind).decode(data)
    except msgspec.ValidationError as error:
        problem, pointer = _split(str(error))
        raise ContractError(what, problem, pointer=pointer) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ContractError(what, f"not UTF-8 JSON: {error}") from error


def convert(value: object, kind: type[T], *, what: str = "message") -> T:
    """Return plain JSON data as `kind`; raises ContractError where the shape differs."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, pointer = _split(str(error))
        raise ContractError(what, problem, pointer=pointer) from error


def check(value: object, *, what: str) -> None:
    """Raise ContractError unless `value` is JSON data that may travel (see the module's rules)."""
    stack: list[tuple[object, str, int]] = [(value, "", 1)]
    while stack:
        item, pointer, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise ContractError(what, f"nested deeper than {MAX_DEPTH}", pointer=pointer[:200])
        problem = _problem(item)
        if problem:
            raise ContractError(what, problem, pointer=pointer)
        if isinstance(item, dict):
            for key, below in cast("dict[object, object]", item).items():
                if not isinstance(key, str):
                    raise ContractError(
                        what, f"object keys are strings, not {type(key).__name__}", pointer=pointer
                    )
                at = f"{pointer}/{_escape(key)}"
                if _lone_surrogate(key):
                    raise ContractError(what, "a key has a lone surrogate", pointer=pointer)
                stack.append((below, at, depth + 1))
        elif isinstance(item, list | tuple):
            listed = cast("list[object]", item)
            stack.extend((below, f"{pointer}/{n}", depth + 1) for n, below in enumerate(listed))


def plain(value: object, *, what: str) -> Any:
    """Return `value` (a Struct, a dataclass, a pydantic model or JSON data) as checked plain JSON data."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        value = dump(mode="json", by_alias=True)
    try:
        built = msgspec.to_builtins(value, str_keys=True, order="deterministic")
    except (TypeError, ValueError, RecursionError) as error:
        raise ContractError(what, f"not JSON data: {error}") from error
    check(built, what=what)
    return built


def check_budget(what: str, data: bytes, budget: int, fields: dict[str, object]) -> None:
    """Raise BudgetExceeded, naming the largest of `fields`, where `data` has more than `budget` bytes."""
    if len(data) <= budget:
        return
    sizes = sorted(((len(encode(value)), name) for name, value in fields.items()), reverse=True)
    raise BudgetExceeded(what, len(data), budget, {name: size for size, name in sizes[:3]})


def check_spec(data: bytes, spec: str, *, what: str) -> None:
    """Raise ContractError unless `data` is of `spec` (``passdown.pack/1``) or of an older version of it."""
    head = decode(data, _Head, what=what)
    family, _, newest = spec.partition("/")
    given_family, _, given = (head.spec or "").partition("/")
    if given_family != family or not given.isdecimal() or int(given) < 1:
        raise ContractError(what, f"expected spec {spec!r}, got {head.spec!r}", pointer="/spec")
    if int(given) > int(newest):
        raise ContractError(
            what,
            f"spec {head.spec!r} is newer than {spec!r}, which is all this version reads; upgrade",
            pointer="/spec",
        )


def clean_text(text: str, limit: int = 2000) -> str:
    """Return `text` fit for storing: lone surrogates made visible, cut to `limit` characters.

    A failure's own text must never be the reason that the failure cannot be recorded.
    """
    safe = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(safe) <= limit:
        return safe
    return f"{safe[:limit]}… ({len(safe) - limit} more characters)"


class _Head(msgspec.Struct):
    spec: str | None = None


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def _check_depth(data: bytes, what: str) -> None:
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _TOKENS.finditer(data):
        token = match[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                raise ContractError(what, f"nested deeper than {MAX_DEPTH}")
        elif token in (b"]", b"}"):
            depth -= 1


def _problem(item: object) -> str:
    if item is None or isinstance(item, bool | dict | list | tuple):
        return ""
    if isinstance(item, str):
        return "a string has a lone surrogate" if _lone_surrogate(item) else ""
    if isinstance(item, int):
        return (
            ""
            if -MAX_INTEGER <= item <= MAX_INTEGER
            else "an integer beyond ±(2**53 - 1); send it as a string"
        )
    if isinstance(item, float):
        return "" if math.isfinite(item) else "NaN and infinities are not JSON"
    return f"{type(item).__name__} is not JSON data"


def _lone_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _split(message: str) -> tuple[str, str]:
    """Split msgspec's ``problem - at `$.a[0]` `` into the problem and a JSON pointer."""
    problem, found, path = message.partition(" - at `$")
    if not found:
        return message, ""
    pointer = re.sub(r"\[(\d+)\]", r"/\1", path.rstrip("`").replace("[...]", "/*")).replace(".", "/")
    return problem, pointer
