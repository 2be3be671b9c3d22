"""The worker's side of the broker, directly over the controller: for workers that reach the store.

Keeps, per attempt that this process holds, the session as it last saw it, so that a handoff needs no load:
take, claim, and a return that takes the next pack along (DESIGN §4, few round trips).
"""

import hashlib
from collections import OrderedDict
from contextlib import ExitStack
from typing import Any, Literal

import structlog

from passdown.broker.acts import Ask, Done, Held, held_of
from passdown.broker.attempts import Attempts, Key
from passdown.broker.controller import Controller
from passdown.broker.homeless import keep_report
from passdown.broker.joins.merging import counted_page
from passdown.broker.sealed import pack_of
from passdown.broker.stores.base import (
    Documents,
    HandBack,
    Quarantine,
    Renewal,
    Taken,
    TakenPack,
    TakeRequest,
)
from passdown.contracts import commands as cmd
from passdown.contracts.codec import Record, decode_any
from passdown.contracts.errors import ContractError, Fenced, NotFound, PassdownError
from passdown.contracts.events import EffectDone, EffectSettled, Logged
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
from passdown.contracts.pack import Pack
from passdown.contracts.replies import Recorded, Rejected, Run, Suspended
from passdown.contracts.returns import Fence
from passdown.contracts.tools import ToolSpec, tool_digest

_log = structlog.get_logger("passdown.gateway")

#: How many sessions are kept as last seen. One that is not costs a load.
MOST_SEEN = 4096
#: How long a pack that this version cannot read is left alone before it is offered again (milliseconds).
UNREADABLE_MS = 60_000


class Limits(Record, frozen=True, kw_only=True):
    """How long a taken pack is reserved (milliseconds), and what may run at once (0: no limit).

    ``role`` is the limit of each role that ``roles`` does not name.
    """

    claim_by_ms: int = 10_000
    roles: dict[str, int] = {}
    role: int = 0
    task: int = 0


