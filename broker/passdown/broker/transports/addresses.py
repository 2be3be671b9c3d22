"""Addresses of transports, and the kombu options that held for each (DESIGN §11, queue).

``redis://``, ``rediss://``, ``amqp://``, ``amqps://``, ``memory://`` within one process and ``filesystem://FOLDER``
between processes of one machine; beside a store that is reached by a socket, ``unix:///PATH``, its server. kombu is
given a scheme and options of ours; nobody else needs to know them.
"""

import re
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from passdown.agents.options import Options
from passdown.broker.transports import folder, memory, schemes
from passdown.broker.transports.vetting import Junk
from passdown.contracts.errors import ContractError

SQLITE = "sqlite:///"
MEMORY = ":memory:"
DEFAULT_FILE = "passdown.db"

_REDIS = {"redis": schemes.REDIS, "rediss": schemes.REDIS_TLS}
#: A store on Redis that is reached by a socket of this machine.
_UNIX = "unix"
_RABBITMQ = {"amqp": schemes.RABBITMQ, "amqps": schemes.RABBITMQ_TLS}
_KNOWN = "redis://, rediss://, amqp://, amqps://, memory:// or filesystem://"

#: In front of all keys on Redis, so that a transport and a store may share a server.
PREFIX = "passdown:"
#: What the address of a store on Redis may say that its transport must not see, but for the prefix.
_OF_STORE = ("shards", "prefix", "timeout", "unsafe", "protocol")
_BY_SOCKET = ("db", "username", "password")
_TLS = ("ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname")

#: Finds a peer that is gone without a word: first asked after 10 s of silence, given up after 25 s, or where
#: what was sent is not acknowledged for 20 s.
_KEEPALIVE: dict[int, int] = {
    number: value
    for name, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 20_000),
    )
    if (number := getattr(socket, name, None)) is not None
}

#: Settings that survived restarts, half-open connections and missing servers. Seconds.
_REDIS_OPTIONS: dict[str, Any] = {
    "socket_timeout": 10,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "socket_keepalive_options": _KEEPALIVE,
    # A pop that is not answered within a second and this drops its connection.
    "health_check_interval": 5,
    "visibility_timeout": 60,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}
_RABBITMQ_OPTIONS: dict[str, Any] = {
    "confirm_publish": True,
    "heartbeat": 10,
    "read_timeout": 5,
    "write_timeout": 5,
    "socket_settings": _KEEPALIVE,
}


#: A look into a store over the network takes a fraction of a doorbell's time (seconds).
_LINGER_S, _LOOK_S = 0.05, 0.0003
#: After so many takes a drain ends its turn where its pool serves other roles, too (docs/workers.md, fair turns).
TURN_TAKES = 20


@dataclass(frozen=True, slots=True)
class Transport:
    """A kombu address and its options; an empty address means that nobody is rung.

    ``linger_s``: for how long a drain that found its queue empty looks again (seconds); ``look_s``: how soon for
    the first time (0: once, at the end). Where a doorbell is as quick as a look, waiting only keeps a slot
    busy; where a look costs less than a doorbell, several make most doorbells needless.
    """

    url: str = field(repr=False)
    options: dict[str, Any] = field(repr=False)
    linger_s: float = 0.0
    look_s: float = 0.0

    def drains(self, roles: int) -> Options:
        """Return how drains work over this transport, in a pool that serves so many roles."""
        takes = TURN_TAKES if roles > 1 else 0
        return Options(linger_seconds=self.linger_s, linger_look_seconds=self.look_s, turn_takes=takes)

    @property
    def rabbitmq(self) -> bool:
        """Whether this is RabbitMQ, which has queues with arguments, and consumers that it may forget."""
        return self.url.startswith(tuple(f"{scheme}://" for scheme in _RABBITMQ.values()))

    def within(self, seconds: float) -> "Transport":
        """Return the same for publishing: whatever waits for the server gives up after so long."""
        if self.rabbitmq:
            # Nobody would send heartbeats; what is wrong with a connection shows when it is used.
            more: dict[str, Any] = {"heartbeat": 0, "read_timeout": seconds, "write_timeout": seconds}
        else:
            more = {"socket_timeout": seconds, "socket_connect_timeout": seconds}
        return replace(self, options={**self.options, **more})

    def for_hints(self, on_junk: Junk) -> "Transport":
        """Return the same for consuming messages that may be lost: nobody keeps them until they are acknowledged."""
        more: dict[str, Any] = {"on_junk": on_junk, "ack_emulation": False, "priority_steps": [0]}
        return replace(self, options={**self.options, **more})

    def telling(self, on_junk: Junk) -> "Transport":
        """Return the same for consuming, with `on_junk` told of what is no message (`vetting.Junk`)."""
        return replace(self, options={**self.options, "on_junk": on_junk})


def shown_address(url: str) -> str:
    """Return an address, or a text with one, as logs and errors may show it: without user name and password."""
    # What is a slash in a password ends the host for those who parse: it must not show for that.
    hidden = re.sub(r"((?:redis|amqp)s?://)\S*@", r"\1…@", url)
    return re.sub(r"://[^/]*@", "://…@", hidden)


