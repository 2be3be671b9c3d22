"""What a store keeps beside sessions and their logs: drafts of people, and records by name. A part of `base`."""

from passdown.contracts.codec import Record


class Draft(Record, frozen=True, kw_only=True, tag=True):
    """Keep what a person has written about a ticket so far (None: forget it). Gone with its session.

    ``expected`` is the version that they had before (0: none; None: whatever it is). Raises Conflict where it is
    another one, NotFound where there is no such session.
    """

    session_id: str
    ticket_no: int
    by: str
    body: bytes | None
    expected: int | None = None


class RecordPut(Record, frozen=True, kw_only=True):
    """One record to write, at version ``expected`` (0: there must be none); ``body`` None removes it."""

    kind: str
    name: str
    expected: int
    body: bytes | None


class Records(Record, frozen=True, kw_only=True, tag=True):
    """Write records that belong to no session, all or none of them: at most `MOST_RECORDS`.

    Raises Conflict where one of them is at another version. After Unavailable read them again: a second try of what
    was written is a conflict.
    """

    records: list[RecordPut]


#: Records that one `Records` may write, and bytes that a draft or a record may have.
MOST_RECORDS = 100
MOST_BYTES = 65_536
