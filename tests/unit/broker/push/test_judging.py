"""Returns that come as messages: what counts, what comes too late, and what is junk and harms nobody."""

import json
from typing import Any

import pytest

from passdown.broker.client import Session
from passdown.broker.controller import Controller
from passdown.broker.push.judging import KEPT, judge, take_in
from passdown.broker.push.pusher import Pusher
from passdown.broker.stores.queries import FindQuarantine, QuarantineRow
from passdown.contracts.errors import Unavailable
from passdown.contracts.push import RETURNS_QUEUE
from tests.unit.broker.push.foreign import JSON, answer, pushed_plan
from tests.unit.broker.rig import ROLE, Bells, Rig, two_stages

Message = dict[str, Any]


class Out:
    """Keeps the last message published."""

    message: Message

    def publish(self, queue: str, body: bytes) -> None:
        """Keep a message."""
        assert queue == f"passdown.push.{ROLE}"
        self.message = json.loads(body)

    def waiting(self, queue: str) -> int:
        """Say that nothing waits."""
        del queue
        return 0

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def rig() -> Rig:
    return Rig()


def push(rig: Rig) -> Message:
    """Push the one pack that waits."""
    out = Out()
    Pusher(rig.controller, out).push(ROLE)
    return out.message


@pytest.fixture
def session(rig: Rig) -> Session:
    return rig.open(pushed_plan())


@pytest.fixture
def message(rig: Rig, session: Session) -> Message:
    assert session.status() == "queued"
    return push(rig)


def quarantined(rig: Rig) -> list[QuarantineRow]:
    found = rig.store.find(FindQuarantine())
    assert isinstance(found, list)
    return [row for row in found if isinstance(row, QuarantineRow)]


def types(session: Session) -> list[str]:
    return [type(one.event).__name__ for one in session.events()]


def test_a_return_counts_and_leaves_nothing_in_quarantine(
    rig: Rig, session: Session, message: Message
) -> None:
    assert take_in(rig.controller, answer(message), "Application/JSON; charset=utf-8").fate == "accepted"
    assert session.status() == "done"
    assert quarantined(rig) == []


def test_rule_02_the_same_return_again_changes_nothing(rig: Rig, session: Session, message: Message) -> None:
    for _ in range(3):
        assert take_in(rig.controller, answer(message), JSON)[:2] == ("accepted", "")
    assert types(session).count("Returned") == 1
    assert types(session)[-1] == "Completed"
    assert quarantined(rig) == []


def test_rule_02_another_return_for_the_same_claim_is_fenced_and_recorded(
    rig: Rig, session: Session, message: Message
) -> None:
    take_in(rig.controller, answer(message), JSON)
    assert take_in(rig.controller, answer(message, output={"other": 1}), JSON).fate == "fenced"
    assert types(session)[-1] == "ReturnFenced"
    assert session.status() == "done"


def test_rule_02_a_late_return_never_claims_the_attempt_that_follows(rig: Rig, session: Session) -> None:
    first = push(rig)
    rig.clock.forward(10_001)
    rig.sweep()
    assert session.state().attempt == 2
    assert take_in(rig.controller, answer(first), JSON).fate == "fenced"
    assert session.state().claim is None
    second = push(rig)
    assert take_in(rig.controller, answer(second), JSON).fate == "accepted"


def test_a_return_that_breaks_its_contract_is_a_failed_attempt(
    rig: Rig, session: Session, message: Message
) -> None:
    judged = take_in(rig.controller, answer(message, output=[1]), JSON)
    assert judged.fate == "rejected"
    assert "JSON object" in judged.reason
    assert session.state().failures == 1
    (row,) = quarantined(rig)
    assert (row.source, row.reason) == (RETURNS_QUEUE, judged.reason)
    again = push(rig)
    assert again["pack"]["feedback"][0]["text"] == judged.reason


@pytest.mark.parametrize(
    "more",
    [
        {"spec": "passdown.return/9"},
        {"result": "surprise"},
        {"unknown": 1},
        {"output": "x" * 70_000},
        {"stage": "other"},
        {"evidence": "none"},
    ],
)
def test_junk_with_fence_and_digest_counts_against_its_pack(
    rig: Rig, session: Session, message: Message, more: Message
) -> None:
    assert take_in(rig.controller, answer(message, **more), JSON).fate == "rejected"
    assert session.state().failures == 1
    assert len(quarantined(rig)) == 1


