"""Addresses of transports on servers: what kombu is given, and what is refused without its secrets."""

from pathlib import Path
from typing import Any

import kombu
import pytest

from passdown.broker.transports.addresses import PREFIX, Transport, shown_address, transport_of
from passdown.broker.transports.redis import Channel
from passdown.contracts.errors import ContractError

SQLITE = "sqlite:///x.db"


def parsed(transport: Transport) -> kombu.Connection:
    return kombu.Connection(transport.url, transport_options=transport.options)


def test_redis_is_given_to_our_own_transport_with_what_held() -> None:
    transport = transport_of(SQLITE, "redis://user:p%40ss@host:6380/3")
    connection: Any = parsed(transport)
    told = (
        connection.userid,
        connection.password,
        connection.hostname,
        connection.port,
        connection.virtual_host,
    )
    assert told == ("user", "p@ss", "host", 6380, "3")
    assert type(connection.transport).__module__ == "passdown.broker.transports.redis"
    assert transport.options["global_keyprefix"] == PREFIX
    assert not transport.rabbitmq


def test_rabbitmq_is_given_to_our_own_transport_with_what_held() -> None:
    transport = transport_of(SQLITE, "amqp://user:p%40ss@host:5673/my%2Fhost")
    connection: Any = parsed(transport)
    told = (
        connection.userid,
        connection.password,
        connection.hostname,
        connection.port,
        connection.virtual_host,
    )
    assert told == ("user", "p@ss", "host", 5673, "my/host")
    assert type(connection.transport).__module__ == "passdown.broker.transports.rabbitmq"
    assert transport.options["confirm_publish"]
    assert transport.options["heartbeat"]
    assert transport.rabbitmq


@pytest.mark.parametrize(("address", "hidden"), [("rediss://h", "ssl_cert_reqs"), ("amqps://h", "cert_reqs")])
def test_over_tls_certificates_are_checked(address: str, hidden: str) -> None:
    connection: Any = parsed(transport_of(SQLITE, address))
    connection.transport  # noqa: B018 - it is made when it is first looked at
    assert str(connection.ssl[hidden]) in ("required", "CERT_REQUIRED", "2", "VerifyMode.CERT_REQUIRED")


@pytest.mark.parametrize("scheme", ["rediss", "amqps"])
def test_over_tls_an_address_may_name_its_authority(scheme: str) -> None:
    connection: Any = parsed(transport_of(SQLITE, f"{scheme}://h?ssl_ca_certs=/ca.pem"))
    connection.transport  # noqa: B018 - it is made when it is first looked at
    assert "/ca.pem" in connection.ssl.values()


def test_a_store_on_redis_brings_its_transport_without_its_own_options() -> None:
    store = "redis://:secret@h:1/2?shards=4&timeout=5&unsafe=1&protocol=3"
    transport = transport_of(store)
    connection: Any = parsed(transport)
    assert (connection.hostname, connection.password, connection.virtual_host) == ("h", "secret", "2")
    assert "?" not in transport.url
    assert transport.options["global_keyprefix"] == PREFIX


def test_a_store_by_a_socket_brings_its_transport() -> None:
    transport = transport_of("unix:///run/a%20b/redis.sock?db=2&password=s%26cret&prefix=team&timeout=5")
    connection: Any = parsed(transport)
    channel: Any = Channel.__new__(Channel)  # whoever makes one in earnest connects
    channel.connection = connection.transport
    params = channel._connparams()
    told = [params[name] for name in ("path", "db", "username", "password")]
    assert told == ["/run/a b/redis.sock", 2, None, "s&cret"]
    assert type(connection.transport).__module__ == "passdown.broker.transports.redis"
    assert transport.options["global_keyprefix"] == f"{PREFIX}team:"
    assert "cret" not in shown_address(transport.url) + repr(transport)


@pytest.mark.parametrize("store", ["unix:///run/redis.sock", "redis://h", "rediss://h"])
def test_a_store_on_a_server_goes_with_any_transport(store: str, tmp_path: Path) -> None:
    assert transport_of(store, "memory://").url == transport_of(store, "memory://").url
    assert transport_of(store, "amqp://h").rabbitmq
    assert transport_of(store, f"filesystem://{tmp_path}").url.startswith("passdown-folder:")
    with pytest.raises(ContractError, match="name the folder: filesystem://FOLDER"):
        transport_of(store, "filesystem://")


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        ("unix://", "expected unix:///PATH"),
        ("unix:///", "expected unix:///PATH"),
        ("unix://run/redis.sock", "expected unix:///PATH"),
        ("unix:///x?shard=1", "there is no option 'shard'"),
    ],
)
def test_a_socket_that_is_none_is_told(store: str, problem: str) -> None:
    with pytest.raises(ContractError, match=problem):
        transport_of(store)


def test_stores_under_two_prefixes_of_one_server_do_not_hear_each_other() -> None:
    one, other = (transport_of(f"redis://h?prefix={name}") for name in ("a", "b"))
    assert one.url == other.url
    assert one.options["global_keyprefix"] != other.options["global_keyprefix"]


def test_a_transport_on_redis_may_have_a_prefix_of_its_own() -> None:
    assert transport_of(SQLITE, "redis://h?prefix=team:").options["global_keyprefix"] == "team:"


def test_those_on_one_redis_store_meet_within_a_process() -> None:
    urls = [transport_of(store, "memory://").url for store in ("redis://h/0", "redis://h/0", "redis://h/1")]
    assert urls[0] == urls[1] != urls[2]
    assert "h/0" not in urls[0]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("bells", "expected redis://, rediss://, amqp://, amqps://, memory:// or filesystem://"),
        ("filesystem:/x", "expected redis://"),
        ("http://u:secret@h", "expected redis://"),
        ("redis://", "expected redis://HOST:PORT/"),
        ("redis:///0", "expected redis://HOST:PORT/"),
        ("amqp://u:secret@", "expected amqp://HOST:PORT/"),
        ("amqp://u:secret@h:port/", "Port could not be cast"),
        ("amqp://u:secret@h:99999/", "out of range"),
        ("redis://:secret@h/name", "expected a database number"),
        ("redis://:secret@h/0?shards=4", "there is no option 'shards'"),
        ("amqp://u:secret@h?heartbeat=1", "there is no option 'heartbeat'"),
        ("amqp://u:secret@h#x", "nothing after #"),
    ],
)
def test_what_is_none_is_told_without_its_secrets(address: str, problem: str) -> None:
    with pytest.raises(ContractError) as refused:
        transport_of(SQLITE, address)
    assert problem in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_transport_shows_no_secret() -> None:
    assert "secret" not in repr(transport_of(SQLITE, "redis://:secret@h"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:pa/ss@h:1/0", "redis://…@h:1/0"),
        ("passdown-amqps://u:p@h//", "passdown-amqps://…@h//"),
        ("cannot reach redis://:p@h now", "cannot reach redis://…@h now"),
        ("sqlite:////a@b/c.db", "sqlite:////a@b/c.db"),
    ],
)
def test_secrets_are_hidden_in_texts_too(text: str, shown: str) -> None:
    assert shown_address(text) == shown


def test_publishing_gives_up_in_time() -> None:
    redis, rabbit = (
        transport_of(SQLITE, address).within(0.5).options for address in ("redis://h", "amqp://h")
    )
    assert (redis["socket_timeout"], redis["socket_connect_timeout"]) == (0.5, 0.5)
    assert (rabbit["read_timeout"], rabbit["write_timeout"], rabbit["heartbeat"]) == (0.5, 0.5, 0)
