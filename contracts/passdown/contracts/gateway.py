"""How a worker meets the broker: the only surface that an agent's process needs (rule 4).

Implemented directly over the controller (`passdown.broker.gateway`). Every method may raise Fenced
(another attempt owns the step now), Denied, ContractError, or Unavailable (a retry is safe).
"""

from typing import Any, Literal, NamedTuple, Protocol

from passdown.contracts.codec import Wire
from passdown.contracts.commands import ToolNote, Verdict
from passdown.contracts.errors import PassdownError
from passdown.contracts.pack import Pack
from passdown.contracts.replies import Recorded, Run, Suspended
from passdown.contracts.returns import Fence
from passdown.contracts.tools import ToolSpec

Standing = Literal["held", "lost", "cancelled"]


class AgentInfo(Wire, frozen=True, kw_only=True):
    """Who claims: recorded in `Claimed` and `Returned`."""

    name: str
    version: str = ""
    model: str = ""


class Offer(Wire, frozen=True, kw_only=True):
    """A taken pack: reserved, not claimed.

    A ``solo`` one runs alone in its process. One that is ``dear`` is claimed only when it runs: its claim, lost
    once, would bring in a person.
    """

    pack: Pack
    solo: bool = False
    dear: bool = False


class Claim(Wire, frozen=True, kw_only=True):
    """What a held claim is named by."""

    session_id: str
    role: str = ""
    fence: Fence
    lease_seconds: float


class Giving(NamedTuple):
    """A return to give: the claim that it ends, the message, and the notes of calls that ride along."""

    claim: Claim
    body: bytes
    notes: list[ToolNote]


class Wanted(NamedTuple):
    """What to take: up to ``slots`` packs of a role.

    A drain that is ``holding`` others is offered no solo pack. Where nothing is found it looks again within
    ``linger_ms``: until then nobody is rung for the role.
    """

    role: str
    slots: int
    holding: bool = False
    linger_ms: int = 0


class Claiming(NamedTuple):
    """An attempt to hold."""

    pack: Pack
    claim_id: str
    agent: AgentInfo


class BranchResult(Wire, frozen=True, kw_only=True):
    """A branch that counts in a join: its name, its place from 0, how it ended and with what.

    ``output`` where it is done, ``reason`` where it ended otherwise and the contract counts that, too.
    """

    branch: str
    place: int
    outcome: str
    output: dict[str, Any] | None = None
    reason: str = ""


class BranchPage(Wire, frozen=True, kw_only=True):
    """Branches in the order of their places; ``next`` is the place from which to read on, None at the end."""

    branches: list[BranchResult]
    next: int | None = None


class Taking(Wire, frozen=True, kw_only=True):
    """``more``: packs remain in the queue beyond the slots asked for."""

    offers: list[Offer]
    more: bool


class Gateway(Protocol):
    """Claim, renew, release, checkpoint, tool, effect, settle, return (DESIGN §13); plus taking and handing back."""

    def take(self, role: str, slots: int, *, holding: bool = False, linger_ms: int = 0) -> Taking:
        """Reserve packs; what is asked for is said at `Wanted`."""
        ...

    def hand_back(self, pack: Pack, why: str, *, after_seconds: float) -> None:
        """End a reservation before the claim: this worker cannot run the pack."""
        ...

    def claim(self, pack: Pack, claim_id: str, agent: AgentInfo) -> Claim:
        """Hold the attempt. Raises Fenced where another claim holds it or it is over."""
        ...

    def claim_all(self, asked: list[Claiming]) -> list[Claim | PassdownError]:
        """Hold several attempts in one round trip: in each place what `claim` returns or raises."""
        ...

    def renew(self, claims: list[Claim]) -> list[Standing]:
        """Keep the leases of several claims at once."""
        ...

    def release(self, claim: Claim, reason: str, notes: list[ToolNote]) -> None:
        """Hand the attempt back, counting no failure."""
        ...

    def checkpoint(
        self, claim: Claim, number: int, data: Any, counters: dict[str, int], notes: list[ToolNote]
    ) -> None:
        """Record intermediate state. `number` counts this claim's checkpoints and notes from 1."""
        ...

    def tool(self, claim: Claim, number: int, notes: list[ToolNote]) -> None:
        """Record reading and denied calls by themselves (otherwise they ride in the next commit)."""
        ...

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
        """Record the intent to write outside, or learn what was decided about it already."""
        ...

    def report(
        self,
        claim: Claim,
        effect_id: str,
        phase: Literal["done", "failed", "unknown"],
        *,
        result: Any = None,
        error: str = "",
    ) -> None:
        """Say how a write ended. The truth is accepted late, so this is good after the claim was lost too."""
        ...

    def branches(self, claim: Claim, first: int = 0) -> BranchPage:
        """Return branches of the join that this attempt merges, those that count, from place `first` on.

        Raises Fenced, and Denied for an attempt that merges nothing (rule 4).
        """
        ...

    def settle(self, claim: Claim, verdicts: list[Verdict]) -> None:
        """End a settle attempt with what `verify` found."""
        ...

    def give(
        self,
        claim: Claim,
        body: bytes,
        notes: list[ToolNote],
        *,
        then_take: Wanted | None = None,
    ) -> Taking | None:
        """Give the return; with `then_take` take the next packs in the same round trip."""
        ...

    def give_all(
        self, given: list[Giving], *, then_take: Wanted | None = None
    ) -> tuple[list[PassdownError | None], Taking | None]:
        """Give several returns in one round trip: in each place None, or what `give` raises."""
        ...

    def fail(
        self, claim: Claim, kind: Literal["contract", "error"], problem: str, notes: list[ToolNote]
    ) -> None:
        """The agent ended without a return: the attempt counts as failed."""
        ...

    def register_tools(self, specs: list[ToolSpec]) -> None:
        """Publish the specifications of this worker's tools."""
        ...
