"""Fixtures of the broker's unit tests."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from passdown.broker import acts, controller
from tests.unit.broker.rig import Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A broker in memory; with a fault of its store nothing is tried again."""
    made = Rig()
    yield made
    made.broker.close()


@pytest.fixture
def still(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process's own clock go with the store's.

    When something happened is the store's time as whoever did it reckons: what they heard, and what went by here
    since. Where the store's clock stands still, that is ahead of it, and of what the next one hears.
    """
    clock = SimpleNamespace(monotonic=lambda: rig.clock.now / 1000)
    for module in (acts, controller):
        monkeypatch.setattr(module, "time", clock)
