"""What an examination finds, and what a store can tell about itself beyond its ten methods."""

from typing import Literal, Protocol, runtime_checkable

from passdown.contracts.codec import Record

#: All is well; it works, and something should be looked at; it does not work, or something can be lost.
Level = Literal["green", "yellow", "red"]


class Finding(Record, frozen=True, kw_only=True):
    """One thing that was looked at: ``what`` it is, what was ``found``, and what to do about it (``advice``)."""

    level: Level
    what: str
    found: str
    advice: str = ""


class Examination(Record, frozen=True, kw_only=True):
    """What a store tells about itself.

    ``asked_ms``: how long ago any tick asked last (None: never); ``overdue_ms``: for how long the oldest entry
    that is due has waited for one; ``to_tell``: sessions of which something waits to be told outside.
    """

    findings: list[Finding]
    asked_ms: int | None = None
    overdue_ms: int = 0
    to_tell: int = 0


@runtime_checkable
class Examined(Protocol):
    """A store that can be examined. Optional: stores without it do their work, and are not asked."""

    @property
    def may_lose(self) -> str:
        """What a crash may take of what was acknowledged, in words, and from which setting; empty: nothing."""
        ...

    def examine(self) -> Examination:
        """Look at what the store stands on, and change nothing. Raises Unavailable."""
        ...


def may_lose(store: object) -> str:
    """Return what a crash may take of what this store acknowledged; empty: nothing."""
    return store.may_lose if isinstance(store, Examined) else ""
