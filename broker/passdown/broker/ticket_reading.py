"""Looking at tickets: those that one principal may take, holds, or may read. Looking claims and changes nothing."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, cast

import structlog

from passdown.broker.access.acting import Acting
from passdown.broker.access.policy import Verb, names_of
from passdown.broker.controller import Controller
from passdown.broker.core.holding import why_not
from passdown.broker.core.lanes import Lane, needs_of, read_lane, why_not_in
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.broker.stores.queries import FindLanes, FindOffered, FindTickets, LaneRow, TicketRow
from passdown.contracts.codec import Record, convert
from passdown.contracts.errors import Conflict, ContractError, NotFound, PassdownError
from passdown.contracts.ticket_events import Resolution, TicketKind

#: Rows that one page of tickets on offer has, where some are left out because of four eyes.
_PAGE = 100
#: Tickets that one call may be about.
MOST_AT_ONCE = 1000

_log = structlog.get_logger("passdown.inbox")


class Draft(Record, frozen=True, kw_only=True):
    """What one person has written about a ticket and not sent yet."""

    resolution: Resolution | None = None
    value: Any = None
    note: str = ""


class KeptDraft(NamedTuple):
    """A draft as it was kept, ``at`` the store's time in milliseconds; ``version`` counts how often it was."""

    draft: Draft
    version: int
    at: int


class TicketView(Record, frozen=True, kw_only=True):
    """A ticket as one person sees it. Times are store milliseconds.

    ``lease`` is the token of their own claim, empty for everybody else; ``why_not`` says why they may not take it,
    empty where they may. Of several ``approvals`` that are needed, ``approved_by`` have given theirs.
    """

    session_id: str
    ticket_no: int
    version: int
    kind: TicketKind
    queue: str
    why: str
    actions: list[Resolution]
    about: str = ""
    stage: str = ""
    priority: int = 0
    opened_at: int
    due_at: int | None = None
    holder: str = ""
    until: int | None = None
    lease: str = ""
    why_not: str = ""
    snoozed_until: int | None = None
    level: int = 0
    lapses: int = 0
    approvals: int = 1
    approved_by: list[str] = []
    comments: int = 0


class Ref(NamedTuple):
    """One ticket: its session and its number."""

    session_id: str
    ticket_no: int


class Outcome(NamedTuple):
    """What came of one ticket of many: the view of it, or None where it is decided; or the error."""

    ref: Ref
    view: TicketView | None = None
    error: PassdownError | None = None


