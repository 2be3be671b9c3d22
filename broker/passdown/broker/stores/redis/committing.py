"""Commits as the script takes them, and what it answers."""

from typing import Any

from passdown.broker.core.state import TERMINAL
from passdown.broker.stores.base import Commit, Committed, Enqueue, Full, Lease, Outcome, Repeated, Stale
from passdown.broker.stores.redis.packed import (
    as_it_is,
    filed_under,
    index_of,
    last_event,
    pack_row,
    pack_ticket,
    short_digest,
    squeeze,
    stand_in,
    unsqueeze,
)
from passdown.contracts.errors import ContractError

#: A priority is worth this much waiting, so that packs of low priority come up in the end.
PRIORITY_MS = 60_000
#: What one commit may bring at most of each: events, due entries, tickets.
MOST_ITEMS = 1000

#: Making a text smaller takes as long as writing it. So a state that is soon written over is kept as it is, and so
#: are replies and all events but long ones (bytes); of the first events of a log the first pack is made smaller.
_SOON_OVER = ("queued", "running")
_LONG_EVENT = 1000


def commit_of(commit: Commit, taking: str, shards: int) -> tuple[tuple[Any, ...], list[bytes]]:
    """Return what `commit.lua` takes. ``taking``: the role that the same call takes from, which is not rung for.

    The room that a queue has is divided among the shards.
    """
    row, queue = commit.row, commit.queue
    first_event = commit.events[0] if commit.events and not commit.expected else b""
    _bound("events", commit.events)
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
    )
    texts = [
        short_digest(commit.command_digest),
        as_it_is(commit.state) if row.status in _SOON_OVER else squeeze(commit.state),
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
    ]
    return about, texts


def outcome_of(commit: Commit, answer: list[Any]) -> Outcome:
    """Return what the script's answer says."""
    if answer[0] == b"c":
        return Committed(version=answer[1], now=answer[2], ring=[role.decode() for role in answer[3:]])
    if answer[0] == b"r":
        return Repeated(reply=unsqueeze(answer[1]))
    if answer[0] == b"f":
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
    return [
        (row.ticket_no, filed_under("queue", row.queue).hex(), row.opened_at, pack_ticket(row))
        for row in commit.tickets
    ]


def _bound(what: str, items: Any) -> None:
    if len(items) > MOST_ITEMS:
        raise ContractError("commit", f"it has {len(items)} {what}, and may have {MOST_ITEMS}")
