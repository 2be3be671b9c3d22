"""Publishing packs: nothing is lost, counted as failed, or put where nobody reads, whatever fails on the way."""

import json
from typing import Any

import pytest

from passdown.broker.push.judging import take_in
from passdown.broker.push.pusher import RESERVE_MS, Pusher
from passdown.contracts.errors import Unavailable
from passdown.contracts.push import RETURNS_QUEUE, push_queue
from tests.unit.broker.push.foreign import JSON, answer, pushed_plan
from tests.unit.broker.rig import ROLE, Rig, plan


class Queues:
    """Message queues in a dictionary; ``away`` publishes that many more messages and then fails."""

    def __init__(self) -> None:
        self.sent: dict[str, list[dict[str, Any]]] = {}
        self.away: int | None = None

    def publish(self, queue: str, body: bytes) -> None:
        """Keep a message, or fail."""
        if self.away == 0:
            raise Unavailable("transport", "it is away")
        self.away = None if self.away is None else self.away - 1
        self.sent.setdefault(queue, []).append(json.loads(body))

    def waiting(self, queue: str) -> int:
        """Count messages."""
        return len(self.sent.get(queue, []))

    def close(self) -> None:
        """Do nothing."""

    def messages(self) -> list[dict[str, Any]]:
        """Return what was published for the role."""
        return self.sent.get(push_queue(ROLE), [])


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def queues() -> Queues:
    return Queues()


def pusher(rig: Rig, queues: Queues, **more: Any) -> Pusher:
    """Return a pusher by the rig's clock."""
    now = lambda: rig.clock.now / 1000  # noqa: E731
    return Pusher(rig.controller, queues, monotonic=now, clock=now, **more)


def test_no_worker_that_takes_gets_what_is_pushed(rig: Rig, queues: Queues) -> None:
    rig.open(pushed_plan())
    assert rig.bells.rung == [f"push/{ROLE}"]
    assert rig.take(10) == []
    pusher(rig, queues).push(ROLE)
    assert len(queues.messages()) == 1


def test_a_pack_is_published_and_claimed_until_its_lease_ends(rig: Rig, queues: Queues) -> None:
    session = rig.open(pushed_plan(), inputs={"name": "Grüße\x00"})
    assert pusher(rig, queues).push(ROLE) == "done"
    (message,) = queues.messages()
    assert set(message) == {"spec", "claimId", "leaseUntil", "returns", "pack"}
    assert (message["spec"], message["returns"]) == ("passdown.push/1", RETURNS_QUEUE)
    assert message["leaseUntil"] == rig.clock.now + 10_000
    assert message["pack"]["inputs"] == {"name": "Grüße\x00"}
    claim = session.state().claim
    assert claim is not None
    assert (claim.claim_id, claim.by, claim.agent) == (message["claimId"], f"agent:{ROLE}", ROLE)


def test_what_is_out_is_not_published_again(rig: Rig, queues: Queues) -> None:
    rig.open(pushed_plan())
    one = pusher(rig, queues)
    one.push(ROLE)
    one.push(ROLE)
    assert len(queues.messages()) == 1


def test_rule_01_a_pack_that_could_not_be_published_waits_and_nothing_is_counted(
    rig: Rig, queues: Queues
) -> None:
    sessions = [rig.open(pushed_plan(), key=str(n)) for n in range(3)]
    queues.away = 1
    one = pusher(rig, queues)
    with pytest.raises(Unavailable):
        one.push(ROLE)
    assert sorted(session.status() for session in sessions) == ["queued", "queued", "running"]
    queues.away = None
    one.push(ROLE)
    assert [session.status() for session in sessions] == ["running"] * 3
    assert len(queues.messages()) == 3
    assert [session.state().attempt for session in sessions] == [1, 1, 1]


def test_rule_01_a_pack_published_by_a_process_that_ended_then_is_published_again_under_the_same_claim(
    rig: Rig, queues: Queues
) -> None:
    session = rig.open(pushed_plan())
    rig.fail(*["before"] * 9, only=["commit"])  # as if it had ended there
    pusher(rig, queues).push(ROLE)
    rig.fail()
    assert session.status() == "queued"
    other = pusher(rig, queues)
    other.push(ROLE)
    assert len(queues.messages()) == 1, "reserved for whoever took it"
    rig.clock.forward(RESERVE_MS + 1)
    other.push(ROLE)
    first, second = queues.messages()
    assert first["claimId"] == second["claimId"]
    assert first["pack"] == second["pack"]
    assert session.state().attempt == 1
    assert session.state().failures == 0
    assert take_in(rig.controller, answer(first), JSON).fate == "accepted"
    assert session.status() == "done"
    assert take_in(rig.controller, answer(second, output={"other": 1}), JSON).fate == "fenced"


def test_a_return_that_is_quicker_than_the_record_of_its_claim_counts(rig: Rig, queues: Queues) -> None:
    session = rig.open(pushed_plan())
    fates: list[str] = []
    publish = queues.publish

    def answered_at_once(queue: str, body: bytes) -> None:
        publish(queue, body)
        fates.append(take_in(rig.controller, answer(json.loads(body)), JSON).fate)

    queues.publish = answered_at_once
    assert pusher(rig, queues).push(ROLE) == "done"
    assert fates == ["accepted"]
    assert session.status() == "done"
    assert [type(one.event).__name__ for one in session.events()].count("Claimed") == 1


