"""A tick's ask of every shard, one after the other, and what their answers come to.

A shard that is asked last gets what the others left of the limit; which one begins changes with each ask. So
entries come in order of time within a shard, and one that has much to do keeps no other from its turn.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from passdown.broker.stores.base import DueNow, DueRequest, Dues, ToTell

#: What one ask of a shard brings at most.
MOST_ENTRIES = 1000
_OF_AN_ENTRY, _OF_A_TELLING = 5, 4


class Asked(NamedTuple):
    """What a tick saw of a shard when it asked last: its time, and by how much leases were postponed till then."""

    at: int
    postponed: int


class _Answer(NamedTuple):
    """What one shard said. Entries and tellings come with when they were due (store milliseconds)."""

    now: int
    next_at: int
    jump: int
    catalog: int
    entries: list[tuple[int, DueNow]]
    tell: list[tuple[int, ToTell]]
    ring: list[str]


class Ticks:
    """What this process remembers of its asks: how long ago each shard was answered, and what it said then."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._turn = itertools.count()
        self._asked: dict[int, Asked] = {}
        self._unanswered_ms: dict[int, int | None] = {}
        #: The catalog's version on each shard, as the last ask found it.
        self.catalogs: list[int] = [0] * shards

    def ask(self, request: DueRequest, ask: Callable[[int, tuple[Any, ...]], list[Any]]) -> Dues:
        """Ask all shards; `ask` runs `due.lua` on one with what it takes, and returns what it says."""
        began = time.monotonic()
        first = next(self._turn) % self._shards
        left, to_tell = min(request.limit, MOST_ENTRIES), min(request.tell, MOST_ENTRIES)
        answers: list[_Answer] = []
        for shard in (*range(first, self._shards), *range(first)):
            answer = self._ask_one(request, shard, (left, to_tell), began, ask)
            left -= len(answer.entries)
            to_tell -= len(answer.tell)
            answers.append(answer)
        return _together(answers)

    def _ask_one(
        self,
        request: DueRequest,
        shard: int,
        room: tuple[int, int],
        began: float,
        ask: Callable[[int, tuple[Any, ...]], list[Any]],
    ) -> _Answer:
        ticks = bool(request.limit)
        elapsed = None
        unanswered = self._unanswered_ms.get(shard, 0)
        if ticks and request.elapsed_ms is not None and unanswered is not None:
            # Asking the shards before this one took time, too, and must not look like a jump of the clock.
            elapsed = request.elapsed_ms + unanswered + int((time.monotonic() - began) * 1000)
        if ticks:
            # What went by until an ask that got no answer still counts at the next one.
            self._unanswered_ms[shard] = elapsed
        last = self._asked.get(shard)
        answer = ask(
            shard,
            (
                room[0],
                request.reserve_ms,
                -1 if elapsed is None else elapsed,
                -1 if last is None else last.at,
                0 if last is None else last.postponed,
                room[1],
                int(ticks),
            ),
        )
        if ticks:
            self._unanswered_ms[shard] = 0
            self._asked[shard] = Asked(answer[0], answer[3])
            self.catalogs[shard] = answer[4]
        return _answer_of(answer)


def _answer_of(answer: list[Any]) -> _Answer:
    now, next_at, jump, _, catalog, entries, tell, ring = answer
    return _Answer(
        now=now,
        next_at=next_at,
        jump=jump,
        catalog=catalog,
        entries=[_entry(*entries[at : at + _OF_AN_ENTRY]) for at in range(0, len(entries), _OF_AN_ENTRY)],
        tell=[_telling(*tell[at : at + _OF_A_TELLING]) for at in range(0, len(tell), _OF_A_TELLING)],
        ring=[role.decode() for role in ring],
    )


def _entry(session_id: bytes, kind: bytes, subject: bytes, at: int, due_at: int) -> tuple[int, DueNow]:
    named: Any = kind.decode()
    return due_at, DueNow(session_id=session_id.decode(), kind=named, subject=subject.decode(), at=at)


def _telling(session_id: bytes, after: int, upto: int, due_at: int) -> tuple[int, ToTell]:
    return due_at, ToTell(session_id=session_id.decode(), after=after, upto=upto)


def _together(answers: list[_Answer]) -> Dues:
    entries = [one for answer in answers for one in answer.entries]
    tell = [one for answer in answers for one in answer.tell]
    entries.sort(key=lambda one: one[0])
    tell.sort(key=lambda one: one[0])
    return Dues(
        entries=[entry for _, entry in entries],
        ring=list(dict.fromkeys(role for answer in answers for role in answer.ring)),
        now=max(answer.now for answer in answers),
        next_ms=min(answer.next_at - answer.now for answer in answers),
        postponed_ms=max(answer.jump for answer in answers),
        tell=[one for _, one in tell],
    )
