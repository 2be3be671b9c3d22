"""One pack from offer to return: fit, claim, run, give. What an agent does, whatever it is, ends here."""

import asyncio
import contextlib
import inspect
import threading
import uuid
from collections.abc import Callable
from typing import Literal

from passdown.agents.agent import Agent
from passdown.agents.claim import SPENT, ActiveClaim, aged, log_of
from passdown.agents.context import Context, SyncContext
from passdown.agents.fitness import unfit
from passdown.agents.limits import OverTime, TimeLimits, limit_of
from passdown.agents.options import Options
from passdown.agents.outcomes import Outcome, Raised, Value, capture, capture_async, describe, summary
from passdown.agents.port import Port
from passdown.agents.registry import Registry
from passdown.agents.renewer import Renewer
from passdown.agents.results import Broken, write_return
from passdown.agents.settling import SETTLER, verdicts
from passdown.agents.threads import Threads
from passdown.contracts.errors import ContractError, Fenced, PassdownError, Unavailable
from passdown.contracts.gateway import Claim, Claiming, Giving, Offer, Taking, Wanted
from passdown.contracts.pack import Pack


class Runner:
    """Runs packs. Raises Unavailable only, where the store stays away for longer than the retries."""

    def __init__(
        self,
        registry: Registry,
        port: Port,
        threads: Threads,
        renewer: Renewer,
        limits: TimeLimits,
        options: Options,
    ) -> None:
        self.registry = registry
        self.port = port
        self.threads = threads
        self.renewer = renewer
        self.limits = limits
        self.options = options
        #: Set when the worker shuts down: an agent whose claim ended gets no grace any more.
        self.hurry = threading.Event()

    # Before the run

    def hand_back(self, pack: Pack, why: str, after_seconds: float) -> None:
        """End the reservation of a pack that will not run here."""
        gateway = self.port.gateway
        try:
            self.port.retried(lambda: gateway.hand_back(pack, why, after_seconds=after_seconds))
        except PassdownError as error:
            log_of(pack).info("a reservation was not ended", action="hand-back-refused", error=str(error))

    def claim(self, pack: Pack) -> ActiveClaim | None:
        """Hold the attempt, and its lease; None where this worker is not to run it."""
        asked = self._claiming(pack)
        if asked is None:
            return None
        gateway = self.port.gateway
        try:
            held = self.port.commit("claim", pack, lambda: gateway.claim(*asked))
        except Unavailable:
            raise
        except PassdownError as error:
            _not_claimed(pack, error)
            return None
        return self._hold(pack, held)

    def claim_all(self, packs: list[Pack]) -> list[ActiveClaim]:
        """Hold several attempts in one round trip; return those that this worker is to run."""
        asked = [one for one in map(self._claiming, packs) if one is not None]
        gateway = self.port.gateway
        answers = self.port.commit_all("claim", [one.pack for one in asked], lambda: gateway.claim_all(asked))
        held: list[ActiveClaim | None] = []
        away: Unavailable | None = None
        for one, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Unavailable):
                away = answer
            elif isinstance(answer, PassdownError):
                _not_claimed(one.pack, answer)
            else:
                held.append(self._hold(one.pack, answer))
        claims = [one for one in held if one is not None]
        if away and not claims:
            raise away
        return claims

    def _claiming(self, pack: Pack) -> Claiming | None:
        why = unfit(pack, self.registry)
        if why:
            log_of(pack).warning("a pack is handed back", action="handed-back", why=why)
            self.hand_back(pack, why, self.options.hand_back_seconds)
            return None
        info = SETTLER if pack.cause == "settle" else self.registry.agents[pack.role].info
        return Claiming(pack, uuid.uuid4().hex, info)

    def _hold(self, pack: Pack, held: Claim) -> ActiveClaim | None:
        claim = ActiveClaim(pack, held, self.registry.tools, self.port)
        self.renewer.add(claim)
        if self.hurry.is_set():
            # Claimed while the worker shut down: whoever released what was held may not have seen this one.
            self.release(claim, "the worker shuts down")
            return None
        return claim

    # The run

    def run(self, offer: Offer, then_take: Callable[[], Wanted | None]) -> Taking | None:
        """Run a pack of a plain agent, or settle, in this thread; return what was taken with its return."""
        claim = self.claim(offer.pack)
        if claim is None:
            return None
        try:
            if claim.pack.cause == "settle":
                self.settle(claim)
                return None
            outcome = self.run_plain(claim, self.registry.agents[claim.pack.role])
            return self.conclude(claim, outcome, then_take)
        finally:
            self.let_go(claim)

    def let_go(self, claim: ActiveClaim) -> None:
        """End the lease here, and the verbs of a context that outlived its run."""
        self.renewer.remove(claim)
        claim.end("its run is over")

    def run_plain(self, claim: ActiveClaim, agent: Agent) -> Outcome:
        """Run a plain agent in this thread, until it ends."""
        ctx = SyncContext(claim, self.threads)
        limit = limit_of(claim.pack, agent)
        if limit is None:
            return capture(lambda: agent.fn(claim.pack, ctx))
        run = self.limits.begin(limit, lambda: self._over_time(claim, limit))
        outcome = capture(lambda: agent.fn(claim.pack, ctx))
        self.limits.end(run)
        return outcome

    def _over_time(self, claim: ActiveClaim, limit: float) -> None:
        """A thread cannot be ended: report its agent as failed and give up the lease; its return is fenced."""
        error = OverTime(limit)
        claim.end(str(error))
        self.renewer.remove(claim)
        with contextlib.suppress(PassdownError):
            self._fail(claim, "error", str(error))

    async def attend(self, claim: ActiveClaim, agent: Agent) -> Outcome:
        """Run an async agent until it ends, its time is up, or its claim is over.

        One that blocks the event loop cannot be seen to from there: then the time limit is kept as for a thread.
        """
        limit = limit_of(claim.pack, agent)
        if limit is None:
            return await self._attend(claim, agent, None)
        beyond = limit + 3 * self.options.cancel_grace_seconds
        run = self.limits.begin(beyond, lambda: self._over_time(claim, limit), on_loop=True)
        try:
            return await self._attend(claim, agent, limit)
        finally:
            self.limits.end(run)

    async def _attend(self, claim: ActiveClaim, agent: Agent, limit: float | None) -> Outcome:
        loop = asyncio.get_running_loop()
        ctx = Context(claim, self.threads)
        over: asyncio.Future[None] = loop.create_future()
        claim.when_ended(lambda: _tell(loop, over))
        work = loop.create_task(capture_async(lambda: agent.fn(claim.pack, ctx)))
        grace = self.options.cancel_grace_seconds
        await asyncio.wait({work, over}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        timed_out = not work.done() and not over.done()
        if timed_out and limit is not None:
            claim.end(str(OverTime(limit)))
        elif not work.done() and not self.hurry.is_set():
            await asyncio.wait({work}, timeout=grace)
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=grace)
        await ctx.quiet(grace)
        if timed_out and limit is not None:
            return Raised(OverTime(limit))
        if not work.done():
            claim.log.warning("an agent ignores that it was cancelled", action="agent-stuck")
            return Raised(claim.ended or asyncio.CancelledError())
        return work.result()

    def settle(self, claim: ActiveClaim) -> None:
        found = verdicts(
            claim.pack, self.registry.tools, self.threads.loop, seconds=self.options.verify_seconds
        )
        gateway = self.port.gateway
        try:
            claim.watched(lambda: self.port.retried(lambda: gateway.settle(claim.claim, found)))
        except Unavailable:
            raise
        except PassdownError as error:
            claim.log.warning("verdicts were not taken", action="settle-refused", error=str(error))

    # After the run

    def conclude(
        self, claim: ActiveClaim, outcome: Outcome, then_take: Callable[[], Wanted | None]
    ) -> Taking | None:
        """Give the return; where there is none, say why.

        A return of a claim that is over is given all the same: the broker fences it and keeps it as evidence.
        """
        giving = self.written(claim, outcome)
        return None if giving is None else self._give(claim, giving.body, then_take)

    def written(self, claim: ActiveClaim, outcome: Outcome) -> Giving | None:
        """Return the return to give; where there is none, say why to the broker."""
        if isinstance(outcome, Raised):
            self._conclude_raised(claim, outcome.error)
            return None
        written = capture(lambda: write_return(outcome.value, claim.pack, claim.claim.fence))
        if isinstance(written, Value):
            return Giving(claim.claim, written.value, [])
        if inspect.iscoroutine(outcome.value):
            outcome.value.close()
        error = written.error
        self._fail(claim, "contract", str(error) if isinstance(error, ContractError) else describe(error))
        return None

    def _conclude_raised(self, claim: ActiveClaim, error: BaseException) -> None:
        if isinstance(error, OverTime):
            self._fail(claim, "error", str(error))
        elif claim.suspended:
            claim.log.info("an action waits for a person", action="suspended")
        elif claim.unavailable:
            raise claim.unavailable
        elif claim.ended:
            claim.log.info("an agent stopped: its claim is over", action="stopped", why=claim.ended.why)
        elif isinstance(error, Broken):
            self._fail(claim, "contract", str(error))
        else:
            claim.log.warning("an agent failed", action="agent-failed", error=summary(error))
            self._fail(claim, "error", describe(error))

    def _give(self, claim: ActiveClaim, body: bytes, then_take: Callable[[], Wanted | None]) -> Taking | None:
        gateway, more = self.port.gateway, then_take()
        try:
            return claim.commit(
                lambda notes: self.port.commit(
                    "give",
                    claim.pack,
                    lambda: gateway.give(claim.claim, body, notes, then_take=more),
                )
            )
        except Unavailable:
            raise
        except PassdownError as error:
            self._not_taken(claim, error)
        return None

    def give_all(self, given: list[tuple[ActiveClaim, Giving]], then_take: Wanted | None) -> Taking | None:
        """Give several returns in one round trip; raises Unavailable where the store stays away for one of them."""
        notes = [claim.take_notes() for claim, _ in given]
        giving = [one._replace(notes=aged(taken)) for (_, one), taken in zip(given, notes, strict=True)]
        gateway = self.port.gateway
        answers, taken = self.port.commit_all(
            "give",
            [claim.pack for claim, _ in given],
            lambda: gateway.give_all(giving, then_take=then_take),
        )
        away: Unavailable | None = None
        for (claim, _), answer, kept in zip(given, answers, notes, strict=True):
            if isinstance(answer, Unavailable):
                claim.unavailable = away = answer
            elif answer is not None:
                if not isinstance(answer, SPENT):
                    claim.keep_notes(kept)
                self._not_taken(claim, answer)
        if away:
            raise away
        return taken

    def _not_taken(self, claim: ActiveClaim, error: PassdownError) -> None:
        if isinstance(error, Fenced):
            claim.log.info("a return came too late", action="return-fenced", error=str(error))
        else:
            self._fail(claim, "contract", str(error))

    def _fail(self, claim: ActiveClaim, kind: Literal["contract", "error"], problem: str) -> None:
        gateway = self.port.gateway
        try:
            claim.commit(
                lambda notes: self.port.retried(lambda: gateway.fail(claim.claim, kind, problem, notes))
            )
        except Unavailable:
            raise
        except PassdownError as error:
            claim.log.info(
                "a failure was not taken", action="fail-refused", problem=problem, error=str(error)
            )

    def release(self, claim: ActiveClaim, reason: str) -> None:
        """Hand a held attempt back, counting no failure; its agent is told. One try: else the lease runs out."""
        gateway = self.port.gateway
        try:
            claim.commit(lambda notes: gateway.release(claim.claim, reason, notes))
        except Exception as error:  # noqa: BLE001  (others are still to be released)
            claim.log.warning("a claim was not released", action="release-refused", error=summary(error))
        self.renewer.remove(claim)
        claim.end(reason)


def _tell(loop: asyncio.AbstractEventLoop, over: "asyncio.Future[None]") -> None:
    """Resolve `over` from any thread, as long as its loop runs."""

    def resolve() -> None:
        if not over.done():
            over.set_result(None)

    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(resolve)


def _not_claimed(pack: Pack, error: PassdownError) -> None:
    log_of(pack).info("a pack was not claimed", action="claim-refused", error=str(error))
