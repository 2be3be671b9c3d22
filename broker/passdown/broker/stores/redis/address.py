"""The address of a store, and what it says beside where the server is."""

from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.backoff import NoBackoff
from redis.connection import Connection, ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from passdown.broker.stores.redis.keys import MOST_SHARDS, PREFIX
from passdown.contracts.errors import ContractError

SCHEMES = ("redis://", "rediss://", "unix://")
_TLS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_OPTIONS = ("db", "password", "prefix", "protocol", "shards", "timeout", "unsafe", "username", *_TLS)
_UNSAFE = frozenset({"eviction", "persistence"})
_WHAT = "store address"

#: Seconds until a server that does not answer counts as away.
_TIMEOUT_S = 10.0
#: Seconds after which a connection that lay idle is tried with a PING before it is used.
_IDLE_S = 15
#: Connections of one process at once: each thread that waits for an answer holds one.
_MOST_CONNECTIONS = 1000


class Address(NamedTuple):
    """``redis://user:password@host:port/db?option=…``, ``rediss://…`` with TLS, or ``unix:///path?db=…``.

    Options: ``shards`` (how many the store must have), ``prefix`` (of all keys: several stores may lie in one
    database), ``timeout`` (seconds until a server that does not answer counts as away), ``protocol`` (2 or 3:
    RESP's version), ``unsafe`` (``eviction``, ``persistence`` or both, with a comma: what the server's settings
    may lack), ``username``, ``password``, ``db``, and TLS's ``ssl_ca_certs``, ``ssl_ca_path``, ``ssl_certfile``,
    ``ssl_keyfile``, ``ssl_cert_reqs``, ``ssl_check_hostname``.
    """

    #: As logs and errors may show it: without user name, password and options.
    shown: str
    connection: type[Connection]
    #: What redis-py's connections are made with.
    parameters: dict[str, Any]
    shards: int | None = None
    prefix: str | None = None
    unsafe: frozenset[str] = frozenset()

    def pool(self) -> ConnectionPool:
        """Return connections to the server, which repeat nothing by themselves."""
        return ConnectionPool(self.connection, max_connections=_MOST_CONNECTIONS, **self.parameters)


def address_of(url: str) -> Address:
    """Read an address. Raises ContractError for what is none, and for an option that is none of ours."""
    if not url.startswith(SCHEMES):
        raise ContractError(_WHAT, "expected redis://host:port/db, rediss://… or unix:///path")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ContractError(_WHAT, f"not an address: {error}") from error
    options = _options(parts.query)
    parameters: dict[str, Any] = {
        "db": _number("db", options.get("db", _database(parts.scheme, parts.path)), 0, 1 << 20),
        "username": unquote(parts.username) if parts.username else options.get("username"),
        "password": unquote(parts.password) if parts.password else options.get("password"),
        "protocol": _number("protocol", options.get("protocol", "2"), 2, 3),
        "socket_timeout": (timeout := _seconds(options.get("timeout"))),
        "socket_connect_timeout": timeout,
        "health_check_interval": _IDLE_S,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
    }
    host = parts.hostname or "localhost"
    if parts.scheme == "unix":
        parameters["path"] = unquote(parts.path)
        del parameters["socket_connect_timeout"]
    else:
        parameters |= {"host": unquote(host), "port": port or 6379, "socket_keepalive": True}
    shown_host = f"[{host}]" if ":" in host else host
    where = parts.path if parts.scheme == "unix" else f"{shown_host}:{port or 6379}/{parameters['db']}"
    return Address(
        shown=f"{parts.scheme}://{where}",
        connection=_CLASSES[parts.scheme],
        parameters=parameters | _tls(parts.scheme, options),
        shards=_number("shards", options["shards"], 1, MOST_SHARDS) if "shards" in options else None,
        prefix=checked_prefix(options["prefix"]) if "prefix" in options else None,
        unsafe=_unsafe(options.get("unsafe", "")),
    )


_CLASSES: dict[str, type[Any]] = {
    "redis": Connection,
    "rediss": SSLConnection,
    "unix": UnixDomainSocketConnection,
}


def checked_prefix(prefix: str) -> str:
    """Return a prefix of keys; raises ContractError for one that will not do."""
    if not PREFIX.fullmatch(prefix):
        raise ContractError(_WHAT, f"prefix: expected 1 to 40 of A-Z a-z 0-9 . _ -, got {prefix!r}")
    return prefix


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            raise ContractError(_WHAT, f"there is no option {name!r}; there are {', '.join(_OPTIONS)}")
    return options


def _database(scheme: str, path: str) -> str:
    return "0" if scheme == "unix" else path.strip("/") or "0"


def _number(name: str, value: str, least: int, most: int) -> int:
    if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
        raise ContractError(_WHAT, f"{name}: expected a number from {least} to {most}, got {value!r}")
    return int(value)


def _seconds(value: str | None) -> float:
    if value is None:
        return _TIMEOUT_S
    try:
        seconds = float(value.removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= 3600:
        raise ContractError(_WHAT, f"timeout: expected seconds from 0.01 to 3600, got {value!r}")
    return seconds


def _unsafe(value: str) -> frozenset[str]:
    named = frozenset(filter(None, value.split(",")))
    if named - _UNSAFE:
        raise ContractError(_WHAT, f"unsafe: expected eviction, persistence or both, got {value!r}")
    return named


def _tls(scheme: str, options: dict[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {name: options[name] for name in _TLS if name in options}
    if given and scheme != "rediss":
        raise ContractError(_WHAT, f"{next(iter(given))} goes with rediss:// only")
    if "ssl_check_hostname" in given:
        given["ssl_check_hostname"] = given["ssl_check_hostname"].lower() not in ("0", "no", "false")
    return given
