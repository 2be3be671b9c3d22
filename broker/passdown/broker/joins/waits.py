"""What a session waits for, as far as its state alone says; `passdown status` asks its surroundings, too."""

from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.contracts.codec import Wire


class Waiting(Wire, frozen=True, kw_only=True):
    """One thing that a session waits for, until when (store milliseconds); ``ticket`` where a person decides."""

    kind: str
    what: str
    until: int | None = None
    ticket: str = ""


def waits_of(state: State) -> list[Waiting]:
    """Return what a session waits for; empty once it has ended."""
    if state.over:
        return []
    found: list[Waiting] = []
    if state.paused:
        found.append(Waiting(kind="resume", what="being resumed", until=state.resume_at))
    if state.claim is not None:
        found.append(Waiting(kind="return", what=f"the return of {state.claim.by}"))
    elif state.issued is not None:
        found.append(Waiting(kind="worker", what=f"a worker of role {state.issued.role}"))
    found += [_person(state, ticket) for ticket in state.tickets]
    if state.unanswered() and not any(ticket.kind == "question" for ticket in state.tickets):
        asked = ", ".join(one.id for one in state.questions if not one.answered)
        found.append(Waiting(kind="answer", what=f"an answer to {asked}"))
    if not found and state.status == "waiting-join":
        found.append(Waiting(kind="join", what="its branches"))
    elif not found and state.owed is not None:
        found.append(Waiting(kind="time", what="its next attempt", until=state.owed.at))
    return found


def _person(state: State, ticket: Ticket) -> Waiting:
    name = f"{state.session_id}/{ticket.ticket_no}"
    return Waiting(kind="person", what=f"a person of {ticket.queue}: {ticket.kind} {name}", ticket=name)
