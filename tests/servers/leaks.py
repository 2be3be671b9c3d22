"""Finds what a store left in Redis that its retention rules do not know, so that a test which leaves it fails.

Database 0 of a test's server is the store's: what else a test needs of Redis goes into another one. Where no
store was made there, nothing is looked at.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from passdown.broker.stores.redis.keys import FAMILIES, PREFIX, Keys, family_of, shard_of
from passdown.contracts.ids import session_of

#: Sorted sets whose members stand for tombstones, and those for anything but a session that there is: members of
#: `restarted` and `unopened` go after a while, whatever became of the session.
OF_TOMBSTONES = {"forget"}
OF_OTHERS = {"roles", "restarted", "unopened", "record-names"}
#: Keys of a session that may come before it, for as long as it stands among the `unopened`.
BEFORE_SESSIONS = {"pages"}
#: The members of all others each stand for something of a session.
OF_SESSIONS = {family.name for family in FAMILIES if family.type == "zset"} - OF_TOMBSTONES - OF_OTHERS

# A member names its session at its end, or before or between zero bytes.
_SESSION = re.compile(rb"s[0-9]+-[A-Za-z0-9_-]+")


class Look:
    """One look at all keys of a store, whose prefix is told from them."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.keys = {key: (kind, ttl) for key, kind, ttl in _described(client)}
        self.shards = {
            _prefix_of(key): int(client.hget(key, "shards") or 0)
            for key in self.keys
            if re.fullmatch(r"[^{]*:\{0\}:meta", key)
        }
        #: The sessions of each shard, by what its keys begin with.
        self.sessions: dict[str, set[bytes]] = defaultdict(set)
        for key in self.keys:
            base, is_session, session_id = key.partition("session:")
            if is_session:
                self.sessions[base].add(session_id.encode())

    def leaks(self) -> list[str]:
        """Return each leak as ``key: what is wrong with it``, in order."""
        if not self.shards:
            return []
        return sorted(f"{key}: {why}" for key in self.keys for why in self._faults(key))

    def _faults(self, key: str) -> Iterator[str]:
        kind, ttl = self.keys[key]
        prefix = _prefix_of(key)
        family = family_of(key, prefix) if prefix in self.shards else None
        if family is None:
            yield "no family of keys knows it"
            return
        if ttl != -1:
            yield f"it has a time to live ({ttl} s)"
        if kind != family.type:
            yield f"it is a {kind}, and its family says {family.type}"
            return
        tag, _, what = key.removeprefix(f"{prefix}:{{").partition("}:")
        if not int(tag) < self.shards[prefix]:
            yield f"the store has {self.shards[prefix]} shards"
        if family.each in ("session id", "join id"):
            session_id = session_of(what.partition(":")[2])
            yield from self._faults_of_session(prefix, tag, session_id, family.name)
        if family.name == "join":
            yield from self._faults_of_join(prefix, tag, what.partition(":")[2])
        if family.name in ("lane", "lanes"):
            yield from self._faults_of_lanes(key, Keys(int(tag), prefix))
        if family.name in OF_SESSIONS | OF_TOMBSTONES:
            yield from self._strangers(key, f"{prefix}:{{{tag}}}:", family.name)

    def _faults_of_session(self, prefix: str, tag: str, session_id: str, family: str) -> Iterator[str]:
        base = f"{prefix}:{{{tag}}}:"
        if shard_of(session_id, self.shards[prefix]) != int(tag):
            yield "its session lives on another shard"
        if session_id.encode() in self.sessions[base]:
            return
        if family not in BEFORE_SESSIONS:
            yield "there is no such session"
        elif self.client.hexists(f"{base}gone", session_id):
            yield "its session was removed"
        elif self.client.zscore(f"{base}unopened", session_id) is None:
            yield "its session is not there, and nobody would forget it"

    def _faults_of_join(self, prefix: str, tag: str, join_id: str) -> Iterator[str]:
        named = self.client.lrange(f"{prefix}:{{{tag}}}:joins:{session_of(join_id)}", 0, -1)
        if named.count(join_id.encode()) != 1:
            yield "its session names it not once"

    def _faults_of_lanes(self, key: str, keys: Keys) -> Iterator[str]:
        lanes = {keys.lane(lane.decode()): lane for lane in self.client.smembers(keys.lanes)}
        if key != keys.lanes:
            if key not in lanes:
                yield "no lane is called so"
            return
        for name, lane in lanes.items():
            if name not in self.keys:
                yield f"its lane {lane!r} is empty"

    def _strangers(self, key: str, base: str, family: str) -> Iterator[str]:
        """Yield the members that stand for sessions, or tombstones, which do not exist."""
        known = set(self.client.hkeys(f"{base}gone")) if family in OF_TOMBSTONES else self.sessions[base]
        for member, _ in self.client.zscan_iter(key, count=1000):
            if not any(name in known for name in _named(member)):
                yield f"its member {member!r} is of no {'tombstone' if family in OF_TOMBSTONES else 'session'} there is"


def leaks(client: Any) -> list[str]:
    """Return what is in this database, with a store in it, that no retention rule knows."""
    return Look(client).leaks()


def _named(member: bytes) -> Iterator[bytes]:
    """Yield what may be the id of the session that a member names."""
    yield from member.split(b"\0")
    for found in _SESSION.finditer(member):
        if found.end() == len(member):
            yield found[0]


def _prefix_of(key: str) -> str:
    prefix = key.partition(":{")[0]
    return prefix if PREFIX.fullmatch(prefix) else ""


def _described(client: Any) -> Iterator[tuple[str, str, int]]:
    """Yield each key with its type and its time to live (seconds; -1: none)."""
    keys: list[bytes] = list(client.scan_iter(count=1000))
    for some in (keys[at : at + 1000] for at in range(0, len(keys), 1000)):
        asking = client.pipeline(transaction=False)
        for key in some:
            asking.type(key).ttl(key)
        said = asking.execute()
        for at, key in enumerate(some):
            # A key that is gone by now has expired, or the store is still at work.
            if said[2 * at] != b"none":
                yield key.decode(errors="replace"), said[2 * at].decode(), said[2 * at + 1]
