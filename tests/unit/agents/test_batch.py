"""Quick packs several at once: few calls, and none waits for long behind a slow one."""

import threading
from typing import Any

import pytest

from passdown.agents import Agent, Done, Pack, SyncContext, agent
from passdown.agents.batch import MOST_AHEAD, Ahead
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.memory_session import Session
from passdown.agents.port import HookPoint
from passdown.agents.testing import make_pack
from passdown.contracts.errors import PassdownError, Unavailable
from tests.unit.agents.helpers import runtime_of, wait_until


class Counted(MemoryGateway):
    """Counts calls by name."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.away = 0

    def take(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("take")
        return super().take(*args, **kwargs)

    def claim_all(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("claim_all")
        return super().claim_all(*args, **kwargs)

    def give_all(self, given: Any, **kwargs: Any) -> Any:
        self.calls.append("give_all")
        if self.away:
            self.away -= 1
            answers: list[PassdownError | None] = [Unavailable("the store", "away") for _ in given]
            return answers, None
        return super().give_all(given, **kwargs)


@agent("clerk")
def quick(_pack: Pack, _ctx: SyncContext) -> Done:
    return Done()


def submit(broker: MemoryGateway, count: int) -> list[Session]:
    return [broker.submit(make_pack("clerk", session_id=f"s0-{n}")) for n in range(count)]


def statuses(sessions: list[Session]) -> set[str]:
    return {one.status for one in sessions}


def test_how_many_are_taken_follows_from_how_long_they_took() -> None:
    ahead = Ahead()
    assert ahead.slots == 1
    ahead.learn(1, 0.0001)
    assert ahead.slots == 4  # it grows by steps: one quick pack says little
    for _ in range(5):
        ahead.learn(10, 0.001)
    assert ahead.slots == MOST_AHEAD
    ahead.learn(50, 5.0)
    assert ahead.slots == 1


def test_quick_packs_share_their_round_trips() -> None:
    broker = Counted()
    sessions = submit(broker, 500)
    with runtime_of(broker, quick) as runtime:
        runtime.drain("clerk")
    assert statuses(sessions) == {"done"}
    assert {one.pack.attempt for one in sessions} == {1}
    assert len(broker.calls) < 250


def test_hooks_are_called_for_each_pack() -> None:
    seen: list[tuple[HookPoint, str]] = []

    def hook(point: HookPoint, pack: Pack | None, /) -> None:
        if pack:
            seen.append((point, pack.session_id))

    broker = MemoryGateway()
    submit(broker, 100)
    with runtime_of(broker, quick, hooks=hook) as runtime:
        runtime.drain("clerk")
    for point in ("before_claim", "after_claim", "before_give", "after_give"):
        assert sorted(one for at, one in seen if at == point) == sorted(f"s0-{n}" for n in range(100))


def test_an_agent_that_fails_takes_no_neighbour_along() -> None:
    @agent("clerk")
    def moody(pack: Pack, _ctx: SyncContext) -> Done:
        if pack.session_id.endswith("7") and pack.attempt == 1:
            raise ValueError("seven")
        return Done()

    broker = MemoryGateway()
    sessions = submit(broker, 100)
    with runtime_of(broker, moody) as runtime:
        runtime.drain("clerk")
    assert statuses(sessions) == {"done"}
    assert sum(one.failures for one in sessions) == 10


class Slow:
    """An agent that is quick but for one pack, in which it stays until it is let go."""

    def __init__(self, at: str) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        self.ran: list[str] = []

        @agent("clerk")
        def clerk(pack: Pack, _ctx: SyncContext) -> Done:
            self.ran.append(pack.session_id)
            if pack.session_id == at:
                self.inside.set()
                self.go.wait(30)
            return Done()

        self.agent: Agent = clerk


def test_what_is_done_is_given_and_what_waits_is_released_while_one_takes_long() -> None:
    broker = MemoryGateway()
    sessions = submit(broker, 60)
    slow = Slow("s0-30")
    with runtime_of(broker, slow.agent) as runtime:
        drain = threading.Thread(target=runtime.drain, args=("clerk",))
        drain.start()
        assert slow.inside.wait(10)
        before = [one for one in sessions if one.name in slow.ran and one.name != "s0-30"]
        behind = [one for one in sessions if one.name not in slow.ran]
        wait_until(lambda: statuses(before) == {"done"}, "what is done is given")
        wait_until(lambda: not any(one.claim_id for one in behind), "what waits is released")
        assert sum(one.failures for one in behind) == 0
        slow.go.set()
        drain.join(10)
    assert statuses(sessions) == {"done"}


def test_at_a_stop_what_has_not_begun_is_released() -> None:
    broker = MemoryGateway()
    sessions = submit(broker, 60)
    slow = Slow("s0-30")
    with runtime_of(broker, slow.agent) as runtime:
        drain = threading.Thread(target=runtime.drain, args=("clerk",))
        drain.start()
        assert slow.inside.wait(10)
        stop = threading.Thread(target=runtime.stop, args=(10.0,))
        stop.start()
        wait_until(lambda: runtime.stopping, "it stops")
        slow.go.set()
        drain.join(10)
        stop.join(10)
    assert "s0-30" in slow.ran
    for one in sessions:
        assert (one.status == "done") == (one.name in slow.ran)
        assert not one.claim_id
        assert one.failures == 0


@pytest.mark.parametrize("times", [1, 2])
def test_without_the_store_the_drain_ends(times: int) -> None:
    broker = Counted()
    sessions = submit(broker, 60)
    with runtime_of(broker, quick) as runtime:
        broker.away = times
        while broker.away:
            runtime.drain("clerk")
        runtime.drain("clerk")
    lost = [one for one in sessions if one.claim_id]
    assert lost  # their leases bring them back
    assert {one.status for one in sessions if one not in lost} == {"done"}
