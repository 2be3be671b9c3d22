"""Branches that wait: for a worker that there is not, for a person, for their parent's cancel to reach them."""

from pathlib import Path
from typing import Any

import pytest

from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict
from passdown.contracts.ids import effect_id, identity_digest
from passdown.contracts.plans import FanOut, Grant, Plan, Stage
from passdown.contracts.replies import Run
from tests.integration.joins import (
    Joins,
    assert_joined_once,
    branch,
    counted,
    do,
    event,
    family,
    fan_plan,
    joins,
)
from tests.integration.proof import assert_sound
from tests.integration.site import stage


def half_served(**contract: Any) -> Plan:
    """Return a plan of three branches, of which one is of a role that no worker has."""
    return Plan(
        name="half",
        start="fan",
        stages={
            "fan": Stage(
                fan_out=FanOut(
                    branches={"a": "one", "b": "one", "lost": "nobody"}, deadline_seconds=60.0, **contract
                )
            ),
            "one": stage("counter", tools=[Grant(tool="tally.add")]),
            "nobody": stage("absent"),
            "other": Stage(queue="others"),
        },
    )


class TestNobodyServesARole:
    """Faults celery#2911 and restate#5196: a branch never reports; the deadline and `on_short` decide."""

    def at_the_deadline(self, j: Joins, on_short: str | None) -> Any:
        session = j.submit(half_served(on_short=on_short), {"n": 1, "item": {"do": "be done"}})
        j.go_on()
        assert session.status() == "waiting-join"
        assert session.state().joins[0].outcomes == {}
        j.clock.forward(61)
        j.go_on()
        return session

    @pytest.mark.parametrize("on_short", ["fail", "merge"])
    def test_rule_01_it_ends_as_the_plan_says(self, tmp_path: Path, on_short: str) -> None:
        with joins(tmp_path) as j:
            session = self.at_the_deadline(j, on_short)
            ended = session.result(timeout_s=1)
            if on_short == "merge":
                assert [one["branch"] for one in ended.output["results"]] == ["a", "b"]
            else:
                assert (ended.result, ended.reason) == ("failed", "at the deadline 2 of 3 branches count")
            assert branch(session, j.broker, 2).status() == "cancelled"
            assert [row for row in j.broker.queues() if row.ready or row.running] == []
            assert_joined_once(session, j.broker)

    def test_rule_01_it_goes_to_another_stage(self, tmp_path: Path) -> None:
        with joins(tmp_path) as j:
            session = self.at_the_deadline(j, "other")
            (ticket,) = j.broker.tickets(queue="others")
            assert session.state().data["fan"]["outcomes"] == {"done": 2}
            session.resolve(ticket.ticket_no, "complete", {"n": 0})
            assert session.result(timeout_s=1).output == {"n": 0}
            assert_joined_once(session, j.broker)

    @pytest.mark.parametrize("queue", ["desk", None])
    @pytest.mark.parametrize("decision", ["merge", "choose", "complete", "send-back", "cancel"])
    def test_rule_08_a_person_decides(self, tmp_path: Path, queue: str | None, decision: Any) -> None:
        with joins(tmp_path) as j:
            session = self.at_the_deadline(j, queue)
            (ticket,) = j.broker.tickets(queue=queue or "operators")
            assert (ticket.kind, ticket.why) == ("short", "at the deadline 2 of 3 branches count")
            values: dict[str, Any] = {
                "choose": "b",
                "complete": {"n": 7},
                "send-back": {"branches": ["a"], "feedback": "once more"},
            }
            session.resolve(ticket.ticket_no, decision, values.get(decision))
            j.go_on()
            if decision == "send-back":
                # The branch did it again, and all have the time of the deadline anew.
                assert counted(branch(session, j.broker, 0))["Reopened"] == 1
                assert session.status() == "waiting-join"
                j.clock.forward(61)
                j.go_on()
                (ticket,) = j.broker.tickets(session_id=session.id)
                session.resolve(ticket.ticket_no, "merge")
                j.go_on()
            assert session.status() == ("cancelled" if decision == "cancel" else "done")
            assert [one.status() for one in family(session, j.broker)][1:] == ["done", "done", "cancelled"]
            assert_sound(session)


