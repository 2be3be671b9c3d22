"""The leak checker finds each kind of leak, and nothing in a store that is as it should be."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.stores.redis.keys import FAMILIES, Keys
from tests.servers.leaks import OF_SESSIONS, leaks
from tests.servers.redis import RedisServer

ROOT = Path(__file__).parents[2]
KEYS = Keys(1)


@pytest.fixture
def client(redis_server: RedisServer) -> Any:
    """A store of two shards with one session, one tombstone, and what may stand beside them."""
    client = redis_server.client()
    for shard in range(2):
        client.hset(Keys(shard).meta, mapping={"format": 1, "shards": 2})
    client.hset(KEYS.session("s1-a"), "h", "head")
    client.rpush(KEYS.log("s1-a"), "event")
    client.zadd(KEYS.queue("analyst"), {"000000000001s1-a": 1})
    client.zadd(KEYS.busy("analyst"), {"s1-a": 1})
    client.zadd(KEYS.dues, {"s1-a\0deadline\x007\0": 1})
    client.zadd(KEYS.index, {b"\x00\x00\x00\x00\x00\x01\x00\x00s1-a": 0})
    client.zadd(KEYS.roles, {"analyst": 0})
    client.hset(KEYS.join("s1-a.j-1"), "h", "head")
    client.rpush(KEYS.joins("s1-a"), "s1-a.j-1")
    client.zadd(KEYS.dues, {"s1-a\0join\0\0s1-a.j-1": 1})
    client.hset(KEYS.pages("s1-a"), "0:items", "[]")
    client.hset(KEYS.pages("s1-to-come"), "0:items", "[]")
    client.zadd(KEYS.unopened, {"s1-to-come": 5, "s1-a": 5, "s1-b": 5})
    client.zadd(KEYS.lane("leads"), {"p1\0s1-a\x000000000001": 0})
    client.sadd(KEYS.lanes, "leads")
    client.hset(KEYS.drafts("s1-a"), "1:ann", "draft")
    client.hset(Keys(0).records("token"), "t1", "record")
    client.zadd(Keys(0).record_names("token"), {"t1": 0})
    client.hset(KEYS.gone, "s1-b", "done")
    client.zadd(KEYS.forget, {"s1-b": 5})
    yield client
    client.flushall()  # what was left on purpose


def test_a_store_as_it_should_be_has_no_leaks(client: Any) -> None:
    assert leaks(client) == []


def test_a_key_of_no_family_is_a_leak(client: Any) -> None:
    for key in ("pd:{1}:lock", "pd:{1}:session", "pd:{1}:dues:s1-a", "pd:1:dues", "other"):
        client.set(key, 1)
    assert [leak.rpartition(": ")[0] for leak in leaks(client)] == [
        "other",
        "pd:1:dues",
        "pd:{1}:dues:s1-a",
        "pd:{1}:lock",
        "pd:{1}:session",
    ]


def test_a_time_to_live_is_a_leak(client: Any) -> None:
    client.expire(KEYS.session("s1-a"), 1000)
    (leak,) = leaks(client)
    assert leak.startswith("pd:{1}:session:s1-a: it has a time to live")


def test_another_type_is_a_leak(client: Any) -> None:
    client.set(KEYS.quarantine, "message")
    assert leaks(client) == ["pd:{1}:quarantine: it is a string, and its family says stream"]


def test_a_shard_that_the_store_has_not_is_a_leak(client: Any) -> None:
    client.hset(Keys(2).catalog, "version", 1)
    assert leaks(client) == ["pd:{2}:catalog: the store has 2 shards"]


def test_what_is_left_of_a_session_is_a_leak(client: Any) -> None:
    client.rpush(KEYS.log("s1-gone"), "event")
    assert leaks(client) == ["pd:{1}:log:s1-gone: there is no such session"]


def test_what_is_left_of_a_join_or_a_list_is_a_leak(client: Any) -> None:
    client.hset(KEYS.join("s1-a.j-2"), "h", "head")
    client.hset(KEYS.join("s1-gone.j-1"), "h", "head")
    client.rpush(KEYS.joins("s1-gone"), "s1-gone.j-1")
    client.hset(KEYS.pages("s1-b"), "0:items", "[]")
    client.hset(KEYS.pages("s1-never"), "0:items", "[]")
    client.hset(KEYS.pages("s0-to-come"), "0:items", "[]")
    client.zadd(KEYS.unopened, {"s0-to-come": 5})
    assert leaks(client) == [
        "pd:{1}:join:s1-a.j-2: its session names it not once",
        "pd:{1}:join:s1-gone.j-1: there is no such session",
        "pd:{1}:joins:s1-gone: there is no such session",
        "pd:{1}:pages:s0-to-come: its session lives on another shard",
        "pd:{1}:pages:s1-b: its session was removed",
        "pd:{1}:pages:s1-never: its session is not there, and nobody would forget it",
    ]


def test_what_is_left_of_a_lane_or_a_draft_is_a_leak(client: Any) -> None:
    client.sadd(KEYS.lanes, "ops")
    client.zadd(KEYS.lane("sales"), {"p1\0s1-a\x000000000001": 0})
    client.zadd(KEYS.lane("leads"), {"p1\0s1-gone\x000000000001": 0})
    client.hset(KEYS.drafts("s1-gone"), "1:ann", "draft")
    assert leaks(client) == [
        "pd:{1}:drafts:s1-gone: there is no such session",
        f"{KEYS.lane('sales')}: no lane is called so",
        f"{KEYS.lane('leads')}: its member b'p1\\x00s1-gone\\x000000000001' is of no session there is",
        "pd:{1}:lanes: its lane b'ops' is empty",
    ]


def test_a_session_on_another_shard_than_its_own_is_a_leak(client: Any) -> None:
    client.hset(KEYS.session("s0-a"), "h", "head")
    assert leaks(client) == ["pd:{1}:session:s0-a: its session lives on another shard"]


@pytest.mark.parametrize("family", sorted(OF_SESSIONS))
@pytest.mark.parametrize(
    "member", [b"000000000002s1-gone", b"s1-gone", b"s1-gone\0deadline\x007\0", b"Ls1-gone"]
)
def test_a_member_of_no_session_is_a_leak(client: Any, member: bytes, family: str) -> None:
    each = ":x" if any(one.name == family and one.each for one in FAMILIES) else ""
    client.zadd(f"pd:{{1}}:{family}{each}", {member: 1})
    (leak,) = [one for one in leaks(client) if "member" in one]
    assert leak.startswith(f"pd:{{1}}:{family}{each}: its member b'")
    assert leak.endswith("is of no session there is")


def test_a_member_of_no_tombstone_is_a_leak(client: Any) -> None:
    client.zadd(KEYS.forget, {"s1-a": 1})
    assert leaks(client) == ["pd:{1}:forget: its member b's1-a' is of no tombstone there is"]


def test_each_store_of_a_database_is_looked_at_by_its_own_prefix(client: Any) -> None:
    other = Keys(0, "team-b")
    client.hset(other.meta, mapping={"format": 1, "shards": 1})
    client.rpush(other.log("s0-a"), "event")
    assert leaks(client) == ["team-b:{0}:log:s0-a: there is no such session"]


def test_where_there_is_no_store_nothing_is_a_leak(redis_server: RedisServer) -> None:
    redis_server.client(1).set("queue", "message")
    assert leaks(redis_server.client(1)) == []


def test_a_test_that_leaves_a_leak_fails_whatever_server_it_used(tmp_path: Path) -> None:
    test = """
        def leave(client):
            client.hset("pd:{0}:meta", "shards", 1)
            client.set("pd:{0}:left", 1)

        def test_shared(redis_server):
            leave(redis_server.client())

        def test_private(start_redis):
            leave(start_redis().client())
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(test))
    fixtures = ["-p", "tests.servers.fixtures", "-p", "no:cacheprovider", "-p", "no:valkey"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *fixtures, "--rootdir", tmp_path, "-q", tmp_path / "test_it.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed, 2 errors" in ran.stdout
    assert "pd:{0}:left: no family of keys knows it" in ran.stdout
