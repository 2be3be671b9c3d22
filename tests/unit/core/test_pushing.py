"""What differs in the core where packs are pushed: on which queue they stand, and that none is run alone."""

from passdown.broker.commits import commit_of, queue_of
from passdown.broker.core.given import Decision
from passdown.broker.stores.base import Enqueue, Lease
from passdown.contracts.push import push_claim_id, pushed, role_of_pushed
from passdown.contracts.replies import Accepted
from tests.unit.core.plans import one
from tests.unit.core.spec import Session


def test_a_pushed_pack_stands_on_a_queue_of_its_own_and_is_still_its_roles() -> None:
    session = Session(one(delivery="push")).submit()
    issued = session.state.issued
    assert issued is not None
    assert (issued.role, issued.delivery) == (session.pack.role, "push")
    assert queue_of(issued) == f"push/{issued.role}"
    assert role_of_pushed(queue_of(issued)) == issued.role
    assert role_of_pushed(issued.role) is None


def test_queue_and_lease_are_counted_together() -> None:
    session = Session(one(delivery="push")).submit()
    queued = session.state
    role = pushed(session.pack.role)
    assert queued.issued is not None
    enqueue = commit_of("c", "d", None, Decision(queued, [], Accepted(), b"{}"), 0).queue
    assert isinstance(enqueue, Enqueue)
    assert enqueue.role == role
    session.claim()
    lease = commit_of("c", "d", queued, Decision(session.state, [], Accepted()), 0).lease
    assert isinstance(lease, Lease)
    assert lease.role == role


def test_a_pack_whose_claim_was_lost_is_not_kept_for_a_drain_of_its_own() -> None:
    for delivery, solo in (("pull", True), ("push", False)):
        session = Session(one(delivery=delivery, max_attempts=5)).submit().claim().lose()
        issued = session.state.issued
        assert issued is not None
        assert issued.solo is solo


def test_the_claim_follows_from_the_attempt() -> None:
    ids = {
        push_claim_id(session, step, attempt, digest)
        for session in ("s1", "s2")
        for step in (1, 2)
        for attempt in (1, 2)
        for digest in ("a", "b")
    }
    assert len(ids) == 16
    assert push_claim_id("s1", 1, 1, "a") in ids
    assert all(8 <= len(one) <= 64 for one in ids)
