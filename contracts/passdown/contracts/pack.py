"""The context pack, `passdown.pack/1`: all that one attempt is given (DESIGN §5).

Its fields stand in order of how rarely they change, so that consecutive packs share a long prefix.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from passdown.contracts.codec import (
    ENVELOPE_DEPTH,
    MAX_DEPTH,
    PACK_BUDGET,
    Wire,
    digest,
    digest_of,
    encode,
    receive,
)
from passdown.contracts.errors import ContractError
from passdown.contracts.plans import Level, Returns
from passdown.contracts.schema import Schema

PACK_SPEC = "passdown.pack/1"

Cause = Literal["first", "retry", "input", "human", "resume", "rework", "settle"]
EffectStatus = Literal["proposed", "denied", "intended", "done", "failed", "unknown", "not-done"]


class PackTool(Wire, frozen=True, kw_only=True):
    """A tool that this attempt may call; ``params`` is narrowed already, ``digest`` pins the whole specification.

    A call that only fits ``permit`` is put to a person, who may permit it once.
    """

    name: str
    description: str = ""
    params: Schema
    effect: bool
    scope: str = ""
    identity: list[str] = []
    fresh_for_seconds: float | None = None
    needs_approval: bool = False
    permit: Schema | None = None
    digest: str


class Resource(Wire, frozen=True, kw_only=True):
    """Bulk by reference."""

    name: str
    uri: str
    media_type: str = "application/octet-stream"
    digest: str = ""
    bytes: int | None = None


class Parent(Wire, frozen=True, kw_only=True):
    """The fan-out that a branch belongs to: its ``stage``, and the branch's ``place`` in it, from 0."""

    session_id: str
    join_id: str
    branch: str
    stage: str = ""
    place: int = 0


class ListRef(Wire, frozen=True, kw_only=True):
    """A list that is kept beside its session, `PAGE_ITEMS` items to a page: ``digest`` is over those of the pages."""

    items: int
    bytes: int
    digest: str


#: Items on a page of a list that is kept beside its session.
PAGE_ITEMS = 100


class PackJoin(Wire, frozen=True, kw_only=True):
    """The join that this attempt merges: the ``counted`` of its ``branches``, which the worker reads page by page.

    ``digest`` fixes them. ``outcomes`` counts how the branches ended by then. ``how``: by the contract
    (`enough`), short of it (`partial`, with the reason in ``why``), or a person chose ``branch``.
    """

    join_id: str
    merge: str
    branches: int
    counted: int
    digest: str
    outcomes: dict[str, int]
    how: str
    why: str = ""
    branch: str = ""
    vote_on: list[str] = []


class PackSnapshot(Wire, frozen=True, kw_only=True):
    """The last valid snapshot of this step: ``data`` as the worker gave it, ``counters`` of its effects by then."""

    attempt: int
    data: Any
    counters: dict[str, int] = {}


class PackEffect(Wire, frozen=True, kw_only=True):
    """An effect of this session that is done, open or denied; ``omitted`` where it is too large to stand here."""

    effect_id: str
    step: int
    tool: str
    status: EffectStatus
    args: Any = None
    result: Any = None
    error: str = ""
    omitted: bool = False


class PackRead(Wire, frozen=True, kw_only=True):
    """The result of a reading call of this step; ``read_again`` where it is no longer to be relied on."""

    tool: str
    args: Any
    result: Any = None
    age_seconds: float
    read_again: bool = False


class PackAnswer(Wire, frozen=True, kw_only=True):
    """An answer that this attempt must honour. A question is (step, attempt, id), never a position."""

    attempt: int
    id: str
    text: str
    value: Any
    by: str


class Feedback(Wire, frozen=True, kw_only=True):
    """Why an earlier attempt did not count."""

    attempt: int
    kind: str
    text: str


class Memory(Wire, frozen=True, kw_only=True):
    """The part of the task's working set that concerns this stage, at a version."""

    version: int = 0
    entries: list[Any] = []
    left_out: int = 0


class Pack(Wire, frozen=True, kw_only=True):
    """`passdown.pack/1`. ``digest`` is the SHA-256 of its canonical bytes with ``digest`` empty."""

    spec: Literal["passdown.pack/1"] = PACK_SPEC
    plan: str
    stage: str
    role: str
    goal: str
    constraints: list[str]
    done_when: list[str]
    tools: list[PackTool]
    returns: Returns
    escalation: list[Level]
    risk: str
    lease_seconds: float
    #: The longest that one run may take; absent where the stage sets no limit.
    time_limit_seconds: float | UnsetType = UNSET
    #: What differs from the pinned plan: tools withdrawn, constraints added (DESIGN §7).
    changes: list[str] = []
    task_id: str
    session_id: str
    parent: Parent | None = None
    resources: list[Resource] = []
    inputs: Any
    memory: Memory = Memory()
    #: What a merge merges; null for any other attempt.
    join: PackJoin | None = None
    step: int
    effects: list[PackEffect] = []
    reads: list[PackRead] = []
    answers: list[PackAnswer] = []
    feedback: list[Feedback] = []
    #: How many of the oldest entries of effects, reads, answers and feedback were left out for size.
    left_out: int = 0
    snapshot: PackSnapshot | None = None
    attempt: int
    cause: Cause
    deadline: int | None = None
    valid_until: int | None = None
    trace: str = ""
    digest: str = ""


def seal(pack: Pack) -> tuple[Pack, bytes]:
    """Return the pack with its digest, and its canonical bytes."""
    blank = encode(msgspec.structs.replace(pack, digest="") if pack.digest else pack)
    name = digest(blank)
    # The digest stands last, so that the bytes need not be made twice: every handoff comes through here.
    return msgspec.structs.replace(pack, digest=name), blank[: -len(_END)] + name.encode() + _END


_END = b'"}'


def read_pack(data: bytes) -> Pack:
    """Return the pack in `data`; raises ContractError where it is malformed, too new, or was altered."""
    pack: Pack = receive(
        data, Pack, what="pack", spec=PACK_SPEC, budget=PACK_BUDGET, depth=MAX_DEPTH + ENVELOPE_DEPTH
    )
    if digest_of(msgspec.structs.replace(pack, digest="")) != pack.digest:
        raise ContractError("pack", "its digest does not fit its content", pointer="/digest")
    return pack
