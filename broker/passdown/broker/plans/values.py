"""Values of a plan that may be written in more than one way: looked at where they are written, and taken as they are."""

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from pydantic_core import PydanticCustomError

from passdown.broker.plans.faults import show
from passdown.contracts import plans as stored

_MEND_BRANCHES = 'write branches = { name = "stage", … }'
_PAIR = 2


def schema(value: Any) -> Any:
    """Take what a schema may be made of: a table, a boolean, a path, a class."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        raise _wrong(
            f"{show(value)} is no schema", "give a table, the path of a .json file, or a Python class"
        )
    return value


def next_moves(value: object) -> object:
    """Take a stage, or a table of stages; which table, `moves_of` tells."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and all(
        isinstance(key, str) for key in cast("Mapping[object, object]", value)
    ):
        return cast("Mapping[str, object]", value)
    if isinstance(value, list | tuple):
        raise _wrong(
            "a list says nothing about which to take", "write { suggest = [...] } to let the agent choose"
        )
    raise _wrong(
        f"expected a stage or a table of stages, got {show(cast(object, value))}",
        'write next = "stage" or { field = …, value = "stage" }',
    )


def branches(value: object) -> object:
    """Take a table of branches, or a list of pairs: a name, and the stage in which the branch begins."""
    table = list(cast("Mapping[object, object]", value).items()) if isinstance(value, Mapping) else value
    pairs = _listed(table)
    if pairs is None:
        raise _wrong(f"expected a table of branches, got {show(cast(object, value))}", _MEND_BRANCHES)
    for pair in pairs:
        both = _listed(pair) or []
        if len(both) != _PAIR or not all(isinstance(one, str) for one in both):
            shown = " and ".join(show(one) for one in both) if len(both) == _PAIR else show(pair)
            problem = f"a branch is a name and the stage in which it begins, not {shown}"
            raise _wrong(problem, _MEND_BRANCHES)
    return cast(object, value)


def need(value: object) -> object:
    """Take a number of branches, or a word for it."""
    if (isinstance(value, int) and not isinstance(value, bool)) or value in get_args(stored.Need):
        return value
    raise _wrong(f"{show(value)} is no number of branches", "name a number, or 'all', 'any' or 'veto'")


def _listed(value: object) -> Sequence[object] | None:
    if isinstance(value, list | tuple):
        return cast("Sequence[object]", value)
    return None


def _wrong(problem: str, mend: str) -> PydanticCustomError:
    return PydanticCustomError("passdown", "{problem}", {"problem": problem, "mend": mend})
