from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import structlog

from passdown.agents.claim import ActiveClaim
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.renewer import Renewer
from passdown.agents.testing import make_pack
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import Claim, Gateway, Standing
from tests.unit.agents.helpers import claimed, wait_until


class Leases:
    """A gateway that only renews."""

    def __init__(self, standing: Callable[[Claim], Standing] = lambda _: "held") -> None:
        self.calls: list[list[str]] = []
        self.standing = standing
        self.faults: list[Exception] = []

    def renew(self, claims: list[Claim]) -> list[Standing]:
        self.calls.append([one.session_id for one in claims])
        if self.faults:
            raise self.faults.pop(0)
        return [self.standing(one) for one in claims]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def claim_of(name: str, lease_seconds: float = 3600.0) -> ActiveClaim:
    return claimed(make_pack(session_id=name, lease_seconds=lease_seconds), gateway=MemoryGateway())[0]


@pytest.fixture
def made() -> Iterator[list[Renewer]]:
    renewers: list[Renewer] = []
    yield renewers
    for one in renewers:
        one.stop()


def renewer(leases: Leases, made: list[Renewer], clock: Any = None) -> Renewer:
    one = Renewer(cast(Gateway, leases), clock) if clock else Renewer(cast(Gateway, leases))
    made.append(one)
    return one


def test_all_claims_are_renewed_in_one_call(made: list[Renewer]):
    leases = Leases()
    one = renewer(leases, made)
    one.add(claim_of("s0-a"))
    one.add(claim_of("s0-b"))
    assert one.renew() == 0
    assert leases.calls == [["s0-a", "s0-b"]]


def test_a_removed_claim_is_not_renewed(made: list[Renewer]):
    leases = Leases()
    one = renewer(leases, made)
    claim = claim_of("s0-a")
    one.add(claim)
    one.remove(claim)
    assert one.held() == []
    one.renew()
    assert leases.calls == []


def test_renewal_comes_at_a_third_of_the_shortest_lease(made: list[Renewer]):
    leases = Leases()
    one = renewer(leases, made)
    one.add(claim_of("s0-long"))
    one.add(claim_of("s0-short", lease_seconds=0.06))
    wait_until(lambda: len(leases.calls) >= 3, "the short lease is kept")
    assert all(len(call) == 2 for call in leases.calls)


@pytest.mark.parametrize(
    ("standing", "why"), [("lost", "the lease was lost"), ("cancelled", "the session was cancelled")]
)
def test_a_claim_that_is_over_is_told_and_left(made: list[Renewer], standing: Standing, why: str):
    leases = Leases(lambda claim: standing if claim.session_id == "s0-a" else "held")
    one = renewer(leases, made)
    gone, kept = claim_of("s0-a"), claim_of("s0-b")
    one.add(gone)
    one.add(kept)
    one.renew()
    assert gone.ended is not None
    assert gone.ended.why == why
    assert kept.ended is None
    assert one.held() == [kept]


def test_while_the_store_is_away_it_is_asked_again_for_ever_and_says_so(made: list[Renewer]):
    leases = Leases()
    leases.faults = [Unavailable("store", "away") for _ in range(100)]
    one = renewer(leases, made, Clock())
    claim = claim_of("s0-a")
    one.add(claim)
    with structlog.testing.capture_logs() as lines:
        waits = [one.renew() for _ in range(40)]
        assert all(0 < wait <= 5 for wait in waits)
        assert waits[0] < 0.3
        assert len(set(waits)) > 1
        leases.faults = []
        assert one.renew() == 0
    assert [line["action"] for line in lines] == ["renew-failed"] * 40 + ["renewed-again"]
    assert lines[-2]["failures"] == 40
    assert claim.ended is None


def test_no_error_ends_the_thread(made: list[Renewer]):
    leases = Leases()
    leases.faults = [KeyError("odd"), Unavailable("store", "away")]
    one = renewer(leases, made)
    with structlog.testing.capture_logs():
        one.add(claim_of("s0-a", lease_seconds=0.03))
        wait_until(lambda: len(leases.calls) >= 5, "it goes on")


def test_an_agent_whose_end_cannot_be_told_does_not_hold_the_others_up(made: list[Renewer]):
    leases = Leases(lambda _: "lost")
    one = renewer(leases, made)
    first, second = claim_of("s0-a"), claim_of("s0-b")

    def broken() -> None:
        raise RuntimeError("loop is gone")

    first.when_ended(broken)
    one.add(first)
    one.add(second)
    one.renew()
    assert second.ended is not None
