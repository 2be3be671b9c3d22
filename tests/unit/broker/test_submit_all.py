"""Many sessions in few round trips: each as if it had been submitted alone."""

from dataclasses import replace
from typing import Any

import pytest

from passdown.broker import Broker, Submission
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, NotFound, Unavailable
from passdown.contracts.plans import Plan, Stage
from tests.unit.broker.rig import Rig, plan


def work(count: int, **more: Any) -> list[Submission]:
    return [Submission({"n": n}, key=f"k{n}", **more) for n in range(count)]


def test_they_are_opened_in_order_in_few_round_trips(rig: Rig) -> None:
    rig.broker.register(plan())
    rig.open()  # what is registered is known from here on
    calls = rig.listen()
    sessions = rig.broker.submit_all("p", work(250, task="t"))
    assert calls == ["commit"] * 3
    assert [one.state().data for one in sessions] == [{"n": n} for n in range(250)]
    assert {one.state().task_name for one in sessions} == {"t"}
    assert len(rig.take(1000)) == 251


def test_without_a_key_each_is_its_own(rig: Rig) -> None:
    rig.broker.register(plan())
    sessions = rig.broker.submit_all("p", [Submission(), Submission()])
    assert len({one.id for one in sessions}) == 2


def test_nothing_is_submitted_of_nothing(rig: Rig) -> None:
    assert rig.broker.submit_all("no such plan", []) == []


def test_the_same_keys_again_are_the_same_sessions(rig: Rig) -> None:
    rig.broker.register(plan())
    first = rig.broker.submit_all("p", work(5))
    again = rig.broker.submit_all("p", work(8))
    assert [one.id for one in again[:5]] == [one.id for one in first]
    assert len({one.id for one in again}) == 8


def test_a_key_twice_in_one_call_is_one_session(rig: Rig) -> None:
    rig.broker.register(plan())
    one, other = rig.broker.submit_all("p", [Submission(key="a"), Submission(key="a")])
    assert one.id == other.id


def test_what_a_name_stood_for_stays_also_where_there_is_a_newer_version(rig: Rig) -> None:
    rig.broker.register(plan())
    rig.broker.submit_all("p", work(2))
    newer = plan(goal="better")
    rig.broker.register(Plan(name="p", version=2, start="only", stages=newer.stages))
    sessions = rig.broker.submit_all("p", work(3))
    assert [one.state().plan.version for one in sessions] == [1, 1, 2]


def test_a_plan_that_somebody_else_registered_a_moment_ago_is_what_its_name_means(rig: Rig) -> None:
    rig.broker.register(plan())
    rig.broker.submit_all("p", work(1))
    other = Broker(replace(rig.app, controller=rig.other()))
    other.register(Plan(name="p", version=2, start="only", stages=plan().stages))
    other.register(plan("q"))
    (second,) = rig.broker.submit_all("p", [Submission()])
    assert second.state().plan.version == 2
    assert rig.broker.submit("q").state().plan.name == "q"


def test_also_where_it_begins_with_a_person(rig: Rig) -> None:
    def asking(version: int) -> Plan:
        return Plan(name="p", version=version, start="only", stages={"only": Stage(queue="leads")})

    rig.broker.register(asking(1))
    rig.broker.submit("p")
    Broker(replace(rig.app, controller=rig.other())).register(asking(2))
    assert rig.broker.submit("p").state().plan.version == 2


@pytest.mark.parametrize("fault", ["before", "after", "stale"])
def test_whatever_is_lost_each_is_opened_once(fault: Any) -> None:
    rig = Rig(patience_s=5.0)
    rig.broker.register(plan())
    rig.fail(fault, only=["commit"])
    sessions = rig.broker.submit_all("p", work(5))
    assert [len(list(one.events())) for one in sessions] == [3] * 5
    assert len(rig.broker.sessions()) == 5


def test_rule_11_nothing_is_submitted_where_one_does_not_fit(rig: Rig) -> None:
    rig.broker.register(plan())
    with pytest.raises(ContractError, match="submission 2"):
        rig.broker.submit_all("p", [Submission(), Submission(), Submission([1])])
    with pytest.raises(NotFound):
        rig.broker.submit_all("other", [Submission()])
    assert rig.broker.sessions() == []


def test_one_that_is_too_large_leaves_the_others_and_is_told(rig: Rig) -> None:
    rig.broker.register(plan())
    with pytest.raises(BudgetExceeded):
        rig.broker.submit_all("p", [Submission(), Submission({"a": "x" * 100_000}), Submission()])
    assert len(rig.broker.sessions()) == 2


def test_one_that_is_refused_leaves_the_others_and_is_told(rig: Rig) -> None:
    rig.broker.register(plan())
    rig.open(key="k1", inputs={"other": 1})
    with pytest.raises(Conflict, match="k1"):
        rig.broker.submit_all("p", work(3))
    assert len(rig.broker.sessions()) == 3


def test_without_the_store_it_may_be_called_again(rig: Rig) -> None:
    rig.broker.register(plan())
    calls = rig.store.given
    rig.fail(*["before"] * 50, only=["commit"])
    with pytest.raises(Unavailable):
        rig.broker.submit_all("p", work(200))
    assert len(calls) <= 3  # it gives up soon, and not once for each
    rig.fail()
    assert len(rig.broker.submit_all("p", work(2))) == 2
