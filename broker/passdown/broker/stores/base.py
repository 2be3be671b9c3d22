"""What a store must do: ten methods, no policy. Every store passes `tests/conformance/store_suite.py`.

The rules live in the core; a store compares a version, writes, and keeps time. All times that a store
hands out are its own clock in whole milliseconds since the epoch; times given to it are durations, so
that no other machine's clock matters. Every method may raise Unavailable, after which nothing, or all,
of what was asked has happened: retry with the same command id.
"""

from typing import Literal, Protocol

from passdown.broker.stores.joining import JoinPut, JoinRow, JoinSeen, Page
from passdown.broker.stores.queries import Found, Query, SessionRow, TicketRow
from passdown.broker.stores.records import Draft, Records
from passdown.contracts.codec import Record
from passdown.contracts.commands import DueKind
from passdown.contracts.plans import PlanRef
from passdown.contracts.tools import ToolSpec


class Enqueue(Record, frozen=True, kw_only=True):
    """Put a pack on its role queue; it replaces what the session has there."""

    role: str
    step: int
    attempt: int
    digest: str
    pack: bytes
    priority: int = 0
    solo: bool = False


class DueEntry(Record, frozen=True, kw_only=True):
    """Something that a session waits for: due ``after_ms`` from the commit. ``at`` names it to `decide`."""

    kind: DueKind
    subject: str
    at: int
    after_ms: int


class Lease(Record, frozen=True, kw_only=True):
    """A claim's lease begins with this commit."""

    claim_id: str
    role: str
    lease_ms: int


class Commit(Record, frozen=True, kw_only=True):
    """One atomic step of one session.

    ``expected`` is the version that the state was loaded at (0: the session must not exist);
    ``events`` are the logged events ``expected + 1 …``, so the version after is ``expected + len(events)``.
    A command id that is recorded already wins over the comparison of versions.
    """

    session_id: str
    command_id: str
    #: Digest of the command's content: the same id with another content is a conflict.
    command_digest: str
    expected: int
    events: list[bytes]
    state: bytes
    row: SessionRow
    reply: bytes
    #: A pack to enqueue, "withdraw" for what is queued, or None to leave the queue alone.
    queue: Enqueue | Literal["withdraw"] | None = None
    #: All due entries and all open tickets of the session from here on; None leaves them alone.
    dues: list[DueEntry] | None = None
    tickets: list[TicketRow] | None = None
    #: A lease that begins, or what becomes of the one held; None leaves it alone. "end" removes it.
    #: "cancel": `renew` answers *cancelled* and no longer extends it; it still falls due.
    #: "tell": the claim is over; `renew` answers *cancelled* until it would have run out, it never falls due.
    lease: Lease | Literal["end", "cancel", "tell"] | None = None
    #: How many registrations the decision knew of, where it issues a pack: Stale where there were more by then,
    #: for a pack carries what is registered now (DESIGN §7). None: that does not matter.
    catalog: int | None = None
    #: Something is to be told outside up to the version after: `due` hands the session out for that, until `Told`.
    tell: bool = False
    #: A new session whose pack finds so many others on its role's queue is not opened (0: no limit).
    room: int = 0
    #: Digest of the event that the first of ``events`` follows on (empty: none, or not to be compared). Stale where the
    #: session's last event is another one: in a store that lost its last moments, or was put back to an older copy,
    #: the same version may have been reached in another way since (DESIGN §6). A state names its last event by this
    #: digest (`State.head`), so a store may look for it there.
    prev: str = ""
    #: What a parent says of its join, and what a branch does. The record of the join lies on their shard, and belongs to
    #: the parent (`passdown.contracts.ids.session_of`). A row for a join of which there is no record is left out.
    join: JoinPut | None = None
    join_row: JoinRow | None = None


class Committed(Record, frozen=True, kw_only=True, tag=True):
    """Written. ``ring``: the roles whose pools must be told (DESIGN §4, doorbells).

    ``woke``: the joins that must be looked at by this; `due` hands them out as well, after a moment (`WOKEN_MS`).
    """

    version: int
    now: int
    ring: list[str] = []
    woke: list[str] = []


