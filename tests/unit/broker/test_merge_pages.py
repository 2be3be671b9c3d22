"""What an attempt that merges may read: the branches that count, in pages of a bounded size (rules 4, 12)."""

from typing import Any

import pytest

from passdown.agents import Done
from passdown.broker.client import Session
from passdown.broker.core.state import State
from passdown.broker.joins import merging, reading
from passdown.broker.joins.service import JoinService
from passdown.broker.stores.base import Store
from passdown.contracts.errors import ContractError, Denied
from passdown.contracts.ids import branch_id, join_id
from passdown.contracts.plans import FanOut, Grant, Plan, Stage
from tests.unit.broker.rig import ROLE, Attempt, Rig, pay


def merging_attempt(rig: Rig, outputs: list[dict[str, Any]], **stage: Any) -> tuple[Session, Attempt]:
    """Return a session whose branches gave these outputs, and the attempt that merges them."""
    fan_out = FanOut(each="items", stage="branch", merge="merger")
    stages = {"split": Stage(fan_out=fan_out, **stage), "branch": Stage(role=ROLE)}
    ref = rig.broker.register(Plan(name="merged", start="split", stages=stages))
    session = rig.broker.submit(ref, inputs={"items": list(range(len(outputs)))})
    service = JoinService(rig.controller)
    service.see_to_all([session.id])
    for pack in rig.take(len(outputs)):
        assert pack.parent
        rig.claim(pack, f"claim-{pack.parent.place:08}").give(Done(outputs[pack.parent.place]))
    service.look(join_id(session.id, 1))
    return session, merger(rig, "claim-merger-1")


def merger(rig: Rig, claim_id: str) -> Attempt:
    (offer,) = rig.gateway.take("merger", 1).offers
    return rig.claim(offer.pack, claim_id)


def test_rule_04_an_attempt_that_only_settles_reads_no_branches(rig: Rig) -> None:
    """It runs no agent, but a tool's `verify`, to which the branches are nothing."""
    rig.broker.register_tools([pay.spec])
    _, first = merging_attempt(
        rig, [{"x": 1}], tools=[Grant(tool="pay")], lease_seconds=10.0, recovery="continue"
    )
    assert [one.branch for one in rig.gateway.branches(first.claim).branches] == ["0"]
    first.pay()
    rig.lose(first)
    settler = merger(rig, "claim-settler-1")
    assert settler.pack.cause == "settle"
    with pytest.raises(Denied, match="this attempt merges nothing"):
        rig.gateway.branches(settler.claim)


def test_rule_12_a_page_ends_where_its_outputs_are_large(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_BYTES", 10_000)
    _, attempt = merging_attempt(rig, [{"n": n, "text": "x" * 3_000} for n in range(10)])
    pages: list[list[int]] = []
    following: int | None = 0
    while following is not None:
        page = rig.gateway.branches(attempt.claim, following)
        pages.append([(one.output or {})["n"] for one in page.branches])
        following = page.next
    assert pages == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_an_output_that_is_another_than_the_one_that_counts_is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long output is read from its branch, whose state may come from another backup than the join's record."""
    session, attempt = merging_attempt(rig, [{"text": "x" * 3_000}, {"text": "y" * 3_000}])
    assert len(rig.gateway.branches(attempt.claim).branches) == 2
    other = reading.branch_state(rig.store, join_id(session.id, 1), 1)

    def another(store: Store, join_id: str, place: int) -> State | None:
        return other

    monkeypatch.setattr(reading, "branch_state", another)
    with pytest.raises(ContractError, match=r"output of branch '0' .* another than the one that counts"):
        rig.gateway.branches(attempt.claim)
    assert rig.broker.session(branch_id(join_id(session.id, 1), 0)).status() == "done"
