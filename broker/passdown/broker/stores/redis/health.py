"""What a Redis store tells about itself: its server, what that may lose, and how long its ticks have been silent."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from passdown.broker.findings import Examination, Finding
from passdown.broker.stores.redis.keys import Keys
from passdown.broker.stores.redis.opening import FORMAT
from passdown.broker.stores.redis.scripts import SCRIPTS, Command
from passdown.broker.stores.redis.server import OLDEST, ServerFacts

#: Of the memory that it may use, so much used is near the end.
_NEARLY_FULL, _FILLING = 0.9, 0.75
_MIB = 1024**2

Exchange = Callable[[Sequence[Command]], list[Any]]


def may_lose(facts: ServerFacts) -> str:
    """Return what a crash of the server may take of what it acknowledged; empty: nothing."""
    if not facts.aof_enabled:
        unknown = "all since its last snapshot (appendonly no)"
        return unknown if facts.save or facts.save is None else "everything (it keeps nothing over a restart)"
    match facts.appendfsync:
        case "always" if facts.lax_rewrites:
            return "what came while it wrote its file anew (no-appendfsync-on-rewrite yes)"
        case "always":
            return ""
        case "everysec":
            return "the last second (appendfsync everysec)"
        case "no":
            return "the last half minute (appendfsync no)"
        case _:
            return "its last moments (CONFIG is forbidden: nobody can tell what appendfsync is)"


def examine(exchange: Exchange, keys: Sequence[Keys], facts: ServerFacts, now: int) -> Examination:
    """Look at the server and at each shard; `now` is the store's time (ms)."""
    asked: list[int] = []
    due: list[int] = []
    to_tell = restarts = 0
    for shard in keys:
        marks, dues, leases, tells = exchange(
            [
                ("HMGET", shard.meta, "asked_at", "restarts"),
                ("ZRANGE", shard.dues, 0, 0, "WITHSCORES"),
                ("ZRANGE", shard.leases, 0, 0, "WITHSCORES"),
                ("ZCARD", shard.tell),
            ]
        )
        asked += [int(marks[0])] if marks[0] else []
        restarts = max(restarts, int(marks[1] or 0))
        due += [int(float(_score(first))) for first in (dues, leases) if first]
        to_tell += int(tells)
    known = exchange([("SCRIPT EXISTS", *SCRIPTS)])[0]
    return Examination(
        findings=[
            _kind(facts, len(keys)),
            _durability(facts),
            _eviction(facts),
            _memory(facts),
            _role(facts),
            *_rest(facts, restarts, sum(map(int, known))),
        ],
        asked_ms=max(0, now - min(asked)) if len(asked) == len(keys) else None,
        overdue_ms=max(0, now - min(due)) if due else 0,
        to_tell=to_tell,
    )


def _score(first: Any) -> Any:
    """Return the score in an answer of RESP2 (a flat list) or of RESP3 (pairs)."""
    return first[0][1] if isinstance(first[0], list | tuple) else first[1]


def _kind(facts: ServerFacts, shards: int) -> Finding:
    found = f"{facts.software} {facts.version}, format {FORMAT}, {shards} shard{'s' if shards > 1 else ''}"
    if facts.speaks < OLDEST:
        advice = "Passdown needs Redis 7.0 or newer, or Valkey"
        return Finding(level="red", what="store kind", found=found, advice=advice)
    return Finding(level="green", what="store kind", found=found)


def _durability(facts: ServerFacts) -> Finding:
    lost = may_lose(facts)
    if not facts.writes_ok:
        found = "the last write to its disk failed: from now on nothing is kept"
        advice = "look at the server's disk and log"
        return Finding(level="red", what="durability", found=found, advice=advice)
    if facts.persists() is False:
        found = "nothing is kept over a restart (appendonly no, save empty)"
        advice = "set appendonly to yes, and appendfsync to always where effects do not dedupe"
        return Finding(level="red", what="durability", found=found, advice=advice)
    if not lost:
        found = "appendfsync always: what is acknowledged outlives a crash of the server"
        return Finding(level="green", what="durability", found=found)
    level = "yellow" if facts.aof_enabled else "red"
    found = f"a crash of the server may take {lost}"
    advice = "what that means for effects is in docs/durability.md; appendonly yes with appendfsync always loses nothing"
    return Finding(level=level, what="durability", found=found, advice=advice)


def _eviction(facts: ServerFacts) -> Finding:
    if facts.evicts():
        found = f"maxmemory-policy {facts.policy or 'unknown'}: keys are thrown away when memory is short"
        return Finding(level="red", what="eviction", found=found, advice="set maxmemory-policy to noeviction")
    return Finding(level="green", what="eviction", found="none (maxmemory-policy noeviction)")


def _memory(facts: ServerFacts) -> Finding:
    used = f"{facts.used_memory // _MIB:,} MiB used"
    if not facts.maxmemory:
        return Finding(level="green", what="memory", found=f"{used}, no limit (maxmemory 0)")
    share = facts.used_memory / facts.maxmemory
    found = f"{used} of {facts.maxmemory // _MIB:,} MiB ({share:.0%})"
    if share > _NEARLY_FULL:
        advice = "raise maxmemory, or set `retention`: a full server takes no new work"
        return Finding(level="red", what="memory", found=found, advice=advice)
    if share > _FILLING:
        return Finding(
            level="yellow", what="memory", found=found, advice="raise maxmemory, or set `retention`"
        )
    return Finding(level="green", what="memory", found=found)


def _role(facts: ServerFacts) -> Finding:
    if facts.role not in ("master", "primary"):
        found = f"it is a {facts.role or 'server of unknown role'}, which takes no writes"
        return Finding(level="red", what="replication", found=found, advice="name the primary in `store`")
    found = "a primary, as one node of a cluster" if facts.cluster else "a primary"
    return Finding(level="green", what="replication", found=found)


def _rest(facts: ServerFacts, restarts: int, scripts: int) -> Iterator[Finding]:
    if not facts.told_config:
        found = "CONFIG is forbidden on this server"
        advice = "look yourself whether it keeps what it has over a restart"
        yield Finding(level="yellow", what="server settings", found=found, advice=advice)
    loaded = f"{scripts} of {len(SCRIPTS)} are loaded"
    yield Finding(level="green", what="scripts", found=f"{loaded}; others are when they are first needed")
    if restarts:
        found = (
            f"the server was started anew {restarts} time{'s' if restarts > 1 else ''} since ticks watch it"
        )
        yield Finding(level="green", what="restarts", found=found)
