"""A plan as a picture: text for a terminal, or a Mermaid state diagram."""

import textwrap
from collections.abc import Container, Iterator

from passdown.broker.plans.durations import spell
from passdown.broker.plans.faults import one_line
from passdown.broker.plans.graph import Graph, graph_of
from passdown.broker.plans.lanes import Row, draw
from passdown.contracts.plans import (
    BUILT_IN_MERGES,
    END,
    FAIL,
    MERGE,
    PRODUCER,
    REDUCE,
    FanOut,
    People,
    Plan,
    Stage,
    moves,
)

_LEGEND = {
    "!": "a person approves the call first",
    "⇉": "opens branches, each of which goes its way to an end",
    "↺": "comes round again",
    "■": "the session ends",
}
_GOAL = 200
_NAMES = 120


def as_text(plan: Plan, *, current: str | None = None, width: int = 100) -> str:
    """Return the diagram of `plan`, stages from top to bottom and each move as a line to where it leads.

    `current` marks where a session stands; lines have `width` columns at most, unless names are longer.
    """
    graph = graph_of(plan)
    order = graph.in_order(plan.start)
    column = max((len(one_line(name)) for name in order), default=0)
    rows: list[Row] = []
    for name in order:
        rows += [*_stage_rows(plan, graph, order, name, current), Row()]
    lines = [
        _title(plan),
        *_wrapped(one_line(plan.description, 1000), width),
        "",
        *draw(rows[:-1], column, width),
        "",
    ]
    drawn = "\n".join(lines)
    legend = "   ".join(f"{mark} {meaning}" for mark, meaning in _LEGEND.items() if mark in drawn)
    return f"{drawn}\n{legend}\n" if legend else f"{drawn}\n"


def _title(plan: Plan) -> str:
    count = len(plan.stages)
    return f"{one_line(plan.name)}@{plan.version}: {count} stage{'s' if count != 1 else ''}, at most {plan.max_steps} steps"


def _stage_rows(plan: Plan, graph: Graph, order: list[str], name: str, current: str | None) -> Iterator[Row]:
    stage = plan.stages[name]
    tags = [who(stage), *_traits(stage)]
    if name == plan.start:
        tags.append("start")
    elif name not in graph.reachable(plan.start):
        tags.append("never reached")
    here = "  ◀ here" if name == current else ""
    yield Row(" · ".join(tags) + here, name=one_line(name), head=name, mark="●" if name == plan.start else "")
    for label, text in _details(stage):
        yield Row(text, label=label)
    for label, target in labelled_branches(stage):
        yield _branch_row(plan, label, target)
    for label, text in _join_details(stage, plan.stages):
        yield Row(text, label=label)
    for label, target in labelled_moves(stage, plan.stages):
        yield _move_row(plan, graph, order, name, label, target)


def _move_row(plan: Plan, graph: Graph, order: list[str], name: str, label: str, target: str) -> Row:
    if target in (END, FAIL):
        return Row(f"{label} → {'■ end' if target == END else '■ failed'}")
    if target not in plan.stages:
        return Row(f"{label} → {one_line(target)}, which does not exist")
    back = graph.goes_round(name, target) and order.index(target) <= order.index(name)
    entries = plan.stages[target].max_entries
    leads = f"↺ {target}, at most {entries} entries" if back else f"→ {target}"
    return Row(f"{label} {one_line(leads)}", leads=target)


def _branch_row(plan: Plan, label: str, target: str) -> Row:
    if target not in plan.stages:
        return Row(f"{label} ⇉ {one_line(target)}, which does not exist")
    return Row(f"{label} ⇉ {one_line(target)}", leads=target)


def who(stage: Stage) -> str:
    """Return whose stage it is, for a picture."""
    if stage.fan_out is not None:
        return "fan-out"
    return one_line(f"person of {stage.queue}" if stage.queue is not None else stage.role)


def _traits(stage: Stage) -> list[str]:
    traits = [stage.recovery] if stage.queue is None and stage.fan_out is None else []
    if stage.delivery == "push":
        traits.append("pushed")
    if stage.risk != "normal":
        traits.append(f"{stage.risk} risk{', waived' if stage.waived else ''}")
    if stage.deadline_seconds is not None:
        traits.append(f"within {spell(stage.deadline_seconds)}")
    if stage.time_limit_seconds is not None:
        traits.append(f"{spell(stage.time_limit_seconds)} a run")
    return traits


def labelled_branches(stage: Stage) -> list[tuple[str, str]]:
    """Return the branches that a stage opens, with where they begin: those that begin alike as one."""
    fan_out = stage.fan_out
    if fan_out is None:
        return []
    found = [(f"each of {one_line(fan_out.each, _NAMES)}", fan_out.stage)] if fan_out.each else []
    for start in dict.fromkeys(fan_out.branches.values()):
        names = [name for name, begins in fan_out.branches.items() if begins == start]
        found.append((one_line(", ".join(names), _NAMES), start))
    return found


