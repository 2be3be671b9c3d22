"""Open tickets: finding them, those on offer by lane, and what people have written about them so far.

All there is of a ticket stands in its session; sorted sets lead to it. They are read first, and the tickets after that:
one that moved or was resolved between the two is left out, and others are read in its place.
"""

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple, assert_never

from passdown.broker.stores.queries import (
    DraftRow,
    FindDraft,
    FindLanes,
    FindOffered,
    FindTickets,
    Found,
    LaneRow,
    TicketRow,
)
from passdown.broker.stores.records import MOST_BYTES, Draft
from passdown.broker.stores.redis import scripts
from passdown.broker.stores.redis.packed import after_all, filed_under, squeeze, unpack_tickets, unsqueeze
from passdown.broker.stores.redis.shards import Shards
from passdown.contracts.errors import Conflict, ContractError, NotFound

#: In `tickets`: twelve digits for what a ticket is found by, when it was opened (6), its session's number (5), its own (4).
_FILED, _PLACE, _NUMBER = 12, 15, 4
#: What all open tickets are found by.
_ALL = b"0" * _FILED
#: Tickets that are read at once where many of them may not fit.
_LARGE_PAGE = 500
#: So many members of lanes are read in one round. Of many lanes that is a few each, but so many that the last of these
#: rounds has all that is wanted, though it stands in one lane of one shard.
_AT_ONCE, _SHARES = 200, 4
#: Of a draft: its version, and when it was kept.
_VERSION, _AT = 6, 6

#: A shard and a session on it.
_Home = tuple[int, str]


class _Place(NamedTuple):
    """Where `tickets` of a shard has a ticket; in the order in which they are found."""

    place: bytes
    shard: int
    session_id: str

    @property
    def ticket_no(self) -> int:
        return int.from_bytes(self.place[-_NUMBER:])


class _Offer(NamedTuple):
    """What a lane has of a ticket; its member sorts it among those of all lanes and shards."""

    member: bytes
    shard: int
    lane: str

    def ticket(self) -> tuple[str, int, str]:
        """Return its session, its number, and its order."""
        order, _, rest = self.member.partition(b"\0")
        session_id, _, number = rest.rpartition(b"\0")
        return session_id.decode(), int(number), order.decode()


def find(shards: Shards, query: FindTickets | FindLanes | FindOffered | FindDraft) -> Found:
    """Answer a query about tickets."""
    match query:
        case FindTickets():
            return _open_tickets(shards, query)
        case FindLanes():
            return _lanes(shards, query)
        case FindOffered():
            return _offered(shards, query)
        case FindDraft():
            return _draft(shards, query)
        case _:
            assert_never(query)


# -- open tickets ------------------------------------------------------------------------------------------


def _open_tickets(shards: Shards, query: FindTickets) -> list[TicketRow]:
    """Oldest first."""
    if query.session_id is not None:
        home = (shards.home(query.session_id), query.session_id)
        rows = [row for row in _tickets_of(shards, [home]).values() if _fits(row, query)]
        return sorted(rows, key=lambda row: (row.opened_at, row.ticket_no))[: max(0, query.limit)]
    filed = _filed(query)
    # By one thing nearly all fit that are found.
    size = (
        _LARGE_PAGE
        if query.holder is not None and (query.queue is not None or not query.holder)
        else query.limit
    )
    found: list[TicketRow] = []
    last: _Place | None = None
    while len(found) < query.limit:
        page = _page(shards, filed, last, size)
        rows = _tickets_of(shards, ((one.shard, one.session_id) for one in page))
        named = (rows.get((one.session_id, one.ticket_no)) for one in page)
        found += [row for row in named if row is not None and _fits(row, query)]
        if len(page) < size:
            break
        last = page[-1]
    return found[: max(0, query.limit)]


def _filed(query: FindTickets) -> bytes:
    """Return what to read: a person holds fewer tickets than a queue has."""
    if query.holder:
        return filed_under("holder", query.holder).hex().encode()
    return _ALL if query.queue is None else filed_under("queue", query.queue).hex().encode()


def _page(shards: Shards, filed: bytes, last: _Place | None, size: int) -> list[_Place]:
    """Return the next tickets of all shards, those of one place in the order of the shards."""
    commands = [
        ("ZRANGEBYLEX", keys.tickets, _start(filed, last, shard), b"(" + after_all(filed), "LIMIT", 0, size)
        for shard, keys in enumerate(shards.keys)
    ]
    places = [
        _Place(member[_FILED : _FILED + _PLACE], shard, member[_FILED + _PLACE :].decode())
        for shard, members in enumerate(shards.ask(commands))
        for member in members
    ]
    return heapq.nsmallest(size, places)


def _start(filed: bytes, last: _Place | None, shard: int) -> bytes:
    if last is None:
        return b"[" + filed
    return b"[" + filed + (after_all(last.place) if shard <= last.shard else last.place)


