"""Load, decide, commit, ring; on a conflict again. The only writer of sessions.

A command's id is derived from the act, so each of these steps may be repeated after a lost reply: a
command that was recorded is answered from its record (DESIGN §4).
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import stamina
import structlog

from passdown.broker.catalog import CatalogCache
from passdown.broker.core.decide import decide, dues
from passdown.broker.core.given import Command, Decision, DueAt
from passdown.broker.core.state import TERMINAL, State
from passdown.broker.doorbell import Doorbell
from passdown.broker.stores.base import (
    Commit,
    Committed,
    Count,
    DueEntry,
    Enqueue,
    Lease,
    Loaded,
    Repeated,
    SessionRow,
    Store,
    Taken,
    TakeRequest,
    TicketRow,
)
from passdown.contracts import commands as cmd
from passdown.contracts.codec import decode, digest_of, encode
from passdown.contracts.errors import Conflict, NotFound, PassdownError, Unavailable
from passdown.contracts.replies import Refusal, Reply, raise_refusal, read_reply

T = TypeVar("T")

_log = structlog.get_logger("passdown.controller")

#: Reloads after a conflict before giving up: each means that somebody else got through.
_CONFLICTS = 50


@dataclass(frozen=True, slots=True)
class Held:
    """A session as somebody last saw it, so that the next command need not load it.

    ``now`` was the store's clock (ms) when this process's monotonic clock (s) showed ``seen``.
    """

    state: State | None
    version: int
    now: int
    seen: float
    catalog: int

    def at(self) -> int:
        """Return the store's time by now: what it was, plus what elapsed here."""
        return self.now + int((time.monotonic() - self.seen) * 1000)


@dataclass(frozen=True, slots=True)
class Done:
    """What a command answered, the session as it left it, and what was taken along."""

    reply: Reply
    held: Held | None
    taken: Taken | None = None


def held_of(state: bytes | None, version: int, now: int, catalog: int) -> Held:
    """Return a session as the store handed it out just now."""
    return Held(
        decode(state, State, what="state") if state else None, version, now, time.monotonic(), catalog
    )


