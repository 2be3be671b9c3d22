"""How a ticket stood before, by the log of its session: whose it was, on which queue, under which lease."""

from typing import NamedTuple

from passdown.broker.core.evolve import evolve
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.broker.logbook import Readable, events, read_logged
from passdown.contracts.codec import digest


class Stood(NamedTuple):
    """A ticket between two events on it, from ``since`` to ``until`` (store milliseconds; None: it stands so now)."""

    ticket: Ticket
    since: int
    until: int | None = None


def past_of(source: Readable, session_id: str, ticket_no: int) -> list[Stood]:
    """Return how a ticket stood after each event on it, oldest first; empty where there never was one.

    It folds the log, so it is for what is rare: somebody who comes late. Raises ContractError where the log cannot be read.
    """
    found: list[Stood] = []
    state: State | None = None
    for raw in events(source, session_id):
        logged = read_logged(raw)
        state = evolve(state, logged, digest(raw))
        ticket = state.ticket(ticket_no)
        if found and found[-1].ticket == ticket:
            continue
        if found:
            found[-1] = found[-1]._replace(until=logged.at)
        if ticket is not None:
            found.append(Stood(ticket, logged.at))
        elif found:
            break
    return found
