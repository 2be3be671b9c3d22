"""Real recorded agent runs, replayed through the broker with real processes (``passdown demo --recorded``)."""

import time
from pathlib import Path

from rich.console import Console

from passdown.broker.app import compose
from passdown.broker.client import Broker, Session
from passdown.broker.demo.chaos import Chaos
from passdown.broker.demo.counting import count
from passdown.broker.demo.journal import Journal, Written
from passdown.broker.demo.people import Decide
from passdown.broker.demo.place import Place, Where, place, require_files_of
from passdown.broker.demo.playing import Cast, Played, play
from passdown.broker.demo.proving import faults_of
from passdown.broker.demo.record import Asked, Run, write_run
from passdown.broker.demo.replayed import ROLE, TRAJECTORY, tools_of
from passdown.broker.demo.report import Report
from passdown.broker.demo.trajectory import read_runs
from passdown.broker.demo.watching import EFFECT, WAITING
from passdown.broker.plans import Backoff, Plan, Stage, Subject
from passdown.broker.stores.queries import TicketRow
from passdown.contracts.codec import digest, encode
from passdown.contracts.errors import Conflict, ContractError
from passdown.contracts.pack import Resource
from passdown.contracts.plans import PlanRef

PLAN = "recorded"
CUSTOMERS, PEOPLE = "customers", "tier2"
CUSTOMER = "user:customer"
EXAMINER = "user:examiner"
PRODUCER = "service:recorded-runs"

#: Six capitals or digits, but no number of a flight, which is HAT and three digits.
_RESERVATION = (
    "[A-GI-Z0-9][A-Z0-9]{5}|H[B-Z0-9][A-Z0-9]{4}|HA[A-SU-Z0-9][A-Z0-9]{3}"
    "|HAT[A-Z][A-Z0-9]{2}|HAT[0-9][A-Z][A-Z0-9]|HAT[0-9]{2}[A-Z]"
)
#: What a run is about, for the brief.
SUBJECTS = {
    "account": Subject(fields=["user_id"], pattern=r"\b[a-z]{2,20}_[a-z]{2,20}_[0-9]{4}\b"),
    "reservation": Subject(fields=["reservation_id", "reservations"], pattern=rf"\b(?:{_RESERVATION})\b"),
}
#: Of the policy of the recorded agent, what whoever takes over must hold to as well.
CONSTRAINTS = [
    "The customer has confirmed the details of a write before it is made.",
    "Basic economy flights cannot be modified; other reservations keep their origin, destination and trip type.",
    "A reservation is cancelled whole, within 24 hours of booking, where the airline cancelled, where it is business, or where its insurance covers the reason.",
    "The number of passengers of a reservation cannot be changed, not by people either.",
    "Payment methods are those in the customer's profile.",
]

_AGENTS = "passdown.broker.demo.replayed"
_LEASE_S = 15.0


def run_recorded(
    file: Path,
    *,
    policy: Path | None = None,
    chaos: int | None = None,
    where: Where | None = None,
    workers: int = 2,
    first: int | None = None,
    console: Console | None = None,
) -> Report:
    """Replay the runs of `file` (the `first` so many), and prove that each recorded write happened exactly once.

    `chaos` is the seed of kills, freezes, lost doorbells and lost replies; it works `where` that
    says, else in a new folder, which stays: see `place`. Raises ContractError for a file that is not of the
    format, Unavailable where the processes cannot work.
    """
    runs = read_runs(file)[:first]
    shared = [_policy(policy)] if policy else []
    at = place(where or Where(), "recorded")
    faults = None if chaos is None else Chaos(seed=chaos)
    began = time.monotonic()
    with Broker(compose(at.store, at.transport), by=CUSTOMER) as broker:
        _submit(at, broker, runs, shared, faults)
        people = {CUSTOMERS: customer(broker, runs), PEOPLE: examiner(at, broker, runs)}
        cast = Cast([ROLE], _AGENTS, workers, people, PEOPLE, faults)
        expected = {run.session_id: "done" if run.transfer is None else WAITING for run in runs}
        played = play(at, broker, cast, expected, console or Console())
        return _report(at, broker, runs, played, time.monotonic() - began)


def plan_of(tools: list[str], lease_s: float) -> Plan:
    """Return the plan of a replayed run: one stage, which asks customers and hands over to people."""
    return Plan(
        name=PLAN,
        description="A recorded run of a service agent, replayed",
        start="serve",
        subjects=SUBJECTS,
        stages={
            "serve": Stage(
                role=ROLE,
                goal="Serve the customer under the policy.",
                constraints=CONSTRAINTS,
                done_when=["the customer wants nothing more, or people have taken over"],
                ask=CUSTOMERS,
                tools=tools,
                recovery="continue",
                lease=f"{lease_s:g}s",
                # A run asks many times within one step; chaos may strike at each of them.
                max_attempts=100,
                backoff=Backoff(first="200ms", factor=1.0, most="200ms"),
                escalation=[PEOPLE],
            )
        },
    )


