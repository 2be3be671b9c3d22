"""What holds for every test."""

import signal

import pytest

from tests.servers.fixtures import (
    rabbitmq_url,
    redis_server,
    shared_rabbitmq,
    shared_redis,
    shared_valkey,
    start_rabbitmq,
    start_redis,
    valkey_server,
)

__all__ = [
    "rabbitmq_url",
    "redis_server",
    "shared_rabbitmq",
    "shared_redis",
    "shared_valkey",
    "start_rabbitmq",
    "start_redis",
    "valkey_server",
]


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C, also where a shell started the tests in the background: what they start would be deaf to it too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
