"""What happened in some sessions, counted from their logs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from passdown.broker.client import Session
from passdown.contracts import events as ev
from passdown.contracts.events import Logged


@dataclass(slots=True)
class Counts:
    """Numbers for the table; ``effects`` and ``results`` by how they ended, ``tickets`` by queue."""

    sessions: Counter[str] = field(default_factory=Counter[str])
    handoffs: int = 0
    results: Counter[str] = field(default_factory=Counter[str])
    effects: Counter[str] = field(default_factory=Counter[str])
    retries: int = 0
    lost_claims: int = 0
    fenced: int = 0
    denied: int = 0
    settled: Counter[str] = field(default_factory=Counter[str])
    tickets: Counter[str] = field(default_factory=Counter[str])


def count(sessions: Iterable[Session]) -> Counts:
    """Count over the logs of `sessions`."""
    found = Counts()
    for session in sessions:
        state = session.state()
        found.sessions[state.shown_status] += 1
        found.effects.update(effect.status for effect in state.effects)
        for logged in session.events():
            _count(found, logged)
    return found


def _count(found: Counts, logged: Logged) -> None:
    match logged.event:
        case ev.Claimed():
            found.handoffs += 1
        case ev.Returned(body=body):
            found.results[str(type(body).__struct_config__.tag)] += 1
        case ev.ReturnRejected():
            found.results["rejected"] += 1
        case ev.PackIssued(cause="retry"):
            found.retries += 1
        case ev.LeaseLost():
            found.lost_claims += 1
        case ev.ReturnFenced():
            found.fenced += 1
        case ev.ToolDenied():
            found.denied += 1
        case ev.EffectSettled(status=status):
            found.settled[status] += 1
        case ev.TicketOpened(queue=queue):
            found.tickets[queue] += 1
        case _:
            pass
