"""What can be asked of a store beside a session's own state and log; each query says what it answers."""

from passdown.contracts.codec import Record


class SessionRow(Record, frozen=True, kw_only=True):
    """What sessions are found by."""

    session_id: str
    task_id: str
    task_name: str
    key: str
    plan: str
    stage: str
    status: str
    version: int
    opened_at: int
    updated_at: int
    #: The session whose fan-out opened this one. Branches are found by their parent's join, not by `FindSessions` and
    #: `FindEnded`, and are removed with it.
    parent: str = ""


class TicketRow(Record, frozen=True, kw_only=True):
    """What tickets are found by; only open ones have a row.

    A ticket that may be claimed is on offer in a ``lane``, sorted there by the text ``order``: all that who may take it
    depends on, but for ``excluded``, stands in the name of its lane. One that is held or snoozed is in none (empty).
    The store knows nothing of what either means. Times are store milliseconds.
    """

    session_id: str
    ticket_no: int
    version: int
    kind: str
    queue: str
    why: str
    about: str = ""
    opened_at: int
    priority: int = 0
    due_at: int | None = None
    holder: str = ""
    #: Until when it is held, or snoozed.
    until: int | None = None
    level: int = 0
    #: How often a claim of it lapsed.
    lapses: int = 0
    excluded: list[str] = []
    lane: str = ""
    order: str = ""


class FindSessions(Record, frozen=True, kw_only=True, tag=True):
    """Sessions, newest first; ``before`` is the last session id of the page before. Answers list[SessionRow]."""

    status: str | None = None
    plan: str | None = None
    task: str | None = None
    limit: int = 50
    before: str | None = None


class FindEnded(Record, frozen=True, kw_only=True, tag=True):
    """Sessions that may be removed: ended, changed last ``older_ms`` ago or longer, and nothing of them is open.

    Longest ago first. See `Remove` for what may be open of a session that ended. Answers list[SessionRow].
    """

    older_ms: int
    limit: int = 50


class FindTickets(Record, frozen=True, kw_only=True, tag=True):
    """Open tickets, oldest first; all that is named must hold. Answers list[TicketRow]."""

    queue: str | None = None
    session_id: str | None = None
    holder: str | None = None
    limit: int = 50


class FindLanes(Record, frozen=True, kw_only=True, tag=True):
    """The lanes in which a ticket is on offer, in no order. Answers list[LaneRow].

    However many tickets there are, this takes a time that depends on the number of lanes; with ``counted`` it may not.
    """

    counted: bool = False


class FindOffered(Record, frozen=True, kw_only=True, tag=True):
    """Tickets on offer in any of ``lanes``, sorted by ``order`` (then session and number). Answers list[TicketRow].

    Only those whose ``order`` is greater than ``after``. In a time that does not depend on how many tickets there are.
    """

    lanes: list[str]
    after: str = ""
    limit: int = 50


class FindDraft(Record, frozen=True, kw_only=True, tag=True):
    """What one person has written about a ticket so far. Answers DraftRow, or None."""

    session_id: str
    ticket_no: int
    by: str


class FindRecord(Record, frozen=True, kw_only=True, tag=True):
    """A record by its name. Answers RecordRow, or None."""

    kind: str
    name: str


class FindRecords(Record, frozen=True, kw_only=True, tag=True):
    """Records of a kind by name (in the order of their UTF-8 bytes), those after ``after``. Answers list[RecordRow]."""

    kind: str
    after: str = ""
    limit: int = 100


class FindQueues(Record, frozen=True, kw_only=True, tag=True):
    """Depth and age of each role queue. Answers list[QueueRow]."""


class FindCatalog(Record, frozen=True, kw_only=True, tag=True):
    """What is registered now. Answers Catalog."""


class FindDocument(Record, frozen=True, kw_only=True, tag=True):
    """A plan or tool by digest. Answers bytes, or None."""

    digest: str


