"""Looking at a session, waiting for it, answering and deciding."""

import threading
import time
from typing import Any, cast

import pytest
from msgspec.structs import replace

from passdown.agents.results import Done, Escalate, NeedsInput, Question
from passdown.broker import session as module
from passdown.broker.client import Session
from passdown.contracts.errors import Conflict, ContractError, Denied, NotFound, Unavailable
from tests.unit.broker.rig import Rig, pay, paying, plan


def question(name: str = "why", **more: Any) -> Question:
    return Question(name, f"{name}?", **more)


class TestResult:
    def test_what_has_ended_is_told_at_once(self, rig: Rig) -> None:
        session = rig.open()
        rig.drain()
        assert session.result(0).output == {"attempt": 1}

    def test_each_way_to_end_is_a_result(self, rig: Rig) -> None:
        session = rig.open()
        session.cancel("no longer needed")
        outcome = session.result(0)
        assert (outcome.result, outcome.reason) == ("cancelled", "no longer needed")

    def test_an_end_in_this_process_wakes_whoever_waits(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_LOOK_FIRST", 60.0)
        session = rig.open()
        ended: list[float] = []
        waiting = threading.Thread(target=lambda: ended.append(session.result(50).output["attempt"]))
        waiting.start()
        rig.drain()
        waiting.join(20)
        assert ended == [1]

    def test_an_end_elsewhere_is_seen_at_the_next_look(self, rig: Rig) -> None:
        session = rig.open()
        elsewhere = rig.other()
        timer = threading.Timer(0.1, lambda: elsewhere.run(session.id, module.cmd.Cancel(seen=3), "user:ann"))
        timer.start()
        assert session.result(20).result == "cancelled"
        timer.join()

    def test_a_time_out_says_where_it_stands(self, rig: Rig) -> None:
        session = rig.open()
        with pytest.raises(
            Unavailable, match=r"the result of s0-\w+ is unavailable: after 0.05 s it is queued"
        ):
            session.result(0.05)

    @pytest.mark.parametrize("seconds", [-1.0, float("nan")])
    def test_a_time_that_is_none(self, rig: Rig, seconds: float) -> None:
        with pytest.raises(ContractError, match="expected seconds"):
            rig.open().result(seconds)

    def test_a_store_that_is_away_for_a_while_does_not_end_the_wait(self, rig: Rig) -> None:
        session = rig.open()
        rig.drain()
        rig.fail(*["before"] * 5)
        assert session.result(20).result == "done"

    def test_nor_does_it_make_the_wait_longer(self) -> None:
        rig = Rig(patience_s=60.0)
        session = rig.open()
        rig.fail(*["before"] * 10_000)
        began = time.monotonic()
        with pytest.raises(Unavailable):
            session.result(0.2)
        assert time.monotonic() - began < 10
        rig.fail()
        rig.broker.close()

    def test_no_such_session(self, rig: Rig) -> None:
        none = Session(rig.broker, "s0-none")
        for look in (none.result, none.state, none.status):
            with pytest.raises(NotFound):
                look()


class TestAnswer:
    def ask(self, rig: Rig, *questions: Question) -> Session:
        session = rig.open()
        rig.claim().give(NeedsInput(list(questions)))
        return session

    def test_it_must_fit(self, rig: Rig) -> None:
        session = self.ask(rig, question(schema={"type": "integer"}))
        for bad in ("x", float("nan"), 2**60, None):
            with pytest.raises(ContractError):
                session.answer("why", bad)
        session.answer("why", 5)
        assert session.state().questions[0].value == 5

    def test_the_same_answer_again_is_the_same_act(self, rig: Rig) -> None:
        session = self.ask(rig, question())
        session.answer("why", "so")
        session.answer("why", "so")
        with pytest.raises(Conflict):
            session.answer("why", "otherwise")
        with pytest.raises(Conflict, match="user:producer was first"):
            Session(rig.person(), session.id).answer("why", "so")

    def test_one_that_was_not_asked(self, rig: Rig) -> None:
        session = self.ask(rig, question())
        with pytest.raises(NotFound, match="open are: 1/why"):
            session.answer("who", "me")
        with pytest.raises(NotFound):
            session.answer("why", "me", attempt=7)
        with pytest.raises(ContractError):
            session.answer(cast("Any", 5), "me")

    def test_where_two_attempts_asked_under_one_id_the_open_one_is_meant(self, rig: Rig) -> None:
        session = self.ask(rig, question())
        session.answer("why", "first")
        rig.claim(claim_id="claim-00000002").give(NeedsInput([question(), question("who")]))
        session.answer("why", "second")
        answers = {(one.attempt, one.id): one.value for one in session.state().questions}
        assert answers == {(1, "why"): "first", (2, "why"): "second", (2, "who"): None}
        # Once both are answered the last is meant, and told as answered.
        with pytest.raises(Conflict, match="question 2/why is answered"):
            Session(rig.person(), session.id).answer("why", "third")
        session.answer("why", "first", attempt=1)


class TestResolve:
    def escalate(self, rig: Rig) -> Session:
        session = rig.open()
        rig.claim().give(Escalate("two accounts match"))
        return session

    def test_it_decides_the_ticket_as_it_stands(self, rig: Rig) -> None:
        session = self.escalate(rig)
        session.resolve(1, "send-back", "use the newer one", note="see the mail")
        assert session.status() == "queued"
        session.resolve(1, "send-back", "use the newer one", note="see the mail")
        with pytest.raises(Conflict, match="no longer open"):
            session.resolve(1, "cancel")

    @pytest.mark.parametrize("version", [0, 2, 99])
    def test_a_version_that_is_not_the_one_it_has_is_a_conflict(self, rig: Rig, version: int) -> None:
        session = self.escalate(rig)
        with pytest.raises(Conflict, match=r"/1 is at version 1, not"):
            session.resolve(1, "cancel", version=version)
        session.resolve(1, "cancel", version=1)
        assert session.status() == "cancelled"

    def test_what_may_not_be(self, rig: Rig) -> None:
        session = self.escalate(rig)
        with pytest.raises(NotFound):
            session.resolve(2, "cancel")
        with pytest.raises(Denied):
            session.resolve(1, "approve")
        with pytest.raises(ContractError):
            session.resolve(1, cast("Any", "shrug"))
        with pytest.raises(ContractError):
            session.resolve(1, "send-back", {"a": float("inf")})

    def test_no_one_approves_what_they_initiated(self, rig: Rig) -> None:
        rig.gateway.register_tools([pay.spec])
        made = paying()
        grants = [replace(made.stages["only"].tools[0], approve="leads")]
        session = rig.open(replace(made, stages={"only": replace(made.stages["only"], tools=grants)}))
        rig.claim().pay()
        with pytest.raises(Denied):
            session.resolve(1, "approve")
        Session(rig.person(), session.id).resolve(1, "approve", version=1)


class TestSteering:
    def test_pause_and_resume(self, rig: Rig) -> None:
        session = rig.open()
        session.pause(for_s=0.0001, reason="lunch")
        assert session.status() == "paused"
        session.resume()
        session.resume()
        assert session.status() == "queued"
        session.pause(for_s=5)
        rig.clock.forward(5_001)
        rig.sweep()
        assert session.status() == "queued"

    @pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
    def test_a_pause_of_no_length(self, rig: Rig, seconds: float) -> None:
        session = rig.open()
        with pytest.raises(ContractError, match="expected seconds above 0"):
            session.pause(for_s=seconds)
        assert session.status() == "queued"

    def test_reasons_are_text(self, rig: Rig) -> None:
        session = rig.open()
        with pytest.raises(ContractError):
            session.cancel(cast("Any", 5))
        with pytest.raises(ContractError):
            session.pause(reason=cast("Any", 5))

    def test_what_has_ended_can_no_longer_be_steered(self, rig: Rig) -> None:
        session = rig.open()
        rig.drain()
        for act in (session.cancel, session.pause, session.resume, session.retry):
            with pytest.raises(Conflict):
                act()

    def test_retry_forgets_failures(self, rig: Rig) -> None:
        session = rig.open(plan(max_attempts=1, on_failed="fail"))
        attempt = rig.claim()
        rig.gateway.fail(attempt.claim, "error", "x", [])
        assert session.result(0).result == "failed"
        session.retry()
        rig.drain()
        assert session.result(0) == module.Outcome(result="done", output={"attempt": 2})


def test_looking_at_a_session(rig: Rig) -> None:
    session = rig.open()
    attempt = rig.claim()
    assert session.pack(1, 1) == attempt.pack
    assert session.beside().lease_left_ms == 10_000
    attempt.give(Done({"a": 1}))
    assert [one.seq for one in session.events()] == [1, 2, 3, 4, 5, 6]
    assert len(list(session.raw_events())) == 6
    with pytest.raises(NotFound):
        session.pack(1, 2)
    assert repr(session) == f"Session('{session.id}')"


def test_a_log_is_read_in_pages(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE", 2)
    session = rig.open()
    session.pause()
    session.resume()
    assert [one.seq for one in session.events()] == list(range(1, session.state().seq + 1))
