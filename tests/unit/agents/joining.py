"""Packs that merge, and branches for them."""

from collections.abc import Sequence
from typing import Any

from passdown.agents import BranchResult, PackJoin
from passdown.agents.testing import make_pack
from passdown.contracts.pack import Pack
from passdown.contracts.plans import MERGER

_OF_THE_PACK = ("evidence", "returns", "lease_seconds", "inputs")


def branch(place: int, output: dict[str, Any] | None = None, **fields: Any) -> BranchResult:
    """Return a branch that is done; with `outcome` and `reason` one that is not."""
    done = "outcome" not in fields
    return BranchResult(
        branch=fields.pop("name", f"b{place}"),
        place=place,
        outcome=fields.pop("outcome", "done"),
        output=({"n": place} if output is None else output) if done else None,
        **fields,
    )


def branches(count: int) -> list[BranchResult]:
    return [branch(place) for place in range(count)]


def join(counted: int, merge: str = "collect", **fields: Any) -> PackJoin:
    known: dict[str, Any] = {"branches": counted, "outcomes": {"done": counted}, "how": "enough"}
    return PackJoin(join_id="s0-1.j-1", merge=merge, counted=counted, digest="d" * 64, **{**known, **fields})


def merge_pack(merge: str, merged: Sequence[BranchResult], **fields: Any) -> Pack:
    """Return the pack of a merge that Passdown does itself; `fields` are those of its join."""
    more = {name: fields.pop(name) for name in _OF_THE_PACK if name in fields}
    return make_pack(MERGER, join=join(len(merged), merge, **fields), **more)
