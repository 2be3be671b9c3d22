"""The airline desk over its bundled cases, with real processes (``passdown demo``)."""

import time
from importlib import resources
from pathlib import Path

from rich.console import Console

from passdown.broker.app import compose
from passdown.broker.client import Broker, Session
from passdown.broker.demo import desk as agents
from passdown.broker.demo.cases import Case, Decision, desk, faults_of
from passdown.broker.demo.counting import count
from passdown.broker.demo.journal import Journal
from passdown.broker.demo.people import Decide
from passdown.broker.demo.place import Place, Where, place, require_files_of
from passdown.broker.demo.playing import Cast, Played, play
from passdown.broker.demo.report import Report
from passdown.broker.stores.queries import TicketRow

CUSTOMERS, SUPERVISORS, PEOPLE = "customers", "supervisors", "tier2"
#: Who opens the sessions; whoever approves is somebody else.
PRODUCER = "service:airline-desk"

_ROLES = ["reader", "clerk", "frontdesk", "writer"]
_TOOLS = [
    agents.read_reservation,
    agents.read_rules,
    agents.change_reservation,
    agents.create_refund,
    agents.send_mail,
]


def run_demo(
    *,
    where: Where | None = None,
    workers: int = 2,
    console: Console | None = None,
) -> Report:
    """Run the bundled cases and check that each ended as it should.

    It works `where` that says, else in a new folder, which stays: see `place`. Raises Unavailable where the
    processes cannot work.
    """
    cases = desk().cases
    at = place(where or Where(), "demo")
    began = time.monotonic()
    with Broker(compose(at.store, at.transport), by=PRODUCER) as broker:
        _submit(at, broker, cases)
        expected = {case.session_id: case.expect.status for case in cases}
        played = play(
            at,
            broker,
            Cast(_ROLES, agents.__name__, workers, _people(broker, cases), PEOPLE),
            expected,
            console or Console(),
        )
        return _report(at, broker, cases, played, time.monotonic() - began)


def plan_file() -> Path:
    """Return the path of the desk's plan."""
    return Path(str(resources.files("passdown.broker.demo").joinpath("desk.toml")))


def _submit(at: Place, broker: Broker, cases: list[Case]) -> None:
    known = {one.key for one in cases if broker.app.store.load(one.session_id).state is not None}
    require_files_of(at, known)
    journal = Journal(at.journal)
    broker.register_tools([one.spec for one in _TOOLS])
    ref = broker.register(plan_file())
    for case in cases:
        if case.accident and case.key not in known:
            journal.arrange(case.session_id, case.accident)
        broker.submit(ref, task=f"{case.inputs['customer']}: {case.name}", inputs=case.inputs, key=case.key)
    journal.close()


def _people(broker: Broker, cases: list[Case]) -> dict[str, Decide]:
    # Sessions of others in the same store are not these people's business.
    by_session = {case.session_id: case for case in cases}
    customer = Broker(broker.app, by="user:customer")
    supervisor = Broker(broker.app, by="user:sam")
    tier2 = Broker(broker.app, by="user:tara")

    def answer(ticket: TicketRow) -> bool:
        case = by_session.get(ticket.session_id)
        if case is None:
            return False
        session = customer.session(ticket.session_id)
        for question in session.state().questions:
            if not question.answered:
                session.answer(question.id, case.answers[question.id], attempt=question.attempt)
        return True

    def approve(ticket: TicketRow) -> bool:
        case = by_session.get(ticket.session_id)
        return _resolve(supervisor, ticket, case and case.supervisor)

    def take_over(ticket: TicketRow) -> bool:
        case = by_session.get(ticket.session_id)
        return _resolve(tier2, ticket, case and case.tier2)

    return {CUSTOMERS: answer, SUPERVISORS: approve, PEOPLE: take_over}


def _resolve(broker: Broker, ticket: TicketRow, decision: Decision | None) -> bool:
    if decision is None:
        return False
    session = broker.session(ticket.session_id)
    session.resolve(
        ticket.ticket_no, decision.resolution, decision.value, note=decision.note, version=ticket.version
    )
    return True


def _report(at: Place, broker: Broker, cases: list[Case], played: Played, seconds: float) -> Report:
    journal = Journal(at.journal)
    written, fates = journal.written(), journal.fates()
    journal.close()
    faults = list(played.faults)
    faults += [f"{one.key}: applied {one.calls} times outside" for one in written if one.calls != 1]
    sessions = {case.session_id: Session(broker, case.session_id) for case in cases}
    for case in cases:
        faults += faults_of(case, sessions[case.session_id])
    return Report(
        title=f"An airline desk, {len(cases)} cases",
        verdict="Every case ended as it should, and each write happened once outside.",
        place=at,
        counts=count(sessions.values()),
        fates=fates,
        seconds=seconds,
        example=next(case.session_id for case in cases if case.accident),
        faults=faults,
        restarts=played.restarts,
    )
