"""Briefs of sessions under test, for tests of their parts."""

from passdown.broker.core.brief import brief
from passdown.contracts.brief import Brief
from passdown.contracts.codec import decode
from passdown.contracts.events import Logged
from tests.unit.core.spec import Session


def log_of(session: Session) -> list[Logged]:
    return [decode(raw, Logged) for raw in session.log]


def brief_of(session: Session, ticket: int | None = None) -> Brief:
    """Return the brief of a ticket; by default of the newest open one, else of the session."""
    number = ticket
    if number is None and session.state.tickets:
        number = session.state.tickets[-1].ticket_no
    return brief(session.state, log_of(session), session.plan, number)
