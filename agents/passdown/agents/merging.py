"""The merges that Passdown does itself, `collect`, `first` and `vote`: the agent of the role `MERGER` (DESIGN §8).

Every runtime has it. Where a person chose a branch its output is the merge's, whatever the merge is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from passdown.agents.agent import Agent
from passdown.agents.context import SyncContext
from passdown.agents.results import Broken, Done, Escalate
from passdown.contracts.codec import KIB, PACK_BUDGET, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.gateway import BranchResult
from passdown.contracts.pack import Pack, PackJoin
from passdown.contracts.plans import BUILT_IN_MERGES, MERGER
from passdown.contracts.votes import ballot, majority

#: Of so many different votes the first output is kept while the others are read; a later winner is read again.
_KEPT = 64
#: What a pack has beside its inputs (bytes), which what is collected must leave room for: the stage after the merge is
#: given both, the session's inputs and what was collected.
_PACK_REST = 16 * KIB
#: What is collected is no larger than a reference to it up to so many bytes, so that none is given.
_REFERENCE = 512


def merge(pack: Pack, ctx: SyncContext) -> Done | Escalate:
    """Merge as the plan says."""
    branches = ctx.branches()  # refused for what merges nothing
    join = pack.join
    if join is None:
        raise AssertionError("unreachable: an attempt without a join has no branches")
    if join.branch:
        return _one(pack, join, next(branches), "a person chose")
    match join.merge:
        case "collect":
            return _collect(pack, join, branches)
        case "first":
            return _first(pack, join, branches)
        case "vote":
            return _vote(pack, join, ctx)
        case other:
            known = ", ".join(BUILT_IN_MERGES)
            raise Broken(ContractError(f"merge {other!r}", f"this worker does {known}; it may be too old"))


MERGE_AGENT = Agent(merge, MERGER)


def _collect(pack: Pack, join: PackJoin, branches: Iterator[BranchResult]) -> Done:
    """Return all outputs in the order of places, or, over budget, a reference to the join that holds them."""
    room = _room(pack)
    results: list[dict[str, Any]] = []
    size, count = len(b'{"results":[]}'), 0
    for branch in branches:
        shown = _shown(branch)
        size += len(encode(shown)) + bool(count)
        count += 1
        if size <= room:
            results.append(shown)
    if size <= room:
        return _done(pack, join, {"results": results}, f"collected from {count} branches")
    held = {"uri": _uri(join), "branches": count, "bytes": size, "digest": join.digest}
    return _done(pack, join, {"results": held}, f"refers to the outputs of {count} branches")


def _room(pack: Pack) -> int:
    """Return how large the collected output may be (bytes); it takes the place of an input of its name."""
    beside = {name: value for name, value in pack.inputs.items() if name != "results"}
    return max(PACK_BUDGET - _PACK_REST - len(encode(beside)), _REFERENCE)


def _shown(branch: BranchResult) -> dict[str, Any]:
    said = {"branch": branch.branch, "outcome": branch.outcome}
    if branch.outcome == "done":
        return {**said, "output": branch.output}
    return {**said, "reason": branch.reason}


def _first(pack: Pack, join: PackJoin, branches: Iterator[BranchResult]) -> Done | Escalate:
    found = next((one for one in branches if one.output is not None), None)
    if found is None:
        return Escalate(f"none of the {join.counted} branches that count has an output")
    return _one(pack, join, found, "the first that counts is")


def _one(pack: Pack, join: PackJoin, branch: BranchResult, why: str) -> Done | Escalate:
    if branch.output is None:
        return Escalate(f"branch {branch.branch} was chosen, and has no output: it is {branch.outcome}")
    return _done(pack, join, branch.output, f"{why} branch {branch.branch}")


@dataclass(slots=True)
class _Votes:
    """The votes for one value: how many, and the place of the first of them."""

    first: int
    count: int = 0


def _vote(pack: Pack, join: PackJoin, ctx: SyncContext) -> Done | Escalate:
    """Return the first output of the value with more than half of the votes; what has no output votes not."""
    votes: dict[str, _Votes] = {}
    kept: dict[int, BranchResult] = {}
    for branch in ctx.branches():
        value = ballot(branch.output, join.vote_on)
        if not value:
            continue
        one = votes.setdefault(value, _Votes(branch.place))
        one.count += 1
        if one.first == branch.place and len(kept) < _KEPT:
            kept[branch.place] = branch
    counts = {value: one.count for value, one in votes.items()}
    cast, won = sum(counts.values()), majority(counts)
    if not won:
        # The broker looks at the votes before it issues a vote's merge, and tells a person how they are split.
        why = (
            f"no vote has a majority of {cast}: they are for {len(votes)} values" if cast else "nobody voted"
        )
        return Escalate(why, recommended="complete the stage by hand, or send it back")
    first = votes[won].first
    winner = kept.get(first) or next(one for one in ctx.branches() if one.place == first)
    return _one(pack, join, winner, f"{counts[won]} of {cast} votes agree with")


def _done(pack: Pack, join: PackJoin, output: dict[str, Any], claim: str) -> Done:
    if pack.returns.evidence == "none":
        return Done(output)
    return Done(output, evidence=[{"claim": claim, "source": _uri(join), "digest": join.digest}])


def _uri(join: PackJoin) -> str:
    return f"passdown:join/{join.join_id}"
