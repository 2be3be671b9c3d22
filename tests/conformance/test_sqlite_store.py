"""`SqliteStore` passes the suite, on a file and in memory."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from passdown.broker.stores.base import Store
from passdown.broker.stores.sqlite import SqliteStore
from tests.conformance.building import Clock
from tests.conformance.store_suite import StoreSuite
from tests.conformance.suite_drafts import DraftSuite
from tests.conformance.suite_records import RecordSuite
from tests.conformance.suite_tickets import TicketSuite


class OnSqlite(StoreSuite, TicketSuite, DraftSuite, RecordSuite):
    """All of it, and what stands beside sessions."""


class TestOnAFile(OnSqlite):
    @pytest.fixture
    def connect(self, clock: Clock, tmp_path: Path) -> Iterator[Callable[[], Store]]:
        stores: list[SqliteStore] = []

        def connect() -> Store:
            stores.append(SqliteStore(tmp_path / "passdown.db", clock=clock))
            return stores[-1]

        yield connect
        for store in stores:
            store.close()


class TestInMemory(OnSqlite):
    @pytest.fixture
    def connect(self, clock: Clock) -> Iterator[Callable[[], Store]]:
        store = SqliteStore(":memory:", clock=clock)
        yield lambda: store
        store.close()
