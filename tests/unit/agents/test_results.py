import math
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from passdown.agents import Done, Escalate, NeedsInput, Question, Refused
from passdown.agents.results import write_return
from passdown.agents.testing import make_pack
from passdown.contracts.codec import RETURN_BUDGET
from passdown.contracts.errors import BudgetExceeded, ContractError
from passdown.contracts.returns import (
    DoneReturn,
    EscalateReturn,
    EvidenceItem,
    Fence,
    NeedsInputReturn,
    RefusedReturn,
    Uncertainty,
    read_return,
)

PACK = make_pack("clerk")
FENCE = Fence(step=1, attempt=1, claim_id="claim-one")


class Paid(msgspec.Struct, rename="camel"):
    refund_id: str


@dataclass
class Choice:
    yes: bool


class Amount(BaseModel):
    cents: int


def read(result: object) -> Any:
    return read_return(write_return(result, PACK, FENCE))


def test_a_return_is_bound_to_its_claim_and_its_pack():
    found = read(Done({"a": 1}))
    assert isinstance(found, DoneReturn)
    assert (found.session_id, found.fence, found.stage) == (PACK.session_id, FENCE, "clerk")
    assert found.pack_digest == PACK.digest


@pytest.mark.parametrize(
    ("output", "data"),
    [(Paid("r1"), {"refundId": "r1"}), (Choice(yes=True), {"yes": True}), (Amount(cents=3), {"cents": 3})],
)
def test_outputs_may_be_structs_dataclasses_and_models(output: object, data: object):
    assert read(Done(output)).output == data


def test_done_carries_evidence_uncertainty_usage_and_a_suggestion():
    found = read(
        Done(
            {},
            evidence=[{"claim": "c", "source": "s"}, EvidenceItem(claim="d", source="t", digest="x")],
            uncertainty=0.25,
            next_step="writer",
            usage={"tokens": 12},
        )
    )
    assert [item.claim for item in found.evidence] == ["c", "d"]
    assert found.uncertainty == Uncertainty(level=0.25)
    assert (found.next_step, found.usage) == ("writer", {"tokens": 12})


@pytest.mark.parametrize("given", [{"level": 0.5, "notes": ["n"]}, Uncertainty(level=0.5, notes=["n"])])
def test_uncertainty_may_have_notes(given: Any):
    assert read(Refused("r", uncertainty=given)).uncertainty == Uncertainty(level=0.5, notes=["n"])


def test_questions_may_have_types_for_schemas():
    found = read(
        NeedsInput([Question("q1", "How much?", schema=Amount), Question("q2", "Sure?", schema=Choice)])
    )
    assert isinstance(found, NeedsInputReturn)
    assert isinstance(found.questions[0].schema, dict)
    assert found.questions[0].schema["properties"]["cents"]["type"] == "integer"
    assert [one.id for one in found.questions] == ["q1", "q2"]


def test_refused_and_escalate():
    refused = read(Refused("too old", policy="30-days"))
    assert isinstance(refused, RefusedReturn)
    assert (refused.reason, refused.policy) == ("too old", "30-days")
    escalate = read(Escalate("unclear", recommended="ask", risks=["double"], hand_over=Choice(yes=False)))
    assert isinstance(escalate, EscalateReturn)
    assert (escalate.reason, escalate.risks, escalate.hand_over) == ("unclear", ["double"], {"yes": False})
    assert read(Escalate("x")).hand_over is msgspec.UNSET


@pytest.mark.parametrize("junk", [None, {}, {"result": "done"}, "done", 3, Done, object()])
def test_what_is_no_result_is_a_clear_error(junk: object):
    with pytest.raises(ContractError, match="an agent returns Done, NeedsInput, Refused or Escalate; got"):
        write_return(junk, PACK, FENCE)


@pytest.mark.parametrize(
    ("result", "pointer"),
    [
        (Done({"a": math.nan}), "/a"),
        (Done({"a": [2**60]}), "/a/0"),
        (Done({}, usage={"x": math.inf}), "/x"),
        (Done({}, uncertainty=1.5), "/level"),
        (Done({}, evidence=[{"claim": "no source"}]), "/source"),
        (NeedsInput([]), "/questions"),
        (Refused(3), "/reason"),  # pyright: ignore[reportArgumentType]
        (NeedsInput([Question("q", "x", schema={"type": 7})]), "/type"),
    ],
)
def test_what_does_not_fit_the_wire_names_its_place(result: object, pointer: str):
    with pytest.raises(ContractError) as caught:
        write_return(result, PACK, FENCE)
    assert caught.value.pointer == pointer


def test_an_oversized_return_names_its_size_and_its_largest_field():
    with pytest.raises(BudgetExceeded) as caught:
        write_return(Done({"text": "x" * RETURN_BUDGET}), PACK, FENCE)
    assert caught.value.size > RETURN_BUDGET
    assert next(iter(caught.value.largest)) == "output"
