"""A store that works, and watches each commit: what of the order of commits must hold, holds at every single one."""

from passdown.broker.core.state import TERMINAL, State
from passdown.broker.stores import base
from passdown.contracts.codec import decode
from tests.conformance.faulty import FaultyStore


class Witness(FaultyStore):
    """Sees every commit that holds, in order, from whichever process it came. ``broken`` says what broke a rule."""

    def __init__(self, inner: base.Store) -> None:
        super().__init__(inner, lambda _: None)
        self.broken: list[str] = []
        #: Session → its last state as it was stored, and its status, in the order in which sessions were opened.
        self.states: dict[str, bytes] = {}
        self.statuses: dict[str, str] = {}
        self.children: dict[str, list[str]] = {}
        #: How many commits held, and all due entries that were ever handed out.
        self.commits = 0
        self.handed_out: list[base.DueNow] = []

    def commit(
        self, commits: list[base.Commit], take: base.TakeRequest | None = None
    ) -> tuple[list[base.Outcome], base.Taken | None]:
        outcomes, taken = super().commit(commits, take)
        for commit, outcome in zip(commits, outcomes, strict=True):
            if isinstance(outcome, base.Committed):
                self._saw(commit)
        return outcomes, taken

    def due(self, request: base.DueRequest) -> base.Dues:
        dues = super().due(request)
        self.handed_out += dues.entries
        return dues

    def _saw(self, commit: base.Commit) -> None:
        row = commit.row
        self.commits += 1
        if commit.expected == 0 and row.parent:
            self.children.setdefault(row.parent, []).append(row.session_id)
            self._is_known(commit, row.parent)
        self.states[row.session_id], self.statuses[row.session_id] = commit.state, row.status
        if row.status in TERMINAL:
            left = [
                one for one in self.children.get(row.session_id, []) if self.statuses[one] not in TERMINAL
            ]
            if left:
                self.broken.append(f"rule 1: {row.session_id} is {row.status} before its branches {left}")
        elif row.parent and self.statuses.get(row.parent) in TERMINAL:
            self.broken.append(
                f"rule 1: branch {row.session_id} is {row.status}, and its parent {self.statuses[row.parent]}"
            )

    def _is_known(self, commit: base.Commit, parent: str) -> None:
        """A branch is opened only once its parent's log says that it may exist."""
        child = decode(commit.state, State, what="state").parent
        state = decode(self.states[parent], State, what="state")
        join = state.join(child.join_id) if child else None
        if child is None or join is None or child.place >= join.opening:
            self.broken.append(
                f"rule 1: branch {commit.session_id} of {child}: its parent does not know of it"
            )
