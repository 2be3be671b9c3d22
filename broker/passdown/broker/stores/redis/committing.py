"""Commits as the script takes them, and what it answers."""

from typing import Any

import msgspec

from passdown.broker.core.state import TERMINAL
from passdown.broker.stores.base import Commit, Committed, Enqueue, Full, Lease, Outcome, Repeated, Stale
from passdown.broker.stores.redis.joins import joins_of
from passdown.broker.stores.redis.keys import shard_of
from passdown.broker.stores.redis.packed import (
    as_it_is,
    index_of,
    last_event,
    pack_row,
    pack_ticket,
    short_digest,
    squeeze,
    squeeze_with,
    stand_in,
    unsqueeze,
)
from passdown.contracts.errors import ContractError

#: A priority is worth this much waiting, so that packs of low priority come up in the end.
PRIORITY_MS = 60_000
#: What one commit may bring at most of each: events, due entries, tickets.
MOST_ITEMS = 1000

#: What one call of the script brings, for as long as it runs the server does nothing else (2 ms): commits at most, and
#: bytes from which on no other is added.
MOST_COMMITS = 50
MOST_BYTES = 1_000_000

#: Making a text smaller takes as long as writing it. So a state that is soon written over is kept as it is, and so
#: are replies and all events but long ones (bytes); of the first events of a log the first pack is made smaller, and
#: of the last ones the last state.
_SOON_OVER = ("queued", "running")
_LONG_EVENT = 1000

_decode = msgspec.msgpack.Decoder(list[list[Any]]).decode


class Batch:
    """Commits of one call to one shard that go to it as one: what the script takes, and the commits' places in the call."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.places: list[int] = []
        self._about: list[tuple[Any, ...]] = []
        self._texts: list[bytes] = []
        self._bytes = 0

    def add(self, place: int, about: tuple[Any, ...], texts: list[bytes]) -> None:
        self.places.append(place)
        self._about.append(about)
        self._texts += texts
        self._bytes += sum(map(len, texts))

    def full(self) -> bool:
        return len(self.places) >= MOST_COMMITS or self._bytes >= MOST_BYTES

    def call(self) -> tuple[int, object, list[bytes]]:
        """Return shard, and what `commit.lua` takes."""
        return self.shard, self._about, self._texts


def batches_of(commits: list[Commit], taking: str, shards: int) -> list[Batch]:
    """Return what goes to the shards; of one shard in the order of the commits. ``taking``: see `commit_of`.

    Raises ContractError for a commit of more than a script takes, and for a session whose id names no shard.
    """
    batches: list[Batch] = []
    open_ones: dict[int, Batch] = {}
    for place, commit in enumerate(commits):
        shard = shard_of(commit.session_id, shards)
        if shard is None:
            raise ContractError(
                "session id",
                f"{commit.session_id!r} names none of the store's {shards} shards (s0-… to s{shards - 1}-…)",
            )
        batch = open_ones.get(shard)
        if batch is None or batch.full():
            batch = open_ones[shard] = Batch(shard)
            batches.append(batch)
        batch.add(place, *commit_of(commit, taking, shards))
    return batches


def commit_of(commit: Commit, taking: str, shards: int) -> tuple[tuple[Any, ...], list[bytes]]:
    """Return what `commit.lua` takes of each commit. ``taking``: the role that the same call takes from, which is not rung for.

    The room that a queue has is divided among the shards.
    """
    row, queue = commit.row, commit.queue
    first_event = commit.events[0] if commit.events and not commit.expected else b""
    _bound("events", commit.events)
    joins, marks = joins_of(commit, shards)
    about = (
        commit.session_id,
        commit.command_id,
        commit.expected,
        -1 if commit.catalog is None else commit.catalog,
        int(row.status in TERMINAL),
        row.task_id,
        row.opened_at,
        row.updated_at,
        len(commit.events),
        _queue(queue),
        _lease(commit.lease),
        _dues(commit),
        _tickets(commit),
        int(commit.tell),
        taking,
        -(-commit.room // shards),
        joins,
    )
    texts = [
        short_digest(commit.command_digest),
        _state(commit),
        as_it_is(commit.reply),
        pack_row(row),
        index_of(row),
        squeeze(queue.pack, first_event) if isinstance(queue, Enqueue) else b"",
        stand_in(commit.prev) if commit.prev else b"",
        stand_in(last_event(commit.state)),
        *(
            squeeze(event) if commit.expected and len(event) > _LONG_EVENT else as_it_is(event)
            for event in commit.events
        ),
        *marks,
    ]
    return about, texts


def _state(commit: Commit) -> bytes:
    if commit.row.status in _SOON_OVER:
        return as_it_is(commit.state)
    if commit.row.status not in TERMINAL or not commit.events:
        return squeeze(commit.state)
    # The longest is most likely the return that ended the session.
    longest = max(range(len(commit.events)), key=lambda at: len(commit.events[at]))
    return squeeze_with(commit.state, commit.events[longest], commit.expected + longest + 1)


def outcomes_of(commits: list[Commit], batches: list[Batch], replies: list[Any]) -> list[Outcome]:
    """Return what the script's replies to `batches` say of each commit."""
    outcomes: dict[int, Outcome] = {}
    for batch, reply in zip(batches, replies, strict=True):
        for place, answer in zip(batch.places, _decode(reply[0]), strict=True):
            outcomes[place] = _outcome_of(commits[place], answer, reply)
    return [outcomes[place] for place in range(len(commits))]


def _outcome_of(commit: Commit, answer: list[Any], reply: list[Any]) -> Outcome:
    if answer[0] == "c":
        return Committed(version=answer[1], now=answer[2], ring=answer[3:])
    if answer[0] == "w":
        return Committed(version=answer[1], now=answer[2], woke=answer[3], ring=answer[4:])
    if answer[0] == "r":
        return Repeated(reply=unsqueeze(reply[answer[1]]))
    if answer[0] == "f":
        return Full(role=_role_of(commit), waiting=answer[1])
    return Stale(version=answer[1], clash=bool(answer[2]))


def _role_of(commit: Commit) -> str:
    return commit.queue.role if isinstance(commit.queue, Enqueue) else ""


def _queue(queue: Enqueue | str | None) -> Any:
    if queue is None:
        return ""
    if not isinstance(queue, Enqueue):
        return queue
    bonus_ms = queue.priority * PRIORITY_MS
    return (queue.role, queue.step, queue.attempt, bonus_ms, int(queue.solo))


def _lease(lease: Lease | str | None) -> Any:
    if lease is None:
        return ""
    return (lease.claim_id, lease.role, lease.lease_ms) if isinstance(lease, Lease) else lease


def _dues(commit: Commit) -> Any:
    if commit.dues is None:
        return False
    # Of two that are the same entry the last one stands.
    entries = {(entry.kind, entry.subject): entry for entry in commit.dues}.values()
    _bound("due entries", entries)
    return [(entry.kind, entry.subject, entry.at, entry.after_ms) for entry in entries]


def _tickets(commit: Commit) -> Any:
    if commit.tickets is None:
        return False
    _bound("tickets", commit.tickets)
    for row in commit.tickets:
        if "\0" in row.order:
            raise ContractError(
                "commit", f"the order {row.order!r} of ticket {row.ticket_no} has a zero byte"
            )
    return [pack_ticket(row) for row in commit.tickets]


def _bound(what: str, items: Any) -> None:
    if len(items) > MOST_ITEMS:
        raise ContractError("commit", f"it has {len(items)} {what}, and may have {MOST_ITEMS}")
