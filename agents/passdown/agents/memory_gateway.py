"""A gateway without a broker, in memory: the rules of DESIGN §6 for sessions of one step. For tests.

It keeps no log, no plan and no time: a lease is lost when a test says so (`lose`), a person decides when a
test does (`approve`, `deny`, `say`, `answer`), and a retry waits no backoff. A hand-back's backoff is real.
"""

import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

from passdown.agents.memory_desk import MemoryDesk
from passdown.agents.memory_ledger import (
    admit,
    answer_known,
    check_return,
    close_tickets,
    intend,
    needs_person,
    other_identity,
    propose,
    settled,
)
from passdown.agents.memory_session import Session, new_effect
from passdown.contracts.codec import RETURN_BUDGET, digest, encode
from passdown.contracts.commands import ToolNote, Verdict
from passdown.contracts.errors import (
    BudgetExceeded,
    Conflict,
    ContractError,
    Denied,
    Fenced,
    NotFound,
    PassdownError,
)
from passdown.contracts.gateway import (
    AgentInfo,
    BranchPage,
    Claim,
    Claiming,
    Giving,
    Offer,
    Standing,
    Taking,
    Wanted,
)
from passdown.contracts.pack import PAGE_ITEMS, Pack, PackSnapshot
from passdown.contracts.replies import Recorded, Run, Suspended
from passdown.contracts.returns import Fence, read_return
from passdown.contracts.tools import ToolSpec

T = TypeVar("T")


