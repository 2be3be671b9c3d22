"""Several attempts in one round trip, and what a store that fails makes of it."""

from typing import Any

import pytest

from passdown.agents import Done
from passdown.agents.results import write_return
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import Claim, Claiming, Giving, Wanted
from tests.unit.broker.rig import ME, ROLE, Rig, plan


@pytest.fixture
def rig() -> Rig:
    return Rig(patience_s=5.0)


def _claimed(rig: Rig, count: int) -> list[Giving]:
    packs = rig.take(count)
    answers = rig.gateway.claim_all([Claiming(one, f"claim-of-{one.session_id}", ME) for one in packs])
    claims = [one for one in answers if isinstance(one, Claim)]
    assert len(claims) == count, answers
    return [
        Giving(claim, write_return(Done({}), one, claim.fence), [])
        for one, claim in zip(packs, claims, strict=True)
    ]


def test_a_round_trip_for_all_claims_and_one_for_all_returns(rig: Rig) -> None:
    for _ in range(5):
        rig.open()
    calls = rig.listen()
    given = _claimed(rig, 5)
    rig.gateway.give_all(given, then_take=Wanted(ROLE, 5))
    assert calls == ["take", "commit", "commit"]


@pytest.mark.parametrize("fault", ["before", "after", "stale"])
def test_rule_02_each_is_written_once_whatever_is_lost(rig: Rig, fault: Any) -> None:
    sessions = [rig.open() for _ in range(4)]
    rig.fail(fault, only=["commit"])
    given = _claimed(rig, 4)
    rig.fail(fault, only=["commit"])
    answers, taking = rig.gateway.give_all(given, then_take=Wanted(ROLE, 5))
    assert answers == [None] * 4
    assert taking is not None
    for session in sessions:
        kinds = [type(one.event).__name__ for one in session.events()]
        assert kinds.count("Claimed") == 1
        assert kinds.count("Returned") == 1
        assert kinds[-1] == "Completed"


def test_without_patience_the_caller_is_told_of_each(rig: Rig) -> None:
    rig = Rig()
    for _ in range(2):
        rig.open()
    given = _claimed(rig, 2)
    rig.fail("before", "before", "before", only=["commit", "load"])
    answers, _ = rig.gateway.give_all(given)
    assert all(isinstance(one, Unavailable) for one in answers)
    rig.fail()
    answers, _ = rig.gateway.give_all(given)
    assert answers == [None, None]


@pytest.mark.parametrize(
    ("more", "dear"),
    [({}, False), ({"recovery": "human"}, True), ({"max_attempts": 1}, True), ({"max_attempts": 2}, False)],
)
def test_a_pack_is_dear_where_its_next_lost_claim_brings_in_a_person(
    rig: Rig, more: dict[str, Any], dear: bool
) -> None:
    rig.open(plan(**more))
    (offer,) = rig.gateway.take(ROLE, 1).offers
    assert offer.dear is dear


def test_a_pack_that_was_lost_once_may_be_dear_from_then_on(rig: Rig) -> None:
    rig.open(plan(max_attempts=2))
    rig.lose(rig.claim())
    (offer,) = rig.gateway.take(ROLE, 1).offers
    assert offer.dear
