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


def require_durable(store: Store, plan: Plan, name: str, tools: Mapping[str, ToolSpec], accepted: bool) -> None:
    """Raise PlanError where `plan` grants tools that may write twice on this store, and nobody accepted that.

    `tools` are those that are registered by now.
    """
    lost = "" if accepted else may_lose(store)
    faults = [_fault(stage, tool, lost) for stage, tool in _writes(plan, tools)] if lost else []
    if faults:
        raise PlanError(name, faults)


def losing_writes(store: Store) -> list[str]:
    """Return the stages of registered plans that may write twice on a store that may lose something, with their tool."""
    catalog = store.find(FindCatalog())
    if not isinstance(catalog, Catalog):
        return []
    tools = {name: spec for name, digest in catalog.tools.items() if (spec := _document(store, digest, ToolSpec))}
    found: list[str] = []
    for name, digest in sorted(catalog.plans.items()):
        plan = _document(store, digest, Plan)
        found += [f"{name} stage {stage} with {tool}" for stage, tool in (_writes(plan, tools) if plan else [])]
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
