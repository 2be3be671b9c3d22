"""What is wrong with a fan-out by itself: which branches it opens, and what its stage says of the merge."""

import re
from collections.abc import Iterator, Sequence

from passdown.broker.plans.at import At
from passdown.broker.plans.check_join import join_faults
from passdown.broker.plans.faults import Fault, closest, show, twice_faults, warning
from passdown.broker.plans.names import name_faults, slipped
from passdown.broker.plans.schema_check import schema_faults
from passdown.broker.plans.schema_look import kinds_of, property_names, property_of
from passdown.contracts.plans import BUILT_IN_MERGES, MERGER, MOST_BRANCHES, REDUCER, FanOut, Stage

_PATH = re.compile(r"[^\s.]+(?:\.[^\s.]+)*")
#: What a role's stage says and a fan-out's does not: it stays as it is by default.
_OF_A_ROLE = ("ask", "scopes", "risk", "waived", "delivery", "gateway", "on_denied", "permits", "recovery")
_DEFAULT = Stage()


def fan_out_faults(at: At) -> Iterator[Fault]:
    """Yield what is wrong with a fan-out; nothing for any other stage."""
    fan_out = at.stage.fan_out
    if fan_out is None:
        return
    yield from _merge_faults(at, fan_out)
    if at.is_sure("fan_out"):
        yield from _which_faults(at, fan_out)
    yield from _named_faults(at, fan_out)
    yield from _each_faults(at, fan_out)
    yield from _given_faults(at, fan_out)
    for field, value, least in (("most", fan_out.most, 1), ("at_once", fan_out.at_once, 0)):
        if not least <= value <= MOST_BRANCHES:
            yield Fault(
                at.place("fan_out", field),
                f"{show(value)} is out of range",
                f"from {least} to {MOST_BRANCHES}",
            )
    yield from join_faults(at, fan_out)


def opening_places(at: At, fan_out: FanOut) -> Iterator[tuple[str, str]]:
    """Yield where a fan-out says that branches begin, and the stage in which they do."""
    for name, start in fan_out.branches.items():
        yield at.place("fan_out", "branches", name), start
    if fan_out.stage:
        yield at.place("fan_out", "stage"), fan_out.stage


def _merge_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    stage = at.stage
    if stage.role:
        yield Fault(
            at.place("role"), "a stage is a role's or a fan-out", 'join = { merge = "the role" } merges'
        )
    if stage.queue is not None:
        yield Fault(at.place("queue"), "a stage is a person's or a fan-out", "leave out `queue` or `fan_out`")
    for field in _OF_A_ROLE:
        if getattr(stage, field) != getattr(_DEFAULT, field):
            yield Fault(at.place(field), "a fan-out has none", "leave it out")
    if not at.is_sure("join"):
        return
    by_role = not fan_out.merge_role().startswith((MERGER, REDUCER))
    if stage.tools and not by_role:
        yield Fault(
            at.place("tools"),
            f"no agent merges here that could call them: merge = {show(fan_out.merge)}",
            "leave them out, or let a role merge",
        )
    if stage.on_refused is not None and fan_out.merge in BUILT_IN_MERGES and fan_out.need != "veto":
        yield Fault(
            at.place("on_refused"),
            f"nothing here refuses: merge = {show(fan_out.merge)}, and no branch has a veto",
            "leave it out, or set need = 'veto'",
        )


def _which_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    here = at.place("fan_out")
    if fan_out.branches and fan_out.each:
        yield Fault(
            here, "its branches are named, and one for each item, too", "leave out `branches` or `each`"
        )
        return
    if not fan_out.branches and not fan_out.each:
        yield Fault(here, "it opens nothing", "name its `branches`, or a list as `each`")
    if fan_out.each and not fan_out.stage:
        yield Fault(here, "it does not say in which stage the branches begin", "name it as `stage`")
    if fan_out.branches:
        for field in ("stage", "key", "item"):
            if getattr(fan_out, field) != getattr(FanOut(), field):
                yield Fault(
                    at.place("fan_out", field), "branches that are named have no items", "leave it out"
                )


def _named_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    for name in fan_out.branches:
        yield from name_faults(at.place("fan_out", "branches", name), "branch", name)
    for where, start in opening_places(at, fan_out):
        if start not in at.plan.stages:
            yield Fault(where, f"there is no stage {show(start)}", closest(start, at.plan.stages))
    if len(fan_out.branches) > fan_out.most >= 1:
        yield Fault(
            at.place("fan_out", "most"),
            f"{len(fan_out.branches)} branches are named, and there may be {fan_out.most}",
            "raise it, or leave it out",
        )


def _each_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    if not fan_out.each:
        return
    here = at.place("fan_out", "each")
    if not _PATH.fullmatch(fan_out.each):
        yield Fault(
            here, f"{show(fan_out.each)} is no path of a list", "write names of fields joined by dots"
        )
        return
    inputs = at.stage.inputs
    if inputs is None or not at.is_sure("inputs") or schema_faults("", inputs):
        return
    head, *rest = fan_out.each.split(".")
    known = property_names(inputs) or []
    if head not in known:
        yield from _unknown_list(here, head, rest, known)
        return
    below = inputs
    for name in (head, *rest):
        below = property_of(below, name)
    kinds = kinds_of(below)
    if kinds is not None and "array" not in kinds:
        yield Fault(here, f"by the inputs it is no list, but {' or '.join(sorted(kinds))}", "name a list")


def _unknown_list(here: str, head: str, rest: Sequence[str], known: Sequence[str]) -> Iterator[Fault]:
    """Yield a warning where another path was probably meant: it may be the name of a stored list as well."""
    if head == "inputs" and rest and rest[0] in known:
        yield warning(here, "the path starts within the inputs", f"did you mean {show('.'.join(rest))}?")
    near = next((name for name in known if slipped(head, name)), None)
    if near is not None:
        yield warning(here, f"{show(head)} is not among the inputs", f"did you mean {show(near)}?")


def _given_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    for field in ("item", "key"):
        value, here = getattr(fan_out, field), at.place("fan_out", field)
        if value == getattr(FanOut(), field):
            continue
        if not value.strip():
            yield Fault(here, "is blank", "name a field, or leave it out")
        elif "." in value:
            yield Fault(here, f"{show(value)} is a path, and this is one field", "name a field without dots")
    if fan_out.each and fan_out.item == fan_out.each.partition(".")[0]:
        yield Fault(
            at.place("fan_out", "item"),
            f"the list that `each` names is in {show(fan_out.item)}, too",
            "give `item` another name",
        )
    given = fan_out.give or []
    yield from twice_faults(at.place("fan_out", "give"), given)
    for n, name in enumerate(given):
        here = at.place("fan_out", "give", n)
        if fan_out.each and name == fan_out.each:
            yield Fault(here, "a branch gets its item of the list, never the list", "leave it out")
        elif fan_out.each and name == fan_out.item:
            yield Fault(here, f"the item of a branch stands under {show(name)}", "give `item` another name")
        elif "." in name:
            yield warning(
                here,
                f"{show(name)} is a path, and what is given are whole fields",
                f"did you mean {show(name.partition('.')[0])}?",
            )
