"""The state diagram of a session, drawn from `TRANSITIONS` for the docs (Mermaid)."""

from passdown.broker.core.state import TERMINAL, TRANSITIONS, Status


def diagram() -> str:
    """Return a Mermaid state diagram: each change of status, with the events that lead to it.

    Events that leave the status as it is are not drawn, and neither is *paused*, which only overlays it.
    """
    edges: dict[tuple[Status, Status], list[str]] = {}
    for name, moves in TRANSITIONS.items():
        for source, targets in moves.items():
            for target in targets:
                if source != target:
                    edges.setdefault((source, target), []).append(name)
    lines = ["stateDiagram-v2", f"    [*] --> {_node('queued')}: SessionOpened"]
    lines += [
        f"    {_node(source)} --> {_node(target)}: {', '.join(names)}"
        for (source, target), names in edges.items()
    ]
    lines += [f"    {_node(status)} --> [*]" for status in _drawn(edges) if status in TERMINAL]
    named = [status for status in _drawn(edges) if _node(status) != status]
    lines[1:1] = [f'    state "{status}" as {_node(status)}' for status in named]
    return "\n".join(lines) + "\n"


def _drawn(edges: dict[tuple[Status, Status], list[str]]) -> list[Status]:
    return list(dict.fromkeys(status for edge in edges for status in edge))


def _node(status: str) -> str:
    """Return a status as an identifier of Mermaid, in which a dash would begin an arrow."""
    return status.replace("-", "_")
