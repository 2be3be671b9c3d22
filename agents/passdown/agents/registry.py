"""Which agents and tools a process has. Nothing registers itself: what a module defines is collected from it."""

import importlib
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import cast

from passdown.agents.agent import Agent
from passdown.agents.reducers import AnyReducer, Reducer
from passdown.agents.tools import AnyTool, Tool
from passdown.contracts.errors import ContractError
from passdown.contracts.plans import MERGER, REDUCER


class Registry:
    """Agents by role and tools by name. The same object twice is once; two for one name are an error.

    A reducer is there as the agent of its role.
    """

    def __init__(self, items: Iterable[Agent | AnyReducer | AnyTool] = ()) -> None:
        self.agents: dict[str, Agent] = {}
        self.tools: dict[str, AnyTool] = {}
        for item in items:
            self.add(item)

    def add(self, item: Agent | AnyReducer | AnyTool) -> None:
        """Add an agent, a reducer or a tool; raises ContractError where another one has its role or name."""
        if isinstance(item, Tool):
            known = self.tools.setdefault(item.name, item)
            what = f"tool {item.name!r}"
        else:
            item = item.agent if isinstance(item, Reducer) else item
            known = self.agents.setdefault(item.role, item)
            what = f"agent of role {item.role!r}"
        if known is not item:
            raise ContractError(what, f"there are two of them: {known!r} and {item!r}")

    def served(self, roles: Sequence[str] = (), *, merge: bool = True) -> list[str]:
        """Return the roles that a worker with these agents serves: `roles`, or those of all agents where none are said.

        With `merge` those of merges, too: that of the merges which Passdown does itself, which every runtime
        has, and those of the reducers.
        """
        merges = [*sorted(role for role in self.agents if role.startswith(REDUCER)), MERGER]
        asked = list(roles) or sorted(role for role in self.agents if role not in merges)
        return [*asked, *(role for role in merges if role not in asked)] if merge else asked


def collect(*modules: ModuleType | str, into: Registry | None = None) -> Registry:
    """Return a registry of the agents, reducers and tools that stand in `modules` (named ones are imported first)."""
    registry = Registry() if into is None else into
    for module in modules:
        found = importlib.import_module(module) if isinstance(module, str) else module
        for item in vars(found).values():
            if isinstance(item, Agent | Reducer | Tool):
                registry.add(cast(Agent | AnyReducer | AnyTool, item))
    return registry
