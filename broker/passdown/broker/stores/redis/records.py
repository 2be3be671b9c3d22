"""Records by name, which belong to no session: they lie on the first shard, whatever they are about.

A record is kept as its version (6 bytes) and its body made smaller. Names of a kind stand in a sorted set of their own,
for a hash knows no order.
"""

from typing import Any

from passdown.broker.stores.queries import FindRecord, FindRecords, RecordRow
from passdown.broker.stores.records import MOST_BYTES, MOST_RECORDS, RecordPut, Records
from passdown.broker.stores.redis import scripts
from passdown.broker.stores.redis.packed import squeeze, unsqueeze
from passdown.broker.stores.redis.shards import Shards
from passdown.contracts.errors import Conflict, ContractError

#: Records that one script reads at most: with `MOST_BYTES` each, six megabytes.
_MOST_READ = 100
_VERSION = 6


def put(shards: Shards, what: Records) -> None:
    """Write records, all or none of them. Raises Conflict, and ContractError for too many and for one that is too large."""
    _check(what)
    if not what.records:
        return
    about = [(one.kind, one.name, one.expected, int(one.body is not None)) for one in what.records]
    bodies = [squeeze(one.body) for one in what.records if one.body is not None]
    answer: list[int] = shards.call(scripts.RECORDS, 0, about, bodies)
    if answer:
        number, version = answer
        one = what.records[number - 1]
        raise Conflict(f"{_name(one)} is at version {version}, not {one.expected}")


def find(shards: Shards, query: FindRecord | FindRecords) -> RecordRow | list[RecordRow] | None:
    """Answer a query about records."""
    if isinstance(query, FindRecords):
        return _by_name(shards, query)
    (kept,) = shards.ask([("HGET", shards.keys[0].records(query.kind), query.name)])
    return None if kept is None else _row(query.kind, query.name, kept)


def _check(what: Records) -> None:
    count = len(what.records)
    if count > MOST_RECORDS:
        raise ContractError("a writing of records", f"it has {count}, the limit is {MOST_RECORDS}")
    for one in what.records:
        if one.body is not None and len(one.body) > MOST_BYTES:
            raise ContractError(_name(one), f"it has {len(one.body)} bytes, the limit is {MOST_BYTES}")


def _name(one: RecordPut) -> str:
    return f"the {one.kind} {one.name}"


def _by_name(shards: Shards, query: FindRecords) -> list[RecordRow]:
    found: list[RecordRow] = []
    after = query.after
    while len(found) < query.limit:
        wanted = min(query.limit - len(found), _MOST_READ)
        answer = shards.call(scripts.FIND_RECORDS, 0, (query.kind, after, wanted))
        rows = [_row(query.kind, name.decode(), kept) for name, kept in _pairs(answer)]
        found += rows
        if len(rows) < wanted:
            break
        after = rows[-1].name
    return found


def _pairs(answer: list[Any]) -> list[tuple[bytes, bytes]]:
    return list(zip(answer[::2], answer[1::2], strict=True))


def _row(kind: str, name: str, kept: bytes) -> RecordRow:
    return RecordRow(
        kind=kind,
        name=name,
        version=int.from_bytes(kept[:_VERSION]),
        body=unsqueeze(kept[_VERSION:]),
    )
