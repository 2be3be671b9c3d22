"""What every gateway does, whatever stands behind it: the rules of DESIGN §6 as a worker meets them.

A driver opens sessions of one stage behind a gateway and does what a producer, a person and fate do.
"""

from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from passdown.agents import Absent, Done, NeedsInput, Question, tool
from passdown.agents.claim import counter_key
from passdown.agents.results import write_return
from passdown.agents.tools import AnyTool
from passdown.contracts import ids
from passdown.contracts.commands import ToolNote, Verdict
from passdown.contracts.errors import Conflict, ContractError, Denied, Fenced, NotFound
from passdown.contracts.gateway import AgentInfo, Claim, Gateway, Wanted
from passdown.contracts.pack import Pack
from passdown.contracts.replies import Recorded, Run, Suspended

ROLE = "worker"
GRANTED: dict[str, Any] = {"cents": {"maximum": 500}}
PERMITTED: dict[str, Any] = {"cents": {"maximum": 5_000}}
ME = AgentInfo(name="me", version="1", model="none")


@tool("pay", effect=True, identity=["order"], verify=Absent, dedupes=True)
def pay(order: str, cents: int = 100, *, key: str) -> None: ...


@tool("mail", effect=True, verify=Absent)
def mail(to: str, *, key: str) -> None: ...


@tool("look")
def look(order: str) -> None: ...


class Driver(Protocol):
    """What a test needs beside the gateway."""

    gateway: Gateway

    def open(self, *tools: AnyTool, approve: bool = False, permit: bool = False) -> str:
        """Open a session of one stage that grants `tools`, effects only after approval where `approve`.

        With `permit` the effects are granted within `GRANTED`, and a person may permit them within `PERMITTED`.
        """
        ...

    def lose(self, claim: Claim) -> None:
        """Declare a claim lost, and let the backoff of the next attempt pass."""
        ...

    def wait(self) -> None:
        """Let the backoff of a failed attempt pass."""
        ...

    def cancel(self, session_id: str) -> None: ...
    def approve(self, session_id: str, effect_id: str, edited: dict[str, Any] | None = None) -> None: ...
    def deny(self, session_id: str, effect_id: str) -> None: ...
    def say(self, session_id: str, effect_id: str, *, done: bool, result: Any = None) -> None: ...
    def answer(self, session_id: str, question: str, value: Any) -> None: ...
    def status(self, session_id: str) -> str: ...


class Work:
    """One session under test, with the attempt that is claimed now."""

    def __init__(self, driver: Driver, *tools: AnyTool, approve: bool = False, permit: bool = False) -> None:
        self.driver = driver
        self.gateway = driver.gateway
        self.session = driver.open(*tools, approve=approve, permit=permit)
        self.pack: Pack
        self.claim: Claim
        self.next()

    def next(self) -> Pack:
        (offer,) = self.gateway.take(ROLE, 1).offers
        self.pack = offer.pack
        self.claim = self.gateway.claim(self.pack, f"claim-of-attempt-{self.pack.attempt}", ME)
        return self.pack

    def effect(self, name: str = "pay", n: int = 1, after: str | None = None, **args: Any) -> Any:
        asked = args or {"order": "a", "cents": 100}
        identity = {"order": asked["order"]} if name == "pay" else asked
        effect_id = ids.effect_id(self.session, self.pack.step, name, identity, n)
        counters = {counter_key(name, identity): n}
        return self.gateway.effect(self.claim, effect_id, name, asked, counters, after, [])

    def done(self, effect_id: str, result: Any = None) -> None:
        self.gateway.report(self.claim, effect_id, "done", result=result)

    def give(self, result: Any = None) -> None:
        self.gateway.give(self.claim, write_return(result or Done({}), self.pack, self.claim.fence), [])

    def lost(self) -> Pack:
        self.driver.lose(self.claim)
        return self.next()

    def settle(self, effect_id: str, found: Any, result: Any = None) -> None:
        self.gateway.settle(self.claim, [Verdict(effect_id=effect_id, found=found, result=result)])


