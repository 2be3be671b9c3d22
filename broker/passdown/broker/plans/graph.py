"""A plan's stages and moves as a graph: what can be reached, what can end, what goes round.

Moves to stages that do not exist are left out; all walks are loops, so that a long plan is no problem.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from passdown.contracts.plans import END, Plan, Stage, moves


@dataclass(frozen=True)
class Graph:
    """``follows``: stage → the stages that its moves lead to; ``ends``: stages from which the session may end."""

    follows: Mapping[str, list[str]]
    ends: frozenset[str]

    def reachable(self, start: str) -> set[str]:
        """Return `start` and all that moves lead to from it."""
        return set(self.distances(start))

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

    def in_order(self, start: str) -> list[str]:
        """Return the stages as they are passed from `start`, first moves first; those never reached come last."""
        backwards = {stage: following[::-1] for stage, following in self.follows.items()}
        found = _postorder(start, backwards, set())[::-1] if start in backwards else []
        passed = set(found)
        return [*found, *(stage for stage in self.follows if stage not in passed)]

    def goes_round(self, stage: str, following: str) -> bool:
        """Whether the move from `stage` to `following` is part of a cycle."""
        return stage in self.cycle_of and self.cycle_of[stage] == self.cycle_of.get(following)


def graph_of(plan: Plan, *, may_end: Iterable[str] = ()) -> Graph:
    """Return the graph of `plan`; `may_end` are stages that are taken to lead to an end besides."""
    follows = {
        name: list(dict.fromkeys(target for target in moves(stage).values() if target in plan.stages))
        for name, stage in plan.stages.items()
    }
    ends = {name for name, stage in plan.stages.items() if ends_session(stage)}
    return Graph(follows, frozenset(ends.union(may_end)))


def ends_session(stage: Stage) -> bool:
    """Whether some move of `stage` ends the session: it has no `next`, or one that is `end`."""
    following = stage.next
    none = not (following.to or following.cases or following.suggest)
    return none or END in moves(stage).values()


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
