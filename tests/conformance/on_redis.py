"""The driver of `RedisStore` for the conformance suite."""

from collections.abc import Callable, Iterator

import pytest

from passdown.broker.stores.base import Store
from passdown.broker.stores.redis import RedisStore
from tests.conformance.building import Clock
from tests.conformance.store_suite import StoreSuite
from tests.servers.redis import RedisServer


class OnRedis(StoreSuite):
    """On Debian's Redis with one shard; a subclass may say otherwise."""

    shards = 1

    @pytest.fixture
    def server(self, redis_server: RedisServer) -> RedisServer:
        return redis_server

    @pytest.fixture
    def connect(self, clock: Clock, server: RedisServer) -> Iterator[Callable[[], Store]]:
        stores: list[RedisStore] = []

        def connect() -> Store:
            stores.append(RedisStore(server.url(), shards=self.shards, clock=clock))
            return stores[-1]

        yield connect
        for store in stores:
            store.close()
