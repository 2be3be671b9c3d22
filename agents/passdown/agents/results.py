"""What an agent gives back: `Done`, `NeedsInput`, `Refused` or `Escalate`, and their form on the wire.

Outputs, hand-overs and schemas may be plain JSON data, msgspec Structs, dataclasses or pydantic models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec
from msgspec import UNSET

from passdown.agents.jsonable import as_json, schema_of
from passdown.contracts import returns as wire
from passdown.contracts.codec import KIB, RETURN_BUDGET, check_budget, convert, decode_any, encode
from passdown.contracts.errors import ContractError, PassdownError
from passdown.contracts.pack import Pack
from passdown.contracts.returns import EvidenceItem, Fence, Uncertainty

#: What an output may have in bytes: what stands around it in a return has room beside it.
OUTPUT_BUDGET = RETURN_BUDGET - 2 * KIB


class Broken(PassdownError):
    """What a run came to is no return, for the reason in ``error``: the attempt broke its contract."""

    code = "contract"

    def __init__(self, error: ContractError) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return str(self.error)


@dataclass(frozen=True, kw_only=True)
class _Result:
    """What every result may carry.

    ``evidence`` items are ``{claim, source, digest?}``; ``uncertainty`` is a level from 0 (sure) to 1
    (guessing), alone or with notes; ``next_step`` is a suggestion, followed only where the plan says so;
    ``usage`` is free JSON about tokens, cost and the like.
    """

    evidence: Sequence[EvidenceItem | Mapping[str, Any]] = ()
    uncertainty: Uncertainty | Mapping[str, Any] | float | None = None
    next_step: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Done(_Result):
    """The stage is done; ``output`` fits the schema in ``pack.returns``."""

    output: Any = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Question:
    """What an agent asks. ``schema`` (a type or a JSON Schema) is what the answer must fit; default: anything."""

    id: str
    text: str
    schema: Any = True


@dataclass(frozen=True)
class NeedsInput(_Result):
    """The agent needs answers before it can go on; the next attempt finds them in ``ctx.answers``."""

    questions: Sequence[Question | Mapping[str, Any]]


@dataclass(frozen=True)
class Refused(_Result):
    """The agent refuses, under a named policy: a normal outcome."""

    reason: str
    policy: str = ""


@dataclass(frozen=True)
class Escalate(_Result):
    """A person must go on. ``hand_over`` fits the schema of the first level in ``pack.escalation``."""

    reason: str
    recommended: str = ""
    risks: Sequence[str] = ()
    hand_over: Any = UNSET


AgentResult = Done | NeedsInput | Refused | Escalate


def write_return(result: object, pack: Pack, fence: Fence) -> bytes:
    """Return the bytes of `passdown.return/1`, bound to `fence` and to the digest of `pack`.

    Raises ContractError where `result` is no result or does not fit the wire, BudgetExceeded where it is
    too large. Whether the output fits the stage's schema is for the broker to judge.
    """
    if not isinstance(result, AgentResult):
        given = type(result).__name__
        raise ContractError("return", f"an agent returns Done, NeedsInput, Refused or Escalate; got {given}")
    made = _wire(result, _common(result, pack, fence))
    body = encode(made)
    if len(body) > RETURN_BUDGET:
        check_budget("return", body, RETURN_BUDGET, msgspec.to_builtins(made))
    decode_any(body, wire.Return, what="return")
    return body


def fits_return(output: dict[str, Any], *, what: str) -> None:
    """Raise BudgetExceeded, with the sizes of the largest fields, where `output` is too large for a return."""
    check_budget(what, encode(output), OUTPUT_BUDGET, output)


def _common(result: AgentResult, pack: Pack, fence: Fence) -> dict[str, Any]:
    return {
        "session_id": pack.session_id,
        "step": fence.step,
        "attempt": fence.attempt,
        "claim_id": fence.claim_id,
        "pack_digest": pack.digest,
        "stage": pack.stage,
        "next_step": result.next_step,
        "evidence": [_evidence(item, n) for n, item in enumerate(result.evidence)],
        "uncertainty": _uncertainty(result.uncertainty),
        "usage": as_json(result.usage, what="usage") if result.usage else {},
    }


def _wire(result: AgentResult, common: dict[str, Any]) -> wire.Return:
    match result:
        case Done():
            return wire.DoneReturn(output=as_json(result.output, what="output"), **common)
        case NeedsInput():
            return wire.NeedsInputReturn(
                questions=[_question(one, number) for number, one in enumerate(result.questions)], **common
            )
        case Refused():
            return wire.RefusedReturn(reason=result.reason, policy=result.policy, **common)
        case Escalate():
            handed = UNSET if result.hand_over is UNSET else as_json(result.hand_over, what="handOver")
            return wire.EscalateReturn(
                reason=result.reason,
                recommended=result.recommended,
                risks=list(result.risks),
                hand_over=handed,
                **common,
            )
        case _:
            assert_never(result)


def _question(one: Question | Mapping[str, Any], number: int) -> wire.Question:
    if isinstance(one, Mapping):
        return convert(dict(one), wire.Question, what=f"question {number}")
    return wire.Question(
        id=one.id, text=one.text, schema=schema_of(one.schema, what=f"schema of question {one.id!r}")
    )


def _evidence(item: EvidenceItem | Mapping[str, Any], number: int) -> EvidenceItem:
    return (
        item
        if isinstance(item, EvidenceItem)
        else convert(dict(item), EvidenceItem, what=f"evidence {number}")
    )


def _uncertainty(given: Uncertainty | Mapping[str, Any] | float | None) -> Uncertainty:
    if given is None:
        return Uncertainty()
    if isinstance(given, Uncertainty):
        return given
    if isinstance(given, Mapping):
        return convert(dict(given), Uncertainty, what="uncertainty")
    return convert({"level": given}, Uncertainty, what="uncertainty")
