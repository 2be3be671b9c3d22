"""The context: what an agent may do beside thinking. `Context` for ``async def`` agents, `SyncContext` for plain ones.

Both have the same verbs. Each verb raises Fenced once the claim is over (the lease was lost, the session
was cancelled, the worker shuts down); stop then.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from structlog.typing import FilteringBoundLogger

from passdown.agents import calls
from passdown.agents.branches import Reading
from passdown.agents.claim import ActiveClaim
from passdown.agents.flows import Flow, drive, drive_async
from passdown.agents.threads import Threads
from passdown.contracts.gateway import BranchResult
from passdown.contracts.pack import Pack, PackAnswer, PackEffect


class Answers(Mapping[str, Any]):
    """The answers of this step: ``answers["question id"]`` is the latest value; ``all`` has every one, in order."""

    def __init__(self, answers: list[PackAnswer]) -> None:
        self.all = answers
        self._latest = {one.id: one for one in sorted(answers, key=lambda one: one.attempt)}

    def __getitem__(self, question: str) -> Any:
        return self._latest[question].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._latest)

    def __len__(self) -> int:
        return len(self._latest)

    def by(self, question: str) -> str:
        """Return the principal that gave the latest answer; raises KeyError where there is none."""
        return self._latest[question].by


class _Base:
    """What both contexts know."""

    def __init__(self, claim: ActiveClaim, threads: Threads) -> None:
        self._claim = claim
        self._threads = threads
        self.answers = Answers(claim.pack.answers)

    @property
    def pack(self) -> Pack:
        """The pack of this attempt."""
        return self._claim.pack

    @property
    def effects(self) -> list[PackEffect]:
        """What the session's ledger held when this attempt was issued; ``after=`` takes an ``effect_id`` of it."""
        return self._claim.pack.effects

    @property
    def snapshot(self) -> Any:
        """What was checkpointed last in this step (JSON data), by an earlier attempt or this one; else None."""
        return self._claim.snapshot

    @property
    def cancelled(self) -> bool:
        """Whether the claim is over, so that nothing this run does counts any more."""
        return self._claim.ended is not None

    @property
    def deadline(self) -> datetime | None:
        """When the stage's time is up, by the store's clock."""
        at = self._claim.pack.deadline
        return None if at is None else datetime.fromtimestamp(at / 1000, UTC)

    @property
    def log(self) -> FilteringBoundLogger:
        """A structlog logger that names session, step and attempt."""
        return self._claim.log


class Context(_Base):
    """The context of an ``async def`` agent. Calls may run side by side (``asyncio.gather``)."""

    def __init__(self, claim: ActiveClaim, threads: Threads) -> None:
        super().__init__(claim, threads)
        self._running = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def call(self, name: str, /, after: str | None = None, **args: Any) -> Coroutine[Any, Any, Any]:
        """Call a tool of the stage and return its result; see `SyncContext.call`. Await it."""
        return self._drive(calls.call(self._claim, name, args, after))

    async def checkpoint(self, data: object) -> None:
        """Record intermediate state; see `SyncContext.checkpoint`."""
        await self._drive(calls.checkpoint(self._claim, data))

    def branches(self) -> AsyncIterator[BranchResult]:
        """Return the branches that this attempt merges; see `SyncContext.branches`. Loop with ``async for``."""
        return self._each(Reading(self._claim))

    async def _each(self, reading: Reading) -> AsyncIterator[BranchResult]:
        while not reading.over:
            for branch in await self._drive(reading.next_page()):
                yield branch

    async def quiet(self, seconds: float) -> None:
        """Wait for calls that still run, at most `seconds`; the runtime does, before it gives the return."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), seconds)

    async def _drive(self, flow: Flow) -> Any:
        self._running += 1
        self._quiet.clear()
        try:
            return await drive_async(flow, self._threads)
        finally:
            self._running -= 1
            if not self._running:
                self._quiet.set()


class SyncContext(_Base):
    """The context of a plain agent."""

    def call(self, name: str, /, after: str | None = None, **args: Any) -> Any:
        """Call a tool that ``pack.tools`` grants and return its result.

        A reading tool returns what its function returned. An effect tool returns JSON data, and the same on
        each later attempt of this step, where it does not run again. `after` names an effect of an attempt
        that was lost, to say that this call is meant to come after it with other arguments.

        Raises Denied (not granted, or a person said no), ContractError (arguments, with a JSON pointer; or
        an effect that is done and whose result is not JSON), NotDone (nothing was written), EffectUncertain
        (nobody knows), Conflict (an effect of this session is unknown and must be settled first), Fenced,
        Unavailable; and Suspended, which is no Exception, where a person must see it first.
        """
        return drive(calls.call(self._claim, name, args, after), self._threads)

    def checkpoint(self, data: object) -> None:
        """Record `data` (JSON, a Struct, a dataclass, a pydantic model) as the last valid state of this step.

        A later attempt finds it in ``ctx.snapshot`` where the stage's recovery says so. Raises Conflict while
        an effect is under way, ContractError, BudgetExceeded, Fenced, Unavailable.
        """
        drive(calls.checkpoint(self._claim, data), self._threads)

    def branches(self) -> Iterator[BranchResult]:
        """Return the branches that this attempt merges, in the order of their places.

        They are those that count by the join's contract, or the one that a person chose; ``pack.join`` has
        their number. Page by page they are read from the broker as the loop goes on, so that also many
        branches take little memory; each call begins anew.

        Raises Denied where this attempt merges nothing. The loop may raise Fenced, Unavailable, and
        ContractError where not all could be read.
        """
        return self._each(Reading(self._claim))

    def _each(self, reading: Reading) -> Iterator[BranchResult]:
        while not reading.over:
            yield from drive(reading.next_page(), self._threads)