class Repeated(Record, frozen=True, kw_only=True, tag=True):
    """The command id is recorded already, with the same content: nothing was written."""

    reply: bytes


class Stale(Record, frozen=True, kw_only=True, tag=True):
    """Nothing was written: the version or the catalog moved on (or, with ``clash``, the command id has another content)."""

    version: int
    clash: bool = False


class Full(Record, frozen=True, kw_only=True, tag=True):
    """Nothing was written: on the role's queue there is no ``room`` for a new session's pack."""

    role: str
    waiting: int


Outcome = Committed | Repeated | Stale | Full


class Loaded(Record, frozen=True, kw_only=True):
    """A session as it stands. ``state`` is None where there is none; ``catalog`` counts registrations.

    ``reply`` is the recorded outcome of the command id that was asked for, ``clash`` says that it was
    recorded with another content. ``removed``: how the session ended, where it was removed under the
    retention rules (`Remove`); only the command that opened it is still answered then.
    """

    state: bytes | None
    version: int
    now: int
    catalog: int
    reply: bytes | None = None
    clash: bool = False
    removed: str = ""


class TakeRequest(Record, frozen=True, kw_only=True):
    """Take up to ``slots`` packs of a role: by score, reserved for ``claim_by_ms``.

    With ``holding`` true the drain holds other packs, so solo ones are left; a solo pack that is taken
    comes alone. ``role_limit`` and ``task_limit`` bound what runs at once, counted from live leases and
    reservations, never from a counter (0: no limit). ``linger_ms``: where nothing is found, the drain looks
    again within that time; until then the role counts as rung, so that commits ring for nobody.
    """

    role: str
    slots: int
    claim_by_ms: int
    holding: bool = False
    role_limit: int = 0
    task_limit: int = 0
    linger_ms: int = 0


class TakenPack(Record, frozen=True, kw_only=True):
    """A pack with the state that it belongs to, so that the claim can be decided without a load."""

    session_id: str
    step: int
    attempt: int
    pack: bytes
    state: bytes
    version: int
    solo: bool


class Taken(Record, frozen=True, kw_only=True):
    """``more``: takeable packs remain, so ring on. Taking cleared the role's bell."""

    packs: list[TakenPack]
    more: bool
    now: int
    catalog: int


class HandBack(Record, frozen=True, kw_only=True):
    """End a reservation before the claim; takeable again after ``after_ms``. ``why`` is shown by `status`."""

    session_id: str
    step: int
    attempt: int
    after_ms: int
    why: str


class Renewal(Record, frozen=True, kw_only=True):
    """Keep a lease: it runs ``lease_ms`` from now."""

    session_id: str
    claim_id: str
    lease_ms: int


Verdict = Literal["held", "lost", "cancelled"]


class DueRequest(Record, frozen=True, kw_only=True):
    """Reserve up to ``limit`` due entries for ``reserve_ms``, and ring for roles that wait in vain.

    ``elapsed_ms`` is how long ago this tick asked last by its monotonic clock (None: never). Where the
    store's clock went further ahead than that since any tick last asked, all leases are postponed by the
    jump first. ``tell``: reserve up to so many sessions about which something is to be told outside, beside
    the ``limit`` and for the same time (0: this tick tells nobody). With ``limit`` 0 that is all: nobody is
    rung, and neither clocks nor what was removed long ago are seen to, for whoever asks so is no tick.
    """

    limit: int
    reserve_ms: int
    elapsed_ms: int | None = None
    tell: int = 0


class DueNow(Record, frozen=True, kw_only=True):
    """A reserved due entry; for ``lease`` the subject is the claim's id and ``at`` is 0.

    For ``join`` the session is the parent, the subject the join's id, and ``at`` the version of its record
    (`JoinSeen`).
    """

    session_id: str
    kind: DueKind
    subject: str
    at: int


class ToTell(Record, frozen=True, kw_only=True):
    """Of a reserved session's log, what comes after seq ``after``, up to ``upto`` at least, was told nobody yet.

    ``after`` is the highest seq that `Told` named (0: none); ``upto`` the version after the last commit with
    ``tell``.
    """

    session_id: str
    after: int
    upto: int