def test_rule_08_whom_a_person_chooses_counts_whatever_the_contract_says(tmp_path: Path) -> None:
    with joins(tmp_path) as j:
        session = j.submit(fan_plan(counts=["refused"]), do("be done", "be done"))
        j.go_on()
        (ticket,) = j.broker.tickets()
        assert ticket.why == "2 of 2 branches must count, and 0 can: 2 done"
        session.resolve(ticket.ticket_no, "choose", "1")
        j.go_on()
        assert session.result(timeout_s=1).output == {"n": 1, "attempt": 1}
        assert event(session, ev.Joined).branch == "1"


def test_rule_01_a_branch_that_has_ended_is_not_retried_behind_its_parents_back(tmp_path: Path) -> None:
    """Its join may be closed: nobody would wait for it, and it would be at work after its parent's end."""
    with joins(tmp_path) as j:
        session = j.submit(fan_plan(need="any", branch={"max_attempts": 1}), do("fail", "be done"))
        j.go_on()
        assert session.status() == "done"
        failed = branch(session, j.broker, 0)
        assert failed.status() == "failed"
        with pytest.raises(Conflict, match="cannot retry"):
            failed.retry()
        assert failed.status() == "failed"


class TestSomebodyMustAnswer:
    """Faults adk#5450, langgraph#5952 and #8579: each branch waits by itself, and an answer wakes only its own."""

    @pytest.mark.parametrize("at_once", [0, 1])
    def test_rule_09_the_others_go_on_meanwhile(self, tmp_path: Path, at_once: int) -> None:
        with joins(tmp_path) as j:
            session = j.submit(fan_plan(at_once=at_once), do("escalate", "ask", "be done", "be done"))
            j.go_on()
            waiting = [branch(session, j.broker, place) for place in range(4)]
            assert [one.status() for one in waiting] == ["waiting-human", "waiting-input", "done", "done"]
            assert session.status() == "waiting-join"
            untouched = waiting[0].state()

            waiting[1].answer("how", 3)
            j.go_on()
            assert waiting[1].status() == "done"
            assert waiting[0].state() == untouched
            assert counted(waiting[2])["Claimed"] == 1

            (ticket,) = j.broker.tickets()
            assert ticket.session_id == waiting[0].id
            waiting[0].resolve(ticket.ticket_no, "send-back", "go on")
            j.go_on()
            results = session.result(timeout_s=1).output["results"]
            assert [one["output"]["n"] for one in results] == [1, 3, 1, 1]
            assert_joined_once(session, j.broker)

    def test_rule_01_who_waits_for_a_person_is_not_waited_for_where_the_contract_says_so(
        self, tmp_path: Path
    ) -> None:
        with joins(tmp_path) as j:
            plan = fan_plan(wait_for_people=False, on_short="merge")
            session = j.submit(plan, do("escalate", "be done", "be done"))
            j.go_on()
            results = session.result(timeout_s=1).output["results"]
            assert [one["branch"] for one in results] == ["1", "2"]
            assert branch(session, j.broker, 0).status() == "cancelled"
            assert j.broker.tickets() == []
            assert event(session, ev.Joined).how == "partial"
            assert_joined_once(session, j.broker)

    def test_rule_01_the_last_of_a_quorum_may_be_a_person(self, tmp_path: Path) -> None:
        with joins(tmp_path) as j:
            session = j.submit(fan_plan(need=2), do("escalate", "refuse", "be done"))
            j.go_on()
            assert session.status() == "waiting-join"
            (ticket,) = j.broker.tickets()
            branch(session, j.broker, 0).resolve(ticket.ticket_no, "complete", {"n": 9})
            j.go_on()
            assert [one["branch"] for one in session.result(timeout_s=1).output["results"]] == ["0", "2"]


