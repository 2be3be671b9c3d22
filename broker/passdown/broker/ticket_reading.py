"""Looking at tickets: those that one principal may take, holds, or may read. Looking claims and changes nothing."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

from passdown.broker.access.acting import Acting
from passdown.broker.access.policy import Verb, names_of
from passdown.broker.controller import Controller
from passdown.broker.core.holding import why_not
from passdown.broker.core.lanes import needs_of, read_lane, why_not_in
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.broker.stores.queries import FindLanes, FindOffered, FindTickets, LaneRow, TicketRow
from passdown.contracts.codec import Record
from passdown.contracts.errors import Conflict, ContractError, NotFound, PassdownError
from passdown.contracts.ticket_events import Resolution, TicketKind

#: Rows that one page of tickets on offer has, where some are left out because of four eyes.
_PAGE = 100
#: Tickets that one call may be about.
MOST_AT_ONCE = 1000


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

        They are sorted by priority, due date, skills (what few can do comes first) and age.
        """
        _limited(limit)
        self._acting.require("ticket.read", *names_of_queue(queue))
        return [row for _, row in zip(range(limit), self._offers(queue), strict=False)]

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
        acting = self._acting
        acting.require("ticket.read", *names_of_queue(queue))
        rows = self._rows(FindTickets(queue=queue, limit=limit))
        return rows if acting.sees_all else [row for row in rows if self._may_read(acting, row)]

    def _may_read(self, acting: Acting, row: TicketRow) -> bool:
        """Whether a ticket is theirs to read; nothing is logged, for it was not asked for by name."""
        state = self._controller.load(row.session_id).state
        ticket = state.ticket(row.ticket_no) if state else None
        if state is None or ticket is None:
            return False
        held = ticket.holder is not None and ticket.holder.by == acting.by
        able = held or not why_not_in(needs_of(ticket), acting.by, acting.who)
        return able and acting.covers("ticket.read", f"queue:{ticket.queue}", *names_of(state))

    def show(self, session_id: str, ticket_no: int) -> TicketView:
        """Return an open ticket. Looking changes nothing."""
        return self._view(*self._open("ticket.read", session_id, ticket_no))

    def _rows(self, query: FindTickets | FindOffered) -> list[TicketRow]:
        return cast("list[TicketRow]", self._controller.store.find(query))

    def _offers(self, queue: str | None) -> Iterator[TicketRow]:
        by, who = self._acting.by, self._acting.who
        named = cast("list[LaneRow]", self._controller.store.find(FindLanes()))
        lanes = [
            row.lane
            for row in named
            for lane in (read_lane(row.lane),)
            if queue in (None, lane.queue)
            and lane.serves(by, who)
            and self._acting.covers("ticket.claim", f"queue:{lane.queue}")
        ]
        after = ""
        while lanes:
            rows = self._rows(FindOffered(lanes=lanes, after=after, limit=_PAGE))
            yield from (row for row in rows if by not in row.excluded)
            if len(rows) < _PAGE:
                return
            after = rows[-1].order

    def _load(self, session_id: str) -> State:
        state = self._controller.load(session_id).state
        if state is None:
            raise NotFound("session", session_id)
        return state

    def _open(self, verb: Verb, session_id: str, ticket_no: int) -> tuple[State, Ticket]:
        """Return an open ticket to which they may do this; raises Denied, NotFound, and Conflict for one that was decided.

        The conflict says by whom and how: to everybody who may do this to any ticket.
        """
        self._acting.require(verb)
        state = self._load(session_id)
        ticket = state.ticket(ticket_no)
        name = f"{session_id}/{ticket_no}"
        if ticket is not None:
            self._acting.require_ticket(verb, state, ticket)
            return state, ticket
        if not 0 < ticket_no <= state.tickets_opened:
            raise NotFound("ticket", name)
        first = next((one for one in state.decided if one.ticket_no == ticket_no), None)
        by, how = (first.by, first.how) if first else ("", "see the log for who decided")
        raise Conflict(f"ticket {name} is no longer open", by, how)

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
    """Return the name by which a token may be scoped to a queue; none where no queue is named."""
    return [] if queue is None else [f"queue:{queue}"]


def _limited(limit: int) -> None:
    if not 1 <= limit <= MOST_AT_ONCE:
        raise ContractError("limit", f"expected 1 to {MOST_AT_ONCE}, got {limit}")
