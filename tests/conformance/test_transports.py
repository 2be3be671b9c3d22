"""Memory, a folder, Redis and RabbitMQ pass one suite."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from passdown.broker.app import Transport, transport_of
from tests.conformance.transport_suite import PoolSuite, TransportSuite
from tests.servers.redis import RedisServer


class TestInMemory(TransportSuite, PoolSuite):
    @pytest.fixture
    def transport(self) -> Transport:
        return transport_of("sqlite:///:memory:")


class TestInAFolder(TransportSuite, PoolSuite):
    @pytest.fixture
    def transport(self, tmp_path: Path) -> Transport:
        return transport_of(f"sqlite:///{tmp_path}/x.db")

    @pytest.fixture
    def put_raw(self, tmp_path: Path) -> Callable[[str, bytes], None]:
        def put(queue: str, data: bytes) -> None:
            name = f"{time.time_ns() // 1000}_{abs(hash(data))}.{queue}.msg"
            folder = tmp_path / "x.db.bells"
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.part").write_bytes(data)
            (folder / f"{name}.part").rename(folder / name)

        return put


class TestOnRedis(TransportSuite, PoolSuite):
    @pytest.fixture
    def server(self, redis_server: RedisServer) -> RedisServer:
        return redis_server

    @pytest.fixture
    def transport(self, server: RedisServer) -> Transport:
        return transport_of("sqlite:///x.db", server.url())

    @pytest.fixture
    def put_raw(self, server: RedisServer) -> Callable[[str, bytes], None]:
        return lambda queue, data: server.client().lpush(f"passdown:{queue}", data) and None


class TestOnValkey(TestOnRedis):
    @pytest.fixture
    def server(self, valkey_server: RedisServer) -> RedisServer:
        return valkey_server


class TestOnRabbitMQ(TransportSuite, PoolSuite):
    @pytest.fixture
    def transport(self, rabbitmq_url: str) -> Transport:
        return transport_of("sqlite:///x.db", rabbitmq_url)
