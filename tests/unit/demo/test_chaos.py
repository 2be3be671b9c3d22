"""Chaos: from one seed the same blows; replies and rings that get lost; nobody is left frozen."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from passdown.broker.demo.chaos import Chaos, LossyDoorbell, LossyStore, Monkey
from passdown.broker.demo.fleet import Fleet
from passdown.broker.findings import Examined
from passdown.broker.stores.base import Count, TakeRequest
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import Unavailable


@dataclass
class FakeFleet:
    """Remembers what was done to whom."""

    done: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    asleep: set[str] = field(default_factory=set[str])

    def names(self, kind: str) -> list[str]:
        return ["tick"] if kind == "tick" else ["worker-1", "worker-2"]

    def frozen(self) -> list[str]:
        return sorted(self.asleep)

    def kill(self, name: str) -> None:
        self.done.append(("kill", name))

    def freeze(self, name: str) -> None:
        self.done.append(("freeze", name))
        self.asleep.add(name)

    def thaw(self, name: str) -> None:
        self.done.append(("thaw", name))
        self.asleep.discard(name)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def played(seed: int, steps: int = 600) -> FakeFleet:
    fleet, clock = FakeFleet(), Clock()
    monkey = Monkey(Chaos(seed=seed), cast(Fleet, fleet), clock)
    for _ in range(steps):
        clock.now += 0.1
        monkey.act()
        assert len(fleet.asleep) < 2, "somebody is always awake"
    monkey.rest()
    return fleet


def test_the_seed_decides() -> None:
    assert played(1).done == played(1).done
    assert played(1).done != played(2).done


def test_every_kind_of_blow_falls_and_nobody_stays_frozen() -> None:
    fleet = played(1)
    assert {what for what, _ in fleet.done} == {"kill", "freeze", "thaw"}
    assert {name for what, name in fleet.done if what == "kill"} == {"tick", "worker-1", "worker-2"}
    assert not fleet.asleep


def test_who_froze_by_itself_is_thawed_once_its_leases_ran_out() -> None:
    fleet, clock = FakeFleet(), Clock()
    monkey = Monkey(Chaos(seed=3, gap_s=(1000.0, 1000.0)), cast(Fleet, fleet), clock)
    fleet.asleep.add("worker-1")
    monkey.act()
    clock.now = 5.0
    monkey.act()
    assert fleet.done == []
    clock.now = 8.1
    monkey.act()
    assert fleet.done == [("thaw", "worker-1")]
    assert monkey.freezes == 1


def test_a_lost_reply_was_done_all_the_same() -> None:
    inner = SqliteStore(":memory:")
    lost = LossyStore(inner, lambda: True)
    with pytest.raises(Unavailable, match="its reply was lost on purpose"):
        lost.take(TakeRequest(role="r", slots=1, claim_by_ms=1))
    calls: list[Any] = []
    lost = LossyStore(cast(Any, _Recording(calls)), lambda: True)
    with pytest.raises(Unavailable):
        lost.commit([])
    assert calls == ["commit"]
    inner.put(Count(session_id="s", name="n"))
    inner.close()


def test_what_a_store_says_of_itself_is_still_heard() -> None:
    inner = SqliteStore(":memory:")
    lossy = LossyStore(inner, lambda: True)
    assert isinstance(lossy, Examined)
    assert lossy.examine() == inner.examine()
    assert lossy.may_lose == ""
    inner.may_lose = "the last second"
    assert lossy.may_lose == "the last second"
    silent = LossyStore(cast(Any, _Recording([])), lambda: True)
    assert silent.may_lose == ""
    assert silent.examine().findings == []
    inner.close()


class _Recording:
    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls
        self.load = self.events = self.find = self.put = self.close = None

    def commit(self, *_: object) -> tuple[list[Any], None]:
        self.calls.append("commit")
        return [], None


def test_a_lost_ring_is_not_heard() -> None:
    heard: list[str] = []

    class Bell:
        def ring(self, role: str) -> None:
            heard.append(role)

    LossyDoorbell(Bell(), lambda: True).ring("a")
    LossyDoorbell(Bell(), lambda: False).ring("b")
    assert heard == ["b"]
