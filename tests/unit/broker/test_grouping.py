"""Callers that go together: one leads, the others follow, and nobody waits for a leader who is gone."""

import os
import signal
import threading
from collections.abc import Sequence

import pytest

from passdown.broker.stores.grouping import MOST_CALLERS, Group, Interrupted
from passdown.contracts.errors import Unavailable
from tests.conformance.together import together

WAIT_S = 30


class Ferry:
    """Carries numbers, doubled, one journey at a time; holds the first until it is let go."""

    def __init__(self, passengers: int = 0) -> None:
        self.journeys: list[list[int]] = []
        self.passengers = passengers
        self.under_way = threading.Event()
        self.go = threading.Event()
        self.group: Group[int, int] = Group(self.carry)

    def carry(self, acts: Sequence[int]) -> list[int]:
        self.journeys.append(list(acts))
        if len(self.journeys) == 1:
            self.under_way.set()
            assert self.go.wait(WAIT_S)
        return [2 * act for act in acts]

    def waiting(self) -> int:
        return self.group.waiting


def followers(ferry: Ferry, count: int) -> tuple[list[threading.Thread], dict[int, object]]:
    """Let `count` callers wait while a first journey is under way."""
    given: dict[int, object] = {}

    def run(n: int) -> None:
        try:
            given[n] = ferry.group.run(n)
        except BaseException as error:  # noqa: BLE001 - told to the test
            given[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count + 1)]
    threads[0].start()
    assert ferry.under_way.wait(WAIT_S)
    for thread in threads[1:]:
        thread.start()
    done = threading.Event()
    for _ in range(WAIT_S * 1000):
        if ferry.waiting() == count:
            break
        done.wait(0.001)
    assert ferry.waiting() == count
    return threads, given


def finish(ferry: Ferry, threads: list[threading.Thread]) -> None:
    ferry.go.set()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive(), "somebody waits for ever"


def test_a_lone_caller_goes_at_once_in_its_own_thread() -> None:
    threads: list[threading.Thread] = []
    group: Group[int, int] = Group(
        lambda acts: [threads.append(threading.current_thread()) or 7 for _ in acts]
    )
    assert group.run(1) == 7
    assert threads == [threading.current_thread()]


def test_those_who_come_meanwhile_go_together_in_the_next_journey_in_order() -> None:
    ferry = Ferry()
    threads, given = followers(ferry, 5)
    finish(ferry, threads)
    assert len(ferry.journeys) == 2
    assert sorted(ferry.journeys[1]) == [1, 2, 3, 4, 5]
    assert given == {n: 2 * n for n in range(6)}


def test_a_journey_takes_a_bounded_number() -> None:
    ferry = Ferry()
    threads, given = followers(ferry, MOST_CALLERS + 10)
    finish(ferry, threads)
    assert [len(one) for one in ferry.journeys] == [1, MOST_CALLERS, 10]
    assert len(given) == MOST_CALLERS + 11


def test_what_fails_fails_for_all_of_its_journey_and_for_no_other() -> None:
    def carry(acts: Sequence[int]) -> list[int]:
        done = ferry.carry(acts)
        if len(ferry.journeys) == 2:
            raise Unavailable("the store", "it is away")
        return done

    ferry = Ferry()
    ferry.group = Group(carry)
    threads, given = followers(ferry, 3)
    finish(ferry, threads)
    assert given[0] == 0
    assert all(isinstance(given[n], Unavailable) for n in (1, 2, 3))
    assert ferry.group.run(4) == 8


def test_a_leader_who_is_interrupted_leaves_nobody_waiting() -> None:
    def carry(acts: Sequence[int]) -> list[int]:
        done = ferry.carry(acts)
        if len(ferry.journeys) == 2:
            raise KeyboardInterrupt
        return done

    ferry = Ferry()
    ferry.group = Group(carry)
    threads, given = followers(ferry, 3)
    finish(ferry, threads)
    kinds = sorted(type(given[n]).__name__ for n in (1, 2, 3))
    assert kinds == ["Interrupted", "Interrupted", "KeyboardInterrupt"]
    assert ferry.group.run(4) == 8


def test_a_follower_who_is_interrupted_is_not_waited_for() -> None:
    ferry = Ferry()
    threads, _ = followers(ferry, 1)
    timer = threading.Timer(
        0.05, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    )
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ferry.group.run(9)
    assert ferry.waiting() == 1
    finish(ferry, threads)
    assert ferry.journeys == [[0], [1]]
    assert ferry.group.run(4) == 8


def test_in_a_forked_process_nobody_waits_and_the_lead_is_free() -> None:
    ferry = Ferry()
    threads, given = followers(ferry, 2)
    child = os.fork()
    if child == 0:
        signal.alarm(WAIT_S)
        os._exit(0 if ferry.group.run(21) == 42 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    finish(ferry, threads)
    assert given == {0: 0, 1: 2, 2: 4}


def test_many_threads_get_each_their_own() -> None:
    group: Group[int, int] = Group(lambda acts: [2 * act for act in acts])

    def run(n: int) -> list[int]:
        return [group.run(1000 * n + i) - 2 * (1000 * n + i) for i in range(200)]

    assert all(one == [0] * 200 for one in together(8, run))


def test_interrupted_is_no_error_of_the_protocol() -> None:
    assert not issubclass(Interrupted, Unavailable)
