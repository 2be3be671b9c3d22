"""Taking from shards: one is taken from in the same round trip as the commits, the others are looked at.

Looking is taking with no slots: it clears that shard's bell in the step that reads its queue, and tells whether
packs may be taken. So a doorbell that wakes a drain is answered on every shard, and what the drain does not take
is said to be there (``more``). Where the shard whose turn it was had nothing, another that has something is taken
from, in a second round trip.

A limit is split among the shards, for no script sees two of them: each may have its share of what runs at once,
the first ones one more where it does not come out even, and each at least one. So a limit that is smaller than
the number of shards is exceeded where all of them have work.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from passdown.broker.stores.base import Taken, TakenPack, TakeRequest
from passdown.broker.stores.redis.packed import unsqueeze

#: Slots that one script fills at most.
MOST_SLOTS = 1000
#: What is known of a pack, and its texts.
_OF_A_PACK, _TEXTS = 5, 4

_decode = msgspec.msgpack.Decoder(list[Any]).decode


class Answer(NamedTuple):
    """What one shard said."""

    more: bool
    now: int
    catalog: int
    packs: list[TakenPack]


def share_of(limit: int, shard: int, shards: int) -> int:
    """Return what a shard may have of a limit (0: there is none)."""
    return limit and max(1, limit // shards + (shard < limit % shards))


def request_of(
    request: TakeRequest, slots: int, shard: int, shards: int, *, lingers: bool
) -> tuple[Any, ...]:
    """Return what `take.lua` takes. ``lingers``: the drain looks again by itself, whatever other shards have."""
    return (
        request.role,
        min(slots, MOST_SLOTS),
        request.claim_by_ms,
        int(request.holding),
        share_of(request.role_limit, shard, shards),
        share_of(request.task_limit, shard, shards),
        request.linger_ms if lingers else 0,
    )


def answer_of(reply: list[Any]) -> Answer:
    """Return what the script's answer says."""
    more, now, catalog, *known = _decode(reply[0])
    starts = zip(range(0, len(known), _OF_A_PACK), range(1, len(reply), _TEXTS), strict=True)
    packs = [_pack(known[at : at + _OF_A_PACK], reply[start : start + _TEXTS]) for at, start in starts]
    return Answer(bool(more), now, catalog, packs)


def _pack(known: list[Any], texts: list[Any]) -> TakenPack:
    session_id, step, attempt, solo, version = known
    state, pack, for_state, for_pack = texts
    return TakenPack(
        session_id=session_id,
        step=step,
        attempt=attempt,
        pack=unsqueeze(pack, for_pack),
        state=unsqueeze(state, for_state),
        version=version,
        solo=bool(solo),
    )


class Turns:
    """Whose turn it is: each take begins with the next shard."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._next = itertools.count()

    def order(self) -> list[int]:
        """Return all shards, the one whose turn it is first."""
        first = next(self._next) % self._shards
        return [*range(first, self._shards), *range(first)]


def settle(order: list[int], answers: list[Answer], slots: int, take_from: Callable[[int], Answer]) -> Taken:
    """Return what the shards gave, in the order in which they were asked; take from another if the first had none."""
    given = dict(zip(order, answers, strict=True))
    for shard in order[1:]:
        if given[order[0]].packs or not slots:
            break
        if given[shard].more:
            given[shard] = take_from(shard)
            if given[shard].packs:
                break
    return Taken(
        packs=[pack for answer in given.values() for pack in answer.packs],
        more=any(answer.more for answer in given.values()),
        now=max(answer.now for answer in given.values()),
        # An older one is made good: a commit on a shard that is ahead is stale, and loads it anew.
        catalog=min(answer.catalog for answer in given.values()),
    )
