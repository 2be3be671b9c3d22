"""`RedisStore` passes the suite: on Debian's Redis, with one shard and with four, and on Valkey."""

import pytest

from tests.conformance.on_redis import OnRedis
from tests.servers.redis import RedisServer


class TestWithOneShard(OnRedis):
    pass


class TestWithFourShards(OnRedis):
    shards = 4


class TestOnValkey(OnRedis):
    @pytest.fixture
    def server(self, valkey_server: RedisServer) -> RedisServer:
        return valkey_server
