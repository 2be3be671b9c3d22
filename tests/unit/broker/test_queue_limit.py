"""A role without workers: producers are told that its queue is full, and what is open goes on."""

import time

import pytest

from passdown.broker import Broker, Submission
from passdown.broker.app import App, Transport
from passdown.broker.controller import Controller
from passdown.broker.joins.lists import kept_as, paged
from passdown.broker.stores.joining import PAGES_WAIT_MS
from passdown.broker.stores.queries import FindPage
from passdown.contracts.errors import QueueFull, Unavailable
from passdown.contracts.ids import session_id
from passdown.contracts.plans import FanOut, Next, Plan, Stage
from tests.unit.broker.rig import ROLE, Rig, plan, stage, two_stages


def limited(rig: Rig, most: int) -> Broker:
    controller = Controller(rig.store, rig.bells, patience_s=30.0, queue_limit=most)
    return Broker(App(rig.store, Transport("", {}), rig.bells, controller), "user:producer")


def test_a_full_queue_is_said_at_once_and_nothing_is_opened(rig: Rig) -> None:
    broker = limited(rig, 2)
    broker.register(plan())
    for _ in range(2):
        broker.submit("p")
    began = time.monotonic()
    with pytest.raises(QueueFull, match="queue_limit") as told:
        broker.submit("p", key="k")
    assert time.monotonic() - began < 10  # it does not wait as it does for a store that is away
    assert (told.value.role, told.value.waiting, told.value.limit) == (ROLE, 2, 2)
    assert isinstance(told.value, Unavailable)
    assert told.value.exit_code == 6
    assert len(broker.sessions()) == 2


def test_rule_12_the_list_of_a_submit_that_was_refused_is_forgotten_after_a_day(rig: Rig) -> None:
    each = FanOut(each="items", stage="only")
    stages = {"first": stage(next=Next(to="fan")), "fan": Stage(fan_out=each), "only": stage()}
    broker = limited(rig, 1)
    broker.register(Plan(name="p", start="first", stages=stages))
    broker.submit("p", lists={"items": [1]})
    with pytest.raises(QueueFull):
        broker.submit("p", key="k", lists={"items": [1, 2]})
    refused = FindPage(
        session_id=session_id("k"), name=kept_as("items", paged("items", [1, 2]).ref), number=0
    )
    assert rig.store.find(refused) == b"[1,2]"
    rig.clock.forward(PAGES_WAIT_MS)
    rig.sweep()
    assert rig.store.find(refused) is None
    # Whoever comes again brings the list again, and that stays with the session.
    rig.drain()
    again = broker.submit("p", key="k", lists={"items": [1, 2]})
    rig.clock.forward(2 * PAGES_WAIT_MS)
    rig.sweep()
    assert rig.store.find(refused) == b"[1,2]"
    assert again.id == refused.session_id


def test_many_are_opened_as_far_as_there_is_room(rig: Rig) -> None:
    broker = limited(rig, 3)
    broker.register(plan())
    with pytest.raises(QueueFull):
        broker.submit_all("p", [Submission(key=f"k{n}") for n in range(5)])
    assert len(broker.sessions()) == 3
    rig.drain()
    rig.clock.forward(1_000)
    assert len(broker.submit_all("p", [Submission(key=f"k{n}") for n in range(5)])) == 5


def test_what_is_open_goes_on(rig: Rig) -> None:
    broker = limited(rig, 1)
    broker.register(two_stages())
    session = broker.submit("two")
    attempt = rig.claim()
    rig.open()  # somebody without a limit fills the queue meanwhile
    attempt.give()
    assert session.state().step == 2


def test_no_limit(rig: Rig) -> None:
    broker = limited(rig, 0)
    broker.register(plan())
    assert len(broker.submit_all("p", [Submission() for _ in range(50)])) == 50


def test_it_is_said_at_once_also_after_the_store_was_away(rig: Rig) -> None:
    broker = limited(rig, 1)
    broker.register(plan())
    broker.submit("p")
    rig.fail("before", only=["commit"])
    began = time.monotonic()
    with pytest.raises(QueueFull):
        broker.submit("p")
    assert time.monotonic() - began < 10
