"""The effects of a session with their arguments and results: rows of its state, their bulk from its log."""

from dataclasses import dataclass
from typing import Any

from passdown.broker.client import Session
from passdown.contracts import events as ev


@dataclass(frozen=True, slots=True)
class Row:
    """One effect, with the arguments that ran last (or are proposed)."""

    key: str
    tool: str
    args: dict[str, Any]
    status: str
    result: Any


def ledger(session: Session) -> list[Row]:
    """Return the session's effects by their ordinals."""
    args: dict[str, dict[str, Any]] = {}
    results: dict[str, Any] = {}
    for logged in session.events():
        match logged.event:
            case ev.EffectProposed() | ev.EffectIntended() as event:
                args[event.effect_id] = event.args
            case ev.EffectDone() | ev.EffectSettled() as event:
                results[event.effect_id] = event.result
            case _:
                pass
    return [
        Row(one.effect_id, one.tool, args[one.effect_id], one.status, results.get(one.effect_id))
        for one in session.state().effects
    ]
