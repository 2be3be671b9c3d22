"""Open tickets with the branches that they are of, grouped under the sessions that these branches belong to (DESIGN §8)."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, cast

from msgspec.structs import asdict, replace

from passdown.broker.controller import Controller
from passdown.broker.core.join import FINAL, WAITING, total
from passdown.broker.core.state import State
from passdown.broker.joins import reading
from passdown.broker.joins.showing import Fan, fans, places
from passdown.broker.plans.graph import graph_of
from passdown.broker.stores.queries import FindTickets, TicketRow
from passdown.contracts.errors import ContractError
from passdown.contracts.ids import branch_id
from passdown.contracts.pack import Parent

#: Branches of one session that are looked at for tickets.
MOST_LOOKED_AT = 1000


class OpenTicket(TicketRow, frozen=True, kw_only=True):
    """An open ticket. Of a branch's: ``branch`` names the branches on the way to it from its ``root``.

    ``parent`` is the session that opened the branch; all three are empty for a session that is no branch.
    """

    branch: list[str] = []
    parent: str = ""
    root: str = ""


class TicketPage(NamedTuple):
    """Open tickets; ``more`` branches that may have some were not looked at."""

    tickets: list[OpenTicket]
    more: int


class _Way(NamedTuple):
    """The way to a session from its root."""

    root: str
    parent: str = ""
    branch: tuple[str, ...] = ()

    def down(self, parent: str, branch: str) -> "_Way":
        """Return the way to a branch of the session `parent` at the end of this way."""
        return _Way(self.root, parent, (*self.branch, branch))

    def put_on(self, row: TicketRow) -> OpenTicket:
        """Return a ticket with this way, the root left out where it is the way's end; where it is filed is left out."""
        shown = asdict(replace(row, lane="", order=""))
        if not self.branch:
            return OpenTicket(**shown)
        return OpenTicket(**shown, branch=[*self.branch], parent=self.parent, root=self.root)


def open_tickets(
    controller: Controller, *, queue: str | None = None, session_id: str | None = None, limit: int = 50
) -> TicketPage:
    """Return at most `limit` open tickets, oldest first, also of branches.

    Of a session also those of its branches at any depth: at most `MOST_LOOKED_AT` branches are looked at, those that
    wait for a person and those that may have branches of their own; where that ends it, or `limit` does, the tickets
    are the oldest of those that were seen. A ticket about a branch that is at work all the same is found under
    that branch's own id.
    """
    ways = _Ways(controller)
    if session_id is not None:
        state = controller.load(session_id).state
        if state is not None:
            return _Walk(controller, queue, limit).down_from(state, ways.to(session_id))
    rows = _rows(controller, queue, session_id, limit)
    return TicketPage([ways.to(row.session_id).put_on(row) for row in rows], 0)


def _rows(controller: Controller, queue: str | None, session_id: str | None, limit: int) -> list[TicketRow]:
    query = FindTickets(queue=queue, session_id=session_id, limit=limit)
    return cast("list[TicketRow]", controller.store.find(query))


class _Ways:
    """Finds the ways to sessions from their roots; reads each session once."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._known: dict[str, _Way] = {}

    def to(self, session_id: str) -> _Way:
        if session_id not in self._known:
            self._known[session_id] = _Way(session_id)  # whatever the states say, this comes to an end
            above = self._above(session_id)
            if above is not None:
                self._known[session_id] = self.to(above.session_id).down(above.session_id, above.branch)
        return self._known[session_id]

    def _above(self, session_id: str) -> Parent | None:
        try:
            state = self._controller.load(session_id).state
        except ContractError:
            return None  # it cannot be read, which is said to whoever asks for it: the others are shown
        return state.parent if state else None


class _Walk:
    """Gathers the tickets of one session and of its branches, the nearest first."""

    def __init__(self, controller: Controller, queue: str | None, limit: int) -> None:
        self._controller = controller
        self._queue = queue
        self._limit = limit
        self._found: list[OpenTicket] = []
        self._left = MOST_LOOKED_AT
        self._more = 0
        self._todo = deque[tuple[State, _Way]]()

    def down_from(self, state: State, way: _Way) -> TicketPage:
        self._take(state.session_id, way)
        inner = graph_of(self._controller.catalog.document(state.plan)).inner
        self._todo.append((state, way))
        while self._todo:
            state, way = self._todo.popleft()
            for fan in fans(self._controller, state, past=False):
                if not fan.join.drained:
                    self._below(fan, way, deep=bool(inner.get(fan.join.stage)))
        found = sorted(self._found, key=lambda one: one.opened_at)
        return TicketPage(found[: self._limit], self._more)

    def _take(self, session_id: str, way: _Way) -> None:
        rows = _rows(self._controller, self._queue, session_id, self._limit)
        self._found += [way.put_on(row) for row in rows]

    def _below(self, fan: Fan, way: _Way, *, deep: bool) -> None:
        """Look at the branches of a fan-out; `deep`: they may have branches of their own."""
        counts = fan.record.counts
        ahead = fan.join.opening - total(counts, FINAL) if deep else counts.get(WAITING, 0)
        if ahead <= 0:
            return
        store, join_id = self._controller.store, fan.join.join_id
        for place, name in _candidates(self._controller, fan, deep=deep):
            if self._left <= 0 or len(self._found) >= self._limit:
                break
            self._left -= 1
            ahead -= 1
            state = reading.branch_state(store, join_id, place) if deep else None
            if deep and state is None:
                continue  # not opened yet
            to = way.down(fan.parent.session_id, state.parent.branch if state and state.parent else name)
            self._take(branch_id(join_id, place), to)
            if state is not None:
                self._todo.append((state, to))
        self._more += max(ahead, 0)


def _candidates(controller: Controller, fan: Fan, *, deep: bool) -> Iterator[tuple[int, str]]:
    """Yield the places of branches that wait for a person, with their names, and then of others at work if `deep`."""
    others: list[int] = []
    for place, row in places(controller.store, fan, 0, fan.join.opening):
        if row is not None and row.outcome == WAITING:
            yield place, row.branch
        elif deep and len(others) < MOST_LOOKED_AT and (row is None or row.outcome not in FINAL):
            others.append(place)
    for place in others:
        yield place, ""
