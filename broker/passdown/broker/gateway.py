"""The worker's side of the broker, directly over the controller: for workers that reach the store.

Keeps, per claim that this process holds, the session as it last saw it, so that a handoff needs no
load: take, claim, and a return that takes the next pack along (DESIGN §4, few round trips).
"""

import threading
from typing import Any, Literal

from passdown.broker.controller import Controller, Done, Held, held_of
from passdown.broker.stores.base import Documents, HandBack, Quarantine, Renewal, Taken, TakeRequest
from passdown.contracts import commands as cmd
from passdown.contracts.codec import Record, decode_any
from passdown.contracts.errors import ContractError, NotFound, PassdownError
from passdown.contracts.events import EffectDone, EffectSettled, Logged
from passdown.contracts.gateway import AgentInfo, Claim, Offer, Standing, Taking
from passdown.contracts.pack import Pack, read_pack
from passdown.contracts.replies import Recorded, Rejected, Run, Suspended
from passdown.contracts.returns import Fence
from passdown.contracts.tools import ToolSpec, tool_digest


class Limits(Record, frozen=True, kw_only=True):
    """How long a taken pack is reserved, and what may run at once (0: no limit)."""

    claim_by_ms: int = 10_000
    roles: dict[str, int] = {}
    task: int = 0


