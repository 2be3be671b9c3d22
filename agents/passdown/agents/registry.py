"""Which agents and tools a process has. Nothing registers itself: what a module defines is collected from it."""

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import cast

from passdown.agents.agent import Agent
from passdown.agents.tools import AnyTool, Tool
from passdown.contracts.errors import ContractError


class Registry:
    """Agents by role and tools by name. The same object twice is once; two for one name are an error."""

    def __init__(self, items: Iterable[Agent | AnyTool] = ()) -> None:
        self.agents: dict[str, Agent] = {}
        self.tools: dict[str, AnyTool] = {}
        for item in items:
            self.add(item)

    def add(self, item: Agent | AnyTool) -> None:
        """Add an agent or a tool; raises ContractError where another one has its role or name."""
        if isinstance(item, Agent):
            known = self.agents.setdefault(item.role, item)
            what = f"agent of role {item.role!r}"
        else:
            known = self.tools.setdefault(item.name, item)
            what = f"tool {item.name!r}"
        if known is not item:
            raise ContractError(what, f"there are two of them: {known!r} and {item!r}")


def collect(*modules: ModuleType | str, into: Registry | None = None) -> Registry:
    """Return a registry of the agents and tools that stand in `modules` (named ones are imported first)."""
    registry = Registry() if into is None else into
    for module in modules:
        found = importlib.import_module(module) if isinstance(module, str) else module
        for item in vars(found).values():
            if isinstance(item, Agent | Tool):
                registry.add(cast(Agent | AnyTool, item))
    return registry
