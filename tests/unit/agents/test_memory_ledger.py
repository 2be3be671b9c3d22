from typing import Any

import pytest

from passdown.agents import tool
from passdown.agents.memory_ledger import (
    admit,
    answer_known,
    close_tickets,
    intend,
    other_identity,
    propose,
    settled,
)
from passdown.agents.memory_session import Effect, Session, new_effect
from passdown.agents.testing import make_pack, pack_tool
from passdown.contracts.errors import Conflict, Denied
from passdown.contracts.gateway import Claim
from passdown.contracts.replies import Recorded, Run, Suspended
from passdown.contracts.returns import Fence
from passdown.contracts.tools import action_digest


@tool("pay", effect=True)
def pay(n: int, *, key: str) -> None: ...


@tool("look")
def look() -> None: ...


CLAIM = Claim(session_id="s0-x", fence=Fence(step=1, attempt=1, claim_id="claim-one"), lease_seconds=60)


def ledger(*, approve: bool = False) -> Session:
    return Session(pack=make_pack(tools=[pack_tool(pay, approve=approve), look], session_id="s0-x"), specs={})


def entry(session: Session, **changes: Any) -> Effect:
    made = new_effect(session, f"s.e-{len(session.ledger)}", "pay", {"n": 1}, "identity", 1)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(("name", "args"), [("gone", {}), ("look", {}), ("pay", {"n": "x"}), ("pay", {})])
def test_what_is_not_granted_is_denied(name: str, args: dict[str, Any]):
    with pytest.raises(Denied):
        admit(ledger(), "s.e-1", name, args, {})


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"status": "done", "result": 3}, "done"),
        ({"status": "denied"}, "denied"),
        ({"status": "not-done"}, "failed"),
    ],
)
def test_what_is_decided_is_answered(changes: dict[str, Any], status: str):
    session = ledger()
    reply = answer_known(session, entry(session, **changes), {"n": 1}, CLAIM)
    assert isinstance(reply, Recorded)
    assert reply.status == status
    assert session.writes == []


@pytest.mark.parametrize("status", ["intended", "unknown"])
def test_what_is_open_is_a_conflict(status: str):
    session = ledger()
    with pytest.raises(Conflict):
        answer_known(session, entry(session, status=status, claims=["claim-one"]), {"n": 1}, CLAIM)


def test_a_failed_effect_runs_again_unless_something_came_after_it():
    session = ledger()
    failed = entry(session, status="failed", touched=1, error="refused")
    assert isinstance(answer_known(session, failed, {"n": 1}, CLAIM), Run)
    failed.status = "failed"
    entry(session, status="done", touched=9)
    failed.touched = 2
    assert isinstance(answer_known(session, failed, {"n": 1}, CLAIM), Recorded)


def test_an_approval_is_of_exactly_one_action():
    session = ledger(approve=True)
    effect = entry(session)
    assert isinstance(propose(session, effect, ""), Suspended)
    effect.approved = action_digest(effect.effect_id, "pay", {"n": 1})
    assert isinstance(answer_known(session, effect, {"n": 2}, CLAIM), Suspended)
    assert effect.approved == ""
    effect.approved = action_digest(effect.effect_id, "pay", {"n": 2})
    assert isinstance(answer_known(session, effect, {"n": 2}, CLAIM), Run)


def test_a_repeat_after_not_done_may_use_its_approval_and_after_failed_needs_a_new_one():
    session = ledger(approve=True)
    effect = entry(session)
    effect.approved = action_digest(effect.effect_id, "pay", {"n": 1})
    effect.status, effect.repeat = "not-done", True
    assert isinstance(answer_known(session, effect, {"n": 1}, CLAIM), Run)
    effect.status = "failed"
    assert isinstance(answer_known(session, effect, {"n": 1}, CLAIM), Suspended)


def test_another_identity_after_a_lost_attempt_needs_a_word():
    session = ledger()
    before = entry(session, status="done")
    now = entry(session, identity="other")
    assert other_identity(session, now, {}, None) == ""
    session.lost = True
    assert before.effect_id in other_identity(session, now, {}, None)
    assert other_identity(session, now, {}, before.effect_id) == ""
    assert other_identity(session, now, {"pay:identity": 1}, None) == ""


def test_settling_and_tickets():
    session = ledger()
    effect = entry(session, status="unknown")
    session.ask("effect", "who knows", effect.effect_id)
    assert close_tickets(session, effect.effect_id)
    assert not close_tickets(session, effect.effect_id)
    settled(session, effect, done=False)
    assert (effect.status, effect.repeat) == ("not-done", True)
    assert isinstance(intend(session, effect, CLAIM), Run)
