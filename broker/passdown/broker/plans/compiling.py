"""Authored plan → the plan as it is stored, checked whole: every fault at once, each with its place."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from passdown.broker.plans.authored import Plan
from passdown.broker.plans.check import check_plan
from passdown.broker.plans.faults import Fault, around, place, refuse, serious
from passdown.broker.plans.lowering import Lowering
from passdown.broker.plans.reading import read_plan
from passdown.contracts import plans as stored
from passdown.contracts.codec import decode, encode


def compile_plan(
    authored: Plan | Mapping[str, Any], base_dir: Path | str | None = None, *, source: str = ""
) -> stored.Plan:
    """Return the plan as it is stored.

    `authored` is a `Plan`, or what a TOML file says as a dict; paths of schemas in it are relative to
    `base_dir`; `source` names where the plan came from, for the error. Raises PlanError with every fault,
    of shape and of sense, each with its place and how to mend it.
    """
    plan, faults = compile_whole(authored, base_dir)
    refuse(source or _name_of(authored), faults)
    assert plan is not None  # noqa: S101 - a plan of which nothing could be made has faults
    return plan


def compile_whole(
    authored: Plan | Mapping[str, Any], base_dir: Path | str | None = None
) -> tuple[stored.Plan | None, list[Fault]]:
    """Return the plan, where it has no faults, and all faults and warnings in the order of its stages."""
    reading = read_plan(authored)
    if reading.plan is None:
        return None, reading.faults
    lowering = Lowering(None if base_dir is None else Path(base_dir))
    plan = lowering.plan(reading.plan)
    found = check_plan(plan, unsure=reading.unsure | lowering.unsure)
    faults = [*reading.faults, *lowering.faults, *(_as_written(fault, lowering.renamed) for fault in found)]
    ordered = _in_order(faults, plan.stages)
    if serious(faults):
        return None, ordered
    return decode(encode(plan), stored.Plan, what="plan"), ordered


def _name_of(authored: object) -> str:
    name: object = authored.name if isinstance(authored, Plan) else None
    if isinstance(authored, Mapping):
        name = authored.get("name")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return name if isinstance(name, str) and name else "(unnamed)"


def _as_written(fault: Fault, renamed: Mapping[str, str]) -> Fault:
    written = renamed.get(fault.place)
    return fault if written is None else Fault(written, fault.problem, fault.mend, fault.severity)


def _in_order(faults: Iterable[Fault], stages: Iterable[str]) -> list[Fault]:
    ranks = {place("stages", name): n for n, name in enumerate(stages, 1)}

    def rank(fault: Fault) -> int:
        return next((ranks[one] for one in around(fault.place) if one in ranks), 0)

    return sorted(dict.fromkeys(faults), key=rank)
