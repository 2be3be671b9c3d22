"""The bundled cases of the airline desk, and what each of them is to show."""

from functools import cache
from importlib import resources
from typing import Any, Literal

from passdown.broker.client import Session
from passdown.broker.demo.ledger import ledger
from passdown.contracts import events as ev
from passdown.contracts.codec import Wire, decode
from passdown.contracts.ids import session_id
from passdown.contracts.ticket_events import Resolution

#: What may happen to the worker at the first write of a case.
Accident = Literal["", "before-write", "after-write"]


class Decision(Wire, frozen=True, kw_only=True):
    """What a scripted person decides on a ticket."""

    resolution: Resolution
    value: Any = None
    note: str = ""


class Expected(Wire, frozen=True, kw_only=True):
    """How a case ends: status, effects as ``tool status``, and events that its log holds (with a detail)."""

    status: str
    effects: list[str]
    events: list[str]


class Case(Wire, frozen=True, kw_only=True):
    """One request of a customer."""

    name: str
    shows: str
    inputs: dict[str, Any]
    answers: dict[str, Any] = {}
    supervisor: Decision | None = None
    tier2: Decision | None = None
    accident: Accident = ""
    expect: Expected

    @property
    def key(self) -> str:
        """The submit key."""
        return f"desk:{self.name}"

    @property
    def session_id(self) -> str:
        """The session that the key opens."""
        return session_id(self.key)


class Desk(Wire, frozen=True, kw_only=True):
    """The airline's rules, reservations and full flights, and the cases."""

    rules: dict[str, str]
    reservations: dict[str, dict[str, str]]
    full: list[str]
    cases: list[Case]


@cache
def desk() -> Desk:
    """Return what is bundled."""
    return decode(
        resources.files("passdown.broker.demo").joinpath("cases.json").read_bytes(), Desk, what="cases"
    )


def faults_of(case: Case, session: Session) -> list[str]:
    """Return how a session differs from what its case expects."""
    log = list(session.events())
    found: list[str] = []
    effects = [f"{row.tool} {row.status}" for row in ledger(session)]
    if effects != case.expect.effects:
        found.append(f"its effects are {effects}, expected {case.expect.effects}")
    seen = {name for logged in log for name in _names(logged.event)}
    found += [f"its log has no {event}" for event in case.expect.events if event not in seen]
    return [f"{case.name} ({session.id}): {fault}" for fault in found]


def _names(event: ev.Event) -> list[str]:
    kind = type(event).__name__
    match event:
        case ev.EffectSettled(status=detail) | ev.ReturnRejected(kind=detail) | ev.PackIssued(cause=detail):
            return [kind, f"{kind} {detail}"]
        case ev.TicketResolved(resolution=detail) | ev.StageEntered(stage=detail):
            return [kind, f"{kind} {detail}"]
        case _:
            return [kind]
