"""Fixtures of the tests with real processes."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.flow import Flow, StartFlow, clock
from tests.integration.site import Site
from tests.servers.fixtures import StartRedis
from tests.servers.redis import RedisServer


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A store in a folder of its own; every process that the test started ends with it.

    What they logged is shown with a test that failed.
    """
    made = Site(tmp_path)
    yield made
    made.close()
    sys.stdout.write(made.log())


@pytest.fixture
def start_flow(tmp_path: Path, start_redis: StartRedis) -> Iterator[StartFlow]:
    """``start_flow(store, transport)`` starts two workers and a tick there, and has sessions flow all the while."""
    # Asked for only so that the servers end after the processes that use them.
    with ExitStack() as ending:

        def start(
            store: str = "", transport: str = "", *, clocks: tuple[str, str] | None = None, **more: float
        ) -> Flow:
            made = Site(tmp_path, store, transport)
            ending.callback(made.close)
            flow = ending.enter_context(Flow(made, **more))
            flow.tick()
            for ahead in clocks or ("", ""):
                flow.worker(prefix=clock(ahead) if ahead else ())
            flow.warm()
            return flow

        yield start


@pytest.fixture
def durable_redis(start_redis: StartRedis) -> RedisServer:
    """A Redis that loses nothing which it acknowledged."""
    return start_redis(appendfsync="always")


@pytest.fixture(params=["redis", "rabbitmq"])
def flow(request: pytest.FixtureRequest, start_flow: StartFlow, durable_redis: RedisServer) -> Flow:
    """Sessions over a Redis store, with doorbells over the same server or over RabbitMQ."""
    if request.param == "redis":
        return start_flow(durable_redis.url(0), durable_redis.url(1))
    return start_flow(durable_redis.url(0), request.getfixturevalue("rabbitmq_url"))
