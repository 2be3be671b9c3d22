"""Several attempts in one call: each place of the answer is what the call for one would have been."""

import pytest
from msgspec.structs import replace

from passdown.agents import Done
from passdown.agents.results import write_return
from passdown.contracts.errors import ContractError, Fenced
from passdown.contracts.gateway import Claim, Claiming, Giving, Offer, Wanted
from tests.conformance.gateway_suite import ME, ROLE, Driver


def _claiming(offers: list[Offer]) -> list[Claiming]:
    return [Claiming(one.pack, f"claim-of-{one.pack.session_id}", ME) for one in offers]


def _giving(offer: Offer, claim: Claim) -> Giving:
    return Giving(claim, write_return(Done({}), offer.pack, claim.fence), [])


def _held(answers: list[object]) -> list[Claim]:
    claims = [one for one in answers if isinstance(one, Claim)]
    assert len(claims) == len(answers), answers
    return claims


class ManySuite:
    """Inherit beside `GatewaySuite`."""

    @pytest.fixture
    def driver(self) -> Driver:
        raise NotImplementedError

    def test_many_handoffs(self, driver: Driver) -> None:
        sessions = [driver.open() for _ in range(3)]
        offers = driver.gateway.take(ROLE, 3).offers
        claims = _held([*driver.gateway.claim_all(_claiming(offers))])
        answers, taking = driver.gateway.give_all([*map(_giving, offers, claims)], then_take=Wanted(ROLE, 5))
        assert answers == [None, None, None]
        assert taking is not None
        assert taking.offers == []
        assert [driver.status(one) for one in sessions] == ["done"] * 3

    def test_the_next_packs_come_along(self, driver: Driver) -> None:
        driver.open()
        offers = driver.gateway.take(ROLE, 1).offers
        later = {driver.open(), driver.open()}
        claims = _held([*driver.gateway.claim_all(_claiming(offers))])
        _, taking = driver.gateway.give_all([_giving(offers[0], claims[0])], then_take=Wanted(ROLE, 5))
        assert taking is not None
        assert {one.pack.session_id for one in taking.offers} == later

    def test_a_claim_that_is_refused_leaves_the_others_alone(self, driver: Driver) -> None:
        for _ in range(3):
            driver.open()
        offers = driver.gateway.take(ROLE, 3).offers
        driver.gateway.claim(offers[1].pack, "another-claim", ME)
        asked = _claiming(offers)
        asked[2] = asked[2]._replace(pack=replace(asked[2].pack, digest="0" * 64))
        first, second, third = driver.gateway.claim_all(asked)
        assert isinstance(first, Claim)
        assert isinstance(second, Fenced)
        assert isinstance(third, ContractError)

    def test_rule_02_a_return_that_is_refused_leaves_the_others_alone(self, driver: Driver) -> None:
        sessions = [driver.open() for _ in range(3)]
        offers = driver.gateway.take(ROLE, 3).offers
        claims = _held([*driver.gateway.claim_all(_claiming(offers))])
        lost = claims[1]
        driver.lose(lost)
        answers, _ = driver.gateway.give_all([*map(_giving, offers, claims)])
        assert [type(one) for one in answers] == [type(None), Fenced, type(None)]
        status = {one: driver.status(one) for one in sessions}
        assert status.pop(lost.session_id) != "done"
        assert set(status.values()) == {"done"}

    def test_rule_02_the_same_returns_again_change_nothing(self, driver: Driver) -> None:
        sessions = [driver.open() for _ in range(2)]
        offers = driver.gateway.take(ROLE, 2).offers
        claims = _held([*driver.gateway.claim_all(_claiming(offers))])
        given = [*map(_giving, offers, claims)]
        for _ in range(2):
            answers, _ = driver.gateway.give_all(given)
            assert answers == [None, None]
        assert [driver.status(one) for one in sessions] == ["done"] * 2

    def test_nothing_is_asked_for_nothing(self, driver: Driver) -> None:
        assert driver.gateway.claim_all([]) == []
        assert driver.gateway.give_all([]) == ([], None)
