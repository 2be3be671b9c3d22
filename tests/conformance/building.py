"""Commits to try a store with: short to write, and each field may be named where a test is about it."""

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from passdown.broker.stores.base import (
    Commit,
    Committed,
    DueEntry,
    DueRequest,
    Enqueue,
    HandBack,
    Lease,
    Outcome,
    Renewal,
    Stale,
    Store,
    Taken,
    TakeRequest,
    Verdict,
)
from passdown.broker.stores.joining import JoinPut, JoinRow
from passdown.broker.stores.queries import SessionRow, TicketRow
from passdown.contracts.codec import digest, encode
from passdown.contracts.commands import DueKind

START_MS = 1_700_000_000_000
CLAIM_BY_MS = 10_000
LEASE_MS = 60_000
RESERVE_MS = 30_000


class Clock:
    """A store's clock that goes only when told to (milliseconds)."""

    def __init__(self) -> None:
        self.now = START_MS

    def __call__(self) -> int:
        return self.now

    def forward(self, ms: int) -> None:
        self.now += ms

    def back(self, ms: int) -> None:
        self.now -= ms


def events_of(session_id: str, first: int, count: int) -> list[bytes]:
    """Return events as they look in a log, from seq `first` on."""
    return [encode({"session": session_id, "seq": seq}) for seq in range(first, first + count)]


def row(
    session_id: str, version: int, *, status: str = "queued", opened_at: int = 1000, **more: str
) -> SessionRow:
    """Return what the session is found by; ``more`` names other columns."""
    columns = {
        "task_id": f"t-{session_id}",
        "task_name": f"Task of {session_id}",
        "key": f"key-{session_id}",
        "plan": "refund@1",
        "stage": "check",
        **more,
    }
    return SessionRow(
        session_id=session_id,
        status=status,
        version=version,
        opened_at=opened_at,
        updated_at=opened_at + version,
        **columns,
    )


def pack(
    role: str = "analyst", *, step: int = 1, attempt: int = 1, priority: int = 0, solo: bool = False
) -> Enqueue:
    """Return a pack to enqueue."""
    body = encode({"role": role, "step": step, "attempt": attempt})
    return Enqueue(
        role=role, step=step, attempt=attempt, digest=digest(body), pack=body, priority=priority, solo=solo
    )


def lease(claim_id: str = "c1", *, role: str = "analyst", ms: int = LEASE_MS) -> Lease:
    """Return a lease that begins."""
    return Lease(claim_id=claim_id, role=role, lease_ms=ms)


def entry(kind: DueKind = "deadline", subject: str = "", *, after_ms: int, at: int = 7) -> DueEntry:
    """Return something that the session waits for."""
    return DueEntry(kind=kind, subject=subject, at=at, after_ms=after_ms)


def ticket(session_id: str, ticket_no: int = 1, *, queue: str = "leads", opened_at: int = 1000) -> TicketRow:
    """Return an open ticket."""
    return TicketRow(
        session_id=session_id,
        ticket_no=ticket_no,
        version=1,
        kind="escalation",
        queue=queue,
        why="over the limit",
        opened_at=opened_at,
    )


def step(
    session_id: str,
    expected: int = 0,
    *,
    command: str = "",
    events: int = 1,
    state: bytes = b"",
    row: SessionRow | None = None,
    queue: Enqueue | Literal["withdraw"] | None = None,
    dues: list[DueEntry] | None = None,
    tickets: list[TicketRow] | None = None,
    lease: Lease | Literal["end", "cancel", "tell"] | None = None,
    tell: bool = False,
    content: str = "",
    room: int = 0,
    join: JoinPut | None = None,
    join_row: JoinRow | None = None,
) -> Commit:
    """Return one atomic step of a session; its command's id says which step it is, unless `command` does."""
    version = expected + events
    command_id = command or f"{session_id}/{expected}"
    return Commit(
        session_id=session_id,
        command_id=command_id,
        command_digest=digest(f"{command_id}{content}".encode()),
        expected=expected,
        events=events_of(session_id, expected + 1, events),
        state=state or encode({"session": session_id, "version": version}),
        row=row or _row(session_id, version),
        reply=encode({"reply": command_id}),
        queue=queue,
        dues=dues,
        tickets=tickets,
        lease=lease,
        room=room,
        tell=tell,
        join=join,
        join_row=join_row,
    )


_row = row


def do(store: Store, *commits: Commit) -> list[Outcome]:
    """Commit in one call, and return the outcomes."""
    outcomes, taken = store.commit(list(commits))
    assert taken is None
    return outcomes


def done(store: Store, *commits: Commit) -> Committed:
    """Commit in one call, each of which must be written; return the last outcome."""
    outcomes = do(store, *commits)
    for outcome in outcomes:
        assert isinstance(outcome, Committed), outcome
    last = outcomes[-1]
    assert isinstance(last, Committed)
    return last


def stale(outcome: Outcome) -> Stale:
    """Return the outcome, which must be a conflict."""
    assert isinstance(outcome, Stale), outcome
    return outcome


class Limits(TypedDict, total=False):
    """What else a request to take may say."""

    holding: bool
    role_limit: int
    task_limit: int
    linger_ms: int


def request(role: str = "analyst", slots: int = 1, **limits: Unpack[Limits]) -> TakeRequest:
    """Return a request to take."""
    return TakeRequest(role=role, slots=slots, claim_by_ms=CLAIM_BY_MS, **limits)


def take(store: Store, role: str = "analyst", slots: int = 1, **limits: Unpack[Limits]) -> Taken:
    """Take packs."""
    return store.take(request(role, slots, **limits))


def names(taken: Taken) -> list[str]:
    """Return the sessions of the packs that were taken."""
    return [one.session_id for one in taken.packs]


def claim(store: Store, session_id: str, expected: int = 1, claim_id: str = "c1") -> Committed:
    """Claim the session's pack as the controller does: withdrawn, and a lease begins."""
    return done(store, step(session_id, expected, queue="withdraw", lease=lease(claim_id)))


def opened(store: Store, *session_ids: str, role: str = "analyst", solo: bool = False) -> None:
    """Open sessions, each with a pack on the queue of `role`."""
    done(store, *(step(session_id, queue=pack(role, solo=solo)) for session_id in session_ids))


def back(session_id: str, *, after_ms: int = 0, attempt: int = 1, why: str = "no such tool") -> HandBack:
    """Return a reservation's end."""
    return HandBack(session_id=session_id, step=1, attempt=attempt, after_ms=after_ms, why=why)


def renew(store: Store, session_id: str, claim_id: str = "c1", ms: int = LEASE_MS) -> Verdict:
    """Renew one lease."""
    (verdict,) = store.renew([Renewal(session_id=session_id, claim_id=claim_id, lease_ms=ms)])
    return verdict


def ask(
    limit: int = 100, *, elapsed_ms: int | None = None, reserve_ms: int = RESERVE_MS, tell: int = 0
) -> DueRequest:
    """Return a tick's request."""
    return DueRequest(limit=limit, reserve_ms=reserve_ms, elapsed_ms=elapsed_ms, tell=tell)


def due(store: Store, limit: int = 100) -> Sequence[tuple[str, str, str]]:
    """Return what is due: session, kind, subject."""
    return [(one.session_id, one.kind, one.subject) for one in store.due(ask(limit)).entries]
