"""What is wrong with a plan by itself: every fault at once, each with its place and how to mend it.

What depends on the specifications of tools is checked by `check_tools`.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from passdown.broker.plans.at import At
from passdown.broker.plans.check_branches import branch_faults
from passdown.broker.plans.check_calendars import calendar_faults
from passdown.broker.plans.check_stage import stage_faults
from passdown.broker.plans.check_subjects import subject_faults
from passdown.broker.plans.faults import Fault, around, closest, place, serious, show, within
from passdown.broker.plans.graph import Graph, graph_of
from passdown.broker.plans.names import name_faults
from passdown.contracts.codec import KIB, MAX_INTEGER, check, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.plans import PLAN_SPEC, Plan

#: The most that a plan may have in its stored form, schemas included (bytes).
PLAN_BUDGET = 512 * KIB
MOST_STEPS = 100_000


def check_plan(plan: Plan, *, unsure: AbstractSet[str] = frozenset()) -> list[Fault]:
    """Return the faults and warnings of `plan`, in the order of its stages; empty where it is sound.

    Nothing is said about what stands at the `unsure` places, nor about what follows from them.
    """
    found = [*_head_faults(plan), *calendar_faults(plan, unsure), *subject_faults(plan, unsure)]
    stages = [
        At(plan, name, stage, own)
        for (name, stage), own in zip(plan.stages.items(), _by_stage(plan, unsure), strict=True)
    ]
    for at in stages:
        found += name_faults(at.place(), "stage", at.name)
        found += stage_faults(at)
    vague = {at.name for at in stages if _is_vague(at)}
    graph = graph_of(plan, may_end=vague)
    found += _graph_faults(plan, graph, vague, sure_of_start="start" not in unsure)
    found += branch_faults(plan, graph, vague | {at.name for at in stages if _gives_unknown(at, found)})
    if not serious(found):
        found += _size_faults(plan)
    return [fault for fault in found if unsure.isdisjoint(around(fault.place))]


def _by_stage(plan: Plan, unsure: AbstractSet[str]) -> list[set[str]]:
    """Return the unsure places of each stage."""
    found: dict[str, set[str]] = {place("stages", name): set() for name in plan.stages}
    for one in unsure:
        for outer in around(one):
            if outer in found:
                found[outer].add(one)
    return [found[place("stages", name)] for name in plan.stages]


def _head_faults(plan: Plan) -> Iterator[Fault]:
    yield from name_faults("name", "plan", plan.name)
    if plan.spec != PLAN_SPEC:
        yield Fault("spec", f"expected {PLAN_SPEC!r}, got {show(plan.spec)}")
    if not 1 <= plan.version <= MAX_INTEGER:
        yield Fault("version", f"{show(plan.version)} is no version", "count versions from 1")
    if not 1 <= plan.max_steps <= MOST_STEPS:
        yield Fault("max_steps", f"{show(plan.max_steps)} is out of range", f"from 1 to {MOST_STEPS}")
    try:
        check(plan.description, what="description")
    except ContractError as error:
        yield Fault("description", error.problem)
    if not plan.stages:
        yield Fault("stages", "there are no stages", "declare at least one, [stages.NAME]")
    elif plan.start not in plan.stages:
        yield Fault("start", f"there is no stage {show(plan.start)}", closest(plan.start, plan.stages))


def _graph_faults(plan: Plan, graph: Graph, vague: set[str], *, sure_of_start: bool) -> Iterator[Fault]:
    """Yield what is wrong with the diagram as a whole; the moves out of `vague` stages are not all known."""
    reached = graph.reachable(plan.start)
    if reached and sure_of_start and not vague & reached:
        for name in plan.stages:
            if name not in reached:
                yield Fault(
                    place("stages", name),
                    f"no move leads here from {show(plan.start)}",
                    "add a move to it, or remove it",
                )
    yield from _endless(graph)
    yield from _too_few_steps(plan, graph)


def _too_few_steps(plan: Plan, graph: Graph) -> Iterator[Fault]:
    """A session that cannot end within its steps; each branch is one, too."""
    begins = dict.fromkeys([plan.start, *(start for starts in graph.opens.values() for start in starts)])
    for start in begins:
        ways = graph.distances(start).items()
        nearest = min((steps for name, steps in ways if name in graph.ends), default=0)
        if nearest > plan.max_steps >= 1:
            whose = "" if start == plan.start else f" of a branch that begins in {show(start)}"
            yield Fault(
                "max_steps",
                f"{plan.max_steps} steps are too few: the shortest way to an end{whose} has {nearest} stages",
                f"allow at least {nearest}",
            )


def _endless(graph: Graph) -> Iterator[Fault]:
    for group in graph.cycles:
        stuck = not any(stage in graph.may_end for stage in group)
        leaves = any(following not in group for stage in group for following in graph.follows[stage])
        if stuck and not leaves:
            way = " → ".join([*group[:6], *(["…"] if len(group) > 6 else []), group[0]])
            yield Fault(
                place("stages", group[0], "next"),
                f"no way leads to an end from here: {way}",
                "let one of these stages move to `end`, or to a stage that does",
            )


def _is_vague(at: At) -> bool:
    """Whether the moves out of a stage are not all known."""
    fields = ("next", "on_refused", "on_denied", "on_failed", "fan_out", "join", "overdue")
    return not all(at.is_sure(field) for field in fields)


def _gives_unknown(at: At, found: list[Fault]) -> bool:
    """Whether the schema of what a stage gives back cannot be relied on."""
    here = at.place("returns")
    return not at.is_sure("returns") or any(within(fault.place, here) for fault in serious(found))


def _size_faults(plan: Plan) -> list[Fault]:
    """A plan that is too large is a fault of its largest stage."""
    size = len(encode(plan))
    if size <= PLAN_BUDGET:
        return []
    largest = max(plan.stages, key=lambda name: len(encode(plan.stages[name])))
    return [
        Fault(
            place("stages", largest),
            f"the plan has {size} bytes, and may have {PLAN_BUDGET}; this is its largest stage",
        )
    ]