def _join_details(stage: Stage, stages: Container[str]) -> Iterator[tuple[str, str]]:
    fan_out = stage.fan_out
    if fan_out is None:
        return
    opened = [
        *([f"at most {fan_out.most}"] if fan_out.each else []),
        *([f"{fan_out.at_once} at once"] if fan_out.at_once else []),
        *([f"named by {one_line(fan_out.key)}"] if fan_out.key else []),
    ]
    if opened:
        yield "opens", ", ".join(opened)
    within = [f"within {spell(fan_out.deadline_seconds)}"] if fan_out.deadline_seconds is not None else []
    people = [] if fan_out.wait_for_people else ["people are not waited for"]
    counts = " or ".join(fan_out.counts)
    needs = (
        f"all {counts}, one that refuses ends it" if fan_out.need == "veto" else f"{fan_out.need} {counts}"
    )
    yield "join", ", ".join([needs, *within, *people, f"then {_merge(fan_out)}"])
    if fan_out.conflict:
        yield "agree", one_line(", ".join(fan_out.conflict))
    for label, target in (("conflict", fan_out.on_conflict), ("short", fan_out.on_short)):
        if target == MERGE and label == "short":
            yield label, "merges what is there"
        elif target is not None and target != FAIL and target not in stages:
            yield label, one_line(f"person of {target}")


def _merge(fan_out: FanOut) -> str:
    if fan_out.merge not in BUILT_IN_MERGES and not fan_out.merge.startswith(REDUCE):
        return one_line(f"{fan_out.merge} merges")
    on = f" on {', '.join(fan_out.vote_on)}" if fan_out.vote_on else ""
    return one_line(f"{fan_out.merge}{on}")


def _details(stage: Stage) -> Iterator[tuple[str, str]]:
    if stage.goal:
        yield "goal", one_line(stage.goal, _GOAL)
    if stage.tools:
        yield "tools", ", ".join(_call(one.tool, one.approve, one.approvals) for one in stage.tools)
    if stage.permits:
        yield "permits", ", ".join(_call(one.tool, one.queue, one.approvals) for one in stage.permits)
    if stage.ask != PRODUCER:
        yield "asks", one_line(stage.ask)
    if stage.people != People():
        yield "people", ", ".join(_people(stage.people))
    path = [(one.queue, one.after_seconds) for one in stage.escalation]
    if stage.overdue is not None:
        path.append(("overdue", stage.overdue.after_seconds))
    if path:
        yield (
            "escalates",
            ", then ".join(one_line(f"{to} after {spell(after)}" if after else to) for to, after in path),
        )


def _call(tool: str, queue: str | None, approvals: int) -> str:
    if queue is None:
        return one_line(tool)
    return one_line(f"{tool} ! {f'{approvals} of ' if approvals > 1 else ''}{queue}")


def _people(people: People) -> Iterator[str]:
    yield from (one_line(candidate) for candidate in people.candidates)
    if people.skills:
        yield one_line(f"skilled in {', '.join(people.skills)}")
    if people.exclude_initiator:
        yield "not the initiator"
    if people.due_seconds is not None:
        yield f"due in {spell(people.due_seconds)}"
    if people.lease_seconds != People().lease_seconds:
        yield f"{spell(people.lease_seconds)} a claim"
    if people.calendar:
        yield one_line(f"in the hours of {people.calendar}")


def labelled_moves(stage: Stage, stages: Container[str] = ()) -> list[tuple[str, str]]:
    """Return each move of a stage with what causes it, those that end the session included.

    `stages` are those of the plan, by which a move of a join is told from a queue.
    """
    found = [
        (one_line("suggested" if cause.startswith("suggested ") else cause), to)
        for cause, to in moves(stage, stages).items()
    ]
    following = stage.next
    if not (following.to or following.cases or following.suggest):
        found.insert(0, ("done", END))
    if stage.on_failed == FAIL:
        found.append(("failed", FAIL))
    if stage.overdue is not None and stage.overdue.to == FAIL:
        found.append(("overdue", FAIL))
    if stage.fan_out is not None:
        unlike = {"conflict": stage.fan_out.on_conflict, "short": stage.fan_out.on_short}
        found += [(cause, FAIL) for cause, target in unlike.items() if target == FAIL]
    return found


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width)


def as_mermaid(plan: Plan, *, current: str | None = None) -> str:
    """Return `plan` as a Mermaid ``stateDiagram-v2``; `current` marks where a session stands."""
    order = graph_of(plan).in_order(plan.start)
    names = {name: f"s{n}" for n, name in enumerate(order, 1)}
    lines = ["stateDiagram-v2"]
    for name, short in names.items():
        stage = plan.stages[name]
        lines.append(
            f'    state "{_quoted(name)}: {_quoted(" · ".join([who(stage), *_traits(stage)]))}" as {short}'
        )
    if plan.start in names:
        lines.append(f"    [*] --> {names[plan.start]}")
    for name, short in names.items():
        for label, target in [
            *((f"opens {one}", to) for one, to in labelled_branches(plan.stages[name])),
            *labelled_moves(plan.stages[name], plan.stages),
        ]:
            nowhere = target not in names and target not in (END, FAIL)
            said = f"{label} (to {target}, which does not exist)" if nowhere else label
            lines.append(f"    {short} --> {names.get(target, '[*]')}: {_quoted(said)}")
    people = ",".join(short for name, short in names.items() if plan.stages[name].queue is not None)
    if people:
        lines += ["    classDef person stroke-dasharray: 4 3", f"    class {people} person"]
    if current in names:
        lines += ["    classDef here stroke-width:4px", f"    class {names[current]} here"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return text as Mermaid's entity codes allow it: nothing in it can end the label."""
    return "".join(
        char if char.isalnum() or char in " -_.=·" else f"#{ord(char)};" for char in one_line(text)
    )
