"""Quick packs several at once: few calls, and none waits for long behind a slow one."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from passdown.agents import Agent, Done, Pack, SyncContext, agent
from passdown.agents.batch import MOST_AHEAD, Ahead
from passdown.agents.drain import Turn
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.memory_session import Session
from passdown.agents.port import HookPoint
from passdown.agents.testing import make_pack
from passdown.contracts.errors import PassdownError, Unavailable
from passdown.contracts.gateway import Claim
from tests.unit.agents.helpers import QUICK, runtime_of, wait_until


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


class Refusing(MemoryGateway):
    """Has no store for the failure of one session, or breaks over it."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def fail(self, claim: Claim, *args: Any, **kwargs: Any) -> Any:
        if claim.session_id == "s0-30":
            raise self.error
        return super().fail(claim, *args, **kwargs)


@pytest.mark.parametrize("error", [Unavailable("the store", "away"), RuntimeError("broken")])
def test_a_fault_with_one_takes_no_finished_return_along(error: Exception) -> None:
    ran: list[str] = []

    @agent("clerk")
    def moody(pack: Pack, _ctx: SyncContext) -> Done:
        ran.append(pack.session_id)
        if pack.session_id == "s0-30":
            raise ValueError("thirty")
        return Done()

    broker = Refusing(error)
    sessions = submit(broker, 60)
    with runtime_of(broker, moody, options=replace(QUICK, patience_seconds=0.1)) as runtime:
        runtime.drain("clerk")
    done = {one.name for one in sessions if one.status == "done"}
    assert "s0-30" in ran
    assert done == set(ran) - {"s0-30"}
    assert [one.name for one in sessions if one.claim_id] == ["s0-30"]


def test_what_is_dear_is_claimed_only_when_it_runs() -> None:
    """One death of a worker must not bring in a person for packs that had not begun."""
    held: list[int] = []

    class Dear(MemoryGateway):
        def take(self, *args: Any, **kwargs: Any) -> Any:
            taking = super().take(*args, **kwargs)
            return structs.replace(taking, offers=[structs.replace(one, dear=True) for one in taking.offers])

    broker = Dear()
    sessions = submit(broker, 100)

    @agent("clerk")
    def looking(_pack: Pack, _ctx: SyncContext) -> Done:
        held.append(sum(bool(one.claim_id) for one in sessions))
        return Done()

    with runtime_of(broker, looking) as runtime:
        runtime.drain("clerk")
    assert statuses(sessions) == {"done"}
    assert set(held) == {1}


def test_behind_a_solo_pack_several_wait_no_longer_than_one() -> None:
    broker = MemoryGateway()
    submit(broker, 20)
    options = replace(QUICK, solo_wait_seconds=0.3)
    with runtime_of(broker, quick, options=options) as runtime:
        turn = Turn(runtime, "clerk", None)
        offers = turn.take(20)
        assert len(offers) == 20
        assert runtime.gate.enter(solo=True, seconds=1)
        began = time.monotonic()
        assert turn.enter_all(offers) == []
        assert time.monotonic() - began < 3
        runtime.gate.leave(solo=True)
