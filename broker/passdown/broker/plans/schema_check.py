"""What is wrong with a schema in a plan, each fault with its JSON pointer into the schema."""

from typing import Any, cast

from passdown.broker.plans.faults import Fault, one_line, show, warning
from passdown.contracts.codec import MAX_DEPTH
from passdown.contracts.errors import ContractError
from passdown.contracts.schema import compile_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: A schema may nest this deep, so that it still fits into a plan and into a pack.
SCHEMA_DEPTH = MAX_DEPTH - 16

_MOST = 20
_PREFIX = "not a JSON Schema 2020-12: "


def schema_faults(where: str, schema: Any) -> list[Fault]:
    """Return what is wrong with `schema`, which stands at the place `where`.

    Compiling names one fault at a time; what it names is cut out, and the rest is compiled again.
    """
    if not isinstance(schema, dict | bool):
        return [Fault(where, f"a schema is a table or a boolean, not {show(schema)}")]
    left: Any = cast("Any", schema)
    faults: list[Fault] = []
    while left is not None and len(faults) < _MOST:
        try:
            compile_schema(left)
            break
        except ContractError as error:
            faults.append(_fault(where, error))
            left = _without(left, _steps(error.pointer))
    return faults or _remarks(where, schema)


def _fault(where: str, error: ContractError) -> Fault:
    steps = _steps(error.pointer)
    mend = ""
    if steps[-1:] in (["$ref"], ["$dynamicRef"]):
        mend = "put what is meant under $defs and refer to it as #/$defs/…"
    elif steps[-1:] == ["pattern"] or "patternProperties" in steps[-2:]:
        mend = "patterns run in linear time: do without look-around and back-references"
    problem = error.problem.removeprefix(_PREFIX)
    return Fault(where, f"in the schema at {one_line(error.pointer, 120) or '/'}: {one_line(problem)}", mend)


def _remarks(where: str, schema: Any) -> list[Fault]:
    if _depth(schema) > SCHEMA_DEPTH:
        return [
            Fault(where, f"nested deeper than {SCHEMA_DEPTH}", "move inner parts to $defs and refer to them")
        ]
    table = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    dialect = str(table.get("$schema", DIALECT)).rstrip("#")
    if dialect != DIALECT:
        return [warning(where, f"written for {show(dialect)}, and read as JSON Schema 2020-12")]
    return []


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _without(schema: Any, steps: list[str]) -> Any:
    """Return a copy of `schema` without what stands at `steps`; None where there is nothing to cut."""
    if not steps:
        return None
    step, *rest = steps
    if isinstance(schema, dict):
        table = cast("dict[str, Any]", schema)
        below = _without(table.get(step), rest) if rest else True
        if step not in table or below is None:
            return None
        return {**table, step: below} if rest else {key: value for key, value in table.items() if key != step}
    if isinstance(schema, list):
        listed = cast("list[Any]", schema)
        at = int(step) if step.isdecimal() else len(listed)
        below = _without(listed[at], rest) if rest and at < len(listed) else True
        return None if at >= len(listed) or below is None else [*listed[:at], below, *listed[at + 1 :]]
    return None


def _depth(value: Any) -> int:
    deepest = 0
    todo: list[tuple[Any, int]] = [(value, 1)]
    while todo:
        one, depth = todo.pop()
        deepest = max(deepest, depth)
        if isinstance(one, dict):
            todo.extend((below, depth + 1) for below in cast("dict[str, Any]", one).values())
        elif isinstance(one, list | tuple):
            todo.extend((below, depth + 1) for below in cast("list[Any]", one))
    return deepest
