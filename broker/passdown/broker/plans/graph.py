"""A plan's stages and moves as a graph: what can be reached, what can end, what goes round, what nests.

Moves to stages that do not exist are left out; all walks are loops, so that a long plan is no problem.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from passdown.contracts.plans import END, Plan, Stage, moves, opens


@dataclass(frozen=True)
class Graph:
    """``follows``: stage → the stages that its moves lead to; ``ends``: stages from which the session may end.

    ``opens``: fan-out → the stages in which its branches begin. A branch is a session of its own, so that only
    what can be reached, and the order for a picture, go through them.
    """

    follows: Mapping[str, list[str]]
    ends: frozenset[str]
    opens: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])

    def reachable(self, *starts: str) -> set[str]:
        """Return `starts` and all that moves and branches lead to from them."""
        return _closure(starts, self._leads)

    def passed(self, starts: Iterable[str]) -> set[str]:
        """Return `starts` and all that moves lead to from them, within one session."""
        return _closure(starts, self.follows)

    def distances(self, start: str) -> dict[str, int]:
        """Return how many stages are entered at least to be in each stage that `start` leads to; `start` is 1."""
        found = {start: 1} if start in self.follows else {}
        todo = deque(found)
        while todo:
            stage = todo.popleft()
            for following in self.follows[stage]:
                if following not in found:
                    found[following] = found[stage] + 1
                    todo.append(following)
        return found

    @cached_property
    def may_end(self) -> set[str]:
        """The stages from which some way leads to an end."""
        before: dict[str, list[str]] = {stage: [] for stage in self.follows}
        for stage, following in self.follows.items():
            for one in following:
                before[one].append(stage)
        found = set(self.ends)
        todo = list(found)
        while todo:
            fresh = [one for one in before[todo.pop()] if one not in found]
            found.update(fresh)
            todo.extend(fresh)
        return found

    @cached_property
    def cycles(self) -> list[list[str]]:
        """The groups of stages that lead to one another, each in the plan's order; a stage that leads to itself, too."""
        order = {stage: n for n, stage in enumerate(self.follows)}
        groups = [sorted(group, key=order.__getitem__) for group in _components(self.follows)]
        found = [group for group in groups if len(group) > 1 or group[0] in self.follows[group[0]]]
        return sorted(found, key=lambda group: order[group[0]])

    @cached_property
    def cycle_of(self) -> dict[str, int]:
        """Stage → the number of its group in `cycles`; stages that never come round again are not in it."""
        return {stage: n for n, group in enumerate(self.cycles) for stage in group}

    @cached_property
    def inner(self) -> dict[str, set[str]]:
        """Fan-out → the fan-outs that its branches themselves come to, whatever is opened in between left out."""
        return {
            name: {one for one in _closure(starts, self.follows) if one in self.opens}
            for name, starts in self.opens.items()
        }

    def nested_deeper(self, most: int) -> set[str]:
        """Return the fan-outs that lie within `most` others, or more; those that open themselves lie within any number."""
        found = set(self.inner)
        for _ in range(most):
            found = {one for outer in found for one in self.inner[outer]}
        return found

    def in_order(self, start: str) -> list[str]:
        """Return the stages as they are passed from `start`, first moves first, branches before what comes after the join.

        Those never reached come last.
        """
        backwards = {stage: leads[::-1] for stage, leads in self._leads.items()}
        found = _postorder(start, backwards, set())[::-1] if start in backwards else []
        passed = set(found)
        return [*found, *(stage for stage in self.follows if stage not in passed)]

    def goes_round(self, stage: str, following: str) -> bool:
        """Whether the move from `stage` to `following` is part of a cycle."""
        return stage in self.cycle_of and self.cycle_of[stage] == self.cycle_of.get(following)

    @cached_property
    def _leads(self) -> dict[str, list[str]]:
        return {stage: [*self.opens.get(stage, []), *following] for stage, following in self.follows.items()}


def graph_of(plan: Plan, *, may_end: Iterable[str] = ()) -> Graph:
    """Return the graph of `plan`; `may_end` are stages that are taken to lead to an end besides."""
    follows = {
        name: list(
            dict.fromkeys(target for target in moves(stage, plan.stages).values() if target in plan.stages)
        )
        for name, stage in plan.stages.items()
    }
    ends = {name for name, stage in plan.stages.items() if ends_session(stage)}
    opening = {
        name: [start for start in opens(stage) if start in plan.stages]
        for name, stage in plan.stages.items()
        if stage.fan_out is not None
    }
    return Graph(follows, frozenset(ends.union(may_end)), opening)


def ends_session(stage: Stage) -> bool:
    """Whether some move of `stage` ends the session: it has no `next`, or one that is `end`."""
    return ends_done(stage) or END in moves(stage).values()


def ends_done(stage: Stage) -> bool:
    """Whether the session may end with the output of `stage`."""
    following = stage.next
    targets = [*following.cases.values(), *following.suggest, *([following.to] if following.to else [])]
    return not targets or END in targets


def _closure(starts: Iterable[str], leads: Mapping[str, list[str]]) -> set[str]:
    """Return those of `starts` that there are, and all that they lead to."""
    found = {start for start in starts if start in leads}
    todo = list(found)
    while todo:
        fresh = [one for one in leads[todo.pop()] if one not in found]
        found.update(fresh)
        todo.extend(fresh)
    return found


def _components(follows: Mapping[str, list[str]]) -> list[list[str]]:
    """Return the strongly connected components (Kosaraju's two passes)."""
    finished: list[str] = []
    seen: set[str] = set()
    for root in follows:
        finished += _postorder(root, follows, seen)
    before: dict[str, list[str]] = {stage: [] for stage in follows}
    for stage, following in follows.items():
        for one in following:
            before[one].append(stage)
    seen.clear()
    return [group for root in reversed(finished) if (group := _postorder(root, before, seen))]


def _postorder(root: str, follows: Mapping[str, list[str]], seen: set[str]) -> list[str]:
    if root in seen:
        return []
    seen.add(root)
    found: list[str] = []
    stack = [(root, iter(follows[root]))]
    while stack:
        stage, rest = stack[-1]
        following = next((one for one in rest if one not in seen), None)
        if following is None:
            found.append(stage)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(follows[following])))
    return found
