"""Reading a session's log, in a store or in an archive."""

from collections.abc import Iterator
from typing import Protocol, cast

from passdown.broker.stores.base import Loaded
from passdown.contracts.codec import decode_any
from passdown.contracts.events import Logged

_PAGE = 500


class Readable(Protocol):
    """Where sessions can be read: a store, or an archived session."""

    def load(self, session_id: str) -> Loaded:
        """Return the session's state."""
        ...

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return logged events in order, from seq `after` + 1."""
        ...


def events(source: Readable, session_id: str, *, after: int = 0, until: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a log in order, from the event after `after`, up to `until`."""
    while until is None or after < until:
        limit = _PAGE if until is None else min(_PAGE, until - after)
        page = source.events(session_id, after=after, limit=limit)
        if not page:
            return
        yield from page
        after += len(page)


def read_logged(raw: bytes) -> Logged:
    """Return a logged event. Raises ContractError."""
    return cast("Logged", decode_any(raw, Logged, what="log"))
