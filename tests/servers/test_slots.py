"""Hash slots as the cluster specification has them, and as a server computes them; and a watch that misses nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.fixtures import StartRedis
from tests.servers.redis import RedisServer, slots_to_itself
from tests.servers.slots import Call, Watch, crc16, slot

FROM_SEVERAL = (
    "for _, key in ipairs(ARGV) do redis.call('SET', key, 1) end redis.call('DEL', ARGV[1], ARGV[2])"
)


@pytest.fixture(params=["redis_server", "valkey_server"])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    server: RedisServer = request.getfixturevalue(request.param)
    return server.client(1)


def test_the_checksum_is_that_of_the_specification() -> None:
    assert crc16(b"123456789") == 0x31C3


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"pd:{0}:log:s0-a", b"0"),
        (b"{user1000}.following", b"user1000"),
        (b"foo{}{bar}", b"foo{}{bar}"),
        (b"foo{{bar}}zap", b"{bar"),
        (b"foo{bar}{zap}", b"bar"),
        (b"foo{bar", b"foo{bar"),
    ],
)
def test_only_the_tag_is_hashed(key: bytes, hashed: bytes) -> None:
    assert slot(key) == crc16(hashed) % 16_384


def test_slots_are_those_that_a_server_computes(start_redis: StartRedis) -> None:
    server = start_redis(cluster_enabled="yes")
    slots_to_itself(server)
    for key in (b"", b"a", b"pd:{12}:ready:x}{y", b"{}", b"}{", b"x{y}z", "näme".encode()):
        assert server.client().execute_command("CLUSTER", "KEYSLOT", key) == slot(key)


def test_a_watch_sees_the_keys_of_plain_commands_and_of_scripts(client: Any) -> None:
    watch = Watch(client)
    client.set("plain", 1)
    client.mget("a", "b")
    client.eval(FROM_SEVERAL, 1, "declared", "x", "y")
    client.ping()
    client.zunionstore("to", ["from", "other"])
    client.rpush(b"odd \x00\xff\"\\\n' key", 1)
    connecting = {"hello", "client", "select"}
    assert [one for one in watch.calls() if one.command not in connecting] == [
        Call("set", frozenset({b"plain"})),
        Call("mget", frozenset({b"a", b"b"})),
        Call("eval", frozenset({b"declared", b"x", b"y"})),
        Call("ping", frozenset()),
        Call("zunionstore", frozenset({b"to", b"from", b"other"})),
        Call("rpush", frozenset({b"odd \x00\xff\"\\\n' key"})),
    ]


def test_a_script_that_leaves_its_slot_is_seen(client: Any) -> None:
    watch = Watch(client)
    client.eval(FROM_SEVERAL, 1, "t{1}", "x{1}", "y{2}")
    client.eval(FROM_SEVERAL, 1, "t{1}", "x{1}", "y{1}")
    assert [len(one.slots) for one in watch.calls() if one.command == "eval"] == [2, 1]
