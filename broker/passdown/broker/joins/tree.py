"""The tree of a session: its fan-outs, their branches, the fan-outs of these; and the way from a branch to its root."""

from collections import Counter
from collections.abc import Iterable

from passdown.broker.answers import no_session
from passdown.broker.controller import Controller
from passdown.broker.core.join import WAITING, Row
from passdown.broker.core.state import State
from passdown.broker.joins import reading
from passdown.broker.joins.showing import (
    ABSENT,
    LATE,
    OPEN,
    BranchView,
    Fan,
    JoinView,
    branch_view,
    fans,
    join_view,
    namer,
    places,
    said_of,
)
from passdown.broker.joins.waits import Waiting, waits_of
from passdown.contracts.codec import Wire
from passdown.contracts.errors import ContractError

#: Branches of one join that are shown, unless more are asked for, and those of a whole tree.
WIDTH, MOST = 20, 500
#: Which branches are shown first where there is no room for all: those that somebody may have to see to. Those that are
#: not there are only counted then.
_FIRST = (WAITING, OPEN, "failed", "refused", LATE, "cancelled", "done", *ABSENT)
#: A branch of a branch of … is no deeper than this, or its log is broken.
_DEEPEST = 100


class Above(Wire, frozen=True, kw_only=True):
    """A session on the way to a branch: the fan-out ``stage`` and the ``branch`` by which the way goes on."""

    session_id: str
    task_name: str
    stage: str
    branch: str


class JoinNode(Wire, frozen=True, kw_only=True):
    """A fan-out with its branches; ``rest`` counts those that are not among them by what is said of them."""

    join: JoinView
    branches: list["BranchNode"]
    rest: dict[str, int]


class BranchNode(Wire, frozen=True, kw_only=True):
    """A branch and its fan-outs."""

    branch: BranchView
    joins: list[JoinNode] = []


class Tree(Wire, frozen=True, kw_only=True):
    """A session and its fan-outs; ``above`` leads to it from its root, where it is a branch. ``now``: store's time."""

    session_id: str
    task_name: str
    plan: str
    status: str
    stage: str
    step: int
    attempt: int
    above: list[Above]
    branch: str
    waits: list[Waiting]
    joins: list[JoinNode]
    now: int


def tree_of(controller: Controller, session_id: str, *, every: bool = False) -> Tree:
    """Return the tree below a session; with `every` all of its branches. Raises NotFound."""
    held = controller.load(session_id)
    state = held.state
    if state is None:
        raise no_session(session_id, held.removed)
    growing = _Growing(controller, every=every)
    return Tree(
        session_id=session_id,
        task_name=state.task_name,
        plan=str(state.plan),
        status=state.shown_status,
        stage=state.stage,
        step=state.step,
        attempt=state.attempt,
        above=path_of(controller, state),
        branch=state.parent.branch if state.parent else "",
        waits=waits_of(state),
        joins=growing.joins(state),
        now=held.now,
    )


def path_of(controller: Controller, state: State) -> list[Above]:
    """Return the way from the root to a branch, the root first; empty for a session that is no branch."""
    found: list[Above] = []
    while (parent := state.parent) is not None:
        above = controller.load(parent.session_id).state
        name = above.task_name if above else ""
        found.append(
            Above(session_id=parent.session_id, task_name=name, stage=parent.stage, branch=parent.branch)
        )
        if len(found) > _DEEPEST:
            raise ContractError("log", f"branch {found[0].session_id} has no root")
        if above is None:
            break
        state = above
    return found[::-1]


class _Growing:
    """Grows one tree; counts the branches that are shown."""

    def __init__(self, controller: Controller, *, every: bool) -> None:
        self._controller = controller
        self._every = every
        self._left = MOST

    def joins(self, state: State) -> list[JoinNode]:
        return [self._join(fan) for fan in fans(self._controller, state)]

    def _join(self, fan: Fan) -> JoinNode:
        store = self._controller.store
        listed = places(store, fan, 0, fan.join.branches)
        width = fan.join.branches if self._every else min(WIDTH, max(self._left, 0))
        shown, rest = _most_wanted(fan, listed, width)
        self._left -= len(shown)
        names = namer(store, fan)
        nodes: list[BranchNode] = []
        for place, row in shown:
            raw = None if place >= fan.join.opening else reading.branch_state(store, fan.join.join_id, place)
            view = branch_view(fan, place, row, raw, names)
            nodes.append(BranchNode(branch=view, joins=self.joins(raw) if raw else []))
        return JoinNode(join=join_view(fan), branches=nodes, rest=rest)


def _most_wanted(
    fan: Fan, listed: Iterable[tuple[int, Row | None]], width: int
) -> tuple[list[tuple[int, Row | None]], dict[str, int]]:
    """Return the branches to show, in the order of their places, and the count of the others."""
    by_word: dict[str, list[tuple[int, Row | None]]] = {word: [] for word in _FIRST}
    counts = Counter[str]()
    for place, row in listed:
        word = said_of(fan, place, row)
        counts[word] += 1
        if len(by_word[word]) < width:
            by_word[word].append((place, row))
    wanted = _FIRST if counts.total() <= width else _FIRST[: -len(ABSENT)]
    shown = [(word, one) for word in wanted for one in by_word[word]][:width]
    counts.subtract(word for word, _ in shown)
    ordered = sorted((one for _, one in shown), key=lambda one: one[0])
    return ordered, {word: counts[word] for word in _FIRST if counts[word] > 0}
