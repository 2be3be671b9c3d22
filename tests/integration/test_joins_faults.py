"""Faults that others met with joins and parallel branches, tried here; each test names where they were reported."""

import random
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.plans.check import check_plan
from passdown.broker.plans.faults import serious
from passdown.broker.stores.queries import FindPack, FindRows, RowOfJoin
from passdown.contracts import events as ev
from passdown.contracts.codec import encode
from passdown.contracts.errors import Conflict, Fenced, NotFound
from passdown.contracts.pack import Pack
from passdown.contracts.plans import FanOut, Grant, Next, Plan, Stage
from tests.conformance.faulty import Chance, Script
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

DAY = 86_400


def done(pack: Pack, claim_id: str, n: int = 1) -> bytes:
    """Return a return that says done."""
    head: dict[str, Any] = {
        "spec": "passdown.return/1",
        "sessionId": pack.session_id,
        "step": pack.step,
        "attempt": pack.attempt,
        "claimId": claim_id,
        "packDigest": pack.digest,
        "stage": pack.stage,
        "nextStep": None,
        "result": "done",
        "output": {"n": n},
    }
    return encode(head)


def rows_of(j: Joins, join_id: str) -> list[RowOfJoin]:
    found: Any = j.broker.app.store.find(FindRows(join_id=join_id))
    return found


def test_rule_07_a_branch_that_is_tried_again_counts_once(tmp_path: Path) -> None:
    """celery#1401: of five branches two fail once; the join closes once, each with its winning attempt."""
    with joins(tmp_path) as j:
        session = j.submit(fan_plan(), do("be done", "fail once", "be done", "fail once", "be done"))
        j.go_on()
        j.clock.forward(5)
        j.go_on()
        results = session.result(timeout_s=1).output["results"]
        assert [one["output"]["attempt"] for one in results] == [1, 2, 1, 2, 1]
        assert event(session, ev.Joined).counted == 5
        assert_joined_once(session, j.broker)


def test_rule_02_a_branch_that_reports_three_times_from_two_processes(tmp_path: Path) -> None:
    """django-celery-results#397 and langgraphjs#1535: membership is a set of branches, and the close is written once."""
    with joins(tmp_path) as j:
        session = j.submit(fan_plan(), do(*["be done"] * 5))
        j.sweep()
        held = [(offer.pack, j.claim(offer)) for offer in j.offers("actor", 5)]
        other = DirectGateway(Controller(j.broker.app.store, SilentDoorbell()))
        said = [(pack, claim, n) for pack, claim in held for n in (1, 1, 2)]
        random.Random(41).shuffle(said)
        refused = 0
        for at, (pack, claim, n) in enumerate(said):
            try:
                (j.world.gateway, other)[at % 2].give(claim, done(pack, claim.fence.claim_id, n), [])
            except Fenced:
                refused += 1
            j.sweep()
        j.go_on()
        assert refused >= 5, "a return of another content is refused, whoever brings it"
        assert session.status() == "done"
        assert len(rows_of(j, f"{session.id}.j-1")) == 5
        for one in family(session, j.broker):
            assert counted(one)["Returned"] == 1
        assert_joined_once(session, j.broker)


@pytest.mark.parametrize("contract", [{"need": 2}, {"wait_for_people": False}])
def test_rule_01_a_branch_whose_workers_are_killed_for_good(tmp_path: Path, contract: dict[str, Any]) -> None:
    """celery#2911: it goes to a person at its limit; a quorum closes with the rest, and *all* says that it cannot."""
    with joins(tmp_path) as j:
        plan = fan_plan(branch={"on_failed": None}, **contract)
        session = j.submit(plan, do("be done", "be done", "be done"))
        j.sweep()
        dying, *others = j.offers("actor", 3)
        for offer in others:
            j.world.gateway.hand_back(offer.pack, "for another", after_seconds=0)
        j.claim(dying)
        j.go_on()
        if "need" not in contract:
            j.clock.forward(70)
            j.sweep()
            j.clock.forward(5)
            j.sweep()
            j.claim(*j.offers("actor", 1))
            j.clock.forward(70)
            j.sweep()
        killed = next(one for one in family(session, j.broker) if one.id == dying.pack.session_id)
        if "need" in contract:
            assert session.status() == "done"
            assert killed.status() == "cancelled"
        else:
            (ticket,) = [one for one in j.broker.tickets(session_id=session.id) if not one.branch]
            assert ticket.why == "3 of 3 branches must count, and 2 can: 2 done, 1 waiting"
            session.resolve(ticket.ticket_no, "merge")
            j.go_on()
            assert session.status() == "done"
        assert_joined_once(session, j.broker)


