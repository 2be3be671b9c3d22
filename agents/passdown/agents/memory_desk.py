"""What a producer, a person and fate do to the sessions of a gateway in memory. For tests."""

import threading
from collections.abc import Sequence
from typing import Any

from passdown.agents.memory_ledger import close_tickets, settled
from passdown.agents.memory_session import Effect, Session
from passdown.contracts.errors import ContractError, NotFound
from passdown.contracts.gateway import BranchResult
from passdown.contracts.pack import Cause, Pack, PackAnswer
from passdown.contracts.schema import problems
from passdown.contracts.tools import ToolSpec, action_digest


class MemoryDesk:
    """The sessions of a `MemoryGateway`, and the side of it that no worker sees. Thread-safe."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.registered: dict[str, ToolSpec] = {}
        self._lock = threading.RLock()

    def submit(
        self,
        pack: Pack,
        *,
        max_attempts: int = 3,
        rerun: bool = False,
        solo: bool = False,
        branches: Sequence[BranchResult] = (),
    ) -> Session:
        """Put a pack on its role queue as a session of its own; `branches` are those that it merges."""
        with self._lock:
            session = Session(
                pack=pack, specs=self.registered, max_attempts=max_attempts, rerun=rerun, solo=solo
            )
            session.branches = sorted(branches, key=lambda one: one.place)
            session.snapshot = pack.snapshot
            session.answers = list(pack.answers)
            session.causes.append(pack.cause)
            self.sessions[pack.session_id] = session
            return session

    def lose(self, session_id: str) -> None:
        """Declare the session's claim lost, as when its lease ran out; a reservation too."""
        with self._lock:
            session = self._session(session_id)
            session.reserved = False
            if session.claim_id:
                session.end_claim("its worker was lost")
                session.failures, session.lost, session.solo = session.failures + 1, True, True
                session.go_on()

    def cancel(self, session_id: str) -> None:
        """Call the session off; `renew` says so."""
        with self._lock:
            session = self._session(session_id)
            session.cancelled = True
            if not session.claim_id:
                session.go_on()

    def approve(self, session_id: str, effect_id: str, *, edited: dict[str, Any] | None = None) -> None:
        """A person allows a proposed effect, perhaps with other arguments."""
        with self._lock:
            session, effect = self._decided(session_id, effect_id)
            effect.edited = edited
            effect.approved = action_digest(effect_id, effect.tool, edited or effect.args)
            _resume(session, "human")

    def deny(self, session_id: str, effect_id: str, why: str = "a person denied it") -> None:
        """A person forbids a proposed effect."""
        with self._lock:
            session, effect = self._decided(session_id, effect_id)
            effect.status, effect.error, effect.touched = "denied", why, session.tick()
            _resume(session, "human")

    def say(self, session_id: str, effect_id: str, *, done: bool, result: Any = None) -> None:
        """A person says how an unknown effect ended; *not done* allows one repeat."""
        with self._lock:
            session, effect = self._decided(session_id, effect_id)
            settled(session, effect, done=done, result=result)
            _resume(session, "retry")

    def answer(self, session_id: str, question: str, value: Any, by: str = "user:tester") -> None:
        """Answer a question; the attempt that honours the answers is issued with the last one."""
        with self._lock:
            session = self._session(session_id)
            asked = next((one for one in session.questions if one.id == question), None)
            if asked is None:
                raise NotFound("question", question)
            found = problems(asked.schema, value)
            if found:
                raise ContractError("answer", "; ".join(found))
            attempt = session.pack.attempt
            session.answers.append(
                PackAnswer(attempt=attempt, id=question, text=asked.text, value=value, by=by)
            )
            session.questions = [one for one in session.questions if one.id != question]
            if not session.questions:
                session.given = None
                close_tickets(session, "")
                session.go_on("input")

    # For the gateway, too

    def _session(self, session_id: str) -> Session:
        found = self.sessions.get(session_id)
        if found is None:
            raise NotFound("session", session_id)
        return found

    def _decided(self, session_id: str, effect_id: str) -> tuple[Session, Effect]:
        session = self._session(session_id)
        effect = session.ledger.get(effect_id)
        if effect is None or not close_tickets(session, effect_id):
            raise NotFound("ticket about effect", effect_id)
        return session, effect


def _resume(session: Session, cause: Cause) -> None:
    """Go on after a person's word, unless a settle attempt is under way, which goes on itself."""
    if session.status == "waiting":
        session.go_on(cause)
