"""A recorded run as what its agent did, act by act: the form in which the demo's worker replays it.

One file per session, named by its id, canonical and known by its digest; the pack only refers to it.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from passdown.contracts import ids
from passdown.contracts.codec import Record, decode, digest, encode
from passdown.contracts.errors import ContractError

TRANSFER = "transfer_to_human_agents"
#: How a recorded result begins where the tool failed.
FAILED = "Error"

#: The writing tools of the airline, and how the names of other writing tools begin.
_WRITES = frozenset(
    {
        "book_reservation",
        "cancel_reservation",
        "update_reservation_flights",
        "update_reservation_baggages",
        "update_reservation_passengers",
        "send_certificate",
    }
)
_WRITE = re.compile(r"(?:book|cancel|update|send)_")

#: A replayed session has one step; its effects are of that step.
STEP = 1


def writes(tool: str) -> bool:
    """Whether a tool of a recorded run writes outside."""
    return tool in _WRITES or _WRITE.match(tool) is not None


class _Act(Record, frozen=True, kw_only=True, tag_field="act"):
    #: The number of the recorded message, from 0.
    message: int


class Said(_Act, frozen=True, kw_only=True, tag="said"):
    """Text that asks for nothing: beside a tool call, or a customer's turn that answers no question."""

    by: str
    text: str


class Asked(_Act, frozen=True, kw_only=True, tag="asked"):
    """A text to the customer. ``answer`` is null where the record has no turn of the customer after it."""

    text: str
    answer: str | None = None

    @property
    def question(self) -> str:
        """The question's id."""
        return f"message-{self.message}"


class Called(_Act, frozen=True, kw_only=True, tag="called"):
    """A tool call; ``result`` is null where the record ends before it."""

    tool: str
    args: dict[str, Any]
    result: str | None = None
    writes: bool = False

    @property
    def failed(self) -> bool:
        """Whether the tool refused."""
        return (self.result or "").startswith(FAILED)


Act = Said | Asked | Called


class Run(Record, frozen=True, kw_only=True):
    """One recorded run. ``transfer`` is why it was handed to people, null where it was not."""

    key: str
    task_id: str
    trial: str
    request: str
    acts: list[Act]
    transfer: str | None = None
    #: Results that belong to no call; nothing is done with them.
    strays: int = 0

    @property
    def session_id(self) -> str:
        """The id of the session that replays it."""
        return ids.session_id(self.key)

    def calls(self) -> list[Called]:
        """Return the tool calls in order."""
        return [act for act in self.acts if isinstance(act, Called)]

    def effects(self) -> dict[str, Called]:
        """Return the writing calls in order, each under the key that its effect has in the ledger."""
        counted: Counter[bytes] = Counter()
        found: dict[str, Called] = {}
        for call in self.calls():
            if call.writes:
                same = encode([call.tool, call.args])
                counted[same] += 1
                found[ids.effect_id(self.session_id, STEP, call.tool, call.args, counted[same])] = call
        return found


def write_run(folder: Path, run: Run) -> tuple[Path, str, int]:
    """Write a run's file where it is not there yet; return its path, digest and size."""
    data = encode(run)
    path = folder / f"{run.session_id}.json"
    if not path.exists() or path.read_bytes() != data:
        aside = path.with_suffix(".new")
        aside.write_bytes(data)
        aside.replace(path)
    return path, digest(data), len(data)


def read_run(path: Path, expected: str = "") -> Run:
    """Return the run in a file; raises ContractError where its digest is not the `expected` one."""
    data = path.read_bytes()
    if expected and digest(data) != expected:
        raise ContractError(f"trajectory {path.name}", "its digest is not the one that the pack names")
    return decode(data, Run, what="trajectory")
