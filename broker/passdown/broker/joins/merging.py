"""What a merge is given: the branches that count in its join, page by page, and nothing else of them (rule 4)."""

from typing import Any, cast

from passdown.broker.controller import Controller
from passdown.broker.core.join import Row
from passdown.broker.core.parts import Join
from passdown.broker.core.state import State
from passdown.broker.joins import reading
from passdown.contracts.codec import digest, encode
from passdown.contracts.errors import ContractError, Denied, Fenced, NotFound
from passdown.contracts.gateway import BranchPage, BranchResult, Claim
from passdown.contracts.plans import FanOut

#: Places that one page looks at, and bytes of outputs from which on it ends.
_PLACES, _BYTES = 200, 512 * 1024


def counted_page(controller: Controller, claim: Claim, first: int) -> BranchPage:
    """Return branches that count, from place `first` on.

    Raises Fenced where the claim does not hold, Denied where its attempt merges nothing.
    """
    held = controller.load(claim.session_id)
    join, contract = _merged(held.state, claim, controller, held.catalog)
    found: list[BranchResult] = []
    size = 0
    upto = min(first + _PLACES, join.opening)
    for one in reading.page(controller.store, join.join_id, first, upto - first):
        row = reading.row_of(one)
        if not reading.counts_in(contract, join, row):
            continue
        found.append(_result(controller, join, row))
        size += row.about.bytes
        if size >= _BYTES:
            upto = row.place + 1
            break
    return BranchPage(branches=found, next=upto if upto < join.opening else None)


def _merged(state: State | None, claim: Claim, controller: Controller, catalog: int) -> tuple[Join, FanOut]:
    held = state.claim if state else None
    fence = claim.fence
    if (
        state is None
        or held is None
        or (state.step, held.attempt, held.claim_id)
        != (
            fence.step,
            fence.attempt,
            fence.claim_id,
        )
    ):
        raise Fenced(str(fence), "another", "that attempt is over")
    join = state.joining
    given, _ = controller.catalog.given(state, state.plan, catalog)
    contract = given.stage(state.stage).fan_out
    if join is None or contract is None or state.settling():
        raise Denied(held.by, "read branches", "this attempt merges nothing")
    return join, contract


def _result(controller: Controller, join: Join, row: Row) -> BranchResult:
    output = row.about.output
    if row.outcome == "done" and not row.about.inline:
        output = _long_output(controller, join, row)
    return BranchResult(
        branch=row.branch,
        place=row.place,
        outcome=row.outcome,
        output=cast("dict[str, Any] | None", output),
        reason=row.about.reason,
    )


def _long_output(controller: Controller, join: Join, row: Row) -> Any:
    """Return an output that does not stand in its row; its digest there fixes it. Raises ContractError, NotFound."""
    state = reading.branch_state(controller.store, join.join_id, row.place)
    if state is None or state.outcome is None:
        raise NotFound("output of branch", row.branch)
    output = state.outcome.output
    if digest(encode(output)) != row.about.digest:
        raise ContractError(
            f"the output of branch {row.branch!r}", "it is another than the one that counts in the join"
        )
    return output
