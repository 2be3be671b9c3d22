"""The brief of a session as the store holds it, for every surface that shows one."""

from passdown.broker.answers import no_session
from passdown.broker.controller import Controller
from passdown.broker.core.brief import brief
from passdown.broker.logbook import events, read_logged
from passdown.contracts.brief import Brief
from passdown.contracts.errors import NotFound


def brief_of(controller: Controller, session_id: str, ticket_no: int | None = None) -> Brief:
    """Return the brief of a session, or of one of its tickets, open or not.

    Raises NotFound for one that there is not, PlanError where the session's plan is gone from the store.
    """
    held = controller.load(session_id)
    state = held.state
    if state is None:
        raise no_session(session_id, held.removed)
    if ticket_no is not None and not 0 < ticket_no <= state.tickets_opened:
        raise NotFound("ticket", f"{session_id}/{ticket_no}")
    given, _ = controller.catalog.given(state, state.plan, held.catalog)
    log = [read_logged(raw) for raw in events(controller.store, session_id, until=state.seq)]
    return brief(state, log, given.plan, ticket_no, given.newest)