class Dues(Record, frozen=True, kw_only=True):
    """``next_ms``: until the earliest unreserved entry, at most a minute. ``ring``: roles to ring for."""

    entries: list[DueNow]
    ring: list[str]
    now: int
    next_ms: int
    #: By how much leases were postponed because the clock had jumped.
    postponed_ms: int = 0
    #: Sessions to tell of, in the order in which that became due.
    tell: list[ToTell] = []


class Documents(Record, frozen=True, kw_only=True, tag=True):
    """Register plans and tools: kept by digest, and current under their name. Raises `catalog`."""

    plans: list[tuple[PlanRef, bytes]] = []
    tools: list[tuple[str, ToolSpec]] = []


class Quarantine(Record, frozen=True, kw_only=True, tag=True):
    """Keep what was refused, for inspection (rule 11)."""

    source: str
    reason: str
    body: bytes


class Count(Record, frozen=True, kw_only=True, tag=True):
    """Count something beside the state (rule 2: fenced returns beyond the cap)."""

    session_id: str
    name: str


class Drop(Record, frozen=True, kw_only=True, tag=True):
    """Forget a message that was kept in quarantine; without effect where it is gone."""

    id: int


class Told(Record, frozen=True, kw_only=True, tag=True):
    """A session's log was told outside up to ``seq``; `due` hands the session out again, at once, where there is more.

    A lower ``seq`` than one before takes nothing back, a higher one than the session's version means that version.
    Without effect where there is no such session.
    """

    session_id: str
    seq: int


class Remove(Record, frozen=True, kw_only=True, tag=True):
    """Remove an ended session and all that belongs to it, unless it is at another version by now.

    Without effect where anything of it is still open: a pack in the queue, a claim (other than one that is
    over, which its worker may still be told), a due entry, a ticket, or something to be told.

    For ``keep_ms`` more the store knows how it ended (``status``), and the outcome of the command that opened
    it: the same submit, sent again, must not open it anew (a commit with ``expected`` 0 is Repeated for that
    command, and Stale at version 0 for any other). Then `due` forgets it, and nothing is left of it.
    """

    session_id: str
    version: int
    status: str
    keep_ms: int


Put = Documents | Quarantine | Count | Drop | Told | Remove | JoinSeen | Page | Draft | Records

#: Of what was refused so much is kept for inspection; the oldest goes first.
MOST_QUARANTINED = 10_000


class Store(Protocol):
    """The truth (rule 1). Thread-safe; several processes may use one store.

    A session lives on one of its ``shards``, which its id names; the number is fixed when the store is made.
    """

    @property
    def shards(self) -> int:
        """Over how many shards sessions are spread (`passdown.contracts.ids.session_id`)."""
        ...

    def load(self, session_id: str, command_id: str = "", command_digest: str = "") -> Loaded:
        """Return the session's state, and the recorded outcome of `command_id` if one is named."""
        ...

    def commit(
        self, commits: list[Commit], take: TakeRequest | None = None
    ) -> tuple[list[Outcome], Taken | None]:
        """Write each commit as one atomic step (each by itself), then take; all in one round trip."""
        ...

    def take(self, request: TakeRequest) -> Taken:
        """Reserve packs of a role, and clear its bell in the same atomic step."""
        ...

    def hand_back(self, back: HandBack) -> None:
        """End a reservation; without effect where the pack was claimed or withdrawn meanwhile."""
        ...

    def renew(self, renewals: list[Renewal]) -> list[Verdict]:
        """Keep leases; a lease that ran out but was not declared lost yet is still good."""
        ...

    def due(self, request: DueRequest) -> Dues:
        """Reserve what is due, in order of time; an entry that is not dealt with comes again."""
        ...

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return logged events in order, from seq `after` + 1."""
        ...

    def find(self, query: Query) -> Found:
        """Answer a query; each says what it answers."""
        ...

    def put(self, what: Put) -> None:
        """Keep what stands beside sessions and their logs; each says what it is, and what it raises."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
