from typing import Any

import pytest
from msgspec.structs import replace

from passdown.agents import Absent, Done, Question, tool
from passdown.agents.claim import counter_key
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.memory_session import Session
from passdown.agents.results import NeedsInput, write_return
from passdown.agents.testing import make_pack
from passdown.contracts import ids
from passdown.contracts.codec import RETURN_BUDGET
from passdown.contracts.commands import ToolNote, Verdict
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Fenced, NotFound
from passdown.contracts.gateway import AgentInfo, Claim, Gateway
from passdown.contracts.pack import PAGE_ITEMS
from passdown.contracts.replies import Run
from tests.unit.agents.joining import branches, join

ME = AgentInfo(name="me")


@tool("pay", effect=True, verify=Absent, dedupes=True)
def pay(n: int, *, key: str) -> None: ...


class Held:
    """A session whose attempt is claimed."""

    def __init__(self, **options: Any) -> None:
        self.broker = MemoryGateway()
        self.broker.register_tools([pay.spec])
        self.pack = make_pack("clerk", tools=[pay], **options)
        self.session: Session = self.broker.submit(self.pack)
        self.claim: Claim = self.again()

    def again(self) -> Claim:
        (offer,) = self.broker.take("clerk", 1).offers
        self.claim = self.broker.claim(offer.pack, f"claim-no-{offer.pack.attempt}", ME)
        return self.claim

    def effect(self, n: int = 1, nth: int = 1, claim: Claim | None = None, **changes: Any) -> Any:
        effect_id = ids.effect_id(self.session.name, 1, "pay", {"n": n}, nth)
        counters = {counter_key("pay", {"n": n}): nth}
        asked: dict[str, Any] = {
            "effect_id": effect_id,
            "tool": "pay",
            "args": {"n": n},
            "counters": counters,
            "after": None,
            "notes": [],
        }
        return self.broker.effect(claim or self.claim, **{**asked, **changes})


@pytest.fixture
def held() -> Held:
    return Held()


def test_it_is_a_gateway():
    gateway: Gateway = MemoryGateway()
    assert gateway.take("nobody", 5).offers == []


def test_a_taken_pack_is_reserved_until_it_is_handed_back():
    broker = MemoryGateway()
    pack = make_pack("clerk")
    session = broker.submit(pack)
    assert [one.pack for one in broker.take("clerk", 1).offers] == [pack]
    assert broker.take("clerk", 1).offers == []
    broker.hand_back(pack, "not here", after_seconds=0)
    assert session.handed_back == "not here"
    assert len(broker.take("clerk", 1).offers) == 1
    broker.hand_back(pack, "not now", after_seconds=60)
    assert broker.take("clerk", 1).offers == []


def test_taking_says_whether_more_remain():
    broker = MemoryGateway()
    for n in range(3):
        broker.submit(make_pack("clerk", session_id=f"s0-{n}"))
    assert broker.take("clerk", 2).more
    assert not broker.take("clerk", 2).more


def test_a_solo_pack_comes_alone_and_never_to_who_holds_others():
    broker = MemoryGateway()
    broker.submit(make_pack("clerk", session_id="s0-a"))
    broker.submit(make_pack("clerk", session_id="s0-b"), solo=True)
    assert [one.solo for one in broker.take("clerk", 5, holding=True).offers] == [False]
    assert broker.take("clerk", 5, holding=True).offers == []
    assert [one.solo for one in broker.take("clerk", 5).offers] == [True]


def test_one_claim_holds_an_attempt(held: Held):
    assert held.broker.claim(held.pack, "claim-no-1", ME) == held.claim
    with pytest.raises(Fenced):
        held.broker.claim(held.pack, "another-one", ME)


def test_a_forged_pack_cannot_be_claimed():
    broker = MemoryGateway()
    pack = make_pack("clerk")
    broker.submit(pack)
    with pytest.raises(ContractError, match="digest"):
        broker.claim(replace(pack, digest="0" * 64), "claim-no-1", ME)
    with pytest.raises(NotFound):
        broker.claim(make_pack("clerk", session_id="s0-none"), "claim-no-1", ME)


def test_standings(held: Held):
    other = replace(held.claim, session_id="s0-none")
    assert held.broker.renew([held.claim, other]) == ["held", "lost"]
    held.broker.cancel(held.session.name)
    assert held.broker.renew([held.claim]) == ["cancelled"]
    held.broker.release(held.claim, "told", [])
    assert held.session.status == "cancelled"


def test_a_lost_claim_is_fenced_and_the_next_attempt_is_solo(held: Held):
    held.broker.lose(held.session.name)
    assert (held.session.failures, held.session.solo, held.session.pack.attempt) == (1, True, 2)
    for act in (
        lambda: held.broker.checkpoint(held.claim, 1, {}, {}, []),
        lambda: held.broker.tool(held.claim, 2, []),
        held.effect,
        lambda: held.broker.give(held.claim, b"{}", []),
        lambda: held.broker.fail(held.claim, "error", "x", []),
        lambda: held.broker.release(held.claim, "x", []),
        lambda: held.broker.settle(held.claim, []),
    ):
        with pytest.raises(Fenced):
            act()
    assert held.session.fenced == 2


def test_an_intent_is_answered_with_what_to_run(held: Held):
    reply = held.effect(notes=[ToolNote(tool="look", args={})])
    assert reply == Run(effect_id=reply.effect_id, args={"n": 1})
    assert held.effect() == reply
    assert held.session.writes == ["pay"]
    assert [one.tool for one in held.session.notes] == ["look"]


