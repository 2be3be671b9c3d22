"""The specification of a tool: what is registered, pinned and granted. The code stays with the worker."""

from typing import Any, Final, Literal

from msgspec import field

from passdown.contracts.codec import Record, digest_of
from passdown.contracts.schema import Schema

TOOL_SPEC: Final = "passdown.tool/1"


class ToolSpec(Record, frozen=True, kw_only=True):
    """`passdown.tool/1`: a tool as `@tool` declares it (DESIGN §7).

    ``identity`` names the parameters that make two calls the same effect (all of them where empty).
    ``dedupes`` says that the outside system absorbs a repeated idempotency key; ``repeatable`` that an
    identity done in an earlier step may run again; ``verifies`` that a worker can ask the outside
    whether the effect happened. ``fresh_for_seconds`` is how long a result of a reading call may be
    relied on (null: for the whole step).
    """

    #: Made by a function, for msgspec leaves out defaults: the bytes always say what they are.
    spec: Literal["passdown.tool/1"] = field(default_factory=lambda: TOOL_SPEC)
    name: str
    description: str = ""
    params: Schema
    effect: bool = False
    scope: str = ""
    owner: str = ""
    identity: list[str] = []
    dedupes: bool = False
    repeatable: bool = False
    verifies: bool = False
    fresh_for_seconds: float | None = None


def tool_digest(spec: ToolSpec) -> str:
    """Return the digest that pins a tool's specification (not its code)."""
    return digest_of(spec)


def identity_of(spec: ToolSpec, args: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that make a call the same effect as another one."""
    if not spec.identity:
        return args
    return {name: args.get(name) for name in spec.identity}


def narrow(params: Schema, narrowed: dict[str, Any]) -> Schema:
    """Return `params` with the schemas of some parameters narrowed; both the old and the new must hold."""
    if not narrowed or params is False:
        return params
    whole: dict[str, Any] = params if isinstance(params, dict) else {}
    known: dict[str, Any] = whole.get("properties", {})
    properties = {
        **known,
        **{name: {"allOf": [known.get(name, True), extra]} for name, extra in narrowed.items()},
    }
    return {**whole, "properties": properties}


def action_digest(effect_id: str, tool: str, args: dict[str, Any]) -> str:
    """Return the digest of one exact action, which an approval binds to (DESIGN §6)."""
    return digest_of([effect_id, tool, args])
