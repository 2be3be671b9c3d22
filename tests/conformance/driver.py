"""What the conformance suite needs of a store's driver."""

from collections.abc import Callable, Iterator

import pytest

from passdown.broker.stores.base import Store
from tests.conformance.building import Clock


class Driven:
    """The base of all parts of the suite. A driver overrides `connect`."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def connect(self, clock: Clock) -> Iterator[Callable[[], Store]]:
        """Connect to one store, empty at first, which keeps time by `clock`; close all at the end."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, connect: Callable[[], Store]) -> Store:
        return connect()
