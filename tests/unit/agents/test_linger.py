"""How a drain looks again for a moment: soon at first, then less often, and once more at the end."""

import pytest

from passdown.agents.linger import Linger
from passdown.agents.options import Options


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("passdown.agents.linger.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def looks(linger: Linger, clock: Clock) -> list[tuple[float, int]]:
    """Return the pauses of a drain that finds nothing, and what it tells with the look after each."""
    made: list[tuple[float, int]] = []
    while not linger.over:
        pause = linger.pause()
        clock.now += pause
        made.append((pause, linger.told_ms))
    return made


def test_without_a_time_it_does_not_look_again(clock: Clock) -> None:
    linger = Linger(Options(linger_seconds=0.0))
    assert linger.over
    assert linger.told_ms == 0


def test_one_look_at_the_end_tells_nobody_to_be_quiet(clock: Clock) -> None:
    linger = Linger(Options(linger_seconds=0.05))
    assert linger.told_ms == 0
    assert looks(linger, clock) == [(pytest.approx(0.05), 0)]


def test_many_looks_ever_further_apart_and_the_last_lets_bells_ring(clock: Clock) -> None:
    linger = Linger(Options(linger_seconds=0.05, linger_look_seconds=0.0005))
    assert linger.told_ms >= 50
    made = looks(linger, clock)
    pauses = [pause for pause, _ in made]
    assert pauses[0] == 0.0005
    assert pauses[:-1] == sorted(pauses[:-1])
    assert max(pauses) <= 0.005
    assert sum(pauses) == pytest.approx(0.05)
    assert all(told > 0 for _, told in made[:-1])
    assert made[-1][1] == 0


def test_what_is_told_outlasts_the_next_look(clock: Clock) -> None:
    linger = Linger(Options(linger_seconds=0.05, linger_look_seconds=0.0005))
    while not linger.over:
        told, pause = linger.told_ms, linger.pause()
        assert told > pause * 1000
        clock.now += pause


def test_a_pack_begins_it_anew(clock: Clock) -> None:
    linger = Linger(Options(linger_seconds=0.05, linger_look_seconds=0.0005))
    looks(linger, clock)
    linger.begin()
    assert not linger.over
    assert linger.told_ms >= 50
    assert linger.pause() == 0.0005