def test_a_silent_worker_is_given_up_when_the_lease_ends_and_the_pack_published_anew(
    rig: Rig, queues: Queues
) -> None:
    session = rig.open(pushed_plan(max_attempts=2))
    one = pusher(rig, queues)
    one.push(ROLE)
    rig.clock.forward(10_001)
    rig.sweep()
    one.push(ROLE)
    first, second = queues.messages()
    assert (first["pack"]["attempt"], second["pack"]["attempt"]) == (1, 2)
    assert first["claimId"] != second["claimId"]
    assert take_in(rig.controller, answer(first), JSON).fate == "fenced"
    assert session.status() == "running"
    rig.clock.forward(10_001)
    rig.sweep()
    assert session.status() == "waiting-human"
    one.push(ROLE)
    assert len(queues.messages()) == 2


def test_a_role_that_nobody_serves_fills_no_queue(rig: Rig, queues: Queues) -> None:
    """Fault #76."""
    made = pushed_plan(max_attempts=9)
    for n in range(7):
        rig.open(made, key=str(n))
    one = pusher(rig, queues, limit=5)
    one.push(ROLE)
    assert len(queues.messages()) == 5
    assert one.push(ROLE) == "nothing"
    rig.clock.forward(10_001)
    rig.sweep()  # the leases are lost: five packs wait again, whose copies still lie there
    assert one.push(ROLE) == "full"
    assert len(queues.messages()) == 5
    del queues.messages()[:3]
    assert one.push(ROLE) == "full"
    assert len(queues.messages()) == 5


def test_a_role_whose_queue_is_full_is_tried_with_one_pack_at_a_time(rig: Rig, queues: Queues) -> None:
    for n in range(4):
        rig.open(pushed_plan(), key=str(n))
    one = pusher(rig, queues, limit=2)
    for n in range(2):
        queues.publish(push_queue(ROLE), json.dumps({"n": n}).encode())
    one.hear(ROLE)
    one.turns()
    calls = rig.listen()
    one.hear(ROLE)
    one.turns()
    assert calls == [], "it waits"
    rig.clock.forward(1_000)
    one.turns()
    assert calls == ["take", "hand_back"]
    queues.messages().clear()
    rig.clock.forward(1_000)
    one.turns()
    one.turns()
    assert len(queues.messages()) == 2


def test_a_role_that_was_served_is_looked_at_without_a_bell(rig: Rig, queues: Queues) -> None:
    made = pushed_plan()
    rig.open(made, key="first")
    one = pusher(rig, queues)
    one.hear(ROLE)
    one.turns()
    rig.open(made, key="second")
    rig.clock.forward(5_000)
    one.turns()
    assert len(queues.messages()) == 2


def test_a_bell_for_a_role_that_nobody_knows_leaves_nothing_behind(rig: Rig, queues: Queues) -> None:
    one = pusher(rig, queues)
    for n in range(100):
        one.hear(f"nobody-{n}")
    one.turns()
    calls = rig.listen()
    rig.clock.forward(60_000)
    one.turns()
    assert calls == []
    assert queues.sent == {}


def test_what_is_out_counts_also_where_it_was_fetched(rig: Rig, queues: Queues) -> None:
    sessions = [rig.open(pushed_plan(), key=str(n)) for n in range(4)]
    one = pusher(rig, queues, limit=3)
    one.push(ROLE)
    fetched = list(queues.messages())
    queues.messages().clear()
    one.push(ROLE)
    assert queues.messages() == []
    rig.bells.rung.clear()
    take_in(rig.controller, answer(fetched[0]), JSON)
    assert f"push/{ROLE}" in rig.bells.rung, "a return makes room for another, and says so"
    one.push(ROLE)
    assert len(queues.messages()) == 1
    assert sorted(session.status() for session in sessions) == ["done", *["running"] * 3]


def test_turns_serve_each_role_that_was_heard_of_and_come_again_after_a_failure(
    rig: Rig, queues: Queues
) -> None:
    session = rig.open(pushed_plan())
    one = pusher(rig, queues)
    queues.away = 0
    one.hear(ROLE)
    wait = one.turns()
    assert 0 < wait <= 1.0
    one.hear(ROLE)
    assert one.turns() > 0, "a bell does not shorten the wait after a failure"
    assert session.status() == "queued"
    queues.away = None
    rig.clock.forward(1_000)
    one.turns()
    assert session.status() == "running"


def test_a_pusher_that_starts_finds_what_waits_without_a_bell(rig: Rig, queues: Queues) -> None:
    session = rig.open(pushed_plan())
    rig.open(plan("pulled"))
    one = pusher(rig, queues)
    one.look()
    one.turns()
    assert session.status() == "running"
    assert list(queues.sent) == [push_queue(ROLE)]


def test_packs_beyond_a_batch_go_out_in_further_turns(rig: Rig, queues: Queues) -> None:
    made = pushed_plan()
    for n in range(120):
        rig.open(made, key=str(n))
    one = pusher(rig, queues)
    one.hear(ROLE)
    turns = 1
    while one.turns() == 0.0:
        turns += 1
    assert len(queues.messages()) == 120
    assert turns == 3


def test_a_session_that_is_called_off_while_its_pack_is_out_takes_no_return(rig: Rig, queues: Queues) -> None:
    session = rig.open(pushed_plan())
    pusher(rig, queues).push(ROLE)
    session.cancel()
    assert take_in(rig.controller, answer(queues.messages()[0]), JSON).fate == "fenced"
    assert session.status() == "cancelled"