@pytest.mark.parametrize("more", [{"output": [1]}, {"unknown": 1}, {"result": "surprise"}])
def test_rule_02_a_rejected_return_that_comes_again_is_kept_and_counted_once(
    rig: Rig, session: Session, message: Message, more: Message
) -> None:
    first = take_in(rig.controller, answer(message, **more), JSON)
    push(rig)  # the next attempt is out by then
    for _ in range(3):
        again = take_in(rig.controller, answer(message, **more), JSON)
        assert (again.fate, again.reason) == ("rejected", first.reason)
    assert len(quarantined(rig)) == 1
    assert types(session).count("ReturnRejected") == 1
    assert session.state().failures == 1


def test_a_store_that_blinks_costs_no_copy_of_a_rejected_return(
    rig: Rig, session: Session, message: Message
) -> None:
    patient = Controller(rig.store, Bells(), patience_s=5.0)
    rig.fail("before", only=["put"])
    assert take_in(patient, answer(message, output=[1]), JSON).fate == "rejected"
    assert len(quarantined(rig)) == 1
    assert session.state().failures == 1


@pytest.mark.parametrize(
    "more",
    [
        {"packDigest": "0" * 64},
        {"claimId": "somebody else's", "unknown": 1},
        {"attempt": 2, "unknown": 1},
        {"attempt": 0},
        {"step": -1},
        {"step": 2**60},
        {"sessionId": "s0-nobody"},
        {"sessionId": "\x00"},
        {"sessionId": ""},
        {"sessionId": 7},
        {"claimId": None},
    ],
)
def test_rule_11_junk_without_them_counts_against_nobody(
    rig: Rig, session: Session, message: Message, more: Message
) -> None:
    before = session.state()
    assert take_in(rig.controller, answer(message, **more), JSON).fate == "junk"
    assert session.state() == before
    assert len(quarantined(rig)) == 1
    assert take_in(rig.controller, answer(message), JSON).fate == "accepted"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"not json",
        b'{"a":1}',
        b"[1,2]",
        b"null",
        b"NaN",
        b"[" * 5_000_000,
        b'{"sessionId":' * 2_000,
        b'{"task":"passdown.drain","id":"1","args":["x"],"kwargs":{}}',
        b'{"sessionId":"\\ud800"}',
    ],
)
def test_rule_11_what_is_no_return_at_all_goes_to_quarantine(rig: Rig, body: bytes) -> None:
    """Fault #33."""
    assert take_in(rig.controller, body, JSON).fate == "junk"
    (row,) = quarantined(rig)
    assert row.body == body[:KEPT]
    assert row.reason


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-python-serialize", "application/json5"])
def test_other_content_types_go_to_quarantine(
    rig: Rig, session: Session, message: Message, kind: str
) -> None:
    judged = take_in(rig.controller, answer(message), kind)
    assert judged.fate == "junk"
    assert "application/json" in judged.reason
    assert session.status() == "running"


def test_a_huge_return_with_its_fence_is_a_failed_attempt_and_is_not_kept_whole(
    rig: Rig, session: Session, message: Message
) -> None:
    """Fault #66."""
    body = answer(message, output={"text": "x" * 10_000_000})
    assert take_in(rig.controller, body, JSON).fate == "rejected"
    (row,) = quarantined(rig)
    assert len(row.body) == KEPT
    assert f"{len(body)} bytes" in row.reason
    assert session.state().failures == 1


def test_rule_01_where_the_store_is_away_the_message_must_come_again(
    rig: Rig, session: Session, message: Message
) -> None:
    for where in (["load"], ["commit"]):
        rig.fail(*["before"] * 4, only=where)
        with pytest.raises(Unavailable):
            take_in(rig.controller, answer(message), JSON)
        rig.fail()
    rig.fail(*["before"] * 4, only=["put"])
    with pytest.raises(Unavailable):
        take_in(rig.controller, b"junk", JSON)
    rig.fail()
    assert take_in(rig.controller, answer(message), JSON).fate == "accepted"
    assert session.status() == "done"


def test_the_next_stage_is_pushed_in_turn(rig: Rig) -> None:
    session = rig.open(two_stages(delivery="push"))
    for stage in ("a", "b"):
        message = push(rig)
        assert message["pack"]["stage"] == stage
        take_in(rig.controller, answer(message), JSON)
    assert session.status() == "done"


def test_a_worker_that_asks_is_pushed_the_answer(rig: Rig, session: Session, message: Message) -> None:
    asking = answer(message, result="needs-input", questions=[{"id": "who", "text": "Who?"}])
    asked = json.loads(asking)
    del asked["output"]
    assert judge(rig.controller, json.dumps(asked).encode()).fate == "accepted"
    assert session.status() == "waiting-input"
    session.answer("who", "Ann")
    again = push(rig)
    assert again["pack"]["answers"][0]["value"] == "Ann"
