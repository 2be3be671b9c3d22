"""Carrying out commands: held states, conflicts, lost replies, and what was taken along (rules 1 to 3)."""

import threading
from typing import Any

import pytest
import structlog

from passdown.agents.claim import counter_key
from passdown.broker.controller import Controller
from passdown.broker.stores.base import Documents, TakeRequest
from passdown.contracts import commands as cmd
from passdown.contracts.commands import Verdict
from passdown.contracts.errors import Conflict, ContractError, Fenced, NotFound, Unavailable
from passdown.contracts.gateway import Wanted
from passdown.contracts.plans import Grant
from passdown.contracts.replies import Run
from passdown.contracts.returns import Fence
from passdown.contracts.tools import tool_digest
from tests.unit.broker.rig import ME, ROLE, Bells, Rig, pay, paying, plan, spec, two_stages

CLAIM_1, CLAIM_2 = "claim-00000001", "claim-00000002"


def request(slots: int = 1) -> TakeRequest:
    return TakeRequest(role=ROLE, slots=slots, claim_by_ms=10_000)


class Counting:
    """A store that counts what reaches it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._inner, name)


class TestOnAHeldState:
    def test_what_still_holds_needs_no_load(self, rig: Rig) -> None:
        session = rig.open()
        counting = Counting(rig.store)
        controller = Controller(counting, Bells())  # pyright: ignore[reportArgumentType]
        held = controller.load(session.id)
        controller.catalog.plan("p", held.catalog)
        counting.calls.clear()
        done = controller.run(session.id, cmd.Pause(seen=3), "user:ann", held=held)
        assert counting.calls.count("load") == 0
        assert done.held is not None
        assert done.held.state == session.state()

    def test_a_state_that_moved_on_is_loaded_again(self, rig: Rig) -> None:
        session = rig.open()
        held = rig.controller.load(session.id)
        session.pause()
        done = rig.controller.run(session.id, cmd.Cancel(seen=4), "user:ann", held=held)
        assert session.status() == "cancelled"
        assert done.held is not None
        assert done.held.state == session.state()

    def test_a_refusal_is_asked_of_the_store(self, rig: Rig) -> None:
        session = rig.open()
        session.pause()
        held = rig.controller.load(session.id)
        session.cancel()
        fresh = rig.open(key="fresh")
        stale = rig.controller.load(fresh.id)
        fresh.pause()
        with pytest.raises(Conflict):
            rig.controller.run(session.id, cmd.Pause(seen=4), "user:ann", held=held)
        # On the held state there is nothing to retry, and by now there still is not: the store says so.
        with pytest.raises(Conflict, match="paused"):
            rig.controller.run(fresh.id, cmd.Retry(seen=9), "user:ann", held=stale)

    def test_rule_03_an_answer_that_writes_nothing_is_not_given_from_a_state_that_may_be_old(
        self, rig: Rig
    ) -> None:
        """No commit would notice that the claim is over, and the worker would be told to go on."""
        rig.gateway.register_tools([pay.spec])
        session = rig.open(paying())
        attempt = rig.claim()
        reply = attempt.pay()
        held = rig.controller.load(session.id)
        rig.lose(attempt)
        body = cmd.Intend(
            fence=attempt.claim.fence,
            effect_id=reply.effect_id,
            tool="pay",
            args={"order": "a"},
            counters={counter_key("pay", {"order": "a"}): 1},
        )
        with pytest.raises(Fenced):
            rig.controller.run(session.id, body, "agent:worker", held=held)

    def test_no_such_session(self, rig: Rig) -> None:
        with pytest.raises(NotFound):
            rig.controller.run("s0-none", cmd.Cancel(seen=1), "user:ann")


class TestLostReplies:
    @pytest.mark.parametrize("fault", ["before", "after"])
    def test_a_command_is_carried_out_once(self, fault: Any) -> None:
        rig = Rig(patience_s=5.0)
        session = rig.open()
        rig.fail(fault, None, fault, only={"commit"})
        session.pause()
        session.cancel()
        names = [type(one.event).__name__ for one in session.events()]
        assert names == ["SessionOpened", "StageEntered", "PackIssued", "Paused", "Cancelled"]

    def test_without_patience_the_caller_is_told_and_may_ask_again(self, rig: Rig) -> None:
        session = rig.open()
        body = cmd.Cancel(seen=3)
        rig.fail("after", only={"commit"})
        with pytest.raises(Unavailable):
            rig.controller.run(session.id, body, "user:ann")
        rig.controller.run(session.id, body, "user:ann")
        assert session.status() == "cancelled"

    def test_the_same_act_with_another_content_is_a_conflict(self, rig: Rig) -> None:
        session = rig.open()
        rig.controller.run(session.id, cmd.Cancel(seen=3, reason="a"), "user:ann")
        with pytest.raises(Conflict, match="this cancel was made already, with another content"):
            rig.controller.run(session.id, cmd.Cancel(seen=3, reason="b"), "user:ann")

    def test_conflicts_without_end_are_told(self, rig: Rig) -> None:
        session = rig.open()
        rig.fail(*["stale"] * 60, only={"commit"})
        with pytest.raises(Unavailable, match="changed 50 times"):
            session.cancel()

    def test_rule_03_a_claim_whose_reply_was_lost_is_good_only_while_it_is_held(self, rig: Rig) -> None:
        rig.open()
        (pack,) = rig.take()
        rig.fail("after", only={"commit"})
        with pytest.raises(Unavailable):
            rig.gateway.claim(pack, CLAIM_1, ME)
        assert rig.gateway.claim(pack, CLAIM_1, ME).fence.claim_id == CLAIM_1
        rig.clock.forward(11_000)
        rig.sweep()
        with pytest.raises(Fenced, match="its claim is over since"):
            rig.gateway.claim(pack, CLAIM_1, ME)

    def test_rule_03_a_write_that_was_allowed_once_is_not_allowed_again_after_it_was_settled(
        self, rig: Rig
    ) -> None:
        """The first worker asks anew for a lost reply long after; its claim was lost, and a second one writes."""
        rig.gateway.register_tools([pay.spec])
        rig.open(paying())
        first = rig.claim()
        rig.fail("after", only={"commit"})
        with pytest.raises(Unavailable):
            first.pay()
        rig.lose(first)
        settler = rig.claim(claim_id=CLAIM_2)
        rig.gateway.settle(settler.claim, [Verdict(effect_id=first.effect_id(), found="absent")])
        rig.sweep()
        second = rig.claim(claim_id="claim-00000003")
        assert isinstance(second.pay(), Run)
        with pytest.raises(Fenced):
            first.pay()

    def test_rule_03_nor_after_its_own_worker_said_how_it_ended(self, rig: Rig) -> None:
        rig.gateway.register_tools([pay.spec])
        rig.open(paying())
        attempt = rig.claim()
        reply = attempt.pay()
        assert attempt.pay() == reply
        rig.gateway.report(attempt.claim, reply.effect_id, "done")
        with pytest.raises(Fenced, match="that write was allowed once, and is done"):
            attempt.pay()


class TestWhatWasTakenAlong:
    def two(self, rig: Rig) -> Any:
        rig.open(key="one")
        attempt = rig.claim()
        rig.open(key="two")
        return attempt

    def test_it_comes_with_the_return(self, rig: Rig) -> None:
        taking = self.two(rig).give(then_take=Wanted(ROLE, 1))
        assert len(taking.offers) == 1

    def test_it_is_not_lost_where_the_commit_met_a_conflict(self, rig: Rig) -> None:
        attempt = self.two(rig)
        rig.fail("stale", only={"commit"})
        taking = attempt.give(then_take=Wanted(ROLE, 1))
        assert rig.store.given == [("commit", "stale")]
        assert len(taking.offers) == 1

    @pytest.mark.parametrize("faults", [(), ("stale",)])
    def test_it_is_handed_back_where_the_return_is_refused(self, rig: Rig, faults: Any) -> None:
        attempt = self.two(rig)
        rig.lose(attempt)
        rig.fail(*faults, only={"commit"})
        rig.bells.rung.clear()
        with pytest.raises(Fenced):
            attempt.give(then_take=Wanted(ROLE, 1))
        taken = rig.gateway.take(ROLE, 5).offers
        assert len(taken) + len(rig.gateway.take(ROLE, 5).offers) == 2
        assert rig.bells.rung == [ROLE]

    def test_an_act_that_was_recorded_and_refused_takes_nothing(self, rig: Rig) -> None:
        attempt = self.two(rig)
        rig.lose(attempt)
        for _ in range(2):
            with pytest.raises(Fenced):
                attempt.give(then_take=Wanted(ROLE, 1))
        taken = rig.gateway.take(ROLE, 5).offers
        assert len(taken) + len(rig.gateway.take(ROLE, 5).offers) == 2

    def test_a_recorded_act_still_takes(self, rig: Rig) -> None:
        attempt = self.two(rig)
        attempt.give()
        assert len(attempt.give(then_take=Wanted(ROLE, 1)).offers) == 1


class TestWhatIsRegisteredNow:
    """A pack carries the tools that are registered when it is issued (DESIGN §7)."""

    def issue(self, rig: Rig, register: Any) -> str:
        made = two_stages(tools=[Grant(tool="look")])
        rig.gateway.register_tools([spec(description="old")])
        rig.open(made)
        attempt = rig.claim()
        register()
        (offer,) = attempt.give(then_take=Wanted(ROLE, 1)).offers
        return offer.pack.tools[0].description

    def test_by_this_process_while_an_agent_runs(self, rig: Rig) -> None:
        new = [spec(description="new")]
        assert self.issue(rig, lambda: rig.gateway.register_tools(new)) == "new"

    def test_by_another_process_while_an_agent_runs(self, rig: Rig) -> None:
        other = rig.other()

        def register() -> None:
            new = spec(description="new")
            other.register(Documents(tools=[(tool_digest(new), new)]))

        assert self.issue(rig, register) == "new"


class TestPatience:
    def test_it_says_that_it_waits_and_ends(self) -> None:
        rig = Rig(patience_s=0.3)
        session = rig.open()
        rig.fail(*["before"] * 1000)
        with structlog.testing.capture_logs() as said, pytest.raises(Unavailable):
            session.cancel()
        assert said[0]["event"] == "controller.store_away"
        rig.fail()
        rig.broker.close()

    def test_a_state_that_cannot_be_read_is_told(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        session = rig.open()
        loaded = rig.store.load(session.id)
        broken = type(loaded)(state=b"{}", version=3, now=loaded.now, catalog=loaded.catalog)

        def load(*_: Any) -> Any:
            return broken

        monkeypatch.setattr(rig.store, "load", load)
        with pytest.raises(ContractError, match="state does not fit its contract"):
            rig.controller.load(session.id)


class TestFencedReturns:
    def test_rule_02_beyond_the_cap_they_are_counted_beside_the_state(self, rig: Rig) -> None:
        session = rig.open()
        rig.claim()
        fence = Fence(step=1, attempt=9, claim_id=CLAIM_2)
        for n in range(103):
            with pytest.raises(Fenced):
                rig.controller.run(session.id, cmd.Give(fence=fence, body=f"{n}"), "agent:worker")
        assert session.state().fenced == 100
        assert session.beside().counts == {"fenced": 3}


class TestWatching:
    def test_whoever_waits_is_woken_by_the_end_and_by_nothing_else(self, rig: Rig) -> None:
        session, other = rig.open(key="a"), rig.open(key="b")
        with rig.controller.watching(session.id) as first, rig.controller.watching(session.id) as second:
            other.cancel()
            session.pause()
            assert not first.is_set()
            session.cancel()
            assert first.is_set()
            assert second.is_set()

    def test_nobody_is_remembered_who_no_longer_waits(self, rig: Rig) -> None:
        session = rig.open()
        threads = [threading.Thread(target=session.result, args=(5.0,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        session.cancel()
        for thread in threads:
            thread.join()
        assert vars(vars(rig.controller)["_ends"])["_waiting"] == {}


def test_a_commit_rings_for_whom_the_store_says(rig: Rig) -> None:
    rig.open(plan())
    rig.open(plan("other", role="desk"))
    assert rig.bells.rung == [ROLE, "desk"]