class MemoryGateway(MemoryDesk):
    """Implements `passdown.contracts.gateway.Gateway`. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._replies: dict[tuple[object, ...], object] = {}

    # The gateway

    def take(self, role: str, slots: int, *, holding: bool = False, linger_ms: int = 0) -> Taking:  # noqa: ARG002 - nobody is rung here
        with self._lock:
            now = time.monotonic()
            ready = [
                one
                for one in self.sessions.values()
                if one.status == "queued"
                and not one.reserved
                and one.pack.role == role
                and one.ready_at <= now
            ]
            solo = [] if holding else [one for one in ready if one.solo]
            taken = solo[:1] or [one for one in ready if not one.solo][:slots]
            for one in taken:
                one.reserved = True
            return Taking(
                offers=[Offer(pack=one.pack, solo=one.solo) for one in taken], more=len(ready) > len(taken)
            )

    def hand_back(self, pack: Pack, why: str, *, after_seconds: float) -> None:
        with self._lock:
            session = self._session(pack.session_id)
            if session.status == "queued" and session.pack.attempt == pack.attempt:
                session.reserved, session.handed_back = False, why
                session.ready_at = time.monotonic() + after_seconds

    def claim(self, pack: Pack, claim_id: str, agent: AgentInfo) -> Claim:
        with self._lock:
            session = self._session(pack.session_id)
            fence = Fence(step=pack.step, attempt=pack.attempt, claim_id=claim_id)
            if session.pack.attempt != pack.attempt or session.claim_id not in ("", claim_id):
                raise Fenced(str(fence), f"attempt {session.pack.attempt}", "it is held or over")
            if session.status not in ("queued", "running"):
                raise Fenced(str(fence), "none", f"the session is {session.status}")
            if session.pack.digest != pack.digest:
                raise ContractError("pack", "its digest is not that of its attempt", pointer="/digest")
            session.status, session.claim_id, session.agent = "running", claim_id, agent
            return Claim(
                session_id=session.name, role=pack.role, fence=fence, lease_seconds=pack.lease_seconds
            )

    def claim_all(self, asked: list[Claiming]) -> list[Claim | PassdownError]:
        """Hold several attempts."""
        return [_tried(lambda one=one: self.claim(one.pack, one.claim_id, one.agent)) for one in asked]

    def renew(self, claims: list[Claim]) -> list[Standing]:
        with self._lock:
            return [self._standing(one) for one in claims]

    def release(self, claim: Claim, reason: str, notes: list[ToolNote]) -> None:
        def act() -> None:
            session = self._held(claim, ending=True)
            session.notes.extend(notes)
            session.end_claim(reason)
            session.go_on()

        self._once(("release", claim.fence.claim_id), act)

    def checkpoint(
        self, claim: Claim, number: int, data: Any, counters: dict[str, int], notes: list[ToolNote]
    ) -> None:
        def act() -> None:
            session = self._held(claim)
            under_way = session.with_status("intended")
            if under_way:
                raise Conflict(
                    f"no checkpoint while {under_way[0].tool} is under way", under_way[0].effect_id
                )
            size = len(encode(data))
            if size > RETURN_BUDGET:
                raise BudgetExceeded("checkpoint", size, RETURN_BUDGET)
            session.notes.extend(notes)
            session.checkpoints.append(data)
            session.snapshot = PackSnapshot(attempt=session.pack.attempt, data=data, counters=counters)

        self._once(("commit", claim.fence.claim_id, number), act)

    def tool(self, claim: Claim, number: int, notes: list[ToolNote]) -> None:
        self._once(("commit", claim.fence.claim_id, number), lambda: self._held(claim).notes.extend(notes))

    def effect(
        self,
        claim: Claim,
        effect_id: str,
        tool: str,
        args: dict[str, Any],
        counters: dict[str, int],
        after: str | None,
        notes: list[ToolNote],
    ) -> Run | Recorded | Suspended:
        def act() -> Run | Recorded | Suspended:
            session = self._held(claim)
            unknown = session.with_status("unknown")
            if unknown:
                raise Conflict("no new effect while one is unknown", unknown[0].effect_id, "settle it first")
            session.notes.extend(notes)
            identity, n = admit(session, effect_id, tool, args, counters)
            known = session.ledger.get(effect_id)
            if known is None:
                known = new_effect(session, effect_id, tool, args, identity, n)
                strange = other_identity(session, known, counters, after)
                why = strange or needs_person(session.tool(tool), args)
                if why:
                    return propose(session, known, why)
                return intend(session, known, claim)
            return answer_known(session, known, args, claim)

        return self._once(("effect", claim.fence.claim_id, effect_id), act)

    def report(
        self,
        claim: Claim,
        effect_id: str,
        phase: Literal["done", "failed", "unknown"],
        *,
        result: Any = None,
        error: str = "",
    ) -> None:
        def act() -> None:
            session = self._session(claim.session_id)
            effect = session.ledger.get(effect_id)
            if effect is None:
                raise NotFound("effect", effect_id)
            if claim.fence.claim_id not in effect.claims:
                raise Fenced(str(claim.fence), "another claim", "it recorded no intent")
            if effect.status not in ("intended", "unknown") or (
                phase == "unknown" and effect.status == "unknown"
            ):
                return
            late = effect.status == "unknown"
            effect.status, effect.result, effect.error = phase, result, error
            effect.touched = session.tick()
            if late:
                close_tickets(session, effect_id)
                if not session.claim_id:
                    session.go_on()

        self._once(("report", claim.fence.claim_id, effect_id, phase), act)

    def branches(self, claim: Claim, first: int = 0) -> BranchPage:
        with self._lock:
            session = self._held(claim)
            if session.pack.join is None:
                raise Denied("worker", "read branches", "this attempt merges nothing")
            rest = [one for one in session.branches if one.place >= first]
            following = rest[PAGE_ITEMS].place if len(rest) > PAGE_ITEMS else None
            return BranchPage(branches=rest[:PAGE_ITEMS], next=following)

    def settle(self, claim: Claim, verdicts: list[Verdict]) -> None:
        def act() -> None:
            session = self._held(claim)
            found = {one.effect_id: one for one in verdicts}
            session.end_claim("settled")
            for effect in session.with_status("unknown"):
                verdict = found.get(effect.effect_id)
                dedupes = effect.tool in session.specs and session.specs[effect.tool].dedupes
                if verdict and verdict.found == "found":
                    settled(session, effect, done=True, result=verdict.result)
                elif verdict and verdict.found == "absent" and dedupes:
                    settled(session, effect, done=False)
                else:
                    note = verdict.note if verdict else ""
                    session.ask("effect", note or "nobody knows whether it happened", effect.effect_id)
            session.go_on()

        self._once(("settle", claim.fence.claim_id), act)

    def give(
        self,
        claim: Claim,
        body: bytes,
        notes: list[ToolNote],
        *,
        then_take: Wanted | None = None,
    ) -> Taking | None:
        def act() -> None:
            session = self._held(claim, counts=True)
            session.notes.extend(notes)
            try:
                given = read_return(body)
                check_return(session, claim, given)
            except ContractError as error:
                session.failed("contract", str(error))
            else:
                session.accept(given)

        self._once(("give", claim.fence.claim_id, digest(body)), act)
        return self._taken(then_take)

    def give_all(
        self, given: list[Giving], *, then_take: Wanted | None = None
    ) -> tuple[list[PassdownError | None], Taking | None]:
        """Give several returns, then take."""
        answers = [_tried(lambda one=one: self.give(one.claim, one.body, one.notes)) for one in given]
        return [answer if isinstance(answer, PassdownError) else None for answer in answers], self._taken(
            then_take
        )

    def _taken(self, wanted: Wanted | None) -> Taking | None:
        return self.take(wanted.role, wanted.slots, holding=wanted.holding) if wanted else None

    def fail(
        self, claim: Claim, kind: Literal["contract", "error"], problem: str, notes: list[ToolNote]
    ) -> None:
        def act() -> None:
            session = self._held(claim, counts=True)
            session.notes.extend(notes)
            session.failed(kind, problem)

        self._once(("fail", claim.fence.claim_id, kind, problem), act)

    def register_tools(self, specs: list[ToolSpec]) -> None:
        with self._lock:
            self.registered.update({one.name: one for one in specs})

    # Helpers

    def _once(self, act_id: tuple[object, ...], act: Callable[[], T]) -> T:
        """Do `act`, or answer what it answered when its reply was lost (DESIGN §4)."""
        with self._lock:
            if act_id not in self._replies:
                self._replies[act_id] = act()
            return cast(T, self._replies[act_id])

    def _standing(self, claim: Claim) -> Standing:
        session = self.sessions.get(claim.session_id)
        if session is None or session.claim_id != claim.fence.claim_id:
            return "lost"
        return "cancelled" if session.cancelled else "held"

    def _held(self, claim: Claim, *, counts: bool = False, ending: bool = False) -> Session:
        session = self._session(claim.session_id)
        good = ("held", "cancelled") if ending else ("held",)
        if self._standing(claim) not in good:
            session.fenced += counts
            current = f"{session.pack.step}/{session.pack.attempt}/{session.claim_id[:8] or 'unclaimed'}"
            raise Fenced(str(claim.fence), current)
        return session


def _tried(act: Callable[[], T]) -> T | PassdownError:
    try:
        return act()
    except PassdownError as error:
        return error