def store_path(url: str) -> str:
    """Return the path in the address of a SQLite store, relative or (``sqlite:////abs``) absolute.

    It is taken as it is written: a space is a space, and ``%20`` is three characters. Raises ContractError
    for an address that is none.
    """
    if not url.startswith(SQLITE):
        raise ContractError(
            "store address", f"expected sqlite:///path or redis://host:port/db, got {shown_address(url)!r}"
        )
    path = url.removeprefix(SQLITE) or DEFAULT_FILE
    if "\0" in path:
        raise ContractError("store address", f"a path has no NUL character, got {url!r}")
    if path != MEMORY and Path(path).is_dir():
        raise ContractError("store address", f"{path} is a folder; name a file in it")
    # Some builds of SQLite take a name like this for an address of their own.
    return f"./{path}" if path.startswith("file:") else path


def transport_of(store_url: str, transport_url: str = "") -> Transport:
    """Return the transport at an address; the default is beside the store: a folder, or the same Redis server.

    Nothing is made or reached here. Raises ContractError for an address that is none.
    """
    scheme = transport_url.partition(":")[0]
    if scheme in _REDIS:
        return _on_redis(transport_url, "transport address", ("prefix", *_TLS))
    if scheme in _RABBITMQ:
        return _on_rabbitmq(transport_url)
    on_server = store_url.partition(":")[0]
    if not transport_url and on_server in _REDIS:
        return _on_redis(store_url, "store address", (*_OF_STORE, *_TLS))
    if not transport_url and on_server == _UNIX:
        return _by_socket(store_url)
    if scheme == "memory":
        return _within(store_url)
    if transport_url == "filesystem://" and (on_server in _REDIS or on_server == _UNIX):
        raise ContractError(
            "transport address", "beside a store on a server, name the folder: filesystem://FOLDER"
        )
    if transport_url in ("", "filesystem://"):
        path = store_path(store_url)
        return _within(store_url) if path == MEMORY else _beside(Path(f"{path}.bells"))
    if transport_url.startswith("filesystem://"):
        return _beside(Path(transport_url.removeprefix("filesystem://")))
    raise ContractError("transport address", f"expected {_KNOWN}, got {shown_address(transport_url)!r}")


def _within(store_url: str) -> Transport:
    """One process: those who use one store meet, and every store in memory is alone."""
    if store_url.partition(":")[0] in (*_REDIS, _UNIX):
        return Transport(memory.shared(store_url), {})
    path = store_path(store_url)
    return Transport(memory.alone() if path == MEMORY else memory.shared(str(Path(path).resolve())), {})


def _beside(path: Path) -> Transport:
    options = folder.options_of(path.absolute())
    return Transport(f"{folder.SCHEME}://localhost", options, linger_s=0.05)


def _on_redis(url: str, what: str, known: tuple[str, ...]) -> Transport:
    parts, query = _parts(url, what, known)
    if not re.fullmatch(r"/?|/[0-9]{1,9}", parts.path):
        raise ContractError(what, f"expected a database number after the host, got {shown_address(url)!r}")
    tls = {name: value for name, value in query.items() if name in _TLS}
    prefix = _prefix(query.get("prefix"), of_store=what == "store address")
    return _with_redis(_ours(parts, _REDIS[parts.scheme], tls), prefix)


def _by_socket(url: str) -> Transport:
    """The server of a store at ``unix:///PATH``, whose options say what stands elsewhere in other addresses."""
    parts, query = _parts(url, "store address", (*_OF_STORE, *_BY_SOCKET))
    if parts.hostname or len(parts.path) < 2:
        raise ContractError("store address", f"expected unix:///PATH, got {shown_address(url)!r}")
    user = parts.username or quote(query.get("username", ""), safe="")
    password = parts.password or quote(query.get("password", ""), safe="")
    # kombu's word for the database.
    database = urlencode({"virtual_host": query.get("db", "0")})
    address = f"{schemes.REDIS}+socket://{user}:{password}@{parts.path}?{database}"
    return _with_redis(address, _prefix(query.get("prefix"), of_store=True))


def _with_redis(url: str, prefix: str) -> Transport:
    options = {**_REDIS_OPTIONS, "global_keyprefix": prefix}
    return Transport(url, options, linger_s=_LINGER_S, look_s=_LOOK_S)


def _prefix(said: str | None, *, of_store: bool) -> str:
    """Stores under two prefixes of one server must not answer each other's doorbells.

    A transport may be told to use none: in a Celery application of others, where the queues have none.
    """
    if of_store:
        return f"{PREFIX}{said}:" if said else PREFIX
    return PREFIX if said is None else said


def _on_rabbitmq(url: str) -> Transport:
    parts, query = _parts(url, "transport address", _TLS)
    return Transport(
        _ours(parts, _RABBITMQ[parts.scheme], query),
        dict(_RABBITMQ_OPTIONS),
        linger_s=_LINGER_S,
        look_s=_LOOK_S,
    )


def _parts(url: str, what: str, known: tuple[str, ...]) -> tuple[SplitResult, dict[str, str]]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ContractError(what, f"{error}, in {shown_address(url)!r}") from None
    if (not parts.hostname and parts.scheme != _UNIX) or port == 0:
        expected = f"{parts.scheme}://HOST:PORT/…"
        raise ContractError(what, f"expected {expected}, got {shown_address(url)!r}")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in query:
        if name not in known:
            raise ContractError(what, f"there is no option {name!r}; known are {', '.join(known)}")
    if parts.fragment:
        raise ContractError(what, "expected nothing after #; in a password it is written %23")
    return parts, query


def _ours(parts: SplitResult, scheme: str, query: dict[str, str]) -> str:
    return parts._replace(scheme=scheme, query=urlencode(query)).geturl()
