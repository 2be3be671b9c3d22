from collections.abc import Iterator
from typing import Any, cast

import pytest

from passdown.broker.homeless import SOURCE
from passdown.broker.stores.queries import FindQuarantine, QuarantineRow
from passdown.contracts.errors import Fenced, NotFound
from tests.unit.broker import rig as made
from tests.unit.broker.rig import Rig, paying


@pytest.fixture
def rig() -> Iterator[Rig]:
    one = Rig()
    one.broker.register_tools([made.pay.spec])
    yield one
    one.broker.close()


def kept(rig: Rig) -> list[QuarantineRow]:
    return cast("list[QuarantineRow]", rig.store.find(FindQuarantine()))


def test_rule_12_a_write_that_no_ledger_knows_of_is_kept_for_a_person(rig: Rig) -> None:
    """Its claim went with its intent, when the store lost its last moments; the write did happen."""
    session = rig.open(paying())
    attempt = rig.claim()
    rig.lose(attempt)
    with pytest.raises(NotFound):
        rig.gateway.report(attempt.claim, attempt.effect_id(), "done", result={"id": 7})
    (row,) = kept(rig)
    assert row.source == SOURCE
    assert row.reason.startswith(f"an effect was done, and session {session.id} knows of no such intent")
    for known in (session.id, attempt.effect_id(), '"id":7'):
        assert known in row.body.decode()


def test_a_repeat_whose_intent_is_another_claim_s_is_kept_too(rig: Rig) -> None:
    rig.open(paying())
    attempt = rig.claim()
    attempt.pay()
    rig.gateway.report(attempt.claim, attempt.effect_id(), "failed", error="no")
    stranger: Any = rig.gateway
    claim = attempt.claim.__class__(
        session_id=attempt.claim.session_id,
        role=attempt.claim.role,
        fence=attempt.claim.fence.__class__(step=1, attempt=1, claim_id="another-claim"),
        lease_seconds=10.0,
    )
    with pytest.raises(Fenced):
        stranger.report(claim, attempt.effect_id(), "done")
    assert len(kept(rig)) == 1


def test_a_claim_that_is_held_records_its_intent_again_and_nothing_is_kept(rig: Rig) -> None:
    session = rig.open(paying())
    attempt = rig.claim()
    with pytest.raises(NotFound, match="this claim recorded no intent for it"):
        rig.gateway.report(attempt.claim, attempt.effect_id(), "done")
    attempt.pay()
    rig.gateway.report(attempt.claim, attempt.effect_id(), "done")
    attempt.give()
    assert kept(rig) == []
    assert session.status() == "done"


def test_where_it_cannot_be_kept_the_worker_still_hears_why_it_was_refused(rig: Rig) -> None:
    rig.open(paying())
    attempt = rig.claim()
    rig.lose(attempt)
    rig.fail("before", "before", "before", only=("put",))
    with pytest.raises(NotFound):
        rig.gateway.report(attempt.claim, attempt.effect_id(), "done")
    assert kept(rig) == []


def test_what_was_not_done_needs_nobody(rig: Rig) -> None:
    rig.open(paying())
    attempt = rig.claim()
    rig.lose(attempt)
    with pytest.raises(NotFound):
        rig.gateway.report(attempt.claim, attempt.effect_id(), "failed", error="no")
    assert kept(rig) == []
