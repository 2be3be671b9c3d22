"""Plain data → authored plan, with every fault of its shape, and as much of the plan as can be made out.

What does not have the right shape is cut out and the rest is read, so that one look shows these faults
and those of the plan's sense together. The places that were cut are *unsure*: nothing is said about
what follows from them.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from passdown.broker.plans.authored import FanOut, Plan, as_table, mend_unknown
from passdown.broker.plans.faults import Fault, place, show
from passdown.broker.plans.wording import Path, faults_of, path_of

_ROUNDS = 12
#: Levels of tables down to a schema (stages, stage, tools, grant, params), which is taken as it is.
_DEEPEST = 6
#: The most stages that are looked at.
MOST_STAGES = 500
#: What stands in for a missing field, so that the rest can be read.
_STAND_INS: dict[str | int, Any] = {
    "name": "unnamed",
    "start": "unknown",
    "role": "unknown",
    "queue": "unknown",
    "fan_out": {},
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be made out; ``plan`` is None where that is nothing."""

    plan: Plan | None
    faults: list[Fault]
    unsure: frozenset[str]


def read_plan(authored: Plan | Mapping[str, Any]) -> Reading:
    """Return the plan that `authored` says, with the faults of its shape."""
    data = _plain(authored, 0)
    if not isinstance(data, dict):
        return Reading(None, [Fault("", f"a plan is a table, not {show(data)}")], frozenset())
    stages: object = cast("dict[str, object]", data).get("stages")
    if isinstance(stages, dict) and len(cast("dict[str, Any]", stages)) > MOST_STAGES:
        count = len(cast("dict[str, Any]", stages))
        return Reading(None, [Fault("stages", f"{count} stages; a plan may have {MOST_STAGES}")], frozenset())
    faults: list[Fault] | None = None
    unsure: set[str] = set()
    for _ in range(_ROUNDS):
        try:
            plan = Plan.model_validate(data)
        except ValidationError as error:
            if faults is None:
                faults = faults_of(error, mend_unknown)
            for details in reversed(error.errors(include_url=False)):
                path = path_of(details)
                unsure.add(place(*_cut(cast("dict[str, Any]", data), path, details["type"])))
        else:
            return Reading(plan, faults or [], frozenset(unsure))
    return Reading(None, faults or [], frozenset(unsure))


def _plain(value: Any, depth: int) -> Any:
    """Return models as tables of what they were given, and containers as copies, but for what is in schemas."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        given = {
            fields[name].alias or name: getattr(value, name)
            for name in fields
            if name in value.model_fields_set
        }
        return _plain(as_table(given) if isinstance(value, FanOut) else given, depth)
    if isinstance(value, Mapping):
        return {key: _plain(below, depth + 1) for key, below in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(below, depth + 1) for below in cast("list[Any]", value)]
    return value


def _cut(data: dict[str, Any], path: Path, kind: str) -> Path:
    """Cut out of `data` what an error of this `kind` is about; return the path of what was cut."""
    if path and path[-1] in _STAND_INS and kind != "extra_forbidden" and _is_stage_or_plan(path[:-1]):
        _put(data, path, copy(_STAND_INS[path[-1]]))
        return path
    if kind == "missing":
        path = path[:-1]
    while path and isinstance(path[-1], int):  # a list goes whole, so that the numbers of the rest stay right
        path = path[:-1]
    _put(data, path, {"role": "unknown"} if _is_stage_or_plan(path) else None)
    return path


def _put(data: dict[str, Any], path: Path, value: Any) -> None:
    """Put `value` at `path`, or remove what is there where it is None; nothing where an earlier cut took it along."""
    parent = _follow(data, path[:-1])
    if not path or not isinstance(parent, dict):
        return
    if value is None:
        cast("dict[Any, Any]", parent).pop(path[-1], None)
    else:
        parent[path[-1]] = value


def _is_stage_or_plan(path: Path) -> bool:
    return not path or (len(path) == 2 and path[0] == "stages")


def _follow(data: Any, path: Path) -> Any:
    for part in path:
        if isinstance(data, dict):
            data = cast("dict[Any, Any]", data).get(part)
        elif isinstance(data, list) and isinstance(part, int):
            listed = cast("list[Any]", data)
            data = listed[part] if part < len(listed) else None
        else:
            return None
    return data
