"""Fixtures of the broker's unit tests."""

from collections.abc import Iterator

import pytest

from tests.unit.broker.rig import Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A broker in memory; with a fault of its store nothing is tried again."""
    made = Rig()
    yield made
    made.broker.close()
