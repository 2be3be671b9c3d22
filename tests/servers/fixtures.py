"""The fixtures of real servers; `tests/conftest.py` makes them known everywhere.

The shared servers are started when a test first asks for one, and serve all tests of the process; private ones,
which a test may kill, come from `start_redis` and `start_rabbitmq`. Where a store was made in database 0 of a
Redis, the test fails if it leaves something there that the store's retention rules do not know.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.servers.leaks import leaks
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
def redis_server(shared_redis: RedisServer) -> Iterator[RedisServer]:
    """Debian's Redis, emptied, for tests that neither stop it nor change its settings."""
    yield from _emptied(shared_redis)


@pytest.fixture
def valkey_server(shared_valkey: RedisServer) -> Iterator[RedisServer]:
    """Valkey, emptied, for tests that neither stop it nor change its settings."""
    yield from _emptied(shared_valkey)


@pytest.fixture
def start_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartRedis]:
    """``start_redis("valkey", appendfsync="always", …)`` starts a server that is this test's alone."""
    servers: list[RedisServer] = []

    def start(kind: Kind = "redis", **settings: str | int) -> RedisServer:
        servers.append(RedisServer(tmp_path_factory.mktemp(kind), kind, **settings))
        servers[-1].start()
        return servers[-1]

    yield start
    left: list[str] = []
    for server in servers:
        if server.running:
            server.resume()  # where the test has frozen it
            left += leaks(server.client())
    for server in servers:
        server.close()
    _no_leaks(left)


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


def _emptied(server: RedisServer) -> Iterator[RedisServer]:
    server.flush()
    yield server
    _no_leaks(leaks(server.client()))


def _no_leaks(left: list[str]) -> None:
    if left:
        shown = "\n".join(left[:20])
        pytest.fail(f"{len(left)} leaks in Redis, see `tests/servers/leaks.py`:\n{shown}", pytrace=False)


def _started(server: S) -> Iterator[S]:
    try:
        server.start()
        yield server
    finally:
        server.close()
