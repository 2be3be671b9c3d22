"""What a fan-out's branches are: named in the plan, or one for each item of a list in the session's data or beside it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from passdown.broker.core.given import as_object
from passdown.broker.core.state import State
from passdown.contracts.codec import PACK_BUDGET, digest_of, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.pack import ListRef
from passdown.contracts.plans import FanOut

#: What one item may have (bytes): the rest of its branch's pack needs room, too.
ITEM_BUDGET = PACK_BUDGET // 2
#: The longest name of a branch.
NAME_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches of a fan-out: how many, and the digest that fixes them; ``stored`` is the list beside the session."""

    count: int
    digest: str
    stored: ListRef | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch: its name, the stage in which it begins, and what it is given."""

    name: str
    stage: str
    inputs: dict[str, Any]


def branches_of(contract: FanOut, data: dict[str, Any], lists: dict[str, ListRef]) -> Branches:
    """Return the branches of a fan-out; raises ContractError, with what is wrong, where they cannot be opened."""
    if contract.branches:
        return Branches(len(contract.branches), digest_of(contract.branches))
    where = f"/{contract.each.replace('.', '/')}"
    items = look_up(data, contract.each)
    stored = lists.get(contract.each)
    if stored is not None and items is None:
        _require_few(contract, stored.items, where)
        return Branches(stored.items, stored.digest, stored)
    if not isinstance(items, list):
        found = "nothing" if items is None else type(items).__name__
        raise ContractError(
            "fan-out", f"expected a list of which each item is a branch, got {found}", pointer=where
        )
    listed = cast("list[Any]", items)
    _require_few(contract, len(listed), where)
    check_items(contract.key, listed, where)
    return Branches(len(listed), digest_of(listed))


def _require_few(contract: FanOut, count: int, where: str) -> None:
    if count > contract.most:
        raise ContractError(
            "fan-out", f"the list has {count} items, and the plan allows {contract.most}", pointer=where
        )


def look_up(data: dict[str, Any], path: str) -> Any:
    """Return what stands at a dotted path; None where nothing does."""
    found: Any = data
    for part in path.split("."):
        found = as_object(found).get(part)
    return found


def check_items(key: str, items: list[Any], where: str, first: int = 0) -> None:
    """Raise ContractError for an item over its budget, and for names that are none or are there twice.

    `first` is the place of the first of `items`, which is told in the error.
    """
    checks = ItemChecks([key], where)
    for place, item in enumerate(items, start=first):
        checks.check(place, item, len(encode(item)))


class ItemChecks:
    """Checks the items of a list, one after the other; `keys` are the fields that name branches, if they are not empty."""

    def __init__(self, keys: Iterable[str], where: str) -> None:
        self._where = where
        self._names: dict[str, dict[str, int]] = {key: {} for key in keys if key}

    def check(self, place: int, item: Any, size: int) -> None:
        """Raise ContractError for an item over its budget, and for a name that is none or was there before."""
        if size > ITEM_BUDGET:
            problem = (
                f"it has {size} bytes, and an item may have {ITEM_BUDGET}: give a reference to what is large"
            )
            raise ContractError("fan-out", problem, pointer=f"{self._where}/{place}")
        for key, names in self._names.items():
            name = as_object(item).get(key)
            where = f"{self._where}/{place}/{key}"
            if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT or not name.isprintable():
                found = encode(name).decode()[:80]
                problem = f"expected a name of 1 to {NAME_LIMIT} printable characters, got {found}"
                raise ContractError("fan-out", problem, pointer=where)
            if name in names:
                problem = f"two branches have the name {name!r}: it is that of item {names[name]}, too"
                raise ContractError("fan-out", problem, pointer=where)
            names[name] = place


def names_of(contract: FanOut) -> list[str]:
    """Return the names of branches in the order of their places: sorted, as a plan that was stored has them."""
    return sorted(contract.branches)


def stage_at(contract: FanOut, place: int) -> str:
    """Return the stage in which the branch at a place begins."""
    return contract.branches[names_of(contract)[place]] if contract.branches else contract.stage


def opener(contract: FanOut, state: State) -> Callable[[int, Any], Branch]:
    """Return what makes the branch at a place, given its item (None for a named branch).

    Of the session's data the list is taken out, and nothing else; an item overlays what has its name there.
    """
    data = _without(state.data, contract.each.split(".")) if contract.each else state.data
    shared = {name: value for name, value in data.items() if contract.give is None or name in contract.give}
    names = names_of(contract)

    def branch(place: int, item: Any) -> Branch:
        if names:
            return Branch(names[place], contract.branches[names[place]], shared)
        name = as_object(item).get(contract.key) if contract.key else None
        return Branch(
            name if isinstance(name, str) else str(place), contract.stage, {**shared, contract.item: item}
        )

    return branch


def feedback_for(state: State) -> str:
    """Return what the branches of a step are told that is done anew, because a person sent it back."""
    return "\n".join(one.text for one in state.feedback if one.kind == "sent-back" and not one.attempt)


def _without(data: dict[str, Any], path: list[str]) -> dict[str, Any]:
    """Return the data without what stands at a path; what that stands in is copied."""
    name, *rest = path
    if not rest:
        return {key: value for key, value in data.items() if key != name}
    inner = as_object(data.get(name))
    return {**data, name: _without(inner, rest)} if inner else data
