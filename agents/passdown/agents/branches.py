"""The branches that an attempt merges, read from the broker page by page, so that a page is all that is held of them."""

from passdown.agents.claim import ActiveClaim
from passdown.agents.flows import Blocking, Flow
from passdown.contracts.errors import ContractError, Denied
from passdown.contracts.gateway import BranchPage, BranchResult


class Reading:
    """One reading of the branches that count, in the order of their places; ``over`` once all were handed out.

    Where a person chose a branch it is the only one. Raises Denied for an attempt that merges nothing (rule 4).
    """

    def __init__(self, claim: ActiveClaim) -> None:
        join = claim.pack.join
        if join is None:
            raise Denied(f"stage {claim.pack.stage}", "read branches", "this attempt merges nothing")
        self._claim = claim
        self._join = join
        self._first = 0
        self._read = 0
        self.over = False

    def next_page(self) -> Flow:
        """Return the flow that reads a page, and returns what is to be handed out of it.

        It raises Fenced and Unavailable as other verbs do, and ContractError where what is read is not what
        the join counted.
        """
        claim, first = self._claim, self._first
        port, gateway = claim.port, claim.port.gateway
        claim.require_held()
        answers: list[BranchPage] = []
        yield Blocking(
            lambda: answers.append(
                claim.watched(lambda: port.retried(lambda: gateway.branches(claim.claim, first)))
            )
        )
        return self._counted(answers[0])

    def _counted(self, page: BranchPage) -> list[BranchResult]:
        join = self._join
        found = page.branches
        if join.branch:
            found = [one for one in found if one.branch == join.branch]
        if page.next is not None and page.next <= self._first:
            raise self._fault(f"the page from place {self._first} on leads back to place {page.next}")
        self._read += len(found)
        self._first = page.next or 0
        self.over = page.next is None or bool(join.branch and found)
        expected = 1 if join.branch else join.counted
        if self._read > expected or (self.over and self._read < expected):
            raise self._fault(f"{self._read} branches were read where {expected} count")
        return found

    def _fault(self, problem: str) -> ContractError:
        return ContractError(f"join {self._join.join_id}", problem)
