"""The fixtures of real servers; `tests/conftest.py` makes them known everywhere.

The shared servers are started when a test first asks for one, and serve all tests of the process; private ones,
which a test may kill, come from `start_redis` and `start_rabbitmq`.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.servers.process import ServerProcess
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import Kind, RedisServer

S = TypeVar("S", bound=ServerProcess)
StartRedis = Callable[..., RedisServer]
StartRabbit = Callable[..., RabbitServer]


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Debian's Redis; ask for `redis_server` instead, which is empty at first."""
    yield from _started(RedisServer(tmp_path_factory.mktemp("redis")))


@pytest.fixture(scope="session")
def shared_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Valkey; ask for `valkey_server` instead, which is empty at first."""
    yield from _started(RedisServer(tmp_path_factory.mktemp("valkey"), "valkey"))


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> RedisServer:
    """Debian's Redis, emptied, for tests that neither stop it nor change its settings."""
    shared_redis.flush()
    return shared_redis


@pytest.fixture
def valkey_server(shared_valkey: RedisServer) -> RedisServer:
    """Valkey, emptied, for tests that neither stop it nor change its settings."""
    shared_valkey.flush()
    return shared_valkey


@pytest.fixture
def start_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartRedis]:
    """``start_redis("valkey", appendfsync="always", …)`` starts a server that is this test's alone."""
    servers: list[RedisServer] = []

    def start(kind: Kind = "redis", **settings: str | int) -> RedisServer:
        servers.append(RedisServer(tmp_path_factory.mktemp(kind), kind, **settings))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def shared_rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """RabbitMQ; ask for `rabbitmq_url` instead, which is an empty virtual host."""
    yield from _started(RabbitServer(tmp_path_factory.mktemp("rabbitmq")))


@pytest.fixture
def rabbitmq_url(shared_rabbitmq: RabbitServer) -> Iterator[str]:
    """The address of a virtual host of this test's own, on a node that it must not stop."""
    vhost = shared_rabbitmq.new_vhost()
    yield shared_rabbitmq.url(vhost)
    shared_rabbitmq.remove_vhost(vhost)


@pytest.fixture
def start_rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartRabbit]:
    """``start_rabbitmq({"consumer_timeout": 60_000})`` starts a node that is this test's alone: it takes seconds."""
    servers: list[RabbitServer] = []

    def start(config: dict[str, str | int] | None = None) -> RabbitServer:
        servers.append(RabbitServer(tmp_path_factory.mktemp("rabbitmq"), config))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def _started(server: S) -> Iterator[S]:
    try:
        server.start()
        yield server
    finally:
        server.close()