def test_rule_01_a_join_never_expires_by_itself(tmp_path: Path) -> None:
    """celery#5237: what branches reported is there after a year, and no limit of 0 means *now*."""
    with joins(tmp_path) as j:
        session = j.submit(fan_plan(at_once=0), do("be done", "ask", "be done"))
        j.go_on()
        j.clock.forward(400 * DAY)
        j.go_on()
        assert session.status() == "waiting-join"
        branch(session, j.broker, 1).answer("how", 5)
        j.go_on()
        results = session.result(timeout_s=1).output["results"]
        assert [one["output"]["n"] for one in results] == [1, 5, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"deadline_seconds": 0.0},
        {"deadline_seconds": -1.0},
        {"deadline_seconds": 1e12},
        {"need": 0},
        {"need": -1},
        {"most": 0},
        {"most": 10**9},
        {"at_once": -1},
        {"at_once": 10**9},
    ],
    ids=str,
)
def test_rule_11_what_would_mean_never_or_at_once_is_no_plan(wrong: dict[str, Any]) -> None:
    """celery#5237: each limit has a meaning, or is refused."""
    assert [one.place.rpartition(".")[2] for one in serious(check_plan(fan_plan(**wrong)))] == [
        next(iter(wrong)).removesuffix("_seconds")
    ]


@pytest.mark.parametrize("faults", [("before",), ("after",), ("stale",), ("before", "after", "stale")])
def test_rule_01_replies_that_are_lost_while_branches_report(tmp_path: Path, faults: Any) -> None:
    """celery#3363: one commit in five fails or loses its reply; no branch is missing, and none is there twice."""
    with joins(tmp_path) as j:
        session = j.submit(fan_plan(), do(*["be done"] * 20))
        j.sweep()
        j.world.store.plan = Chance(seed=48, rate=0.2, faults=faults)
        j.runtime.drain("actor")
        j.world.store.plan = Script()
        j.clock.forward(70)  # what a worker gave up on is lost with its lease
        j.go_on()
        assert {"commit"} <= {method for method, _ in j.world.store.given}
        assert [row.place for row in rows_of(j, f"{session.id}.j-1")] == list(range(20))
        assert len(session.result(timeout_s=1).output["results"]) == 20
        assert_joined_once(session, j.broker)


def test_rule_12_a_pack_is_as_large_however_deep_its_branch(tmp_path: Path) -> None:
    """celery#10873, #10743, #10824: a message carries its own work, and what is around it by reference."""
    depth = 8
    stages = {
        f"fan-{n}": Stage(
            fan_out=FanOut(branches={"a": f"fan-{n + 1}" if n < depth else "one"}, merge="first")
        )
        for n in range(1, depth + 1)
    }
    plan = Plan(name="deep", start="fan-1", stages={**stages, "one": stage("actor")})
    assert serious(check_plan(plan)) == []
    with joins(tmp_path) as j:
        session = j.submit(plan, do("be done") | {"item": {"do": "be done"}, "bulk": "x" * 10_000})
        j.go_on()
        assert session.result(timeout_s=1).output["n"] == 1
        tree = list(family(session, j.broker))
        assert len(tree) == depth + 1
        sizes: list[int] = []
        for one in tree:
            found = j.broker.app.store.find(FindPack(session_id=one.id, step=1, attempt=1))
            assert isinstance(found, bytes)
            sizes.append(len(found))
        assert max(sizes) - min(sizes) < 1_000, sizes


def test_rule_01_a_branch_that_can_never_be_issued(tmp_path: Path) -> None:
    """restate#5196: a parent does not wait for ever for what cannot come; the deadline of its join decides."""
    with joins(tmp_path) as j:
        plan = fan_plan(
            branch={"tools": [Grant(tool="never.registered")]}, deadline_seconds=60.0, on_short="fail"
        )
        session = j.submit(plan, do("be done", "be done"))
        j.go_on()
        assert session.status() == "waiting-join"
        j.clock.forward(61)
        j.go_on()
        assert session.status() == "failed"
        assert [one.status() for one in family(session, j.broker)] == ["failed", "cancelled", "cancelled"]


def test_rule_08_an_answer_names_its_question_and_its_branch(tmp_path: Path) -> None:
    """langgraph#8579, #5952 and adk#5450: two branches ask the same; an answer to one is none to the other."""
    with joins(tmp_path) as j:
        session = j.submit(fan_plan(), do("ask", "ask"))
        j.go_on()
        first, second = branch(session, j.broker, 0), branch(session, j.broker, 1)
        with pytest.raises(NotFound):
            first.answer("what", 1)
        with pytest.raises(NotFound):
            session.answer("how", 1)
        first.answer("how", 3)
        with pytest.raises((Conflict, NotFound)):
            first.answer("how", 4)
        j.go_on()
        assert (first.status(), second.status()) == ("done", "waiting-input")
        assert counted(second)["Claimed"] == 1
        second.answer("how", 8)
        j.go_on()
        assert [one["output"]["n"] for one in session.result(timeout_s=1).output["results"]] == [3, 8]


