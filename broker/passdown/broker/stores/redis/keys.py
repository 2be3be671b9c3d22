"""Every key of the store, and what bounds its growth.

A shard's keys all carry its tag, ``pd:{0}:…``, so that they lie in one hash slot and one script may touch
them (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags). ``pd`` is the
store's prefix, the number is the shard's. No key has a time to live: under ``noeviction`` nothing may
vanish by itself; `due` and `Remove` clear away what nobody needs any more.
"""

import hashlib
import re
from typing import NamedTuple

#: Before the tag: no brace may come before the shard's, and a colon ends the prefix.
PREFIX = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_SHARD = re.compile(r"s(0|[1-9][0-9]{0,3})-")
#: Scores in a role's queue, as common.lua has them.
RESERVED, POSTPONED = 100_000_000_000_000, 200_000_000_000_000
#: Shards that a store may have at most.
MOST_SHARDS = 1024


class Family(NamedTuple):
    """Keys of one form: ``name`` comes after the tag, and with ``each`` something more after a colon."""

    name: str
    type: str
    each: str
    bound: str


#: All forms of keys. A key that is none of them is a leak.
FAMILIES = (
    Family("meta", "hash", "", "a dozen fields: format, shards, clock, counters"),
    Family(
        "catalog",
        "hash",
        "",
        "shard 0: one field for each name of a plan or tool ever registered; others: one field",
    ),
    Family("documents", "hash", "", "shard 0 only; one field for each digest of a plan or tool registered"),
    Family("quarantine", "stream", "", "shard 0 only; MOST_QUARANTINED messages, the oldest goes first"),
    Family(
        "roles",
        "zset",
        "",
        "one member for each role that has a pack or a claim, until `due` finds that it has none",
    ),
    Family(
        "bells",
        "hash",
        "",
        "one field for each role that is rung, until it is answered or `due` finds it empty",
    ),
    Family("queue", "zset", "role", "one member for each pack of the role; gone when there is none"),
    Family("queued", "zset", "role", "the same, by when it was queued"),
    Family("busy", "zset", "role", "one member for each claim of the role that stands"),
    Family(
        "busy-task",
        "zset",
        "task id",
        "one member for each reservation and each claim of the task that stands, if a task's limit was ever named",
    ),
    Family(
        "dues",
        "zset",
        "",
        "one member for each due entry, a session's state bounds how many it has; one for each join to look at",
    ),
    Family("leases", "zset", "", "one member for each claim that stands"),
    Family(
        "handed", "zset", "", "entries of `dues` and `leases` that a tick was handed, for as long as it said"
    ),
    Family(
        "restarted",
        "zset",
        "",
        "one member for each claim that stood when the server was started anew, for a while",
    ),
    Family("over", "zset", "", "one member for each claim that is over, until its lease would have run out"),
    Family("tell", "zset", "", "one member for each session of which something is to be told"),
    Family(
        "index",
        "zset",
        "",
        "four members for each session that is no branch (status, plan, task, its name), until `Remove`",
    ),
    Family(
        "tickets", "zset", "", "two members for each open ticket, and a third one while somebody holds it"
    ),
    Family("lane", "zset", "lane", "one member for each ticket on offer in it; gone when there is none"),
    Family("lanes", "set", "", "one member for each lane with a ticket on offer"),
    Family(
        "ended",
        "zset",
        "",
        "one member for each session that is no branch and may be removed, until `Remove`",
    ),
    Family("session", "hash", "session id", "one for each session, until `Remove`"),
    Family("log", "list", "session id", "one for each session, until `Remove`"),
    Family(
        "join", "hash", "join id", "one for each join, a field for each row; until `Remove` of its session"
    ),
    Family(
        "joins",
        "list",
        "session id",
        "one member for each join of the session, of which its plan bounds how many; until `Remove`",
    ),
    Family(
        "pages",
        "hash",
        "session id",
        "one field for each page of its lists, until `Remove`; where the session is never opened, see `unopened`",
    ),
    Family(
        "unopened",
        "zset",
        "",
        "one member for each session of which a page came before it, for PAGES_WAIT_MS after the last; then `due`"
        " forgets the pages, unless the session is there",
    ),
    Family(
        "drafts",
        "hash",
        "session id",
        "one field for each person who has written about one of its tickets, until `Remove`",
    ),
    Family("records", "hash", "kind", "shard 0 only; one field for each record, until it is removed"),
    Family("record-names", "zset", "kind", "shard 0 only; one member for each of these"),
    Family("gone", "hash", "", "one field for each session that was removed, for as long as `Remove` said"),
    Family("forget", "zset", "", "one member for each field of `gone`"),
)

