"""Opening a store: which addresses and servers will do, and what is said of those that will not."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from passdown.broker.app import open_store
from passdown.broker.stores.redis import RedisStore, opening
from passdown.broker.stores.redis.address import address_of
from passdown.broker.stores.redis.server import ServerFacts, read_server
from passdown.broker.stores.redis.wire import Wire
from passdown.contracts.errors import ContractError, Unavailable
from tests.conformance.building import done, step
from tests.servers.fixtures import StartRedis
from tests.servers.process import free_ports
from tests.servers.redis import RedisServer

Set = Callable[..., None]


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    return redis_server


@pytest.fixture
def config(server: RedisServer) -> Iterator[Set]:
    """``config(appendonly="no")`` sets what the server is set to; it is put back at the end."""
    client: Any = server.client()
    before: dict[str, str] = {}

    def config(**settings: str) -> None:
        for name, value in settings.items():
            known = name.replace("_", "-")
            before.setdefault(known, client.config_get(known)[known])
            client.config_set(known, value)

    yield config
    for name, value in before.items():
        client.config_set(name, value)


def facts(server: RedisServer) -> ServerFacts:
    wire = Wire(address_of(server.url()))
    found = read_server(wire.exchange)
    wire.close()
    return found


# -- what could be lost --


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_evicts_is_refused_unless_told_so(
    server: RedisServer, config: Set, policy: str
) -> None:
    config(maxmemory_policy=policy)
    with pytest.raises(ContractError, match=f"maxmemory-policy is {policy}.*set it to noeviction"):
        RedisStore(server.url())
    assert server.client().dbsize() == 0
    RedisStore(f"{server.url()}?unsafe=eviction").close()


def test_a_server_that_keeps_nothing_is_refused_unless_told_so(server: RedisServer, config: Set) -> None:
    config(appendonly="no")
    with pytest.raises(ContractError, match=r"keeps nothing over a restart.*set appendonly to yes"):
        RedisStore(server.url())
    RedisStore(f"{server.url()}?unsafe=eviction,persistence").close()
    config(save="3600 1")
    RedisStore(server.url()).close()


def test_where_config_is_forbidden_that_is_said_and_it_goes_on(start_redis: StartRedis) -> None:
    server = start_redis(appendonly="no")
    client: Any = server.client()
    client.execute_command("ACL", "SETUSER", "ours", "on", ">pw", "~*", "+@all", "-config")
    url = server.url().replace("redis://", "redis://ours:pw@")
    with capture_logs() as logs:
        store = RedisStore(url)
    assert [(one["event"], one["log_level"]) for one in logs] == [("store.settings_unknown", "warning")]
    assert "pw" not in str(logs)
    done(store, step("s0-a"))
    assert store.may_lose
    store.close()


def test_what_a_server_says_of_itself(server: RedisServer, valkey_server: RedisServer) -> None:
    debian, valkey = facts(server), facts(valkey_server)
    assert (debian.software, debian.speaks[:2]) == ("redis", (7, 0))
    assert (valkey.software, valkey.speaks[:2]) == ("valkey", (7, 2))
    assert valkey.version.startswith("9.")
    assert (debian.policy, debian.aof_enabled, debian.appendfsync, debian.save) == (
        "noeviction",
        True,
        "everysec",
        "",
    )
    assert debian.run_id != valkey.run_id
    assert debian.persists()
    assert not debian.evicts()


def test_an_older_server_is_refused(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "OLDEST", (99, 0))
    with pytest.raises(ContractError, match=r"it is Redis 7\.0.*needs 7.0 or newer, or Valkey"):
        RedisStore(server.url())


# -- whose store it is --


def test_a_store_of_a_newer_format_is_refused(server: RedisServer) -> None:
    RedisStore(server.url()).close()
    newer = opening.FORMAT + 1
    server.client().hset("pd:{0}:meta", "format", newer)
    says = rf"its format is {newer}, .* reads up to {opening.FORMAT}; upgrade Passdown"
    with pytest.raises(ContractError, match=says):
        RedisStore(server.url())
    assert server.client().hget("pd:{0}:meta", "format") == b"%d" % newer


@pytest.mark.parametrize("older", range(1, opening.FORMAT))
def test_a_store_of_an_older_format_is_raised_on_every_shard_and_goes_on(
    server: RedisServer, older: int
) -> None:
    """An older release must not work on it any more: it would leave behind what it does not know."""
    RedisStore(server.url(), shards=3).close()
    metas = [f"pd:{{{shard}}}:meta" for shard in range(3)]
    for meta in metas:
        server.client().hset(meta, "format", older)
    store = RedisStore(server.url())
    assert [server.client().hget(meta, "format") for meta in metas] == [b"%d" % opening.FORMAT] * 3
    assert store.shards == 3
    done(store, step("s2-a"))
    store.close()


@pytest.mark.parametrize(("made", "asked"), [(1, 4), (4, 1), (4, 2)])
def test_another_number_of_shards_is_refused(server: RedisServer, made: int, asked: int) -> None:
    RedisStore(server.url(), shards=made).close()
    with pytest.raises(
        ContractError, match=f"it has {made} shards, and {asked} were asked for.*shards={made}"
    ):
        RedisStore(server.url(), shards=asked)
    with pytest.raises(ContractError, match=f"and {asked} were asked for"):
        RedisStore(f"{server.url()}?shards={asked}")
    for store in (RedisStore(server.url()), RedisStore(server.url(), shards=made)):
        assert store.shards == made
        store.close()


def test_a_key_that_is_something_else_is_said(server: RedisServer) -> None:
    server.client().set("pd:{0}:meta", "mine")
    with pytest.raises(ContractError, match="is the prefix another application's"):
        RedisStore(server.url())
    server.client().delete("pd:{0}:meta")


def test_stores_of_two_prefixes_in_one_database_do_not_meet(server: RedisServer) -> None:
    one, two = RedisStore(server.url(), prefix="one"), RedisStore(f"{server.url()}?prefix=two")
    done(one, step("s0-a"))
    assert (one.load("s0-a").version, two.load("s0-a").version) == (1, 0)
    for store in (one, two):
        store.close()


# -- addresses --


def test_a_store_is_opened_by_its_address(server: RedisServer) -> None:
    store = open_store(f"{server.url()}?shards=2&prefix=team&timeout=5")
    assert store.shards == 2
    done(store, step("s1-a"))
    assert server.client().exists("team:{1}:session:s1-a") == 1
    store.close()


def test_a_store_is_opened_by_a_socket(start_redis: StartRedis, tmp_path: Any) -> None:
    start_redis(unixsocket=str(tmp_path / "redis.sock"))
    store = open_store(f"unix://{tmp_path}/redis.sock?db=2")
    done(store, step("s0-a"))
    assert store.load("s0-a").version == 1
    store.close()


def test_nobody_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="refused"):
        RedisStore(f"redis://127.0.0.1:{free_ports()}/0")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://localhost", "expected redis://"),
        ("redis://localhost:port/0", "not an address"),
        ("redis://localhost/notes", "db: expected a number"),
        ("redis://localhost/0?shard=4", "there is no option 'shard'; there are db, "),
        ("redis://localhost/0?shards=0", "shards: expected a number from 1 to 1024, got '0'"),
        ("redis://localhost/0?shards=", "shards: expected a number"),
        ("redis://localhost/0?protocol=4", "protocol: expected a number from 2 to 3"),
        ("redis://localhost/0?timeout=soon", "timeout: expected seconds"),
        ("redis://localhost/0?timeout=nan", "timeout: expected seconds"),
        ("redis://localhost/0?prefix=a:b", "prefix: expected 1 to 40"),
        ("redis://localhost/0?prefix={x}", "prefix: expected 1 to 40"),
        ("redis://localhost/0?unsafe=yes", "unsafe: expected eviction"),
        ("redis://localhost/0?ssl_ca_certs=x", "goes with rediss:// only"),
    ],
)
def test_rule_11_an_address_that_will_not_do_is_said(url: str, says: str) -> None:
    with pytest.raises(ContractError, match="store address") as told:
        address_of(url)
    assert says in str(told.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://ann:secret@db.example:7000/3?timeout=2s", "redis://db.example:7000/3"),
        ("rediss://:secret@db.example", "rediss://db.example:6379/0"),
        ("unix:///run/redis.sock?password=secret", "unix:///run/redis.sock"),
        ("redis://[::1]:7000/0", "redis://[::1]:7000/0"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(url: str, shown: str) -> None:
    address = address_of(url)
    assert address.shown == shown
    assert address.parameters["retry"].get_retries() == 0


@pytest.mark.parametrize("shards", [0, 1025])
def test_a_number_of_shards_that_will_not_do_is_said(server: RedisServer, shards: int) -> None:
    with pytest.raises(ContractError, match="expected 1 to 1024"):
        RedisStore(server.url(), shards=shards)
