"""Reading: everything that a store is asked and that changes nothing.

Indexes are read first and what they lead to after that, in one round trip each for a page; what moved or went away
between the two is left out, or shown as it stands by then.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, assert_never, cast

from passdown.broker.core.state import A2A_STATE
from passdown.broker.stores import base, queries
from passdown.broker.stores.redis import joins, records, scripts, tickets
from passdown.broker.stores.redis.keys import POSTPONED, RESERVED, Keys
from passdown.broker.stores.redis.packed import (
    AT_WORK,
    after_all,
    filed_status,
    filed_under,
    place_of,
    short_digest,
    unpack_row,
    unsqueeze,
)
from passdown.broker.stores.redis.scripts import Command
from passdown.broker.stores.redis.shards import Shards

#: In an index, before the session's id: six bytes of what it is found by, when it was opened (6), its number (5).
_FILED, _PLACE = 6, 11
#: Names that are read at once where many of them may not fit.
_LARGE_PAGE = 500


def load(shards: Shards, session_id: str, command_id: str, command_digest: str) -> base.Loaded:
    """Return the session's state; with an empty digest any content of the command is taken for the same."""
    answer = shards.call(scripts.LOAD, shards.home(session_id), (session_id, command_id))
    now, catalog, version, state, recorded, removed, event = answer
    clash = bool(recorded and command_digest and recorded[:16] != short_digest(command_digest))
    return base.Loaded(
        state=None if state is None else unsqueeze(state, event),
        version=version,
        now=now,
        catalog=catalog,
        reply=None if clash or recorded is None else unsqueeze(recorded[16:]),
        clash=clash,
        removed=removed.decode(),
    )


def events(shards: Shards, session_id: str, after: int, limit: int) -> list[bytes]:
    """Return logged events in order, from the one after `after`."""
    if limit < 1:
        return []
    key = shards.keys[shards.home(session_id)].log(session_id)
    (found,) = shards.ask([("LRANGE", key, after, after + limit - 1)])
    return [unsqueeze(one) for one in found]


def find(shards: Shards, query: queries.Query) -> queries.Found:
    """Answer a query."""
    match query:
        case queries.FindSessions():
            return _sessions(shards, query)
        case queries.FindEnded():
            return _ended(shards, query, now(shards))
        case queries.FindTickets() | queries.FindLanes() | queries.FindOffered() | queries.FindDraft():
            return tickets.find(shards, query)
        case queries.FindRecord() | queries.FindRecords():
            return records.find(shards, query)
        case queries.FindQueues():
            return _queues(shards, now(shards))
        case queries.FindCatalog() | queries.FindDocument() | queries.FindQuarantine():
            return _on_first_shard(shards, query)
        case queries.FindPack():
            return _pack(shards, query)
        case queries.FindBeside():
            return _beside(shards, query.session_id)
        case queries.FindJoin() | queries.FindRows() | queries.FindPage():
            return joins.find(shards, query)
        case _:
            assert_never(query)


def now(shards: Shards) -> int:
    return shards.call(scripts.LOAD, 0, ("", ""))[0]


# -- sessions ----------------------------------------------------------------------------------------------


class _Source(NamedTuple):
    """One index to read: a shard, and what sessions are found by in it."""

    shard: int
    filed: bytes


def _sessions(shards: Shards, query: queries.FindSessions) -> list[queries.SessionRow]:
    """Newest first; those of a shard that were opened in the same millisecond in the order of their opening."""
    before = None
    if query.before is not None:
        before = _place(shards, query.before)
        if before is None:
            return []
    found: list[queries.SessionRow] = []
    seen: set[str] = set()
    # Of what is read in such an index much may not fit: fewer and larger pages.
    page_size = query.limit + 1 if query.status not in AT_WORK else max(query.limit + 1, _LARGE_PAGE)
    names = _newest_first(shards, _sources(shards, query), before, page_size)
    while len(found) < query.limit:
        page = list(islice(names, page_size))
        if not page:
            break
        for row in _rows(shards, page):
            if row.session_id not in seen and _fits(row, query):
                found.append(row)
            seen.add(row.session_id)
    return found[: query.limit]


def _sources(shards: Shards, query: queries.FindSessions) -> list[_Source]:
    """Return what to read: a task has the fewest sessions, and a status that people look for has fewer than a plan."""
    if query.task is not None:
        filed = [filed_under("task", query.task), filed_under("name", query.task)]
    elif query.status is not None:
        filed = [filed_status(query.status)]
    elif query.plan is not None:
        filed = [filed_under("plan", query.plan)]
    else:
        return _not_empty(shards, list(dict.fromkeys(map(filed_status, A2A_STATE))))
    return [_Source(shard, one) for shard in range(len(shards.keys)) for one in filed]


