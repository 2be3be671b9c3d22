"""Whether this worker can run a pack: it has the agent and each granted tool, exactly as registered (DESIGN §7)."""

from passdown.agents.registry import Registry
from passdown.agents.tools import AnyTool
from passdown.contracts.pack import Pack, PackTool


def unfit(pack: Pack, registry: Registry) -> str:
    """Return why this worker must hand `pack` back, empty where it can run it."""
    if pack.cause == "settle":
        return _unfit_to_settle(pack, registry)
    if pack.role not in registry.agents:
        return f"this worker has no agent for role {pack.role}"
    found = [_differs(one, registry.tools.get(one.name)) for one in pack.tools]
    return "; ".join(one for one in found if one)


def _unfit_to_settle(pack: Pack, registry: Registry) -> str:
    """No agent runs, so only the tools of what is unknown are needed."""
    wanted = {effect.tool for effect in pack.effects if effect.status == "unknown"}
    granted = {one.name: one for one in pack.tools}
    found = [
        _differs(granted[name], registry.tools.get(name))
        if name in granted
        else ("" if name in registry.tools else f"this worker has no tool {name}")
        for name in sorted(wanted)
    ]
    return "; ".join(one for one in found if one)


def _differs(granted: PackTool, tool: AnyTool | None) -> str:
    if tool is None:
        return f"this worker has no tool {granted.name}"
    if tool.digest == granted.digest:
        return ""
    spec = tool.spec
    pairs = {
        "description": (granted.description, spec.description),
        "effect": (granted.effect, spec.effect),
        "scope": (granted.scope, spec.scope),
        "identity": (granted.identity, spec.identity),
        "fresh_for": (granted.fresh_for_seconds, spec.fresh_for_seconds),
    }
    names = [name for name, (theirs, ours) in pairs.items() if theirs != ours] or [
        "params, owner or write options"
    ]
    return (
        f"tool {granted.name} differs in {', '.join(names)}"
        f" (digest {granted.digest[:12]} in the pack, {tool.digest[:12]} here)"
    )