class Controller:
    """Carries out commands on sessions. Thread-safe, keeps nothing that matters."""

    def __init__(self, store: Store, doorbell: Doorbell, *, patience_s: float = 20.0) -> None:
        self.store = store
        self.catalog = CatalogCache(store)
        self._doorbell = doorbell
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._commits = 0

    def run(
        self,
        session_id: str,
        body: cmd.Body,
        by: str,
        *,
        held: Held | None = None,
        take: TakeRequest | None = None,
    ) -> Done:
        """Carry out one command, whatever gets lost on the way; retries for `patience_s` where the store is away.

        Raises what `decide` raises; Conflict where the same act was recorded with another content;
        Unavailable where the store stays away (then a retry is safe).
        """
        first = [held]

        def act() -> Done:
            # After a failure only the store knows whether the command was carried out: load, do not trust `held`.
            return self._run(session_id, body, by, first.pop() if first else None, take)

        return self._patiently(session_id, act)

    def _patiently(self, session_id: str, act: Callable[[], T]) -> T:
        """Do `act`; where the store is away, again with jittered waits for `patience_s`, then raise Unavailable."""
        try:
            return act()
        except Unavailable as error:
            if self._patience_s <= 0:
                raise
            _log.warning("controller.store_away", session=session_id, error=str(error))
        for attempt in stamina.retry_context(on=Unavailable, attempts=None, timeout=self._patience_s):
            with attempt:
                return act()
        raise AssertionError("retry_context ends by returning or raising")

    def _run(
        self, session_id: str, body: cmd.Body, by: str, held: Held | None, take: TakeRequest | None
    ) -> Done:
        command_id = cmd.command_id(session_id, body, by)
        command_digest = digest_of(body)
        for _ in range(_CONFLICTS):
            decision = self._decide_on_held(session_id, body, by, held) if held else None
            if held is None or decision is None:
                loaded = self.store.load(session_id, command_id, command_digest)
                if loaded.reply is not None or loaded.clash:
                    return self._recorded(body, loaded, take)
                held = held_of(loaded.state, loaded.version, loaded.now, loaded.catalog)
                decision = self._decide(session_id, body, by, held)
            if not decision.events:
                return self._nothing(session_id, body, decision, held, take)
            commit = commit_of(session_id, command_id, command_digest, held, decision)
            outcomes, taken = self.store.commit([commit], take)
            outcome = outcomes[0]
            if isinstance(outcome, Committed):
                return self._committed(decision, outcome, held, taken)
            if isinstance(outcome, Repeated):
                return _answered(read_reply(outcome.reply), taken)
            held = None
        raise Unavailable("the session", f"it changed {_CONFLICTS} times while this command was decided")

    def _decide_on_held(self, session_id: str, body: cmd.Body, by: str, held: Held) -> Decision | None:
        """Decide on a state that was not loaded just now; None where that says no.

        It may be what is out of date, or this very act may be recorded already: only the store knows.
        """
        try:
            decision = self._decide(session_id, body, by, held)
        except Unavailable:
            raise
        except PassdownError:
            return None
        return None if isinstance(decision.reply, Refusal) else decision

    def _decide(self, session_id: str, body: cmd.Body, by: str, held: Held) -> Decision:
        state = held.state
        if isinstance(body, cmd.Submit):
            plan = body.plan
        elif state is None:
            raise NotFound("session", session_id)
        else:
            plan = state.plan
        given = self.catalog.given(state, plan, held.catalog)
        return decide(state, Command(session_id, body, held.at(), by, given))

    def _recorded(self, body: cmd.Body, loaded: Loaded, take: TakeRequest | None) -> Done:
        if loaded.reply is None:
            raise Conflict(f"this {type(body).__name__.lower()} was made already, with another content")
        taken = self.store.take(take) if take else None
        return _answered(read_reply(loaded.reply), taken)

    def _nothing(
        self, session_id: str, body: cmd.Body, decision: Decision, held: Held, take: TakeRequest | None
    ) -> Done:
        if isinstance(decision.reply, Refusal) and isinstance(body, cmd.Give | cmd.Fail):
            self.store.put(Count(session_id=session_id, name="fenced"))
        raise_refusal(decision.reply)
        taken = self.store.take(take) if take else None
        return Done(decision.reply, held, taken)

    def _committed(self, decision: Decision, outcome: Committed, held: Held, taken: Taken | None) -> Done:
        for role in outcome.ring:
            self._doorbell.ring(role)
        self._tell()
        raise_refusal(decision.reply)
        now = Held(decision.state, outcome.version, outcome.now, time.monotonic(), held.catalog)
        return Done(decision.reply, now, taken)

    def wait_for_change(self, seen: int, seconds: float) -> int:
        """Wait until this process has committed something beyond `seen` commits, at most `seconds`; returns the count.

        For whoever waits for a session that is worked on in the same process; others' commits do not wake it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._commits != seen, timeout=seconds)
            return self._commits

    def _tell(self) -> None:
        with self._changed:
            self._commits += 1
            self._changed.notify_all()

    def ring(self, role: str) -> None:
        """Ring for a role."""
        self._doorbell.ring(role)

    def load(self, session_id: str) -> Held:
        """Return a session as it stands; its state is None where there is none."""
        loaded = self._patiently(session_id, lambda: self.store.load(session_id))
        return held_of(loaded.state, loaded.version, loaded.now, loaded.catalog)


def _answered(reply: Reply, taken: Taken | None) -> Done:
    raise_refusal(reply)
    return Done(reply, None, taken)


def commit_of(
    session_id: str, command_id: str, command_digest: str, held: Held, decision: Decision
) -> Commit:
    """Return the atomic step that records a decision: what differs between the states before and after."""
    before, after = held.state, decision.state
    if after is None:
        raise AssertionError("a decision with events leads to a state")
    entries = dues(after)
    return Commit(
        session_id=session_id,
        command_id=command_id,
        command_digest=command_digest,
        expected=held.version,
        events=decision.events,
        state=encode(after),
        row=_row(after),
        reply=encode(decision.reply),
        queue=_queue(before, after, decision.pack),
        dues=_due_entries(entries, after) if entries != (dues(before) if before else []) else None,
        tickets=_ticket_rows(after) if after.tickets != (before.tickets if before else []) else None,
        lease=_lease(before, after),
    )


def _row(state: State) -> SessionRow:
    return SessionRow(
        session_id=state.session_id,
        task_id=state.task_id,
        task_name=state.task_name,
        key=state.key,
        plan=str(state.plan),
        stage=state.stage,
        status=state.shown_status,
        version=state.seq,
        opened_at=state.opened_at,
        updated_at=state.at,
    )


def _queue(before: State | None, after: State, pack: bytes | None) -> Enqueue | Literal["withdraw"] | None:
    issued = after.issued
    was_queued = before is not None and before.issued is not None and before.claim is None
    if issued is None or after.claim is not None:
        return "withdraw" if was_queued else None
    if was_queued and before is not None and before.issued == issued:
        return None
    if pack is None:
        raise AssertionError("a pack that was issued comes with its bytes")
    return Enqueue(
        role=issued.role,
        step=after.step,
        attempt=issued.attempt,
        digest=issued.digest,
        pack=pack,
        priority=issued.priority,
        solo=issued.solo,
    )


def _due_entries(entries: list[DueAt], after: State) -> list[DueEntry]:
    return [
        DueEntry(kind=entry.kind, subject=entry.subject, at=entry.at, after_ms=max(0, entry.at - after.at))
        for entry in entries
    ]


def _ticket_rows(state: State) -> list[TicketRow]:
    return [
        TicketRow(
            session_id=state.session_id,
            ticket_no=ticket.ticket_no,
            version=ticket.version,
            kind=ticket.kind,
            queue=ticket.queue,
            why=ticket.why,
            about=ticket.about,
            opened_at=ticket.opened_at,
        )
        for ticket in state.tickets
    ]


def _lease(before: State | None, after: State) -> Lease | Literal["end", "cancel", "tell"] | None:
    had = before.claim if before else None
    has = after.claim
    if has is not None and had is None:
        issued = after.issued
        if issued is None:
            raise AssertionError("a claim holds a pack")
        return Lease(claim_id=has.claim_id, role=issued.role, lease_ms=issued.lease_ms)
    if had is None:
        return None
    ending = bool(after.ending) or after.status in TERMINAL - {"done", "refused", "failed"}
    if has is not None:
        return "cancel" if ending and not (before and before.ending) else None
    return "tell" if ending else "end"
