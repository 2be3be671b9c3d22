"""The one task of our pools finds whoever answers in its application, and slots are counted where they are."""

import os
from typing import Any

import pytest
import structlog
from billiard.process import current_process
from celery import Celery

from passdown.broker.doorbell import DRAIN_TASK
from passdown.broker.draining import ProcessSlots, ThreadSlots, answer_with


def app_of(name: str) -> Any:
    return Celery(name, broker="memory://", set_as_current=False)


def test_two_applications_in_one_process_have_their_own_answers() -> None:
    one, two, heard = app_of("one"), app_of("two"), list[str]()
    answer_with(one, lambda role: heard.append(f"one {role}"))
    answer_with(two, lambda role: heard.append(f"two {role}"))
    two.tasks[DRAIN_TASK]("desk")
    one.tasks[DRAIN_TASK]("desk")
    assert heard == ["two desk", "one desk"]


def test_an_application_that_nobody_answers_for_says_so() -> None:
    with structlog.testing.capture_logs() as said:
        app_of("nobody's").tasks[DRAIN_TASK]("desk")
    (line,) = said
    assert (line["event"], line["app"], line["pid"]) == ("pool.foreign_app", "nobody's", os.getpid())


def test_an_application_that_is_gone_is_not_kept_for_its_answers() -> None:
    import gc
    import weakref

    app = app_of("gone")
    answer_with(app, lambda _: None)
    seen = weakref.ref(app)
    del app
    gc.collect()
    assert seen() is None


def test_threads_are_counted() -> None:
    slots = ThreadSlots(2)
    slots.enter()
    assert slots.spare
    slots.enter()
    assert not slots.spare
    slots.leave()
    assert slots.spare


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes this process look like a child of a pool, by its number."""

    def be(index: int) -> None:
        monkeypatch.setattr(current_process(), "index", index, raising=False)

    return be


def test_children_are_marked_and_one_in_place_of_another_begins_asleep(child: Any) -> None:
    slots = ProcessSlots(2)
    for index in (0, 1):
        child(index)
        slots.enter()
    assert not slots.spare
    vars(ProcessSlots)["_born"](slots)
    assert slots.spare


def test_a_child_beyond_what_the_pool_began_with_counts_for_nothing(child: Any) -> None:
    slots = ProcessSlots(1)
    child(3)
    slots.enter()
    assert slots.spare
    slots.leave()


def test_in_a_process_that_is_no_child_nothing_is_marked() -> None:
    slots = ProcessSlots(1)
    slots.enter()
    assert slots.spare
