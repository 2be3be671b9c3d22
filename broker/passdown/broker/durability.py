"""Plans that write outside need a store that loses nothing, or tools that absorb a repeat (DESIGN §6).

Where a store may lose its last moments, an intent can be lost after its tool wrote. The next attempt knows
nothing of it and writes again under the same effectId: harmless where the tool `dedupes`, twice elsewhere.
"""

from collections.abc import Mapping
from typing import TypeVar

from passdown.broker.findings import may_lose
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import Catalog, FindCatalog, FindDocument
from passdown.contracts.codec import decode
from passdown.contracts.errors import PlanError
from passdown.contracts.plans import Plan
from passdown.contracts.tools import ToolSpec

D = TypeVar("D", Plan, ToolSpec)


def require_durable(store: Store, name: str, plan: Plan, tools: Mapping[str, ToolSpec] | None = None) -> None:
    """Raise PlanError where `plan` grants tools that may write twice on this store.

    `tools` are the specifications of those that are registered; they are fetched where they are not given.
    """
    lost = may_lose(store)
    if not lost or not any(stage.tools for stage in plan.stages.values()):
        return
    found = _writes(plan, registered_tools(store) if tools is None else tools)
    if found:
        raise PlanError(name, [_fault(stage, tool, lost) for stage, tool in found])


def registered_tools(store: Store) -> dict[str, ToolSpec]:
    """Return the specifications of all tools that are registered now, by name."""
    catalog = _catalog(store)
    found = {name: _document(store, digest, ToolSpec) for name, digest in catalog.tools.items()}
    return {name: spec for name, spec in found.items() if spec}


def _catalog(store: Store) -> Catalog:
    found = store.find(FindCatalog())
    return found if isinstance(found, Catalog) else Catalog(version=0, plans={}, tools={})


def losing_writes(store: Store) -> list[str]:
    """Return the stages of registered plans that may write twice on a store that may lose something, with their tool."""
    tools = registered_tools(store)
    found: list[str] = []
    for name, digest in sorted(_catalog(store).plans.items()):
        plan = _document(store, digest, Plan)
        found += [
            f"{name} stage {stage} with {tool}" for stage, tool in (_writes(plan, tools) if plan else [])
        ]
    return found


def _document(store: Store, digest: str, kind: type[D]) -> D | None:
    raw = store.find(FindDocument(digest=digest))
    return decode(raw, kind, what=kind.__name__) if isinstance(raw, bytes) else None


def _writes(plan: Plan, tools: Mapping[str, ToolSpec]) -> list[tuple[str, str]]:
    """Return (stage, tool) for each grant of a tool that writes and absorbs no repeat."""
    return [
        (name, grant.tool)
        for name, stage in plan.stages.items()
        for grant in stage.tools
        if (spec := tools.get(grant.tool)) and spec.effect and not spec.dedupes
    ]


def _fault(stage: str, tool: str, lost: str) -> str:
    return (
        f"stage {stage} writes with {tool}, which lacks `dedupes`, and this store may lose {lost}: it could write"
        " twice; set appendfsync always, let the tool dedupe, or accept that with accept_effect_loss = true"
    )
