"""The join contract (DESIGN §8): when branches are enough, when they cannot be any more, and when they disagree.

A branch's mark in the record of its join is a row. A row is counted by its outcome alone, so that a join of
20,000 branches is judged by a handful of numbers; what the rows say is looked at once, when it is to be closed.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

from msgspec.structs import replace

from passdown.broker.core.parts import Join, Outcome
from passdown.broker.core.state import State
from passdown.contracts.codec import Record, digest, encode
from passdown.contracts.plans import FanOut
from passdown.contracts.votes import ballot, comparable, majority

#: Outcomes of a branch that has ended.
FINAL = ("done", "refused", "failed", "cancelled")
#: A branch that waits for a person, and one that goes on again.
WAITING, OPEN = "waiting", "open"
#: An output up to this size stands in its row (bytes); a larger one is read from the branch.
ROW_OUTPUT = 2048
#: How many branches are opened, called off or read at once.
WINDOW = 500
#: Different values of a field that are told apart, and branches that are named for each.
_MOST_VALUES, _MOST_NAMED = 16, 8

Verdict = Literal["wait", "enough", "short", "vetoed"]
_OUTCOMES = {
    "done": "done",
    "refused": "refused",
    "failed": "failed",
    "expired": "failed",
    "cancelled": "cancelled",
}


class About(Record, frozen=True, kw_only=True):
    """What a row says of a branch that ended: its output, or by digest where that is long, and what it is judged by.

    ``agree`` has the fields that must agree, ``vote`` what is voted on (`votes`); both are empty where it ended
    without an output. ``effects`` is how many writes outside it did, with those of its own branches.
    """

    digest: str = ""
    bytes: int = 0
    output: Any = None
    inline: bool = False
    reason: str = ""
    agree: dict[str, str] = {}
    vote: str = ""
    effects: int = 0

    @property
    def gave(self) -> bool:
        """Whether a branch that is done gave an output: a plan may lead to its end without any."""
        return not self.inline or self.output is not None


class Mark(NamedTuple):
    """A row to write."""

    join_id: str
    place: int
    branch: str
    outcome: str
    about: bytes


class Row(NamedTuple):
    """A row as it stands; ``order`` is the version of the record that it made."""

    place: int
    branch: str
    outcome: str
    order: int
    about: About


class Waking(NamedTuple):
    """What a commit of the parent changes about a join's record; ``rewrites`` where it closes the record."""

    join: Join
    wakes: list[tuple[list[str], int]]
    rewrites: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What the rows of a join say: those that count, and in what they disagree.

    ``values``: field → value → branches, for the fields that disagree. ``split``: the vote has no majority.
    ``effects`` is how many writes outside all of them did, ``beside`` those that do not count.
    ``named`` are those of the branches that were asked about which have ended: name → outcome, in words where it is
    done without an output.
    """

    counted: int
    digest: str
    values: dict[str, dict[str, list[str]]] = field(default_factory=dict[str, dict[str, list[str]]])
    split: str = ""
    refused: str = ""
    named: dict[str, str] = field(default_factory=dict[str, str])
    effects: int = 0
    beside: int = 0


@dataclass(frozen=True, slots=True)
class Late:
    """Effects of branches that do not count: (branch, effectId, tool) of some of them, and how many more there are.

    ``counted`` is how many those did that count.
    """

    effects: list[tuple[str, str, str]]
    more: int
    counted: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """The record of a join as it was read for a decision; ``late`` where it is drained."""

    join_id: str
    version: int
    rewrites: int
    counts: dict[str, int]
    summary: Summary | None = None
    late: Late | None = None


def outcome_of(state: State | None) -> str:
    """Return what the row of a branch in this state says."""
    if state is None:
        return OPEN
    if state.over:
        return _OUTCOMES[state.status]
    return WAITING if state.status in ("waiting-human", "waiting-input") else OPEN


def mark_of(before: State | None, after: State, contract: FanOut) -> Mark | None:
    """Return the row that a branch writes with the commit between two states; None where it says nothing new."""
    parent, outcome, ended = after.parent, outcome_of(after), after.outcome
    if parent is None:
        return None
    effects = effects_of(after)
    # What it did outside may come to light once it has ended: its row is written anew.
    if outcome == outcome_of(before) and (ended is None or effects == effects_of(before)):
        return None
    about = encode(about_of(ended, effects, contract)) if ended else b"{}"
    return Mark(parent.join_id, parent.place, parent.branch, outcome, about)


def effects_of(state: State | None) -> int:
    """Return how many writes outside a session did, with those of its branches."""
    return 0 if state is None else state.below + sum(effect.status == "done" for effect in state.effects)


def about_of(ended: Outcome, effects: int, contract: FanOut) -> About:
    """Return what the row of a branch says that ended so, and did so many writes outside."""
    if ended.result != "done":
        reason = f"expired: {ended.reason}" if ended.result == "expired" else ended.reason
        return About(reason=reason[:500], effects=effects)
    raw = encode(ended.output)
    output = cast("dict[str, Any] | None", ended.output)  # what a stage gives is an object
    return About(
        digest=digest(raw),
        bytes=len(raw),
        output=output if len(raw) <= ROW_OUTPUT else None,
        inline=len(raw) <= ROW_OUTPUT,
        agree={} if output is None else {name: comparable(output.get(name)) for name in contract.conflict},
        vote=ballot(output, contract.vote_on) if contract.merge == "vote" else "",
        effects=effects,
    )


# -- by numbers --


def needed(contract: FanOut, branches: int) -> int:
    """Return how many branches must count; a vote and a choice of the first need one at least."""
    if isinstance(contract.need, int):
        return contract.need
    if contract.need == "any":
        return 1
    return max(branches, int(contract.merge in ("vote", "first")))


def total(counts: Mapping[str, int], outcomes: Iterable[str]) -> int:
    """Return how many rows have one of the outcomes."""
    return sum(counts.get(name, 0) for name in outcomes)


def _spoils(contract: FanOut) -> list[str]:
    """Return the outcomes of branches that are not waited for any more, and do not count."""
    known = FINAL if contract.wait_for_people else (*FINAL, WAITING)
    return [name for name in known if name not in contract.counts]


def judge(contract: FanOut, branches: int, counts: Mapping[str, int]) -> Verdict:
    """Return what the contract says of a join with so many branches and rows."""
    need = needed(contract, branches)
    if contract.need == "veto" and counts.get("refused", 0):
        return "vetoed"
    if total(counts, contract.counts) >= need:
        return "enough"
    return "short" if total(counts, _spoils(contract)) > branches - need else "wait"


def room(contract: FanOut, join: Join, counts: Mapping[str, int]) -> int:
    """Return up to which place branches may be opened by now; those that wait for people keep no place."""
    most = min(join.branches, join.opening + WINDOW)
    if not contract.at_once:
        return most
    return max(join.opening, min(most, total(counts, (*FINAL, WAITING)) + contract.at_once))


def wakes(contract: FanOut, join: Join) -> list[tuple[list[str], int]]:
    """Return when the join must be looked at: (outcomes, so many rows with one of them)."""
    if join.sent_back is not None:
        return []
    if join.closed:
        return [] if join.drained else [([*FINAL], join.opening)]
    found: list[tuple[list[str], int]] = []
    if join.asked == "conflict":
        found.append(([*FINAL], join.branches))
    else:
        found.append(([*contract.counts], needed(contract, join.branches)))
    if not join.asked:
        # Where nothing spoils it, it can still be short: fewer branches than must count.
        most = join.branches - needed(contract, join.branches)
        found.append((_spoils(contract) or ([*FINAL] if most < 0 else []), most + 1))
    if contract.need == "veto":
        found.append((["refused"], 1))
    if contract.at_once and join.opened == join.opening < join.branches:
        step = max(1, contract.at_once // 8)
        found.append(([*FINAL, WAITING], join.opening - contract.at_once + step))
    return [(outcomes, at) for outcomes, at in found if outcomes]


# -- by rows --


def summarize(
    contract: FanOut, rows: Iterable[Row], upto: int, *, asked_about: frozenset[str] = frozenset()
) -> Summary:
    """Return what the rows up to version `upto` say; `asked_about` are names of branches to look for."""
    counting = hashlib.sha256()
    counted = effects = beside = 0
    refused = ""
    named: dict[str, str] = {}
    fields: dict[str, dict[str, list[str]]] = {name: {} for name in contract.conflict}
    votes: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        if row.order > upto:
            continue
        if row.branch in asked_about and row.outcome in FINAL:
            silent = row.outcome == "done" and not row.about.gave
            named[row.branch] = "done, and gave none" if silent else row.outcome
        if row.outcome == "refused":
            refused = refused or row.branch
        effects += row.about.effects
        if row.outcome not in contract.counts:
            beside += row.about.effects
            continue
        counted += 1
        counting.update(encode([row.place, row.branch, row.outcome, row.about.digest]))
        if row.outcome == "done":
            for name, value in row.about.agree.items():
                _note(fields[name], value, row.branch)
            if row.about.vote:
                _note(votes, row.about.vote, row.branch)
                sizes[row.about.vote] = sizes.get(row.about.vote, 0) + 1
    return Summary(
        counted=counted,
        digest=counting.hexdigest(),
        values={name: values for name, values in fields.items() if len(values) > 1},
        split=_split(votes, sizes) if contract.merge == "vote" else "",
        refused=refused,
        named=named,
        effects=effects,
        beside=beside,
    )


def _note(values: dict[str, list[str]], value: str, branch: str) -> None:
    if value not in values and len(values) >= _MOST_VALUES:
        return
    named = values.setdefault(value, [])
    if len(named) < _MOST_NAMED:
        named.append(branch)


def _split(votes: Mapping[str, list[str]], sizes: Mapping[str, int]) -> str:
    """Return in words how the vote is split, empty where more than half agree."""
    if majority(sizes):
        return ""
    most = sorted(sizes, key=lambda value: (-sizes[value], value))[:_MOST_VALUES]
    told = ", ".join(f"{sizes[value]} for {value} ({', '.join(votes.get(value, [])[:3])})" for value in most)
    return f"no vote has a majority: {told or 'nobody voted'}"


def followed(known: dict[str, Join], joins: Sequence[Join]) -> dict[str, Join]:
    """Return each join as it was last, given those that a state has: one that is left out is over."""
    if not (known or joins):
        return known
    over = {name: replace(one, drained=True, told=None) for name, one in known.items()}
    return {**over, **{one.join_id: one for one in joins}}
