"""The return contract, `passdown.return/1`: what one claim gives back (DESIGN §5)."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from passdown.contracts.codec import RETURN_BUDGET, Wire, receive
from passdown.contracts.schema import Schema

RETURN_SPEC = "passdown.return/1"

Level = Annotated[float, Meta(ge=0, le=1)]
Ordinal = Annotated[int, Meta(ge=1)]


class Fence(Wire, frozen=True, kw_only=True):
    """(step, attempt, claim): carried by every renew, checkpoint, effect and return of a worker."""

    step: Ordinal
    attempt: Ordinal
    claim_id: Annotated[str, Meta(min_length=8, max_length=64)]

    def __str__(self) -> str:
        return f"{self.step}/{self.attempt}/{self.claim_id[:8]}"


class EvidenceItem(Wire, frozen=True, kw_only=True):
    """What an agent claims, and where that can be seen."""

    claim: str
    source: str
    digest: str = ""


class Uncertainty(Wire, frozen=True, kw_only=True):
    """How unsure the agent says it is: 0 sure, 1 guessing."""

    level: Level = 0.0
    notes: list[str] = []


class Question(Wire, frozen=True, kw_only=True):
    """What an agent asks; the answer must fit ``schema``."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]
    text: str
    schema: Schema = True


class _Return(Wire, frozen=True, kw_only=True, tag_field="result"):
    session_id: str
    step: Ordinal
    attempt: Ordinal
    claim_id: Annotated[str, Meta(min_length=8, max_length=64)]
    pack_digest: str
    stage: str
    next_step: str | None
    spec: Literal["passdown.return/1"] = RETURN_SPEC
    evidence: list[EvidenceItem] = []
    uncertainty: Uncertainty = Uncertainty()
    usage: dict[str, Any] = {}

    @property
    def fence(self) -> Fence:
        """The fence that this return carries."""
        return Fence(step=self.step, attempt=self.attempt, claim_id=self.claim_id)


class DoneReturn(_Return, frozen=True, kw_only=True, tag="done"):
    """The stage is done; ``output`` fits the pack's ``returns.schema``."""

    output: Any


class NeedsInputReturn(_Return, frozen=True, kw_only=True, tag="needs-input"):
    """The agent needs answers before it can go on."""

    questions: Annotated[list[Question], Meta(min_length=1, max_length=20)]


class RefusedReturn(_Return, frozen=True, kw_only=True, tag="refused"):
    """The agent refuses: a normal outcome, under a named policy."""

    reason: str
    policy: str = ""


class EscalateReturn(_Return, frozen=True, kw_only=True, tag="escalate"):
    """A person must go on; ``hand_over`` fits the escalation level's schema."""

    reason: str
    recommended: str = ""
    risks: list[str] = []
    hand_over: Any | UnsetType = UNSET


Return = DoneReturn | NeedsInputReturn | RefusedReturn | EscalateReturn


def read_return(data: bytes) -> Return:
    """Return the return in `data`; raises ContractError or BudgetExceeded where it does not fit."""
    found: Return = receive(data, Return, what="return", spec=RETURN_SPEC, budget=RETURN_BUDGET)
    return found