def _not_empty(shards: Shards, filed: list[bytes]) -> list[_Source]:
    sources = [_Source(shard, one) for shard in range(len(shards.keys)) for one in filed]
    firsts = shards.ask(
        [
            ("ZRANGEBYLEX", shards.keys[shard].index, b"[" + one, b"(" + after_all(one), "LIMIT", 0, 1)
            for shard, one in sources
        ]
    )
    return [source for source, first in zip(sources, firsts, strict=True) if first]


def _place(shards: Shards, session_id: str) -> tuple[bytes, int] | None:
    """Return where the last session of the page before stands: its place in the index, and its shard."""
    shard = shards.home(session_id)
    (head,) = shards.ask([("HGET", shards.keys[shard].session(session_id), "h")])
    return None if head is None else (place_of(head), shard)


def _newest_first(
    shards: Shards, sources: list[_Source], before: tuple[bytes, int] | None, page: int
) -> Iterator[tuple[int, str]]:
    """Yield (shard, session id): what was opened last first, then the higher number, then the higher shard."""
    many = [_down(shards, source, before, page) for source in sources]
    for _, shard, name in heapq.merge(*many, reverse=True):
        yield shard, name.decode()


def _down(
    shards: Shards, source: _Source, before: tuple[bytes, int] | None, page: int
) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield (place, shard, session id) of one index, page by page, from below `before`."""
    keys, filed = shards.keys[source.shard], source.filed
    top = b"(" + after_all(filed)
    if before is not None:
        place, shard = before
        # Of one place the shards follow each other.
        top = b"(" + filed + (after_all(place) if source.shard < shard else place)
    while True:
        (members,) = shards.ask([("ZREVRANGEBYLEX", keys.index, top, b"[" + filed, "LIMIT", 0, page)])
        for member in members:
            place, name = member[_FILED : _FILED + _PLACE], member[_FILED + _PLACE :]
            yield place, source.shard, name
        if len(members) < page:
            return
        top = b"(" + members[-1]


def _rows(shards: Shards, names: Iterable[tuple[int, str]]) -> list[queries.SessionRow]:
    wanted = list(names)
    if not wanted:
        return []
    commands = [("HMGET", shards.keys[shard].session(name), "h", "r") for shard, name in wanted]
    return [
        unpack_row(name, head, row)
        for (_, name), (head, row) in zip(wanted, shards.ask(commands), strict=True)
        if head is not None
    ]


def _fits(row: queries.SessionRow, query: queries.FindSessions) -> bool:
    return (
        query.status in (None, row.status)
        and query.plan in (None, row.plan)
        and (query.task is None or query.task in (row.task_id, row.task_name))
    )


def _ended(shards: Shards, query: queries.FindEnded, now: int) -> list[queries.SessionRow]:
    commands = [
        ("ZRANGEBYSCORE", keys.ended, "-inf", now - query.older_ms, "WITHSCORES", "LIMIT", 0, query.limit)
        for keys in shards.keys
    ]
    names: list[tuple[float, int, str]] = []
    for shard, found in enumerate(shards.ask(commands)):
        names += [(float(score), shard, name.decode()) for name, score in _pairs(found)]
    names.sort(key=lambda one: one[0])
    return _rows(shards, [(shard, name) for _, shard, name in names[: query.limit]])


def _pairs(found: list[Any]) -> list[tuple[bytes, Any]]:
    """Return members with their scores: RESP2 lists both in turn, RESP3 pairs them."""
    if found and isinstance(found[0], list):
        return [(pair[0], pair[1]) for pair in found]
    return list(zip(found[::2], found[1::2], strict=True))


# -- the rest ----------------------------------------------------------------------------------------------


def _pack(shards: Shards, query: queries.FindPack) -> bytes | None:
    keys = shards.keys[shards.home(query.session_id)]
    kept, first_event = shards.ask(
        [
            ("HGET", keys.session(query.session_id), f"p{query.step}/{query.attempt}"),
            ("LINDEX", keys.log(query.session_id), 0),
        ]
    )
    return None if kept is None else unsqueeze(kept, first_event)


def _queues(shards: Shards, now: int) -> list[queries.QueueRow]:
    """Depth and age of each role queue, over all shards."""
    roles = shards.ask([("ZRANGE", keys.roles, 0, -1) for keys in shards.keys])
    places = [(keys, role.decode()) for keys, names in zip(shards.keys, roles, strict=True) for role in names]
    if not places:
        return []
    answers = iter(shards.ask([command for keys, role in places for command in _looks(keys, role, now)]))
    rows: dict[str, list[int]] = {}
    for _, role in places:
        ready, come_back, reserved, running, oldest = islice(answers, _LOOKS)
        age = max(0, now - int(float(_pairs(oldest)[0][1]))) if oldest else 0
        if not (ready or come_back or reserved or running or oldest):
            continue
        row = rows.setdefault(role, [0, 0, 0, 0])
        for at, amount in enumerate((ready + come_back, reserved, running)):
            row[at] += amount
        row[3] = max(row[3], age)
    return [
        queries.QueueRow(role=role, ready=row[0], reserved=row[1], running=row[2], oldest_ms=row[3])
        for role, row in sorted(rows.items())
    ]


_LOOKS = 5


def _looks(keys: Keys, role: str, now: int) -> tuple[Command, ...]:
    """Return what is asked of a role: ready, no longer postponed, reserved, running, when the oldest was queued."""
    queue = keys.queue(role)
    return (
        ("ZCOUNT", queue, "-inf", RESERVED + now),
        ("ZCOUNT", queue, POSTPONED, POSTPONED + now),
        ("ZCOUNT", queue, f"({RESERVED + now}", f"({POSTPONED}"),
        ("ZCARD", keys.busy(role)),
        ("ZRANGE", keys.queued(role), 0, 0, "WITHSCORES"),
    )


def _on_first_shard(
    shards: Shards, query: queries.FindCatalog | queries.FindDocument | queries.FindQuarantine
) -> queries.Found:
    if isinstance(query, queries.FindCatalog):
        return _catalog(shards)
    if isinstance(query, queries.FindQuarantine):
        return _quarantined(shards, query)
    (kept,) = shards.ask([("HGET", shards.keys[0].documents, query.digest)])
    return None if kept is None else unsqueeze(kept)


def _catalog(shards: Shards) -> queries.Catalog:
    """Read as it stands at one moment, so its version is never newer than the names that come with it."""
    (found,) = shards.ask([("HGETALL", shards.keys[0].catalog)])
    # RESP2 lists names and values in turn, RESP3 has a type for it.
    current: dict[bytes, bytes] = (
        cast("dict[bytes, bytes]", found)
        if isinstance(found, dict)
        else dict(zip(found[::2], found[1::2], strict=True))
    )
    version = 0
    names: dict[str, dict[str, str]] = {"plan": {}, "tool": {}}
    for field, value in current.items():
        kind, _, name = field.decode().partition(":")
        if kind in names:
            names[kind][name] = value.decode()
        else:
            version = int(value)
    return queries.Catalog(version=version, plans=names["plan"], tools=names["tool"])


def _beside(shards: Shards, session_id: str) -> queries.Beside:
    shard = shards.home(session_id)
    beside, fields = shards.ask(
        [
            shards.command(scripts.BESIDE, shard, (session_id,)),
            ("HKEYS", shards.keys[shard].session(session_id)),
        ]
    )
    left, why = beside
    counted = [field for field in fields if field.startswith(b"#")]
    counts: list[Any] = []
    if counted:
        (counts,) = shards.ask([("HMGET", shards.keys[shard].session(session_id), *counted)])
    return queries.Beside(
        lease_left_ms=None if left < 0 else left,
        handed_back=why.decode(),
        counts={
            name[1:].decode(): int(count)
            for name, count in zip(counted, counts, strict=True)
            if count is not None
        },
    )


def _quarantined(shards: Shards, query: queries.FindQuarantine) -> list[queries.QuarantineRow]:
    key = shards.keys[0].quarantine
    first, last = ("-", "+") if query.id is None else (query.id, query.id)
    (found,) = shards.ask([("XREVRANGE", key, last, first, "COUNT", max(1, query.limit))])
    rows = [_refused(int(number.partition(b"-")[0]), fields) for number, fields in found]
    return rows[: query.limit]


def _refused(number: int, fields: list[bytes]) -> queries.QuarantineRow:
    said = dict(zip(fields[::2], fields[1::2], strict=True))
    return queries.QuarantineRow(
        id=number,
        at=int(said[b"at"]),
        source=said[b"source"].decode(),
        reason=said[b"reason"].decode(),
        body=unsqueeze(said[b"body"]),
    )
