"""Joins and pages: what the scripts take of them, and reading them.

A row is kept as ``joins.lua`` says. What only the client reads of it is the branch, its session, and its ``about``
made smaller, as MessagePack; the sixteen bytes that stand for ``about`` are of the text itself, for two clients need
not make it smaller in the same way.
"""

import hashlib
from typing import Any, assert_never

import msgspec

from passdown.broker.stores.base import Commit
from passdown.broker.stores.joining import PAGES_WAIT_MS, JoinPut, JoinRow, Page
from passdown.broker.stores.queries import FindJoin, FindPage, FindRows, Found, JoinRecord, RowOfJoin
from passdown.broker.stores.redis import scripts
from passdown.broker.stores.redis.keys import shard_of
from passdown.broker.stores.redis.packed import squeeze, unsqueeze
from passdown.broker.stores.redis.shards import Shards
from passdown.contracts.errors import ContractError
from passdown.contracts.ids import session_of

#: What a join may have at most: wakes, and outcomes in each.
MOST_WAKES, MOST_OUTCOMES = 20, 20
#: What a page may have at most (bytes).
MOST_PAGE = 8 * 1024 * 1024
#: Rows that one command reads at most.
_MOST_PLACES = 500
_NUMBER, _ABOUT = 6, 16

#: Branch, its session, and ``about`` as it is kept.
_Mark = tuple[str, str, bytes]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Mark).decode
#: What follows the numbers in a record's head: rows by outcome (Lua tells no empty map from an empty list), and wakes.
_decode_head = msgspec.msgpack.Decoder(tuple[dict[str, int] | list[Any], list[Any]]).decode


def joins_of(commit: Commit, shards: int) -> tuple[Any, list[bytes]]:
    """Return what `commit.lua` takes of a commit's joins, and the texts of these.

    Raises ContractError for more wakes or outcomes than a join may have, and for a join of another session or shard.
    """
    put, row = commit.join, commit.join_row
    if put is None and row is None:
        return False, []
    about = (
        False if put is None else _put(put, commit.session_id),
        False if row is None else _row(row, commit.session_id, shards),
    )
    return about, [] if row is None else [_mark(row)]


def _put(put: JoinPut, session_id: str) -> tuple[Any, ...]:
    if session_of(put.join_id) != session_id:
        raise ContractError("commit", f"the join {put.join_id!r} is not of its session {session_id!r}")
    most = max([len(wake.outcomes) for wake in put.wakes], default=0)
    if len(put.wakes) > MOST_WAKES or most > MOST_OUTCOMES:
        raise ContractError(
            "commit",
            f"its join has {len(put.wakes)} wakes of up to {most} outcomes,"
            f" and may have {MOST_WAKES} of {MOST_OUTCOMES}",
        )
    upto, rewrites = (put.close.upto, put.close.rewrites) if put.close else (-1, 0)
    return put.join_id, [(wake.at, *wake.outcomes) for wake in put.wakes], upto, rewrites


def _row(row: JoinRow, session_id: str, shards: int) -> tuple[Any, ...]:
    if shard_of(row.join_id, shards) != shard_of(session_id, shards):
        raise ContractError("commit", f"the join {row.join_id!r} lies on another shard than {session_id!r}")
    return row.join_id, row.place, row.outcome


def _mark(row: JoinRow) -> bytes:
    stands_for = hashlib.blake2b(row.about, digest_size=_ABOUT).digest()
    return stands_for + _encode((row.branch, row.session_id, squeeze(row.about)))


def keep_page(shards: Shards, page: Page) -> None:
    """Keep a page of a list. Raises ContractError for one that is too large, and where its session has no shard."""
    shard = shard_of(page.session_id, len(shards.keys))
    if shard is None:
        raise ContractError("page", f"session id {page.session_id!r} names none of the store's shards")
    if len(page.body) > MOST_PAGE:
        raise ContractError("page", f"it has {len(page.body):,} bytes, and may have {MOST_PAGE:,}")
    about = (page.session_id, page.name, page.number, PAGES_WAIT_MS)
    shards.call(scripts.PAGE, shard, about, [squeeze(page.body)])


def find(shards: Shards, query: FindJoin | FindRows | FindPage) -> Found:
    """Answer a query about a join or a list."""
    match query:
        case FindJoin():
            return _record(shards, query.join_id)
        case FindRows():
            return _rows(shards, query)
        case FindPage():
            key = shards.keys[shards.home(query.session_id)].pages(query.session_id)
            (kept,) = shards.ask([("HGET", key, f"{query.number}:{query.name}")])
            return None if kept is None else unsqueeze(kept)
        case _:
            assert_never(query)


def _record(shards: Shards, join_id: str) -> JoinRecord | None:
    (head,) = shards.ask([("HGET", shards.keys[shards.home(join_id)].join(join_id), "h")])
    if head is None:
        return None
    version, rewrites, closed = (
        int.from_bytes(head[at : at + _NUMBER]) for at in range(0, 3 * _NUMBER, _NUMBER)
    )
    counts, _ = _decode_head(head[3 * _NUMBER :])
    return JoinRecord(
        join_id=join_id,
        version=version,
        rewrites=rewrites,
        counts=dict(counts),
        closed_at=closed - 1 if closed else None,
    )


def _rows(shards: Shards, query: FindRows) -> list[RowOfJoin]:
    key = shards.keys[shards.home(query.join_id)].join(query.join_id)
    first, end = max(0, query.first), query.first + query.places
    some = [range(at, min(end, at + _MOST_PLACES)) for at in range(first, end, _MOST_PLACES)]
    found = shards.ask([("HMGET", key, *places) for places in some])
    return [
        _row_of(place, kept)
        for places, rows in zip(some, found, strict=True)
        for place, kept in zip(places, rows, strict=True)
        if kept is not None
    ]


def _row_of(place: int, kept: bytes) -> RowOfJoin:
    start = _NUMBER + _ABOUT + 1
    end = start + kept[start - 1]
    branch, session_id, about = _decode(kept[end:])
    return RowOfJoin(
        place=place,
        branch=branch,
        session_id=session_id,
        outcome=kept[start:end].decode(),
        order=int.from_bytes(kept[:_NUMBER]),
        about=unsqueeze(about),
    )