class DirectGateway:
    """Implements `passdown.contracts.gateway.Gateway`. Thread-safe."""

    def __init__(self, controller: Controller, limits: Limits | None = None) -> None:
        self._controller = controller
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        #: By session: what this process last saw of it. Bounded by the packs that it holds.
        self._seen: dict[str, Held] = {}

    def take(self, role: str, slots: int, *, holding: bool = False) -> Taking:
        """Reserve up to `slots` packs of `role`."""
        return self._taking(self._controller.store.take(self._request(role, slots, holding)))

    def _request(self, role: str, slots: int, holding: bool) -> TakeRequest:
        return TakeRequest(
            role=role,
            slots=slots,
            holding=holding,
            claim_by_ms=self._limits.claim_by_ms,
            role_limit=self._limits.roles.get(role, 0),
            task_limit=self._limits.task,
        )

    def _taking(self, taken: Taken) -> Taking:
        offers: list[Offer] = []
        for one in taken.packs:
            try:
                pack = read_pack(one.pack)
            except ContractError as error:
                # Nothing that the broker wrote reads like this: the database was tampered with or is damaged.
                self._quarantine("pack", error, one.pack)
                continue
            self._keep(one.session_id, held_of(one.state, one.version, taken.now, taken.catalog))
            offers.append(Offer(pack=pack, solo=one.solo))
        return Taking(offers=offers, more=taken.more)

    def hand_back(self, pack: Pack, why: str, *, after_seconds: float) -> None:
        """End a reservation before the claim: this worker cannot run the pack."""
        self._forget(pack.session_id)
        self._controller.store.hand_back(
            HandBack(
                session_id=pack.session_id,
                step=pack.step,
                attempt=pack.attempt,
                after_ms=int(after_seconds * 1000),
                why=why,
            )
        )

    def claim(self, pack: Pack, claim_id: str, agent: AgentInfo) -> Claim:
        """Hold the attempt. Raises Fenced where another claim holds it or it is over."""
        fence = Fence(step=pack.step, attempt=pack.attempt, claim_id=claim_id)
        body = cmd.Claim(
            fence=fence,
            pack_digest=pack.digest,
            agent=agent.name,
            agent_version=agent.version,
            model=agent.model,
        )
        self._run(pack.session_id, body, pack.role)
        return Claim(
            session_id=pack.session_id, role=pack.role, fence=fence, lease_seconds=pack.lease_seconds
        )

    def renew(self, claims: list[Claim]) -> list[Standing]:
        """Keep the leases of several claims at once."""
        renewals = [
            Renewal(
                session_id=claim.session_id,
                claim_id=claim.fence.claim_id,
                lease_ms=int(claim.lease_seconds * 1000),
            )
            for claim in claims
        ]
        return list(self._controller.store.renew(renewals))

    def release(self, claim: Claim, reason: str, notes: list[cmd.ToolNote]) -> None:
        """Hand the attempt back, counting no failure."""
        self._end(claim, cmd.Release(fence=claim.fence, reason=reason, notes=notes))

    def checkpoint(
        self, claim: Claim, number: int, data: Any, counters: dict[str, int], notes: list[cmd.ToolNote]
    ) -> None:
        """Record intermediate state."""
        body = cmd.Checkpoint(fence=claim.fence, number=number, data=data, counters=counters, notes=notes)
        self._run(claim.session_id, body, claim.role)

    def tool(self, claim: Claim, number: int, notes: list[cmd.ToolNote]) -> None:
        """Record reading and denied calls by themselves."""
        self._run(claim.session_id, cmd.NoteTools(fence=claim.fence, number=number, notes=notes), claim.role)

    def effect(
        self,
        claim: Claim,
        effect_id: str,
        tool: str,
        args: dict[str, Any],
        counters: dict[str, int],
        after: str | None,
        notes: list[cmd.ToolNote],
    ) -> Run | Recorded | Suspended:
        """Record the intent to write outside, or learn what was decided about it already."""
        body = cmd.Intend(
            fence=claim.fence,
            effect_id=effect_id,
            tool=tool,
            args=args,
            counters=counters,
            after=after,
            notes=notes,
        )
        reply = self._run(claim.session_id, body, claim.role).reply
        match reply:
            case Run():
                return reply
            case Suspended():
                self._forget(claim.session_id)
                return reply
            case Recorded():
                return self._with_result(claim.session_id, reply)
            case _:
                raise AssertionError(f"an intent is answered by {type(reply).__name__}")

    def _with_result(self, session_id: str, reply: Recorded) -> Recorded:
        """Fetch a result that is too large or too old to stand in the state from its event."""
        if reply.seq is None:
            return reply
        raw = self._controller.store.events(session_id, after=reply.seq - 1, limit=1)
        event = decode_any(raw[0], Logged, what="log").event if raw else None
        if not isinstance(event, EffectDone | EffectSettled) or event.effect_id != reply.effect_id:
            raise NotFound("effect result", reply.effect_id, "the log does not hold it where the ledger says")
        return Recorded(effect_id=reply.effect_id, status=reply.status, result=event.result)

    def report(
        self,
        claim: Claim,
        effect_id: str,
        phase: Literal["done", "failed", "unknown"],
        *,
        result: Any = None,
        error: str = "",
    ) -> None:
        """Say how a write ended."""
        body = cmd.Report(
            effect_id=effect_id, claim_id=claim.fence.claim_id, phase=phase, result=result, error=error
        )
        self._run(claim.session_id, body, claim.role)

    def settle(self, claim: Claim, verdicts: list[cmd.Verdict]) -> None:
        """End a settle attempt with what `verify` found."""
        self._end(claim, cmd.Settle(fence=claim.fence, verdicts=verdicts))

    def give(
        self,
        claim: Claim,
        body: bytes,
        notes: list[cmd.ToolNote],
        *,
        then_take: tuple[str, int] | None = None,
        holding: bool = False,
    ) -> Taking | None:
        """Give the return; with `then_take` = (role, slots) take the next packs in the same round trip."""
        text = body.decode("utf-8", "backslashreplace")
        request = self._request(*then_take, holding) if then_take else None
        done = self._end(claim, cmd.Give(fence=claim.fence, body=text, notes=notes), request)
        if isinstance(done.reply, Rejected):
            self._quarantine("return", done.reply.problem, body)
        return self._taking(done.taken) if done.taken else None

    def fail(
        self, claim: Claim, kind: Literal["contract", "error"], problem: str, notes: list[cmd.ToolNote]
    ) -> None:
        """The agent ended without a return: the attempt counts as failed."""
        self._end(claim, cmd.Fail(fence=claim.fence, kind=kind, problem=problem, notes=notes))

    def register_tools(self, specs: list[ToolSpec]) -> None:
        """Publish the specifications of this worker's tools."""
        self._controller.store.put(Documents(tools=[(tool_digest(spec), spec) for spec in specs]))

    def _run(self, session_id: str, body: cmd.Body, role: str, take: TakeRequest | None = None) -> Done:
        with self._lock:
            held = self._seen.get(session_id)
        try:
            done = self._controller.run(session_id, body, f"agent:{role}", held=held, take=take)
        except PassdownError:
            # What was held may be what is wrong with it: the next command loads.
            self._forget(session_id)
            raise
        if done.held is None:
            self._forget(session_id)
        else:
            self._keep(session_id, done.held)
        return done

    def _end(self, claim: Claim, body: cmd.Body, take: TakeRequest | None = None) -> Done:
        try:
            return self._run(claim.session_id, body, claim.role, take)
        finally:
            self._forget(claim.session_id)

    def _keep(self, session_id: str, held: Held) -> None:
        with self._lock:
            self._seen[session_id] = held

    def _forget(self, session_id: str) -> None:
        with self._lock:
            self._seen.pop(session_id, None)

    def _quarantine(self, source: str, reason: object, body: bytes) -> None:
        self._controller.store.put(Quarantine(source=source, reason=str(reason), body=body))