def _policy(path: Path) -> Resource:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ContractError(f"policy {path}", f"it cannot be read: {error.strerror}") from error
    return Resource(
        name="policy",
        uri=path.absolute().as_uri(),
        media_type="text/markdown",
        digest=digest(data),
        bytes=len(data),
    )


def _submit(at: Place, broker: Broker, runs: list[Run], shared: list[Resource], chaos: Chaos | None) -> None:
    """Write the runs into the folder, register tools and plan, and open a session for each run."""
    require_files_of(at, {one.key for one in runs if broker.app.store.load(one.session_id).state is not None})
    names = {call.tool: call.writes for run in runs for call in run.calls()}
    at.tools.write_bytes(encode(names))
    broker.register_tools([one.spec for one in tools_of(at, names)])
    ref = broker.register(plan_of(sorted(names), chaos.lease_s if chaos else _LEASE_S))
    producer = Broker(broker.app, by=PRODUCER)
    for run in runs:
        _submit_one(at, producer, ref, run, shared)


def _submit_one(at: Place, producer: Broker, ref: PlanRef, run: Run, shared: list[Resource]) -> None:
    path, sha, size = write_run(at.runs, run)
    own = Resource(name=TRAJECTORY, uri=path.as_uri(), media_type="application/json", digest=sha, bytes=size)
    inputs = {"taskId": run.task_id, "trial": run.trial, "request": run.request}
    task = f"recorded run {run.task_id}, trial {run.trial}"[:200]
    try:
        producer.submit(ref, task=task, inputs=inputs, key=run.key, resources=[own, *shared])
    except Conflict:
        # An earlier demo in this store was interrupted, or had other settings: its session goes on.
        known = producer.session(run.session_id).state().resources
        if sha not in {one.digest for one in known}:
            problem = f"it holds another run under {run.key!r}; name another --store"
            raise ContractError(f"store {at.store}", problem) from None


def customer(broker: Broker, runs: list[Run]) -> Decide:
    """Return the scripted customers: each open question is answered by the turn that follows it in the record."""
    by_session = {run.session_id: run for run in runs}

    def answer(ticket: TicketRow) -> bool:
        run = by_session.get(ticket.session_id)
        if run is None:
            return False
        answers = {act.question: act.answer for act in run.acts if isinstance(act, Asked)}
        session = broker.session(ticket.session_id)
        for question in session.state().questions:
            if not question.answered and question.id in answers:
                session.answer(question.id, answers[question.id], attempt=question.attempt)
        return True

    return answer


def examiner(at: Place, broker: Broker, runs: list[Run]) -> Decide:
    """Return who settles contradictions: a frozen worker may write just after a verify found nothing.

    A write is late by any length of time, so no verify can exclude it; whoever is asked looks outside again.
    """
    known = {run.session_id for run in runs}
    person = Broker(broker.app, by=EXAMINER)

    def settle(ticket: TicketRow) -> bool:
        if ticket.kind != EFFECT or ticket.session_id not in known:
            return False
        journal = Journal(at.journal)
        try:
            written = journal.find(ticket.about)
        finally:
            journal.close()
        session = person.session(ticket.session_id)
        resolution = "done" if written else "not-done"
        value = written.result if written else None
        session.resolve(ticket.ticket_no, resolution, value, note="looked outside", version=ticket.version)
        return True

    return settle


def _report(at: Place, broker: Broker, runs: list[Run], played: Played, seconds: float) -> Report:
    journal = Journal(at.journal)
    try:
        written, fates = journal.written(), journal.fates()
    finally:
        journal.close()
    by_session: dict[str, list[Written]] = {}
    for one in written:
        by_session.setdefault(one.session_id, []).append(one)
    sessions = [Session(broker, run.session_id) for run in runs]
    faults = list(played.faults)
    for run, session in zip(runs, sessions, strict=True):
        faults += faults_of(run, session, by_session.get(run.session_id, []))
    return Report(
        title=f"{len(runs)} recorded runs",
        verdict="Each recorded write stands in the ledger, in order, and happened once outside.",
        place=at,
        counts=count(sessions),
        fates=fates,
        seconds=seconds,
        example=next((run.session_id for run in runs if run.effects()), runs[0].session_id),
        faults=faults,
        restarts=played.restarts,
        freezes=played.freezes,
    )