class TicketReader:
    """The tickets that one principal may see. Thread-safe."""

    def __init__(self, controller: Controller, acting: Callable[[], Acting]) -> None:
        """`acting` says who acts, with what is known of them now."""
        self._controller = controller
        self._who_acts = acting

    @property
    def _acting(self) -> Acting:
        return self._who_acts()

    def offered(self, *, queue: str | None = None, limit: int = 50) -> list[TicketRow]:
        """Return at most `limit` tickets that this person may claim now, the next one first.

        They are sorted by priority, due date, skills (what few can do comes first) and age. With a token that is good
        for reading alone, what they could claim with a better one.
        """
        _limited(limit)
        self._require_in("ticket.read", queue)
        return list(islice(self._offers(queue, "ticket.read"), limit))

    def mine(self, *, limit: int = 50) -> list[TicketRow]:
        """Return the tickets that this person holds, oldest first."""
        _limited(limit)
        acting = self._acting
        acting.require("ticket.read")
        rows = self._rows(FindTickets(holder=acting.by, limit=limit))
        return rows if acting.actor.scopes is None else [row for row in rows if self._may_read(acting, row)]

    def waiting(self, queue: str | None = None, *, limit: int = 50) -> list[TicketRow]:
        """Return open tickets of a queue (of any), also those that are held or snoozed, oldest first.

        Those that this person may not read are left out: then there are fewer than `limit`, though more may follow.
        """
        _limited(limit)
        self._require_in("ticket.read", queue)
        acting = self._acting
        rows = self._rows(FindTickets(queue=queue, limit=limit))
        return rows if acting.sees_all else [row for row in rows if self._may_read(acting, row)]

    def _may_read(self, acting: Acting, row: TicketRow) -> bool:
        """Whether a ticket is theirs to read; nothing is logged, for it was not asked for by name."""
        state = self._state_of(row)
        ticket = state.ticket(row.ticket_no) if state else None
        if state is None or ticket is None or not is_theirs(acting, ticket):
            return False
        return acting.covers("ticket.read", f"queue:{ticket.queue}", *names_of(state))

    def show(self, session_id: str, ticket_no: int) -> TicketView:
        """Return an open ticket. Looking changes nothing."""
        return self._view(*self._open("ticket.read", session_id, ticket_no))

    def _rows(self, query: FindTickets | FindOffered) -> list[TicketRow]:
        return cast("list[TicketRow]", self._controller.store.find(query))

    def _require_in(self, verb: Verb, queue: str | None) -> None:
        """Raise Denied unless they may do this to tickets of a queue, if only to some of them."""
        names = names_of_queue(queue)
        acting = self._acting
        acting.require(verb, *([] if _by_session(acting, verb) else names))

    def _offers(self, queue: str | None, verb: Verb) -> Iterator[TicketRow]:
        """Yield the tickets on offer that they may take, and to which their token lets them do this, the next one first."""
        acting = self._acting
        named = cast("list[LaneRow]", self._controller.store.find(FindLanes()))
        lanes = [row.lane for row in named if self._serves(acting, verb, row.lane, queue)]
        after = ""
        while lanes:
            rows = self._rows(FindOffered(lanes=lanes, after=after, limit=_PAGE))
            yield from (
                row for row in rows if acting.by not in row.excluded and self._covers(acting, verb, row)
            )
            if len(rows) < _PAGE:
                return
            after = rows[-1].order

    def _serves(self, acting: Acting, verb: Verb, name: str, queue: str | None) -> bool:
        """Whether a lane may have tickets for them."""
        lane = _read(name)
        if lane is None or queue not in (None, lane.queue) or not lane.serves(acting.by, acting.who):
            return False
        return acting.covers(verb, f"queue:{lane.queue}") or _by_session(acting, verb)

    def _covers(self, acting: Acting, verb: Verb, row: TicketRow) -> bool:
        """Whether their token lets them do this to a ticket: by its queue, or by its session, plan or task."""
        if acting.covers(verb, f"queue:{row.queue}"):
            return True
        state = self._state_of(row)
        return state is not None and acting.covers(verb, *names_of(state))

    def _state_of(self, row: TicketRow) -> State | None:
        """Return the session of a ticket that was found in a list; None where it is gone, or cannot be read."""
        try:
            return self._controller.load(row.session_id).state
        except ContractError as error:
            passed_over(row, error)
            return None

    def _load(self, session_id: str) -> State:
        convert(session_id, str, what="session")
        state = self._controller.load(session_id).state
        if state is None:
            raise NotFound("session", session_id)
        return state

    def _open(self, verb: Verb, session_id: str, ticket_no: int) -> tuple[State, Ticket]:
        """Return an open ticket to which they may do this; raises Denied, NotFound, and Conflict for one that was decided.

        The conflict says by whom and how: to everybody who may do this to any ticket.
        """
        self._acting.require(verb)
        require_ref(session_id, ticket_no)
        state = self._load(session_id)
        ticket = state.ticket(ticket_no)
        if ticket is not None:
            self._acting.require_ticket(verb, state, ticket)
            return state, ticket
        if not 0 < ticket_no <= state.tickets_opened:
            raise NotFound("ticket", f"{session_id}/{ticket_no}")
        raise decided(state, ticket_no)

    def _view(self, state: State, ticket: Ticket) -> TicketView:
        holder, by = ticket.holder, self._acting.by
        return TicketView(
            session_id=state.session_id,
            ticket_no=ticket.ticket_no,
            version=ticket.version,
            kind=ticket.kind,
            queue=ticket.queue,
            why=ticket.why,
            actions=ticket.actions,
            about=ticket.about,
            stage=ticket.stage,
            priority=ticket.priority,
            opened_at=ticket.opened_at,
            due_at=ticket.due_at,
            holder=holder.by if holder else "",
            until=holder.until if holder else None,
            lease=holder.claim_id if holder and holder.by == by else "",
            why_not=why_not(ticket, by, self._acting.who),
            snoozed_until=ticket.snoozed_until,
            level=ticket.level,
            lapses=ticket.lapses,
            approvals=ticket.approvals,
            approved_by=ticket.approved_by,
            comments=ticket.comments,
        )


def refs_of(rows: Iterable[TicketRow | TicketView]) -> list[Ref]:
    """Return the tickets of a list, for `Inbox.each`."""
    return [Ref(row.session_id, row.ticket_no) for row in rows]


def names_of_queue(queue: str | None) -> list[str]:
    """Return the name by which a token may be scoped to a queue; none where no queue is named.

    Raises ContractError for what no queue can be called.
    """
    if queue is None:
        return []
    return [f"queue:{convert(queue, str, what='queue')}"]


def decided(state: State, ticket_no: int) -> Conflict:
    """Return the error for a ticket that is no longer open: who decided it, and how."""
    first = next((one for one in state.decided if one.ticket_no == ticket_no), None)
    by, how = (first.by, first.how) if first else ("", "see the log for who decided")
    return Conflict(f"ticket {state.session_id}/{ticket_no} is no longer open", by, how)


def require_ref(session_id: str, ticket_no: int) -> None:
    """Raise ContractError for what names no ticket."""
    convert([session_id, ticket_no], tuple[str, int], what="ticket")


def is_theirs(acting: Acting, ticket: Ticket) -> bool:
    """Whether a ticket is theirs to take, or they hold it; whom four eyes exclude is not asked."""
    held = ticket.holder is not None and ticket.holder.by == acting.by
    return held or not why_not_in(needs_of(ticket), acting.by, acting.who)


def passed_over(row: TicketRow, error: PassdownError) -> None:
    """Log that a ticket was left out because it cannot be read, or claimed now: that is no reason to withhold the others."""
    _log.warning("inbox.passed_over", session=row.session_id, ticket=row.ticket_no, error=str(error))


def _by_session(acting: Acting, verb: Verb) -> bool:
    """Whether it depends on its session, and not on its queue alone, if their token is good for a ticket."""
    scopes = acting.actor.scopes
    return scopes is not None and any(
        scope.gives(verb) and not scope.resource.startswith("queue:") for scope in scopes
    )


def _read(name: str) -> Lane | None:
    try:
        return read_lane(name)
    except ContractError as error:
        _log.warning("inbox.lane_passed_over", lane=name, error=str(error))
        return None


def _limited(limit: int) -> None:
    if not 1 <= convert(limit, int, what="limit") <= MOST_AT_ONCE:
        raise ContractError("limit", f"expected 1 to {MOST_AT_ONCE}, got {limit}")