class TestCancel:
    """The parent is called off in every state of its branches, and ends after the last of them."""

    def in_every_state(self, j: Joins) -> Any:
        writing = {"tools": [Grant(tool="tally.add")], "recovery": "continue"}
        plan = fan_plan(at_once=8, branch=writing)
        what = [
            "be done",
            "escalate",
            "ask",
            "claimed",
            "intended",
            "unknown",
            "queued",
            "queued",
            "never opened",
        ]
        session = j.submit(plan, do(*what))
        j.sweep()
        offers = j.offers("actor", 8)
        for offer in offers[:3]:
            j.world.gateway.hand_back(offer.pack, "for another", after_seconds=0)
        for offer in offers[6:]:
            j.world.gateway.hand_back(offer.pack, "later", after_seconds=3600)
        claims = [j.claim(offer) for offer in offers[3:6]]
        j.runtime.drain("actor")
        for claim in claims[1:]:
            args = {"order": claim.session_id}
            name = effect_id(claim.session_id, 1, "tally.add", args, 1)
            counters = {f"tally.add:{identity_digest(args)}": 1}
            reply = j.world.gateway.effect(claim, name, "tally.add", args, counters, None, [])
            assert isinstance(reply, Run)
        unknown = effect_id(claims[2].session_id, 1, "tally.add", {"order": claims[2].session_id}, 1)
        j.world.gateway.report(claims[2], unknown, "unknown", error="time out")
        return session, claims

    def test_rule_01_it_ends_after_the_last_of_its_branches(self, tmp_path: Path) -> None:
        with joins(tmp_path) as j:
            session, claims = self.in_every_state(j)
            said = [branch(session, j.broker, place).status() for place in range(8)]
            assert said == ["done", "waiting-human", "waiting-input", *["running"] * 3, "queued", "queued"]
            session.cancel("no longer wanted")
            j.sweep()
            assert session.state().ending == "cancelled"
            assert session.status() == "waiting-join"
            said = [branch(session, j.broker, place).status() for place in range(8)]
            # What was written, or may have been, is settled first (rule 3); the others are over.
            assert said[:4] == ["done", "cancelled", "cancelled", "cancelled"]
            assert said[4:] == ["running", "running", "cancelled", "cancelled"]
            assert j.world.gateway.renew(claims) == ["cancelled"] * 3

            written = effect_id(claims[1].session_id, 1, "tally.add", {"order": claims[1].session_id}, 1)
            j.world.gateway.report(claims[1], written, "done", result={"n": 1})
            j.sweep()
            assert session.status() == "waiting-join"
            assert branch(session, j.broker, 4).status() == "cancelled"

            j.clock.forward(61)  # its claim is lost, and whether it wrote is looked up
            j.go_on()
            assert session.status() == "cancelled"
            assert counted(session)["Joined"] == 0
            drained = event(session, ev.JoinDrained)
            assert drained.outcomes == {"done": 1, "cancelled": 7}
            assert [(one.branch, one.tool) for one in drained.effects] == [("4", "tally.add")]
            assert len(j.witness.children[session.id]) == 8, "the ninth was never opened"
            for one in family(session, j.broker):
                assert_sound(one)

    def test_rule_01_before_any_branch_is_opened(self, tmp_path: Path) -> None:
        with joins(tmp_path) as j:
            session = j.submit(fan_plan(), do("be done", "be done"))
            session.cancel("no longer wanted")
            j.go_on()
            assert session.status() == "cancelled"
            assert [one.status() for one in family(session, j.broker)] == ["cancelled"] * 3
            assert counted(branch(session, j.broker, 1)) == {"SessionOpened": 1, "Cancelled": 1}

    def test_rule_01_through_three_levels(self, tmp_path: Path) -> None:
        fans = {
            name: Stage(fan_out=FanOut(each=each, stage=begins))
            for name, each, begins in (("top", "a", "middle"), ("middle", "b", "low"), ("low", "c", "leaf"))
        }
        plan = Plan(name="tree", start="top", stages={**fans, "leaf": stage("absent")})
        with joins(tmp_path) as j:
            session = j.submit(plan, {name: [1, 2, 3] for name in "abc"})
            j.sweep()
            assert len(j.witness.states) == 1 + 3 + 9 + 27
            session.cancel("no longer wanted")
            j.sweep()
            assert set(j.witness.statuses.values()) == {"cancelled"}
            assert [row for row in j.broker.queues() if row.ready] == []