class FindPack(Record, frozen=True, kw_only=True, tag=True):
    """The pack that an attempt was given. Answers bytes, or None."""

    session_id: str
    step: int
    attempt: int


class FindBeside(Record, frozen=True, kw_only=True, tag=True):
    """What stands beside a session's state. Answers Beside."""

    session_id: str


class FindQuarantine(Record, frozen=True, kw_only=True, tag=True):
    """What was refused, newest first, or one of it. Answers list[QuarantineRow]."""

    limit: int = 50
    id: int | None = None


class FindJoin(Record, frozen=True, kw_only=True, tag=True):
    """The record of a join. Answers JoinRecord, or None."""

    join_id: str


class FindRows(Record, frozen=True, kw_only=True, tag=True):
    """Rows of a join by place: those of ``places`` from ``first`` on that there are. Answers list[RowOfJoin]."""

    join_id: str
    first: int = 0
    places: int = 500


class FindPage(Record, frozen=True, kw_only=True, tag=True):
    """A part of a session's list. Answers bytes, or None."""

    session_id: str
    name: str
    number: int


class JoinRecord(Record, frozen=True, kw_only=True):
    """How a join stands: ``counts`` has the number of its rows by outcome.

    ``version`` counts its changes: each row that was written, and each `JoinPut` but the one that made it.
    ``rewrites`` counts those that replaced one of a branch that had ended (not `UNENDED`); ``closed_at`` is the version that it was closed on, None before.
    """

    join_id: str
    version: int
    rewrites: int
    counts: dict[str, int]
    closed_at: int | None = None


class RowOfJoin(Record, frozen=True, kw_only=True):
    """A row of a join; ``order`` is the version of the record that it made."""

    place: int
    branch: str
    session_id: str
    outcome: str
    order: int
    about: bytes


class LaneRow(Record, frozen=True, kw_only=True):
    """A lane; ``waiting`` tickets are on offer in it (0 where they were not counted)."""

    lane: str
    waiting: int = 0


class DraftRow(Record, frozen=True, kw_only=True):
    """A draft as it was last kept, ``at`` the store's time; ``version`` counts from 1."""

    version: int
    at: int
    body: bytes


class RecordRow(Record, frozen=True, kw_only=True):
    """A record; ``version`` counts its changes, from 1."""

    kind: str
    name: str
    version: int
    body: bytes


class QueueRow(Record, frozen=True, kw_only=True):
    """One role queue: ``ready`` may be taken, ``reserved`` is taken but not claimed, ``running`` is claimed."""

    role: str
    ready: int
    reserved: int
    running: int
    oldest_ms: int


class Catalog(Record, frozen=True, kw_only=True):
    """Current names → digests (plans as ``name@version``), and the registrations so far."""

    version: int
    plans: dict[str, str]
    tools: dict[str, str]


class Beside(Record, frozen=True, kw_only=True):
    """Lease of the running claim (milliseconds left, None: none), last hand-back, and what is only counted."""

    lease_left_ms: int | None = None
    handed_back: str = ""
    counts: dict[str, int] = {}


class QuarantineRow(Record, frozen=True, kw_only=True):
    """One refused message."""

    id: int
    at: int
    source: str
    reason: str
    body: bytes


Query = (
    FindSessions
    | FindEnded
    | FindTickets
    | FindLanes
    | FindOffered
    | FindDraft
    | FindRecord
    | FindRecords
    | FindQueues
    | FindCatalog
    | FindDocument
    | FindPack
    | FindBeside
    | FindQuarantine
    | FindJoin
    | FindRows
    | FindPage
)
Found = (
    list[SessionRow]
    | list[TicketRow]
    | list[LaneRow]
    | list[RecordRow]
    | DraftRow
    | RecordRow
    | list[QueueRow]
    | list[QuarantineRow]
    | list[RowOfJoin]
    | JoinRecord
    | Catalog
    | Beside
    | bytes
    | None
)
