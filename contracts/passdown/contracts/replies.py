"""What a command answered. Recorded with the command's id, so that a retry gets the same answer."""

from typing import Any

from passdown.contracts.codec import Record, decode_any
from passdown.contracts.errors import Conflict, ContractError, Denied, Fenced, NotFound
from passdown.contracts.problems import error_from, safe


class _Reply(Record, frozen=True, kw_only=True, tag_field="reply"):
    pass


class Accepted(_Reply, frozen=True, kw_only=True, tag="accepted"):
    """Done as asked."""


class Opened(_Reply, frozen=True, kw_only=True, tag="opened"):
    """The session exists."""

    session_id: str


class Held(_Reply, frozen=True, kw_only=True, tag="held"):
    """The claim is good for ``lease_ms``."""

    lease_ms: int


class Run(_Reply, frozen=True, kw_only=True, tag="run"):
    """The intent is recorded: run the tool with exactly ``args`` and the effectId as its key."""

    effect_id: str
    args: dict[str, Any]


class Recorded(_Reply, frozen=True, kw_only=True, tag="recorded"):
    """The effect is decided already: its outcome, without running it.

    ``status`` is ``done`` (with ``result``), ``failed`` or ``denied`` (with ``error``). A large result
    stands in the log event ``seq``, which whoever answers the worker looks up.
    """

    effect_id: str
    status: str
    result: Any = None
    error: str = ""
    seq: int | None = None


class Suspended(_Reply, frozen=True, kw_only=True, tag="suspended"):
    """A person must see the action first; the claim has ended."""

    effect_id: str
    ticket_no: int


class Rejected(_Reply, frozen=True, kw_only=True, tag="rejected"):
    """The return did not fit its contract: the attempt counts as failed."""

    problem: str


class Refusal(_Reply, frozen=True, kw_only=True, tag="refusal"):
    """Recorded, and without effect: the error that the caller gets."""

    code: str
    facts: list[Any]


Reply = Accepted | Opened | Held | Run | Recorded | Suspended | Rejected | Refusal


def refusal(error: ContractError | Conflict | Fenced | Denied | NotFound) -> Refusal:
    """Return the recorded form of an error."""
    return Refusal(code=error.code, facts=[safe(fact) for fact in error.args])


def raise_refusal(reply: Reply) -> None:
    """Raise the error that `reply` records, if it records one."""
    if isinstance(reply, Refusal):
        raise error_from(reply.code, reply.facts)


def read_reply(data: bytes) -> Reply:
    """Return the recorded reply in `data`; raises ContractError where this version does not know it."""
    found: Reply = decode_any(data, Reply, what="reply")
    return found