def _fits(row: TicketRow, query: FindTickets) -> bool:
    return query.queue in (None, row.queue) and query.holder in (None, row.holder)


def _tickets_of(shards: Shards, homes: Iterable[_Home]) -> dict[tuple[str, int], TicketRow]:
    """Return all open tickets of sessions, by session and number."""
    wanted = list(dict.fromkeys(homes))
    if not wanted:
        return {}
    found = shards.ask([("HGET", shards.keys[shard].session(name), "t") for shard, name in wanted])
    return {
        (name, row.ticket_no): row
        for (_, name), packed in zip(wanted, found, strict=True)
        if packed is not None
        for row in unpack_tickets(name, packed)
    }


# -- tickets on offer --------------------------------------------------------------------------------------


def _lanes(shards: Shards, query: FindLanes) -> list[LaneRow]:
    lanes = shards.ask([("SMEMBERS", keys.lanes) for keys in shards.keys])
    names = list(dict.fromkeys(lane.decode() for lane in chain.from_iterable(lanes)))
    if not query.counted or not names:
        return [LaneRow(lane=name) for name in names]
    each = len(shards.keys)
    counts = shards.ask([("ZCARD", keys.lane(name)) for name in names for keys in shards.keys])
    rows = [LaneRow(lane=name, waiting=sum(counts[at * each :][:each])) for at, name in enumerate(names)]
    return [row for row in rows if row.waiting]


def _offered(shards: Shards, query: FindOffered) -> list[TicketRow]:
    lanes = list(dict.fromkeys(query.lanes))
    # A member has a zero byte behind its order: this is behind all that have the same one.
    offers = _in_order(shards, lanes, b"[" + query.after.encode() + b"\x01", query.limit)
    found: list[TicketRow] = []
    while some := list(islice(offers, max(0, query.limit - len(found)))):
        found += _still_on_offer(shards, some)
    return found


def _in_order(shards: Shards, lanes: list[str], low: bytes, wanted: int) -> Iterator[_Offer]:
    """Yield what lanes have from `low` on, of all shards."""
    places = [(shard, lane) for shard in range(len(shards.keys)) for lane in lanes]
    size = min(wanted, max(-(-wanted // _SHARES), _AT_ONCE // max(1, len(places))))
    while places:
        found = shards.ask(
            [
                ("ZRANGEBYLEX", shards.keys[shard].lane(lane), low, "+", "LIMIT", 0, size)
                for shard, lane in places
            ]
        )
        offers = sorted(
            _Offer(member, shard, lane)
            for (shard, lane), members in zip(places, found, strict=True)
            for member in members
        )
        # Behind the last one of a place that has more, these may come before what others have.
        last = min((members[-1] for members in found if len(members) == size), default=None)
        yield from (one for one in offers if last is None or one.member <= last)
        if last is None:
            return
        low = b"(" + last


def _still_on_offer(shards: Shards, offers: list[_Offer]) -> list[TicketRow]:
    named = [(one, *one.ticket()) for one in offers]
    rows = _tickets_of(shards, ((one.shard, session_id) for one, session_id, _, _ in named))
    found = [(rows.get((session_id, number)), one.lane, order) for one, session_id, number, order in named]
    return [row for row, lane, order in found if row is not None and (row.lane, row.order) == (lane, order)]


# -- drafts ------------------------------------------------------------------------------------------------


def keep_draft(shards: Shards, draft: Draft) -> None:
    """Keep a draft, or forget it. Raises Conflict, NotFound, and ContractError for one that is too large."""
    whose = f"the draft of {draft.by}"
    if draft.body is not None and len(draft.body) > MOST_BYTES:
        raise ContractError(whose, f"it has {len(draft.body)} bytes, the limit is {MOST_BYTES}")
    expected = -1 if draft.expected is None else draft.expected
    about = (draft.session_id, draft.ticket_no, draft.by, expected)
    texts = [] if draft.body is None else [squeeze(draft.body)]
    became, version = shards.call(scripts.DRAFT, shards.home(draft.session_id), about, texts)
    if became < 0:
        raise NotFound("session", draft.session_id)
    if not became:
        whose += f" on ticket {draft.ticket_no} of {draft.session_id}"
        raise Conflict(f"{whose} is at version {version}, not {draft.expected}")


def _draft(shards: Shards, query: FindDraft) -> DraftRow | None:
    key = shards.keys[shards.home(query.session_id)].drafts(query.session_id)
    (kept,) = shards.ask([("HGET", key, f"{query.ticket_no}:{query.by}")])
    if kept is None:
        return None
    return DraftRow(
        version=int.from_bytes(kept[:_VERSION]),
        at=int.from_bytes(kept[_VERSION : _VERSION + _AT]),
        body=unsqueeze(kept[_VERSION + _AT :]),
    )