def test_rule_01_after_these_branches_whatever_became_of_them(tmp_path: Path) -> None:
    """langgraph#6005: the members of a join are declared, and the contract says which outcomes satisfy it."""
    with joins(tmp_path) as j:
        plan = fan_plan(
            counts=["done", "refused", "failed", "cancelled"], branch={"max_attempts": 1, "on_failed": "fail"}
        )
        session = j.submit(plan, do("be done", "refuse", "fail", "escalate"))
        j.go_on()
        assert session.status() == "waiting-join"
        branch(session, j.broker, 3).cancel("not needed")
        j.go_on()
        results = session.result(timeout_s=1).output["results"]
        assert [one["outcome"] for one in results] == ["done", "refused", "failed", "cancelled"]


def test_rule_01_a_run_does_not_end_well_with_branches_that_never_ran(tmp_path: Path) -> None:
    """langgraphjs#2666: who was not needed is said to be skipped; a join that is not met is no success."""
    with joins(tmp_path) as j:
        session = j.submit(
            fan_plan(at_once=1, need="any", merge="first"), do("be done", "be done", "be done")
        )
        j.go_on()
        assert session.status() == "done"
        assert [one.status for one in session.branches()] == ["done", "skipped", "skipped"]
        unmet = j.submit(fan_plan(at_once=1), do("be done", "refuse", "be done"))
        j.go_on()
        assert unmet.status() == "waiting-human"
        assert [one.kind for one in j.broker.tickets(session_id=unmet.id)] == ["short"]


def test_rule_01_branches_of_unequal_length_are_joined_once(tmp_path: Path) -> None:
    """langgraphjs#1535: a branch of one stage and one of three; what follows runs once, after both."""
    stages = {
        "fan": Stage(fan_out=FanOut(branches={"long": "a1", "short": "b1"}), next=Next(to="after")),
        "a1": stage("counter", tools=[Grant(tool="tally.add")], next=Next(to="a2")),
        "a2": stage("counter", tools=[Grant(tool="tally.add")], next=Next(to="a3")),
        "a3": stage("counter", tools=[Grant(tool="tally.add")]),
        "b1": stage("counter", tools=[Grant(tool="tally.add")]),
        "after": stage("counter", tools=[Grant(tool="tally.add")]),
    }
    with joins(tmp_path) as j:
        session = j.submit(Plan(name="unequal", start="fan", stages=stages), {})
        j.go_on()
        assert session.status() == "done"
        assert counted(session)["Joined"] == 1
        assert [one.event.stage for one in session.events() if isinstance(one.event, ev.StageEntered)] == [
            "fan",
            "after",
        ]
        assert [counted(branch(session, j.broker, place))["Claimed"] for place in (0, 1)] == [3, 1]


def test_rule_01_arrivals_before_a_pause_are_not_forgotten(tmp_path: Path) -> None:
    """agent-framework#6372: two of three arrive, all is paused and restarted; the third opens the barrier."""
    with joins(tmp_path) as j:
        session = j.submit(fan_plan(at_once=2), do("be done", "be done", "be done"))
        j.sweep()
        held = [(offer.pack, j.claim(offer)) for offer in j.offers("actor", 2)]
        session.pause()
        for pack, claim in held:
            j.world.gateway.give(claim, done(pack, claim.fence.claim_id), [])
        j.go_on()
        assert session.status() == "paused"
    with joins(tmp_path) as j:
        again = j.broker.session(session.id)
        j.go_on()
        assert len(list(family(again, j.broker))) == 3, "nothing is opened while it is paused"
        again.resume()
        j.go_on()
        assert len(again.result(timeout_s=1).output["results"]) == 3
        assert_joined_once(again, j.broker)


@pytest.mark.parametrize(("contract", "ends"), [({"need": "any"}, "done"), ({"need": "veto"}, "refused")])
def test_rule_02_one_result_stops_the_others(tmp_path: Path, contract: dict[str, Any], ends: str) -> None:
    """adk#3405: who is at work is told, who waits is withdrawn, and what comes late is fenced and kept as evidence."""
    with joins(tmp_path) as j:
        first = "refuse" if ends == "refused" else "be done"
        session = j.submit(fan_plan(**contract), do(first, "be done", "be done"))
        j.sweep()
        running = j.offers("actor", 3)
        for offer in running:
            item = offer.pack.inputs["item"]["do"]
            if offer.pack.parent is not None and offer.pack.parent.place != 1:
                j.world.gateway.hand_back(
                    offer.pack, item, after_seconds=0 if offer.pack.parent.place == 0 else 3600
                )
        (slow,) = [one for one in running if one.pack.parent and one.pack.parent.place == 1]
        claim = j.claim(slow)
        j.go_on()
        assert session.status() == ends
        assert j.world.gateway.renew([claim]) == ["cancelled"]
        with pytest.raises(Fenced):
            j.world.gateway.give(claim, done(slow.pack, claim.fence.claim_id), [])
        late = branch(session, j.broker, 1)
        assert counted(late)["ReturnFenced"] == 1
        assert [one.status() for one in family(session, j.broker)][2:] == ["cancelled", "cancelled"]
        assert [row for row in j.broker.queues() if row.ready or row.running] == []
        for one in family(session, j.broker):
            assert_sound(one)
