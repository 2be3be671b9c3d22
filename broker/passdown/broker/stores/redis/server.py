"""What a server says of itself, as plain facts: for the checks when a store is opened, and for whoever shows them."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from redis.exceptions import ResponseError

from passdown.broker.stores.redis.scripts import Command
from passdown.contracts.codec import Record

#: The oldest that will do: scripts with a header that says what they do, and options of ZADD that older ones lack.
OLDEST = (7, 0)


class ServerFacts(Record, frozen=True, kw_only=True):
    """What a server says of itself. None: it does not say (CONFIG is forbidden on many that are managed)."""

    #: "redis" or "valkey", and the version of that.
    software: str
    version: str
    #: The version of Redis that it is compatible with, as numbers.
    speaks: tuple[int, ...]
    #: Another one after each start.
    run_id: str
    #: "master", or what it is otherwise.
    role: str
    #: Bytes; 0: no limit.
    maxmemory: int
    used_memory: int
    policy: str
    aof_enabled: bool
    appendfsync: str | None
    #: Whether it syncs nothing while it writes its file anew (`no-appendfsync-on-rewrite`).
    lax_rewrites: bool
    #: When snapshots are written; empty: never.
    save: str | None
    #: Whether the last write to the append-only file, and the last snapshot, went well.
    writes_ok: bool
    cluster: bool
    #: Milliseconds since the epoch.
    clock_ms: int
    #: Whether it let us read its configuration.
    told_config: bool

    def persists(self) -> bool | None:
        """Return whether it keeps what it has over a restart; None where it does not say."""
        if self.aof_enabled:
            return True
        return None if self.save is None else bool(self.save)

    def evicts(self) -> bool:
        """Return whether it may throw keys away when memory is short, or would once it has a limit."""
        return self.policy != "noeviction"


_ASK: list[Command] = [
    ("INFO", "everything"),
    ("TIME",),
    ("CONFIG", "GET", "appendfsync"),
    ("CONFIG", "GET", "save"),
    ("CONFIG", "GET", "no-appendfsync-on-rewrite"),
]


def read_server(exchange: Callable[[Sequence[Command]], list[Any]]) -> ServerFacts:
    """Ask a server for its facts; `exchange` sends commands and returns the answers, errors among them.

    Raises ResponseError where it does not even answer INFO, and what `exchange` raises.
    """
    info, time, appendfsync, save, lax = exchange(_ASK)
    if isinstance(info, ResponseError):
        raise info
    said = _info(info)
    return ServerFacts(
        software="valkey" if "valkey_version" in said else "redis",
        version=said.get("valkey_version") or said.get("redis_version", ""),
        speaks=tuple(int(part) for part in said.get("redis_version", "0").split(".") if part.isdigit()),
        run_id=said.get("run_id", ""),
        role=said.get("role", ""),
        maxmemory=int(said.get("maxmemory", "0")),
        used_memory=int(said.get("used_memory", "0")),
        policy=said.get("maxmemory_policy", ""),
        aof_enabled=said.get("aof_enabled") == "1",
        appendfsync=_config(appendfsync),
        lax_rewrites=_config(lax) == "yes",
        save=_config(save),
        writes_ok="err" not in (said.get("aof_last_write_status"), said.get("rdb_last_bgsave_status")),
        cluster=said.get("cluster_enabled") == "1",
        clock_ms=int(time[0]) * 1000 + int(time[1]) // 1000,
        told_config=not isinstance(save, ResponseError),
    )


def _info(text: Any) -> dict[str, str]:
    lines = text.decode().splitlines() if isinstance(text, bytes) else str(text).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def _config(answer: Any) -> str | None:
    if isinstance(answer, ResponseError):
        return None
    values = cast("dict[bytes, bytes]", answer).values() if isinstance(answer, dict) else answer[1::2]
    return next((value.decode() for value in values), None)