class DirectGateway:
    """Implements `passdown.contracts.gateway.Gateway`; each method raises what that says. Thread-safe."""

    def __init__(self, controller: Controller, limits: Limits | None = None) -> None:
        self._controller = controller
        self._limits = limits or Limits()
        self._attempts = Attempts(MOST_SEEN)
        #: Digests of what was put into quarantine here, so that it is put there once and not at each take.
        self._unreadable: OrderedDict[str, None] = OrderedDict()

    def take(self, role: str, slots: int, *, holding: bool = False, linger_ms: int = 0) -> Taking:
        """Reserve up to `slots` packs of `role`."""
        request = self._request(Wanted(role, slots, holding, linger_ms))
        return self._taking(self._controller.store.take(request))

    def _request(self, wanted: Wanted) -> TakeRequest:
        role, slots, holding, linger_ms = wanted
        return TakeRequest(
            role=role,
            slots=slots,
            holding=holding,
            linger_ms=linger_ms,
            claim_by_ms=self._limits.claim_by_ms,
            role_limit=self._limits.roles.get(role, self._limits.role),
            task_limit=self._limits.task,
        )

    def _taking(self, taken: Taken) -> Taking:
        self._controller.catalog.heard(taken.catalog)
        read = [(one, self._read(one, taken)) for one in taken.packs]
        offers = [offer for _, offer in read if isinstance(offer, Offer)]
        for one, fault in read:
            if isinstance(fault, ContractError):
                self._put_aside(one, fault)
        return Taking(offers=offers, more=taken.more)

    def _read(self, one: TakenPack, taken: Taken) -> Offer | ContractError:
        """Return an offer; or what is wrong with a pack or a state that no broker of this version wrote."""
        try:
            held = held_of(one.state, taken.now, taken.catalog)
            pack = pack_of(one.pack, held)
        except ContractError as error:
            return error
        self._attempts.keep((one.session_id, one.step, one.attempt), held)
        return Offer(pack=pack, solo=one.solo, dear=self._is_dear(held))

    def _is_dear(self, held: Held) -> bool:
        """Whether the next lost claim brings in a person, or fails the session."""
        state = held.state
        if state is None:
            return True
        try:
            given, _ = self._controller.catalog.given(state, state.plan, held.catalog)
            stage = given.stage(state.stage)
        except PassdownError:
            return True  # whoever claims it is told why it cannot be run
        return stage.recovery == "human" or state.failures + 1 >= stage.max_attempts

    def _put_aside(self, one: TakenPack, fault: ContractError) -> None:
        """Keep what cannot be read for inspection, and let it stop nobody; a newer worker may be able to read it."""
        _log.error("gateway.unreadable", session=one.session_id, error=str(fault))
        name = hashlib.sha256(one.pack + one.state).hexdigest()
        try:
            if name not in self._unreadable:
                source, body = (fault.what, one.state if fault.what == "state" else one.pack)
                self._controller.store.put(Quarantine(source=source, reason=str(fault), body=body))
                self._unreadable[name] = None
                if len(self._unreadable) > MOST_SEEN:
                    self._unreadable.popitem(last=False)
            self._hand_back(one.session_id, one.step, one.attempt, str(fault), UNREADABLE_MS)
        except PassdownError as error:
            # The others that were taken must not suffer for it; its reservation runs out by itself.
            _log.warning("gateway.not_put_aside", session=one.session_id, error=str(error))

    def hand_back(self, pack: Pack, why: str, *, after_seconds: float) -> None:
        """End a reservation before the claim: this worker cannot run the pack."""
        self._attempts.forget((pack.session_id, pack.step, pack.attempt))
        self._hand_back(pack.session_id, pack.step, pack.attempt, why, int(after_seconds * 1000))

    def _hand_back(self, session_id: str, step: int, attempt: int, why: str, after_ms: int) -> None:
        self._controller.store.hand_back(
            HandBack(session_id=session_id, step=step, attempt=attempt, after_ms=after_ms, why=why)
        )

    def claim(self, pack: Pack, claim_id: str, agent: AgentInfo) -> Claim:
        """Hold the attempt. Raises Fenced where another claim holds it or it is over."""
        claim = _claim_of(pack, claim_id)
        try:
            self._run(claim, _claiming(claim, pack, agent))
        except PassdownError:
            self._forget(claim)
            raise
        return claim

    def claim_all(self, asked: list[Claiming]) -> list[Claim | PassdownError]:
        """Hold several attempts in one round trip."""
        claims = [_claim_of(one.pack, one.claim_id) for one in asked]
        bodies = [_claiming(claim, one.pack, one.agent) for claim, one in zip(claims, asked, strict=True)]
        answers, _ = self._run_all(list(zip(claims, bodies, strict=True)), None)
        for claim, answer in zip(claims, answers, strict=True):
            if isinstance(answer, PassdownError):
                self._forget(claim)
        return [
            answer if isinstance(answer, PassdownError) else claim
            for claim, answer in zip(claims, answers, strict=True)
        ]

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
        standings = list(self._controller.store.renew(renewals))
        for claim, standing in zip(claims, standings, strict=True):
            if standing != "held":
                self._forget(claim)
        return standings

    def release(self, claim: Claim, reason: str, notes: list[cmd.ToolNote]) -> None:
        """Hand the attempt back, counting no failure."""
        self._end(claim, cmd.Release(fence=claim.fence, reason=reason, notes=notes))

    def checkpoint(
        self, claim: Claim, number: int, data: Any, counters: dict[str, int], notes: list[cmd.ToolNote]
    ) -> None:
        """Record intermediate state."""
        body = cmd.Checkpoint(fence=claim.fence, number=number, data=data, counters=counters, notes=notes)
        self._run(claim, body)

    def tool(self, claim: Claim, number: int, notes: list[cmd.ToolNote]) -> None:
        """Record reading and denied calls by themselves."""
        self._run(claim, cmd.NoteTools(fence=claim.fence, number=number, notes=notes))

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
        reply = self._run(claim, body).reply
        match reply:
            case Run():
                return reply
            case Suspended():
                self._forget(claim)
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
        """Say how a write ended; good after the claim was lost, too."""
        body = cmd.Report(
            effect_id=effect_id, claim_id=claim.fence.claim_id, phase=phase, result=result, error=error
        )
        try:
            self._run(claim, body)
        except (Fenced, NotFound) as refused:
            keep_report(self._controller, claim.session_id, body, refused)
            raise

    def branches(self, claim: Claim, first: int = 0) -> BranchPage:
        """Return the branches that count in the join that this attempt merges, from place `first` on."""
        return counted_page(self._controller, claim, first)

    def settle(self, claim: Claim, verdicts: list[cmd.Verdict]) -> None:
        """End a settle attempt with what `verify` found."""
        self._end(claim, cmd.Settle(fence=claim.fence, verdicts=verdicts))

    def give(
        self,
        claim: Claim,
        body: bytes,
        notes: list[cmd.ToolNote],
        *,
        then_take: Wanted | None = None,
    ) -> Taking | None:
        """Give the return; with `then_take` take the next packs in the same round trip."""
        request = self._request(then_take) if then_take else None
        done = self._end(claim, _giving(Giving(claim, body, notes)), request)
        taking = self._taking(done.taken) if done.taken else None
        if isinstance(done.reply, Rejected):
            self._quarantine_return(claim, done.reply.problem, body)
        return taking

    def give_all(
        self, given: list[Giving], *, then_take: Wanted | None = None
    ) -> tuple[list[PassdownError | None], Taking | None]:
        """Give several returns in one round trip, and take the next packs with it."""
        request = self._request(then_take) if then_take else None
        try:
            answers, taken = self._run_all([(one.claim, _giving(one)) for one in given], request)
        finally:
            for one in given:
                self._forget(one.claim)
        taking = self._taking(taken) if taken else None
        for one, answer in zip(given, answers, strict=True):
            if isinstance(answer, Done) and isinstance(answer.reply, Rejected):
                self._quarantine_return(one.claim, answer.reply.problem, one.body)
        return [answer if isinstance(answer, PassdownError) else None for answer in answers], taking

    def _quarantine_return(self, claim: Claim, problem: str, body: bytes) -> None:
        """Keep a rejected return for inspection. The session knows already why it did not count."""
        try:
            self._controller.store.put(Quarantine(source="return", reason=problem, body=body))
        except PassdownError as error:
            _log.warning("gateway.not_quarantined", session=claim.session_id, error=str(error))

    def fail(
        self, claim: Claim, kind: Literal["contract", "error"], problem: str, notes: list[cmd.ToolNote]
    ) -> None:
        """The agent ended without a return: the attempt counts as failed."""
        self._end(claim, cmd.Fail(fence=claim.fence, kind=kind, problem=problem, notes=notes))

    def register_tools(self, specs: list[ToolSpec]) -> None:
        """Publish the specifications of this worker's tools."""
        self._controller.register(Documents(tools=[(tool_digest(spec), spec) for spec in specs]))

    def _run(self, claim: Claim, body: cmd.Body, take: TakeRequest | None = None) -> Done:
        """Carry out a command on the attempt as last seen, or, where it is not known here, as the store has it."""
        run = self._controller.run
        by = f"agent:{claim.role}"
        seen = self._attempts.get(_key(claim))
        if seen is None:
            return run(claim.session_id, body, by, take=take)
        # An agent may do several things at once. Decided side by side, all but one would meet a conflict.
        with seen.turn:
            # Where this raises, what was held may be what is wrong with it: the next command loads.
            held, seen.held = seen.held, None
            done = run(claim.session_id, body, by, held=held, take=take)
            seen.held = done.held
            return done

    def _run_all(
        self, asked: list[tuple[Claim, cmd.Body]], take: TakeRequest | None
    ) -> tuple[list[Done | PassdownError], Taken | None]:
        """Carry out commands on different attempts as last seen; each attempt's next command waits for its end."""
        all_seen = [self._attempts.get(_key(claim)) for claim, _ in asked]
        with ExitStack() as turns:
            for seen in all_seen:
                if seen is not None:
                    turns.enter_context(seen.turn)
            asks: list[Ask] = []
            for (claim, body), seen in zip(asked, all_seen, strict=True):
                held = seen.held if seen else None
                if seen is not None:
                    seen.held = None
                asks.append(Ask(claim.session_id, body, f"agent:{claim.role}", held))
            answers, taken = self._controller.run_all(asks, take=take)
            for seen, answer in zip(all_seen, answers, strict=True):
                if seen is not None and isinstance(answer, Done):
                    seen.held = answer.held
        return answers, taken

    def _end(self, claim: Claim, body: cmd.Body, take: TakeRequest | None = None) -> Done:
        try:
            return self._run(claim, body, take)
        finally:
            self._forget(claim)

    def _forget(self, claim: Claim) -> None:
        self._attempts.forget(_key(claim))


def _key(claim: Claim) -> Key:
    return claim.session_id, claim.fence.step, claim.fence.attempt


def _claim_of(pack: Pack, claim_id: str) -> Claim:
    fence = Fence(step=pack.step, attempt=pack.attempt, claim_id=claim_id)
    return Claim(session_id=pack.session_id, role=pack.role, fence=fence, lease_seconds=pack.lease_seconds)


def _claiming(claim: Claim, pack: Pack, agent: AgentInfo) -> cmd.Claim:
    return cmd.Claim(
        fence=claim.fence,
        pack_digest=pack.digest,
        agent=agent.name,
        agent_version=agent.version,
        model=agent.model,
    )


def _giving(given: Giving) -> cmd.Give:
    text = given.body.decode("utf-8", "backslashreplace")
    return cmd.Give(fence=given.claim.fence, body=text, notes=given.notes)