class GatewaySuite:
    """Inherit, and say with the fixture `driver` what is tried."""

    @pytest.fixture
    def driver(self) -> Driver:
        raise NotImplementedError

    @pytest.fixture
    def work(self, driver: Driver) -> Work:
        return Work(driver, pay, mail, look)

    # Claims

    def test_a_handoff(self, work: Work) -> None:
        assert (work.pack.role, work.pack.attempt, work.pack.cause) == (ROLE, 1, "first")
        assert {one.name for one in work.pack.tools} == {"pay", "mail", "look"}
        work.give(Done({"a": 1}))
        assert work.driver.status(work.session) == "done"
        assert work.gateway.take(ROLE, 5).offers == []

    def test_one_claim_holds_an_attempt_and_may_ask_again(self, work: Work) -> None:
        assert work.gateway.claim(work.pack, work.claim.fence.claim_id, ME) == work.claim
        with pytest.raises(Fenced):
            work.gateway.claim(work.pack, "another-claim", ME)

    def test_a_forged_pack_is_not_claimed(self, driver: Driver) -> None:
        driver.open()
        (offer,) = driver.gateway.take(ROLE, 1).offers
        with pytest.raises(ContractError):
            driver.gateway.claim(replace(offer.pack, digest="0" * 64), "claim-of-a-forger", ME)

    def test_a_taken_pack_is_reserved_until_it_is_handed_back(self, driver: Driver) -> None:
        driver.open()
        taking = driver.gateway.take(ROLE, 1)
        assert (len(taking.offers), taking.more) == (1, False)
        assert driver.gateway.take(ROLE, 1).offers == []
        driver.gateway.hand_back(taking.offers[0].pack, "not here", after_seconds=0)
        assert len(driver.gateway.take(ROLE, 1).offers) == 1
        driver.gateway.hand_back(taking.offers[0].pack, "not here", after_seconds=3600)
        assert driver.gateway.take(ROLE, 1).offers == []

    def test_taking_says_whether_more_remain(self, driver: Driver) -> None:
        for _ in range(3):
            driver.open()
        taking = driver.gateway.take(ROLE, 2)
        assert (len(taking.offers), taking.more) == (2, True)

    def test_the_next_pack_comes_with_a_return(self, driver: Driver) -> None:
        work = Work(driver)
        other = driver.open()
        body = write_return(Done({}), work.pack, work.claim.fence)
        taking = driver.gateway.give(work.claim, body, [], then_take=Wanted(ROLE, 1))
        assert taking is not None
        assert [one.pack.session_id for one in taking.offers] == [other]

    def test_a_pack_whose_claim_was_lost_comes_solo(self, work: Work) -> None:
        work.driver.lose(work.claim)
        assert work.gateway.take(ROLE, 1, holding=True).offers == []
        (offer,) = work.gateway.take(ROLE, 5).offers
        assert offer.solo
        assert (offer.pack.attempt, offer.pack.cause) == (2, "retry")

    def test_standings(self, work: Work) -> None:
        stranger = replace(work.claim, fence=replace(work.claim.fence, claim_id="stranger-claim"))
        assert work.gateway.renew([work.claim, stranger]) == ["held", "lost"]
        work.driver.cancel(work.session)
        assert work.gateway.renew([work.claim]) == ["cancelled"]

    def test_nothing_of_a_lost_claim_counts(self, work: Work) -> None:
        old, body = work.claim, write_return(Done({}), work.pack, work.claim.fence)
        work.lost()
        work.claim, current = old, work.claim
        for act in (
            lambda: work.gateway.checkpoint(old, 1, {}, {}, []),
            lambda: work.gateway.tool(old, 2, [ToolNote(tool="look", args={})]),
            work.effect,
            lambda: work.gateway.give(old, body, []),
            lambda: work.gateway.fail(old, "error", "x", []),
            lambda: work.gateway.release(old, "x", []),
        ):
            with pytest.raises(Fenced):
                act()
        work.claim = current
        work.give()
        assert work.driver.status(work.session) == "done"

    def test_a_release_counts_no_failure(self, work: Work) -> None:
        for _ in range(5):
            work.gateway.release(work.claim, "the worker shuts down", [])
            work.driver.wait()
            work.next()
        assert work.pack.attempt == 6

    def test_failures_are_told_to_the_next_attempt_until_they_are_used_up(self, work: Work) -> None:
        work.gateway.fail(work.claim, "error", "KeyError: 'x'", [])
        work.driver.wait()
        work.next()
        assert [(one.kind, one.text) for one in work.pack.feedback] == [("error", "KeyError: 'x'")]
        for _ in range(2):
            work.gateway.fail(work.claim, "contract", "again", [])
            work.driver.wait()
            if work.gateway.take(ROLE, 0).more:
                work.next()
        assert work.gateway.take(ROLE, 1).offers == []

    def test_a_snapshot_and_reads_are_what_the_next_attempt_goes_on_from(self, work: Work) -> None:
        note = ToolNote(tool="look", args={"order": "a"}, result_digest="d", result={"b": 1}, kept=True)
        work.gateway.checkpoint(work.claim, 1, {"at": 1}, {"pay:x": 2}, [note])
        pack = work.lost()
        assert pack.snapshot is not None
        assert (pack.snapshot.data, pack.snapshot.counters) == ({"at": 1}, {"pay:x": 2})
        assert [(one.tool, one.args, one.result) for one in pack.reads] == [
            ("look", {"order": "a"}, {"b": 1})
        ]

    def test_questions_and_answers(self, work: Work) -> None:
        work.give(
            NeedsInput([Question("sure", "Sure?", schema={"type": "boolean"}), Question("why", "Why?")])
        )
        with pytest.raises(ContractError):
            work.driver.answer(work.session, "sure", "perhaps")
        with pytest.raises(NotFound):
            work.driver.answer(work.session, "other", 1)
        work.driver.answer(work.session, "sure", True)
        assert work.gateway.take(ROLE, 1).offers == []
        work.driver.answer(work.session, "why", "so")
        pack = work.next()
        assert pack.cause == "input"
        assert [(one.id, one.value) for one in pack.answers] == [("sure", True), ("why", "so")]

    # Effects

    def test_an_intent_is_recorded_before_the_write_and_its_outcome_answered_later(self, work: Work) -> None:
        reply = work.effect()
        assert reply == Run(effect_id=reply.effect_id, args={"order": "a", "cents": 100})
        assert work.effect() == reply
        work.done(reply.effect_id, {"id": 7})
        work.lost()
        again = work.effect()
        assert isinstance(again, Recorded)
        assert (again.status, again.result) == ("done", {"id": 7})

    def test_what_is_not_granted_is_denied(self, work: Work) -> None:
        with pytest.raises(Denied):
            work.effect("look", order="a")
        with pytest.raises(Denied):
            work.effect("users.delete", user="all")
        with pytest.raises(Denied):
            work.effect("pay", order=3)

    def test_the_effect_id_is_that_of_the_call(self, work: Work) -> None:
        with pytest.raises(ContractError):
            work.gateway.effect(work.claim, "x.e-1", "pay", {"order": "a"}, {}, None, [])

    def test_no_checkpoint_while_an_effect_is_under_way(self, work: Work) -> None:
        reply = work.effect()
        with pytest.raises(Conflict):
            work.gateway.checkpoint(work.claim, 1, {}, {}, [])
        work.done(reply.effect_id)
        work.gateway.checkpoint(work.claim, 2, {}, {}, [])

    def test_only_who_intended_may_report(self, work: Work) -> None:
        stranger = replace(work.claim, fence=replace(work.claim.fence, claim_id="stranger-claim"))
        with pytest.raises(NotFound):
            work.gateway.report(work.claim, f"{work.session}.e-none", "done")
        reply = work.effect()
        with pytest.raises(Fenced):
            work.gateway.report(stranger, reply.effect_id, "done")

    def test_what_was_under_way_is_unknown_and_settled_first(self, work: Work) -> None:
        reply = work.effect()
        pack = work.lost()
        assert pack.cause == "settle"
        assert [(one.effect_id, one.status, one.args) for one in pack.effects] == [
            (reply.effect_id, "unknown", reply.args)
        ]
        work.settle(reply.effect_id, "found", {"id": 9})
        work.driver.wait()
        assert work.next().cause == "retry"
        assert work.effect().result == {"id": 9}

    def test_absent_allows_a_repeat_where_the_outside_dedupes(self, work: Work) -> None:
        reply = work.effect()
        work.lost()
        work.settle(reply.effect_id, "absent")
        work.driver.wait()
        work.next()
        assert work.effect() == reply

    @pytest.mark.parametrize("found", ["absent", "unsure"])
    @pytest.mark.parametrize("done", [True, False])
    def test_else_a_person_says(self, work: Work, found: str, done: bool) -> None:
        reply = work.effect("mail", to="ann") if found == "absent" else work.effect()
        work.lost()
        work.settle(reply.effect_id, found)
        work.driver.wait()
        assert work.gateway.take(ROLE, 1).offers == []
        work.driver.say(work.session, reply.effect_id, done=done, result={"id": 1})
        work.driver.wait()
        work.next()
        again = work.effect("mail", to="ann") if found == "absent" else work.effect()
        assert isinstance(again, Recorded if done else Run)

    def test_nothing_new_while_something_is_unknown(self, work: Work) -> None:
        reply = work.effect()
        work.gateway.report(work.claim, reply.effect_id, "unknown", error="TimeoutError")
        with pytest.raises(Conflict):
            work.effect(order="b", cents=1)
        work.give()
        assert work.driver.status(work.session) != "done"
        work.next()
        assert work.pack.cause == "settle"
        work.settle(reply.effect_id, "found")
        assert work.driver.status(work.session) == "done"

    def test_the_truth_is_accepted_late(self, work: Work) -> None:
        reply = work.effect()
        late = work.claim
        work.driver.lose(late)
        work.gateway.report(late, reply.effect_id, "done", result={"late": True})
        work.driver.wait()
        assert work.next().cause == "retry"
        assert work.effect().result == {"late": True}

    def test_a_failed_effect_is_tried_anew_unless_something_came_after_it(self, work: Work) -> None:
        reply = work.effect()
        work.gateway.report(work.claim, reply.effect_id, "failed", error="refused")
        work.lost()
        assert work.effect() == reply
        work.gateway.report(work.claim, reply.effect_id, "failed", error="refused again")
        work.done(work.effect("mail", to="ann").effect_id)
        work.lost()
        again = work.effect()
        assert isinstance(again, Recorded)
        assert (again.status, again.error) == ("failed", "refused again")

    def test_another_identity_after_a_lost_attempt_needs_a_word_or_a_person(self, work: Work) -> None:
        first = work.effect()
        work.done(first.effect_id)
        work.lost()
        assert isinstance(work.effect(order="b", cents=1, after=first.effect_id), Run)

    def test_without_that_word_a_person_is_asked(self, work: Work) -> None:
        work.done(work.effect().effect_id)
        work.lost()
        assert isinstance(work.effect(order="b", cents=1), Suspended)

    # People

    def test_an_approved_action_runs(self, driver: Driver) -> None:
        work = Work(driver, pay, approve=True)
        reply = work.effect()
        assert isinstance(reply, Suspended)
        with pytest.raises(Fenced):
            work.give()
        driver.approve(work.session, reply.effect_id)
        assert work.next().cause == "human"
        assert work.effect() == Run(effect_id=reply.effect_id, args={"order": "a", "cents": 100})

    def test_an_approval_is_of_exactly_what_was_seen(self, driver: Driver) -> None:
        work = Work(driver, pay, approve=True)
        reply = work.effect()
        driver.approve(work.session, reply.effect_id)
        work.next()
        assert isinstance(work.effect(order="a", cents=999_999), Suspended)

    def test_what_a_person_edited_runs(self, driver: Driver) -> None:
        work = Work(driver, pay, approve=True)
        reply = work.effect()
        driver.approve(work.session, reply.effect_id, {"order": "a", "cents": 5})
        work.next()
        assert work.effect() == Run(effect_id=reply.effect_id, args={"order": "a", "cents": 5})

    def test_what_a_person_denied_is_denied(self, driver: Driver) -> None:
        work = Work(driver, pay, approve=True)
        reply = work.effect()
        driver.deny(work.session, reply.effect_id)
        work.next()
        again = work.effect()
        assert isinstance(again, Recorded)
        assert again.status == "denied"

    def test_a_call_within_a_permit_runs_once_a_person_permitted_it(self, driver: Driver) -> None:
        work = Work(driver, pay, look, permit=True)
        granted = {one.name: one for one in work.pack.tools}
        assert granted["pay"].permit is not None
        assert granted["look"].permit is None
        with pytest.raises(Denied):
            work.effect(order="b", cents=5_001)
        reply = work.effect(order="a", cents=501)
        assert isinstance(reply, Suspended)
        driver.approve(work.session, reply.effect_id)
        work.next()
        assert work.effect(order="a", cents=501) == Run(
            effect_id=reply.effect_id, args={"order": "a", "cents": 501}
        )

    def test_within_the_grant_nobody_is_asked(self, driver: Driver) -> None:
        assert isinstance(Work(driver, pay, permit=True).effect(order="a", cents=500), Run)

    def test_what_runs_beside_a_proposal_is_unknown_until_it_is_heard(self, driver: Driver) -> None:
        work = Work(driver, pay, mail, approve=True)
        first = work.effect()
        driver.approve(work.session, first.effect_id)
        work.next()
        running = work.effect()
        proposed = work.effect("mail", to="ann")
        assert isinstance(running, Run)
        assert isinstance(proposed, Suspended)
        work.done(running.effect_id, {"id": 3})
        driver.approve(work.session, proposed.effect_id)
        work.next()
        assert work.effect().result == {"id": 3}
        assert isinstance(work.effect("mail", to="ann"), Run)
