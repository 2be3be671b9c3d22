"""`@tool`: a function that agents may call through their context, and what is published about it (DESIGN §7).

A reading tool only looks. A tool with ``effect=True`` writes outside; it gets the effect's idempotency
key as the keyword argument ``key`` and should hand it on to the outside system, which then absorbs a
repeated call (``dedupes=True``). Its ``verify`` is asked when nobody knows how a write ended.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from passdown.agents.durations import seconds_of
from passdown.agents.params import Params, read_params
from passdown.contracts.codec import clean_text
from passdown.contracts.errors import ContractError
from passdown.contracts.schema import Schema
from passdown.contracts.tools import ToolSpec, tool_digest

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,119}")


@dataclass(frozen=True, slots=True)
class Found:
    """The effect happened; ``result`` is what the tool would have returned (JSON data)."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The effect did not happen, as far as the outside system can tell now."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """Nobody can tell; a person will be asked."""

    note: str = ""


#: What `verify` answers. Anything else, `None` and truth values too, counts as unsure.
Verified = Found | Absent | Unsure


class Tool(Generic[P, R]):
    """A tool: its function, which is called as before, and its specification."""

    def __init__(
        self, fn: Callable[P, R], spec: ToolSpec, params: Params, verify: Callable[..., Any] | None
    ) -> None:
        self.fn = fn
        self.spec = spec
        self.params = params
        self.verify = verify
        self.digest = tool_digest(spec)
        self.is_async = inspect.iscoroutinefunction(fn)
        self.verify_is_async = verify is not None and inspect.iscoroutinefunction(verify)
        self._verify_takes = _accepted(verify) if verify else None
        self.__doc__ = fn.__doc__
        self.__name__ = getattr(fn, "__name__", spec.name)
        self.__module__ = fn.__module__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: no grant, no record. For tests of the tool alone."""
        return self.fn(*args, **kwargs)

    @property
    def name(self) -> str:
        """The registered name."""
        return self.spec.name

    def fill(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with the defaults of those left out: both ways to say it are one effect."""
        return {**self.params.defaults, **args}

    def keywords(self, args: dict[str, Any], key: str | None) -> dict[str, Any]:
        """Return what the function is called with; `key` for effects. Raises ContractError on a misfit."""
        bound = self.params.bind(args)
        return bound if key is None else {**bound, "key": key}

    def verify_keywords(self, args: dict[str, Any], key: str) -> dict[str, Any]:
        """Return what `verify` is called with: of the tool's arguments those that it names."""
        bound = self.keywords(args, key)
        takes = self._verify_takes
        return bound if takes is None else {name: value for name, value in bound.items() if name in takes}

    def __repr__(self) -> str:
        return f"<tool {self.name} at {self.__module__}.{self.__name__}>"


AnyTool = Tool[..., Any]


def tool(  # noqa: PLR0913  (each is a word of a tool's declaration, and named)
    name: str,
    *,
    scope: str = "",
    owner: str = "",
    effect: bool = False,
    identity: list[str] | None = None,
    verify: Callable[..., Any] | None = None,
    dedupes: bool = False,
    repeatable: bool = False,
    fresh_for: str | float | None = None,
    params: Schema | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a plain or ``async`` function.

    `params` is the JSON Schema of the arguments, by default read from the annotations (plain types,
    ``Literal``, ``Optional``, msgspec Structs, dataclasses, pydantic models). `identity` names the
    parameters that make two calls the same effect, all by default. `verify` takes the tool's arguments
    (as many as it names) and ``key``, and answers `Found`, `Absent` or `Unsure`. `fresh_for` (``"5m"``,
    or seconds; default: the whole step) is how long a result of a reading tool may be relied on.

    Raises ContractError where the declaration contradicts itself or the function.
    """
    what = f"tool {name!r}"
    if not _NAME.fullmatch(name):
        raise ContractError(what, "a tool's name is letters, digits and _ . / -, like refunds.create")
    writes = {"identity": identity, "verify": verify, "dedupes": dedupes, "repeatable": repeatable}
    _require_kind(what, effect, writes, fresh_for)

    def make(fn: Callable[P, R]) -> Tool[P, R]:
        if effect:
            _require_key(fn, what)
        read = read_params(fn, hidden={"key"} if effect else set(), given=params, what=what)
        _require_identity(identity or [], read.schema, what)
        if verify is not None:
            _require_verify(verify, read.schema, what)
        spec = ToolSpec(
            name=name,
            description=clean_text(inspect.getdoc(fn) or ""),
            params=read.schema,
            effect=effect,
            scope=scope,
            owner=owner,
            identity=identity or [],
            dedupes=dedupes,
            repeatable=repeatable,
            verifies=verify is not None,
            fresh_for_seconds=None
            if fresh_for is None
            else seconds_of(fresh_for, what=f"fresh_for of {what}", zero=True),
        )
        return Tool(fn, spec, read, verify)

    return make


def _require_kind(what: str, effect: bool, writes: dict[str, Any], fresh_for: object) -> None:
    given = [option for option, value in writes.items() if value]
    if given and not effect:
        raise ContractError(what, f"{given[0]}= is for tools with effect=True")
    if effect and fresh_for is not None:
        raise ContractError(what, "fresh_for= is for reading tools")


def _require_key(fn: Callable[..., Any], what: str) -> None:
    key = inspect.signature(fn).parameters.get("key")
    if key is None or key.kind is not inspect.Parameter.KEYWORD_ONLY:
        raise ContractError(
            what, "an effect tool takes its idempotency key as the keyword-only argument `key: str`"
        )


def _require_identity(identity: list[str], schema: Schema, what: str) -> None:
    known: dict[str, Any] = schema.get("properties", {}) if isinstance(schema, dict) else {}
    strange = [name for name in identity if name not in known]
    if strange:
        raise ContractError(
            what, f"identity= names {strange[0]!r}, which is no parameter ({', '.join(known)})"
        )


def _require_verify(verify: Callable[..., Any], schema: Schema, what: str) -> None:
    known: dict[str, Any] = schema.get("properties", {}) if isinstance(schema, dict) else {}
    for name, one in inspect.signature(verify).parameters.items():
        needed = one.default is inspect.Parameter.empty and one.kind is not inspect.Parameter.VAR_KEYWORD
        if one.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise ContractError(what, f"verify= takes {name!r} by position; arguments are passed by name")
        if needed and name != "key" and name not in known:
            raise ContractError(what, f"verify= needs {name!r}, which is no parameter of the tool")


def _accepted(fn: Callable[..., Any]) -> set[str] | None:
    """Return the names that `fn` takes; None where it takes any."""
    found = inspect.signature(fn).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in found.values()):
        return None
    return set(found)
