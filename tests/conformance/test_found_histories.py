"""Histories in which a rule once broke, found by `test_histories.py` and shrunk; each holds for good.

Written as the steps that hypothesis printed; `Told` lets all heal afterwards, as every history does.
"""

from collections.abc import Generator
from types import TracebackType
from typing import Self

import pytest

from passdown.contracts import events as ev
from tests.conformance.histories import deeds
from tests.conformance.histories.jobs import HONEST, Script
from tests.conformance.histories.machine import Histories
from tests.conformance.histories.surroundings import in_slow_motion

DAY = 86_400_000


@pytest.fixture(autouse=True)
def slow_motion() -> Generator[None]:
    with in_slow_motion():
        yield


class Told(Histories):
    """A history that is told step by step; the rules are looked at in between and at its end."""

    def __init__(self, plan: str) -> None:
        super().__init__()
        self.begin(patient=False, wake=False, first=plan)
        self.the_rules_hold()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.the_rules_hold()
            self.teardown()

    def events(self) -> list[ev.Event]:
        """Return what happened so far in the first session."""
        self.the_rules_hold()
        return [step.event for step in self.world.followed()[0].steps]

    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events()]


def test_a_clock_that_stepped_back_delays_no_retry_by_the_step() -> None:
    with Told("single") as history:
        history.tick_and_jump(-DAY)
        history.attempt(which=0, steps=2, script=HONEST, fate="dies")


def test_a_claim_made_twice_is_held_twice() -> None:
    with Told("single") as history:
        history.whole_attempt(which=0, script=Script(twice=True, checkpoint=True, read=True))
        assert "Completed" in history.names()


@pytest.mark.parametrize("for_ms", [0, -1])
def test_a_pause_for_no_time_is_refused(for_ms: int) -> None:
    with Told("single") as history:
        deeds.operate(history.world, 0, "pause", "user:ann", for_ms=for_ms, stale=0)
        assert "Paused" not in history.names()


def test_pauses_of_one_length_one_after_the_other_all_end() -> None:
    with Told("single") as history:
        for _ in range(3):
            deeds.operate(history.world, 0, "pause", "user:ann", for_ms=1, stale=0)
            history.wait(each=1, tick=0)
            assert history.names()[-2:] == ["Resumed", "PackIssued"]


def test_a_denial_leads_on_only_when_nothing_is_unknown_any_more() -> None:
    with Told("approval") as history:
        history.attempt(which=0, steps=4, script=Script(writings=("silent",)), fate="goes on")
        assert "EffectUnknown" in history.names()
        deeds.resolve(history.world, 0, 0, "user:dan", honest=True, choice=1)
        assert "TicketResolved" in history.names()
        # Stage `review` is a person's: nobody would take a settle pack there.
        entered = [event.stage for event in history.events() if isinstance(event, ev.StageEntered)]
        assert entered == ["pay"]


def test_a_question_of_another_step_is_another_question_though_all_else_is_equal() -> None:
    with Told("chain") as history:
        history.ask_and_answer(which=0, by="user:bob", stated=False)
        history.whole_attempt(which=0, script=Script(decision="deny", takes_on=False))
        history.ask_and_answer(which=0, by="user:bob", stated=False)
        assert history.names().count("InputProvided") == 4


def test_a_settle_attempt_writes_nothing() -> None:
    with Told("single") as history:
        history.late_riser(
            which=0, first=2, script=HONEST, others=[Script(confused=True)], second=1, goes_on=True
        )
        intents = [event.claim_id for event in history.events() if isinstance(event, ev.EffectIntended)]
        assert set(intents) == {"claim-000001"}


def test_recovery_by_a_person_is_so_after_a_settle_attempt_too() -> None:
    with Told("chain") as history:
        for _ in range(2):
            history.whole_attempt(which=0, script=Script(takes_on=False))
        history.attempt(which=0, steps=3, script=HONEST, fate="dies")
        history.whole_attempt(which=0, script=Script(takes_on=False))
        last = history.events()[-1]
        assert isinstance(last, ev.TicketOpened)
        assert last.kind == "failure"


def test_a_late_truth_is_not_overwritten_by_a_later_try_that_failed() -> None:
    with Told("chain") as history:
        history.whole_attempt(which=0, script=Script(takes_on=False))
        history.late_riser(
            which=0,
            first=4,
            script=HONEST,
            others=[HONEST, Script(writings=("not-done",), takes_on=False)],
            second=2,
            goes_on=True,
        )


def test_what_an_older_claim_did_not_write_says_nothing_of_the_newest() -> None:
    with Told("single") as history:
        deeds.operate(history.world, 0, "cancel", "user:ann", for_ms=None, stale=0)
        history.submit(key="k1", plan="fragile", by="user:ann", cents=10)
        history.late_riser(
            which=0,
            first=2,
            script=Script(writings=("not-done",)),
            others=[HONEST, Script(writings=("silent",), end="vanish")],
            second=40,
            goes_on=False,
        )
