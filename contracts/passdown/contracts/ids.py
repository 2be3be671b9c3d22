"""Identifiers, all derived from what they name: the same act always gets the same id.

A session's id carries its shard (``s0-…``) and an effect's id carries its session
(``s0-….e-…``), so that whoever holds an id knows where to look without an index.
"""

import hashlib

from passdown.contracts.codec import encode


def _short(*parts: object) -> str:
    return hashlib.sha256(encode(parts)).hexdigest()[:24]


def session_id(key: str, shards: int = 1) -> str:
    """Return the id of the session that a submit with this key opens."""
    name = _short("session", key)
    return f"s{int(name[:8], 16) % shards}-{name}"


def task_id(session: str) -> str:
    """Return the id of the task that is made for a session whose producer names none."""
    return f"t-{_short('task', session)}"


def join_id(session: str, step: int) -> str:
    """Return the id of the join that a session's step of fan-out ends with."""
    return f"{session}.j-{step}"


def branch_id(join: str, place: int) -> str:
    """Return the id of the session of a join's branch at a place (from 0); it lies on its parent's shard."""
    shard = join.partition("-")[0]
    return f"{shard}-{_short('branch', join, place)}"


def effect_id(session: str, step: int, tool: str, identity: object, n: int) -> str:
    """Return the idempotency key of the `n`-th call (from 1) of `tool` with `identity` in a step (DESIGN §6)."""
    return f"{session}.e-{_short(step, tool, identity, n)}"


def session_of(identifier: str) -> str:
    """Return the session's id from the id of an effect, a ticket or a pack."""
    return identifier.partition(".")[0].partition("/")[0]


def identity_digest(identity: object) -> str:
    """Return the short digest under which calls of equal identity are counted."""
    return _short(identity)


def command_id(*parts: object) -> str:
    """Return the id of an act from what makes it that act (claim + verb + number, ticket + version …)."""
    return _short("command", *parts)
