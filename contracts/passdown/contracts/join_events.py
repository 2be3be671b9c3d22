"""Events of fan-outs and joins (DESIGN §8), and of a branch that is opened again."""

from typing import Literal

from passdown.contracts.codec import Record


class EventRecord(Record, frozen=True, kw_only=True, tag_field="type"):
    """The base of events: ``type`` names each."""


#: How a join came to its end: by its contract; short of it, going on with what is there; by a person who chose a
#: branch; by a veto; or nothing is merged, for a person or the plan goes another way.
JoinHow = Literal["enough", "partial", "chosen", "vetoed", "left"]


class FannedOut(EventRecord, frozen=True, kw_only=True, tag="FannedOut"):
    """Branches will be opened, those before place ``opening`` at first; ``digest`` fixes their items.

    ``deadline`` of the join in store milliseconds.
    """

    join_id: str
    branches: int
    digest: str
    opening: int
    deadline: int | None = None


class BranchesOpened(EventRecord, frozen=True, kw_only=True, tag="BranchesOpened"):
    """The branches before place ``opened`` exist; those before ``opening`` may exist from here on."""

    join_id: str
    opened: int
    opening: int


class JoinConflict(EventRecord, frozen=True, kw_only=True, tag="JoinConflict"):
    """Enough branches ended, but they disagree: in ``fields``, or, where that is empty, no vote has a majority."""

    join_id: str
    fields: list[str] = []
    counted: int
    why: str


class JoinShort(EventRecord, frozen=True, kw_only=True, tag="JoinShort"):
    """There are not enough branches, or not in time; ``outcomes`` counts the rows by then."""

    join_id: str
    why: str
    outcomes: dict[str, int] = {}


class Joined(EventRecord, frozen=True, kw_only=True, tag="Joined"):
    """The join is closed. ``digest`` fixes the ``counted`` rows, which are of those up to ``upto`` of its record.

    ``outcomes`` counts all rows by then; ``branch`` is the one that was chosen; ``fields`` are those in which the rows
    disagree where nothing is merged, and ``to`` is where the plan goes on then (empty: a person says).
    """

    join_id: str
    how: JoinHow
    counted: int
    digest: str
    upto: int
    outcomes: dict[str, int] = {}
    branch: str = ""
    why: str = ""
    fields: list[str] = []
    to: str = ""
    #: All branches have ended, and those that do not count did nothing outside: no `JoinDrained` follows.
    drained: bool = False
    #: How many writes outside all of them did by then, with those of their own branches.
    effects: int = 0


class BranchesTold(EventRecord, frozen=True, kw_only=True, tag="BranchesTold"):
    """The branches before place ``upto`` were called off, or (``what`` is `rework`) those chosen were sent back to.

    ``deadline`` of the join, which begins anew for those, in store milliseconds.
    """

    join_id: str
    what: Literal["cancel", "rework"]
    upto: int = 0
    deadline: int | None = None


class LateEffect(Record, frozen=True, kw_only=True):
    """An effect that a branch did whose output does not count."""

    branch: str
    effect_id: str
    tool: str


class JoinDrained(EventRecord, frozen=True, kw_only=True, tag="JoinDrained"):
    """All branches have ended. ``effects`` were done by branches that do not count; ``more`` others are not named.

    Among those are what their own branches did. ``counted`` is how many writes those did that count.
    """

    join_id: str
    outcomes: dict[str, int] = {}
    effects: list[LateEffect] = []
    more: int = 0
    counted: int = 0


class Reopened(EventRecord, frozen=True, kw_only=True, tag="Reopened"):
    """A branch that had ended was sent back to, with ``feedback``. ``deadline`` of its stage in store milliseconds."""

    feedback: str
    deadline: int | None = None
