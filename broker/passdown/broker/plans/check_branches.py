"""What is wrong with the branches of fan-outs as sessions of their own: what they come to, and what they give back."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from passdown.broker.plans.at import At
from passdown.broker.plans.check_fan_out import opening_places
from passdown.broker.plans.faults import Fault, show, warning
from passdown.broker.plans.graph import Graph, ends_done
from passdown.broker.plans.schema_look import field_of
from passdown.contracts.plans import BUILT_IN_MERGES, END, FanOut, Plan

#: Fan-outs lie at most so deep within each other.
MOST_NESTED = 8


def branch_faults(plan: Plan, graph: Graph, vague: AbstractSet[str]) -> Iterator[Fault]:
    """Yield the faults of all branches; what the `vague` stages lead to and give back is not known."""
    endless: set[str] = set()
    for name, stage in plan.stages.items():
        if stage.fan_out is None:
            continue
        at = At(plan, name, stage)
        again = list(_opened_again(at, stage.fan_out, graph))
        endless.update([name] if again else [])
        yield from again
        yield from _output_faults(at, stage.fan_out, graph, vague)
        yield from _silent_faults(at, stage.fan_out, graph, vague)
        yield from _people_faults(at, stage.fan_out)
    if endless:
        return
    deep = graph.nested_deeper(MOST_NESTED)
    for name, stage in plan.stages.items():
        if name in deep:
            yield Fault(
                At(plan, name, stage).place("fan_out"),
                f"lies within {MOST_NESTED} other fan-outs",
                f"fan-outs nest {MOST_NESTED} deep at most",
            )


def _opened_again(at: At, fan_out: FanOut, graph: Graph) -> Iterator[Fault]:
    for where, start in opening_places(at, fan_out):
        if at.name in graph.reachable(start):
            yield Fault(
                where,
                f"a branch that begins in {show(start)} comes to this fan-out again, which opens branches again,"
                " without end",
                "let it move to `end`: the join sees when a branch has ended",
            )


def _output_faults(at: At, fan_out: FanOut, graph: Graph, vague: AbstractSet[str]) -> Iterator[Fault]:
    """Yield fields that are compared, and that a stage in which a branch ends does not give back."""
    for name in _last(at.plan, fan_out, graph, vague):
        schema = at.plan.stages[name].returns.schema
        for field in ("vote_on", "conflict"):
            for n, key in enumerate(getattr(fan_out, field)):
                if not key.strip():
                    continue  # told already
                look = field_of(schema, key)
                here = at.place("join", field, n)
                if look is not None and not look.declared:
                    yield Fault(
                        here,
                        f"branches end in {show(name)}, whose returns schema has no field {show(key)}",
                        "declare it there under `properties`",
                    )
                elif look is not None and not look.required:
                    yield warning(
                        here,
                        f"branches end in {show(name)}, whose returns schema does not require {show(key)};"
                        " where it is missing it counts as null",
                        f"add {show(key)} to its `required`",
                    )


def _silent_faults(at: At, fan_out: FanOut, graph: Graph, vague: AbstractSet[str]) -> Iterator[Fault]:
    """Yield a warning where outputs are compared, and a branch may end as done without any."""
    if fan_out.conflict:
        here, compared = at.place("join", "conflict"), "is not compared"
    elif fan_out.merge == "vote":
        here, compared = at.place("join", "vote_on" if fan_out.vote_on else "merge"), "does not vote"
    else:
        return
    for name in sorted(_begun(fan_out, graph) - vague):
        stage = at.plan.stages[name]
        for cause in ("on_refused", "on_denied", "on_failed"):
            if getattr(stage, cause) == END:
                yield warning(
                    here,
                    f"a branch may end as done without an output, by {cause} of {show(name)}: it counts, and {compared}",
                    "leave it out there, or name a stage that gives an output",
                )


def _begun(fan_out: FanOut, graph: Graph) -> set[str]:
    """Return the stages that a branch may come to."""
    return graph.passed(start for start in (*fan_out.branches.values(), fan_out.stage) if start)


def _last(plan: Plan, fan_out: FanOut, graph: Graph, vague: AbstractSet[str]) -> list[str]:
    """Return the stages whose output may be that of a branch, as far as that is known."""
    reached = _begun(fan_out, graph)
    found: list[str] = []
    for name, stage in plan.stages.items():
        inner = stage.fan_out
        made_up = inner is not None and stage.returns.schema is True and inner.merge in BUILT_IN_MERGES
        if name in reached and name not in vague and ends_done(stage) and not made_up:
            found.append(name)
    return found


def _people_faults(at: At, fan_out: FanOut) -> Iterator[Fault]:
    starts = [at.plan.stages.get(start) for _, start in opening_places(at, fan_out)]
    if not fan_out.wait_for_people and starts and all(one and one.queue is not None for one in starts):
        yield Fault(
            at.place("join", "wait_for_people"),
            "every branch begins with a person, so that none is waited for",
            "leave it out",
        )
