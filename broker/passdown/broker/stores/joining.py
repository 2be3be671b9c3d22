"""What a store is told of joins: their records belong to the parent, their rows to the branches (DESIGN §8)."""

from passdown.contracts.codec import Record

#: How long a join that was woken is left to whoever woke it (milliseconds), before `due` hands it out.
WOKEN_MS = 250
#: How long pages wait for their session to be opened (milliseconds), from the last of them on; a day.
PAGES_WAIT_MS = 86_400_000
#: Outcomes of a row whose branch has not ended yet: it goes on saying how that stands, also in a join that is closed.
UNENDED = ("open", "waiting")


class Wake(Record, frozen=True, kw_only=True):
    """A join is looked at once so many of its rows (``at``) have one of these ``outcomes``."""

    outcomes: list[str]
    at: int


class JoinClose(Record, frozen=True, kw_only=True):
    """What is decided about a join rests on its rows up to `JoinRecord.version` ``upto``.

    Stale where a row of a branch that had ended by then was written anew since (``rewrites`` is the record's count
    of that as it was read); what comes later is late. Rows that are `UNENDED` may change: nothing rests on them.
    """

    upto: int
    rewrites: int


class JoinPut(Record, frozen=True, kw_only=True):
    """A parent's side of a join, written with the parent's own commit: made by the first, changed by later ones.

    ``wakes`` replaces when the join is to be looked at; it is looked at, too, where one of them holds by now.
    """

    join_id: str
    wakes: list[Wake]
    close: JoinClose | None = None


class JoinRow(Record, frozen=True, kw_only=True):
    """A branch's mark in its join, written with the branch's own commit (rule 7: in nobody's way).

    ``place`` counts the branches from 0. A row replaces the one before it of the same place, except that in a
    join that is closed the rows it was closed on stay as they are, unless they are `UNENDED`. ``about`` is not
    looked into.
    """

    join_id: str
    place: int
    branch: str
    session_id: str
    outcome: str
    about: bytes


class JoinSeen(Record, frozen=True, kw_only=True, tag=True):
    """A join was looked at as of ``version`` of its record, and nothing follows: it is looked at again after a change.

    Without effect where it has changed since, or there is no such join.
    """

    join_id: str
    version: int


class Page(Record, frozen=True, kw_only=True, tag=True):
    """Keep a part of a list that is too long for a session's inputs: page ``number`` (from 0) of the list ``name``.

    It may come before the session is opened, and is removed with it. The same page again replaces it. Where the
    session was not opened `PAGES_WAIT_MS` after its last page came, `due` forgets all of them (rule 12).
    """

    session_id: str
    name: str
    number: int
    body: bytes
