"""A store in memory whose clock stands still, and who is known in it."""

from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import LogCapture

from passdown.broker.access.directory import Directory
from passdown.broker.stores.sqlite import SqliteStore
from tests.conformance.building import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[SqliteStore]:
    made = SqliteStore(":memory:", clock=clock)
    yield made
    made.close()


@pytest.fixture
def directory(store: SqliteStore) -> Directory:
    return Directory(store)


@pytest.fixture
def logged() -> Iterator[LogCapture]:
    """Yield what is logged meanwhile."""
    capture = LogCapture()
    structlog.configure(processors=[capture])
    yield capture
    structlog.reset_defaults()