def test_the_effect_id_must_be_that_of_the_call(held: Held):
    with pytest.raises(ContractError, match="effectId"):
        held.effect(effect_id="s.e-other")
    with pytest.raises(ContractError, match="effectId"):
        held.effect(counters={})


def test_no_checkpoint_while_an_effect_is_under_way(held: Held):
    reply = held.effect()
    with pytest.raises(Conflict):
        held.broker.checkpoint(held.claim, 1, {}, {}, [])
    held.broker.report(held.claim, reply.effect_id, "done", result=1)
    held.broker.checkpoint(held.claim, 2, {"a": 1}, {}, [])
    with pytest.raises(BudgetExceeded):
        held.broker.checkpoint(held.claim, 3, "x" * (RETURN_BUDGET + 1), {}, [])


def test_only_who_intended_may_report(held: Held):
    with pytest.raises(NotFound):
        held.broker.report(held.claim, "s.e-none", "done")
    reply = held.effect()
    stranger = replace(held.claim, fence=replace(held.claim.fence, claim_id="stranger"))
    with pytest.raises(Fenced):
        held.broker.report(stranger, reply.effect_id, "done")


def test_what_is_intended_when_its_claim_ends_is_unknown_and_settled(held: Held):
    reply = held.effect()
    lost = held.claim
    held.broker.lose(held.session.name)
    assert held.session.pack.cause == "settle"
    assert [(one.status, one.args) for one in held.session.pack.effects] == [("unknown", {"n": 1})]
    held.again()
    with pytest.raises(Conflict, match="unknown"):
        held.effect(n=2)
    held.broker.settle(held.claim, [Verdict(effect_id=reply.effect_id, found="absent")])
    assert held.session.pack.cause == "retry"
    held.again()
    assert held.effect() == reply
    held.broker.report(lost, reply.effect_id, "done", result="late")
    assert held.session.ledger[reply.effect_id].result == "late"


def test_the_truth_is_accepted_late(held: Held):
    reply = held.effect()
    held.broker.lose(held.session.name)
    held.broker.report(held.claim, reply.effect_id, "done", result=7)
    assert held.session.pack.cause == "retry"
    held.again()
    assert held.effect().result == 7


@pytest.mark.parametrize("verdict", [None, "unsure", "absent"])
def test_what_verify_cannot_tell_a_person_must(held: Held, verdict: Any):
    held.broker.registered["pay"] = replace(pay.spec, dedupes=False)
    reply = held.effect()
    held.broker.lose(held.session.name)
    held.again()
    held.broker.settle(held.claim, [Verdict(effect_id=reply.effect_id, found=verdict)] if verdict else [])
    assert held.session.status == "waiting"
    assert [one.kind for one in held.session.open_tickets()] == ["effect"]
    held.broker.say(held.session.name, reply.effect_id, done=True, result=1)
    assert held.session.pack.cause == "retry"
    with pytest.raises(NotFound):
        held.broker.say(held.session.name, reply.effect_id, done=True)


def test_a_return_must_be_bound_to_its_claim(held: Held):
    other = write_return(Done(), make_pack("clerk", session_id="s0-other"), held.claim.fence)
    held.broker.give(held.claim, other, [])
    assert held.session.feedback[0].kind == "contract"
    assert "not bound" in held.session.feedback[0].text


def test_evidence_and_results_are_checked():
    held = Held(evidence="required")
    held.broker.give(held.claim, write_return(Done(), held.pack, held.claim.fence), [])
    assert "evidence" in held.session.feedback[0].text


def test_answers_must_name_a_question_and_fit_it(held: Held):
    asked = NeedsInput([Question("q", "How many?", schema={"type": "integer"}), Question("r", "Why?")])
    held.broker.give(held.claim, write_return(asked, held.pack, held.claim.fence), [])
    name = held.session.name
    with pytest.raises(NotFound):
        held.broker.answer(name, "other", 1)
    with pytest.raises(ContractError):
        held.broker.answer(name, "q", "many")
    held.broker.answer(name, "q", 3)
    assert held.session.status == "waiting"
    held.broker.answer(name, "r", "so")
    assert (held.session.status, held.session.pack.cause) == ("queued", "input")
    assert [(one.id, one.value) for one in held.session.pack.answers] == [("q", 3), ("r", "so")]


def test_attempts_are_used_up():
    held = Held()
    for n in range(3):
        held.broker.fail(held.claim, "error", str(n), [])
        if n < 2:
            held.again()
    assert held.session.status == "failed"
    assert [one.text for one in held.session.feedback] == ["0", "1", "2"]


def test_a_release_counts_no_failure(held: Held):
    held.broker.release(held.claim, "the worker shuts down", [])
    assert (held.session.status, held.session.failures, held.session.pack.attempt) == ("queued", 0, 2)


def test_branches_come_in_pages_by_their_places():
    given = branches(PAGE_ITEMS + 1)
    broker = MemoryGateway()
    pack = make_pack("judge", join=join(len(given)))
    broker.submit(pack, branches=given[::-1])
    claim = broker.claim(pack, "c" * 32, AgentInfo(name="t"))
    page = broker.branches(claim)
    assert (page.branches, page.next) == (given[:PAGE_ITEMS], PAGE_ITEMS)
    page = broker.branches(claim, PAGE_ITEMS)
    assert (page.branches, page.next) == (given[PAGE_ITEMS:], None)
    broker.lose(pack.session_id)
    with pytest.raises(Fenced):
        broker.branches(claim)
