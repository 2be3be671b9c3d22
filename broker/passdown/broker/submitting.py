"""Work as producers bring it, checked before anything is opened, and the lists that go along with it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, cast
from uuid import uuid4

from msgspec.structs import replace

from passdown.broker.joins.lists import Paged, paged
from passdown.broker.plans.graph import graph_of
from passdown.broker.session import checked
from passdown.contracts import commands as cmd
from passdown.contracts.codec import plain
from passdown.contracts.errors import ContractError
from passdown.contracts.pack import Resource
from passdown.contracts.plans import Plan, PlanRef

#: W3C Trace Context, level 1: version, trace-id, parent-id, flags.
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_LIST_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
#: Stands for the plan in a submit until the store has said which that is.
_NO_PLAN = PlanRef(name="", version=0, digest="")


@dataclass(frozen=True, slots=True)
class Submission:
    """One piece of work for `Broker.submit_all`; what the fields mean is said at `Broker.submit`."""

    inputs: Any = None
    _: KW_ONLY
    task: str = ""
    key: str | None = None
    resources: list[Resource] = field(default_factory=list[Resource])
    trace: str = ""
    reply_to: str = ""
    lists: Mapping[str, Iterable[Any]] = field(default_factory=dict[str, Iterable[Any]])


@dataclass(frozen=True, slots=True)
class Prepared:
    """A submit that is well formed, and the lists that are to be kept beside its session."""

    body: cmd.Submit
    lists: dict[str, Paged] = field(default_factory=dict[str, Paged])


def submit_of(work: Submission) -> cmd.Submit:
    """Return the command for a piece of work, without its lists. Raises ContractError for what is malformed."""
    given = plain({} if work.inputs is None else work.inputs, what="inputs")
    if not isinstance(given, dict):
        raise ContractError("inputs", "expected a JSON object")
    body = checked(
        cmd.Submit(
            key=uuid4().hex if work.key is None else work.key,
            plan=_NO_PLAN,
            inputs=cast("dict[str, Any]", given),
            task_name=work.task,
            resources=work.resources,
            trace=work.trace,
            reply_to=work.reply_to,
        )
    )
    _check_references(body)
    _check_names(work.lists, body.inputs)
    return body


def at_place(place: int, error: ContractError) -> ContractError:
    """Return the error of one of many submissions, with its place."""
    return ContractError(f"submission {place}: {error.what}", error.problem, error.pointer)


def _check_references(body: cmd.Submit) -> None:
    if body.trace and not _TRACEPARENT.fullmatch(body.trace):
        raise ContractError(
            "submit", f"expected a W3C traceparent, got {body.trace[:60]!r}", pointer="/trace"
        )
    names: set[str] = set()
    for number, resource in enumerate(body.resources):
        where = f"/resources/{number}"
        if not resource.name or not resource.uri:
            raise ContractError("submit", "a resource has a name and a uri", pointer=where)
        if resource.name in names:
            raise ContractError(
                "submit", f"two resources are named {resource.name[:60]!r}", pointer=f"{where}/name"
            )
        names.add(resource.name)


def _check_names(lists: object, inputs: dict[str, Any]) -> None:
    """Check what of the lists can be told before any of their items is read."""
    if not isinstance(lists, Mapping):
        raise ContractError("submit", "expected lists by name", pointer="/lists")
    for name, items in cast("Mapping[object, object]", lists).items():
        if not isinstance(name, str) or not _LIST_NAME.fullmatch(name):
            problem = (
                "the name of a list has 1 to 100 letters, digits, _ or -, and no digit or - at its front"
            )
            raise ContractError("submit", f"{problem}; got {str(name)[:60]!r}", pointer="/lists")
        where = f"/lists/{name}"
        if name in inputs:
            raise ContractError("submit", f"there is an input {name!r}, too: leave out one", pointer=where)
        if isinstance(items, str | bytes | dict) or not isinstance(items, Iterable):
            kind = type(cast("object", items)).__name__
            raise ContractError("submit", f"expected a list, got {kind}", pointer=where)


def with_lists(body: cmd.Submit, lists: Mapping[str, Iterable[Any]], ref: PlanRef, plan: Plan) -> Prepared:
    """Return a submit with its lists read to their end and checked by the fan-outs of its plan.

    Raises ContractError, also where no fan-out reads the list, and BudgetExceeded.
    """
    found = {name: _read(name, items, ref, plan) for name, items in lists.items()}
    refs = {name: listed.ref for name, listed in found.items()}
    return Prepared(replace(body, lists=refs), found)


def _read(name: str, items: Iterable[Any], ref: PlanRef, plan: Plan) -> Paged:
    where = f"/lists/{name}"
    contracts = {
        stage: found.fan_out
        for stage, found in plan.stages.items()
        if found.fan_out is not None and found.fan_out.each
    }
    mine = graph_of(plan).passed([plan.start])
    inner = sorted(stage for stage, found in contracts.items() if found.each == name and stage not in mine)
    contracts = {stage: found for stage, found in contracts.items() if stage in mine}
    readers = {stage: contract for stage, contract in contracts.items() if contract.each == name}
    if not readers and inner:
        problem = (
            f"stage {inner[0]} of {ref} opens a branch for each of it, but only within other branches, and those get"
            " no list of their session: bring it as an input"
        )
        raise ContractError("submit", problem, pointer=where)
    if not readers:
        known = ", ".join(sorted({contract.each for contract in contracts.values()})) or "none"
        raise ContractError(
            "submit", f"no stage of {ref} opens a branch for each of it; they read: {known}", pointer=where
        )
    keys = {contract.key for contract in readers.values() if contract.key}
    listed = paged(name, items, keys=keys)
    for stage, contract in readers.items():
        if listed.ref.items > contract.most:
            problem = f"the list has {listed.ref.items} items, and stage {stage} allows {contract.most}"
            raise ContractError("submit", problem, pointer=where)
    return listed