_BY_NAME = {family.name: family for family in FAMILIES}


class Keys:
    """The keys of one shard. Each attribute or method is the family of the same name."""

    def __init__(self, shard: int, prefix: str = "pd") -> None:
        self.shard = shard
        #: Scripts get this as their one key, and derive the others from it.
        self.base = f"{prefix}:{{{shard}}}:"
        self.meta = f"{self.base}meta"
        self.catalog = f"{self.base}catalog"
        self.documents = f"{self.base}documents"
        self.quarantine = f"{self.base}quarantine"
        self.roles = f"{self.base}roles"
        self.bells = f"{self.base}bells"
        self.dues = f"{self.base}dues"
        self.leases = f"{self.base}leases"
        self.handed = f"{self.base}handed"
        self.restarted = f"{self.base}restarted"
        self.over = f"{self.base}over"
        self.tell = f"{self.base}tell"
        self.index = f"{self.base}index"
        self.tickets = f"{self.base}tickets"
        self.lanes = f"{self.base}lanes"
        self.ended = f"{self.base}ended"
        self.unopened = f"{self.base}unopened"
        self.gone = f"{self.base}gone"
        self.forget = f"{self.base}forget"

    def queue(self, role: str) -> str:
        """Packs that may be taken, by score (store milliseconds less a minute for each priority); then others.

        Those are the reserved ones, by `RESERVED` and when they may be taken again, and the postponed ones, by
        `POSTPONED` and the same.
        """
        return f"{self.base}queue:{role}"

    def queued(self, role: str) -> str:
        """All packs of the role, by when they were queued."""
        return f"{self.base}queued:{role}"

    def busy(self, role: str) -> str:
        """Claims that stand; their scores mean nothing."""
        return f"{self.base}busy:{role}"

    def busy_task(self, task_id: str) -> str:
        """Reservations, by when they run out, and claims that stand, at infinity; see `count_tasks` in take.lua."""
        return f"{self.base}busy-task:{task_id}"

    def session(self, session_id: str) -> str:
        """A session: its head, state, packs, commands, and what stands beside them."""
        return f"{self.base}session:{session_id}"

    def log(self, session_id: str) -> str:
        """A session's events, the one with seq 1 first."""
        return f"{self.base}log:{session_id}"

    def join(self, join_id: str) -> str:
        """The record of a join, and its rows; see joins.lua."""
        return f"{self.base}join:{join_id}"

    def joins(self, session_id: str) -> str:
        """The ids of a session's joins, the first one first."""
        return f"{self.base}joins:{session_id}"

    def pages(self, session_id: str) -> str:
        """Pages of a session's lists, each by its number, a colon and the list's name."""
        return f"{self.base}pages:{session_id}"

    def lane(self, lane: str) -> str:
        """Tickets on offer, by order, session and number with zero bytes between; a lane's name may be long."""
        short = hashlib.sha1(lane.encode(), usedforsecurity=False).hexdigest()
        return f"{self.base}lane:{short}"

    def drafts(self, session_id: str) -> str:
        """What people have written about a session's tickets, each by the ticket's number, a colon and the person."""
        return f"{self.base}drafts:{session_id}"

    def records(self, kind: str) -> str:
        """Records of a kind, each by its name."""
        return f"{self.base}records:{kind}"

    def record_names(self, kind: str) -> str:
        """Their names, all of one score: in the order of their bytes."""
        return f"{self.base}record-names:{kind}"


def shard_of(session_id: str, shards: int) -> int | None:
    """Return the shard on which a session lives; None where its id names none of them."""
    named = _SHARD.match(session_id)
    shard = int(named[1]) if named else shards
    return shard if shard < shards else None


def family_of(key: str, prefix: str = "pd") -> Family | None:
    """Return what a key is; None for one that is not of this store."""
    tagged = re.fullmatch(rf"{re.escape(prefix)}:\{{[0-9]+\}}:([a-z-]+)(:.*)?", key, re.DOTALL)
    family = _BY_NAME.get(tagged[1]) if tagged else None
    if tagged is None or family is None or bool(family.each) != (tagged[2] is not None):
        return None
    return family
