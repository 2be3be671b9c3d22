"""Sweeps: every entry is dealt with or comes again, whatever fails (rule 1)."""

import threading
from typing import Any

import pytest
import structlog

from passdown.broker import tick as module
from passdown.broker.tick import Tick
from passdown.contracts.errors import Unavailable
from tests.unit.broker.rig import ROLE, Rig, plan


def late(rig: Rig, count: int) -> list[Any]:
    """Return sessions whose deadline has passed."""
    rig.broker.register(plan(deadline_seconds=1.0))
    sessions = [rig.broker.submit("p") for _ in range(count)]
    rig.clock.forward(1_001)
    return sessions


class TestOnce:
    def test_what_is_due_is_carried_out(self, rig: Rig) -> None:
        sessions = late(rig, 3)
        swept = rig.tick.once()
        assert (swept.done, swept.failed) == (3, 0)
        assert [one.status() for one in sessions] == ["expired"] * 3
        assert rig.tick.once().done == 0

    def test_a_full_batch_is_worth_going_on_at_once(self, rig: Rig) -> None:
        late(rig, 5)
        sweeper = Tick(rig.controller, batch=2)
        passes = [sweeper.once() for _ in range(3)]
        assert [one.done for one in passes] == [2, 2, 1]
        assert [one.wait_ms for one in passes] == [0, 0, 1_000]

    def test_the_wait_is_until_the_next_entry_and_never_longer_than_asked(self, rig: Rig) -> None:
        rig.open(plan(deadline_seconds=0.3))
        rig.gateway.take(ROLE, 1)
        assert rig.tick.once().wait_ms == 300
        assert Tick(rig.controller, most_wait_ms=100).once().wait_ms == 100

    def test_it_rings_where_packs_wait_in_vain(self, rig: Rig) -> None:
        rig.open()
        rig.bells.rung.clear()
        assert rig.tick.once().rung == []
        rig.clock.forward(6_000)
        assert rig.tick.once().rung == [ROLE]
        assert rig.bells.rung == [ROLE]

    def test_a_jump_of_the_clock_is_said_and_ends_no_lease(self, rig: Rig) -> None:
        session = rig.open()
        attempt = rig.claim()
        now = [0.0]
        sweeper = Tick(rig.controller, monotonic=lambda: now[0])
        sweeper.once()
        now[0] += 1.0
        rig.clock.forward(3_600_000)
        with structlog.testing.capture_logs() as said:
            sweeper.once()
        assert [one["event"] for one in said] == ["tick.clock_jumped"]
        attempt.give()
        assert session.status() == "done"


class TestFaults:
    def test_one_that_fails_leaves_the_others_alone_and_comes_again(self, rig: Rig) -> None:
        sessions = late(rig, 5)
        rig.fail(None, None, "before", only={"commit"})
        swept = rig.tick.once()
        assert (swept.done, swept.failed) == (4, 1)
        assert rig.tick.once().done == 0
        rig.clock.forward(3_001)
        assert rig.tick.once().done == 1
        assert {one.status() for one in sessions} == {"expired"}

    def test_a_store_that_stays_away_ends_the_pass_once_reservations_have_run_out(self, rig: Rig) -> None:
        late(rig, 200)
        calls: list[str] = []

        def away(method: str) -> Any:
            if method == "due":
                return None
            calls.append(method)
            rig.clock.forward(1_000)  # each call hangs for a second
            return "before"

        rig.store.plan = away
        with pytest.raises(Unavailable):
            rig.tick.once()
        assert len(calls) == 4

    def test_one_that_is_broken_does_not_stop_the_sweep(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sessions = late(rig, 3)
        inner = rig.controller.run

        def run(session_id: str, *args: Any, **more: Any) -> Any:
            if session_id == sessions[0].id:
                raise ZeroDivisionError
            return inner(session_id, *args, **more)

        monkeypatch.setattr(rig.controller, "run", run)
        swept = rig.tick.once()
        assert (swept.done, swept.failed) == (2, 1)


class TestRun:
    def run(self, rig: Rig, monkeypatch: pytest.MonkeyPatch, *outcomes: Any) -> list[Any]:
        """Run with these outcomes of `once`, then stop; return what was logged, and the waits."""
        stop = threading.Event()
        waits: list[float] = []
        script = list(outcomes)

        def once() -> Any:
            found = script.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        def wait(timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            if not script:
                stop.set()
            return stop.is_set()

        monkeypatch.setattr(rig.tick, "once", once)
        monkeypatch.setattr(stop, "wait", wait)
        with structlog.testing.capture_logs() as said:
            rig.tick.run(stop)
        return [*zip([one["event"] for one in said], waits, strict=False), waits]

    def test_it_goes_on_after_anything_and_waits_longer_each_time(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A tick that died would stop every timer, lost lease and lost doorbell without a word."""
        faults = [Unavailable("the store", "gone")] * 12 + [KeyError("x"), MemoryError()]
        *said, waits = self.run(rig, monkeypatch, *faults)
        assert {event for event, _ in said} == {"tick.store_away", "tick.failed_pass"}
        assert len(said) == 14
        for n, waited in enumerate(waits):
            longest = min(30.0, 0.4 * 2 ** min(n, 8))
            assert longest / 2 <= waited <= longest

    def test_a_good_pass_begins_anew(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        away = Unavailable("the store", "gone")
        *_, waits = self.run(
            rig, monkeypatch, away, away, away, module.Swept(wait_ms=70), away, module.Swept(wait_ms=0)
        )
        assert waits[3] == 0.07
        assert waits[4] <= 0.4
        assert waits[5] == 0.005

    def test_it_ends_when_told(self, rig: Rig) -> None:
        stop = threading.Event()
        thread = threading.Thread(target=Tick(rig.controller, most_wait_ms=60_000).run, args=(stop,))
        thread.start()
        stop.set()
        thread.join(10)
        assert not thread.is_alive()
