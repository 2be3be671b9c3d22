"""Tickets that nobody can or may hold: those that no one known may take, and those whose holder lost a grant.

Whoever makes a ticket does not know who works today. The tick looks from time to time: what nobody known could ever
claim goes to the alerting queue, loudly; and a claim ends whose holder may not hold it any more (rule 10).
"""

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import structlog

from passdown.broker.access.directory import TRUSTED_S, Directory, Person
from passdown.broker.acts import is_away
from passdown.broker.controller import Controller
from passdown.broker.core.holding import why_not
from passdown.broker.core.lanes import Lane, read_lane
from passdown.broker.core.parts import Ticket
from passdown.broker.stores.queries import FindLanes, FindOffered, FindTickets, LaneRow, TicketRow
from passdown.contracts import commands as cmd
from passdown.contracts.errors import Conflict, NotFound, PassdownError, Unavailable
from passdown.contracts.plans import ALERTS, OPERATORS

ROUTING = "service:routing"

T = TypeVar("T")

#: Where so few people may take a lane's tickets, four eyes may exclude all of them from one: each ticket is looked at.
#: Who submitted, who proposed, and four of five who must approve.
_FEW = 6
#: For how long nobody who is known may have been able to take a lane's tickets before the alert is raised (seconds):
#: longer than it takes to make everybody known, one by one, or to exchange approvers.
UNROUTABLE_S = 600.0
#: Tickets of one lane that one look reads, those that it moves, and tickets of one holder that it deals with.
_PAGE, _AT_ONCE, _MOST_HELD = 500, 100, 10_000

_log = structlog.get_logger("passdown.routing")


class Looked(NamedTuple):
    """What one look did: tickets that went to the alerting queue, and claims that ended."""

    alerted: int = 0
    released: int = 0


class Routing:
    """Looks every `every_s` seconds, however often it is asked; `monotonic` returns seconds, and is for tests.

    It raises the alert about what nobody could take for `patience_s`, as far as this process has seen.
    """

    def __init__(
        self,
        controller: Controller,
        *,
        every_s: float = 5.0,
        patience_s: float = UNROUTABLE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller = controller
        self._directory = Directory(controller.store)
        self._every_s = every_s
        self._patience_s = patience_s
        self._monotonic = monotonic
        self._next = 0.0
        self._noted: dict[tuple[str, int], float] = {}
        #: Of each lane: who could take its tickets by the last look, and since when it has been these.
        self._able: dict[str, tuple[list[str], float]] = {}
        #: Where the last look at a lane ended.
        self._places: dict[str, str] = {}

    def now_and_then(self) -> Looked:
        """Look, where the last look was long enough ago. Raises Unavailable where the store is away."""
        now = self._monotonic()
        if now < self._next:
            return Looked()
        self._next = now + self._every_s
        return self.look()

    def look(self) -> Looked:
        """Look at once. One ticket, lane or holder that cannot be dealt with stops none of the others.

        Where it cannot be read who is known, nothing is moved.
        """
        # First what somebody may hold no more: it must not wait for what anybody wrote in a ticket.
        released = self._release()
        return Looked(self._alert(), released)

    # -- what nobody may take -------------------------------------------------------------------------------

    def _alert(self) -> int:
        """Raise the alert about tickets that nobody known may take; where nobody is known, everybody may."""
        known = _guarded(lambda: list(self._directory.people()), None, to=ALERTS)
        if known is None:
            return 0  # who cannot be read may be somebody who may take them: that is no reason for an alarm
        people = [person for person in known if person.takes_tickets]
        found = cast("list[LaneRow]", self._controller.store.find(FindLanes()))
        names = [row.lane for row in found]
        self._able = {name: self._able[name] for name in names if name in self._able}
        self._places = {name: self._places[name] for name in names if name in self._places}
        if not people:
            self._able.clear()
            return 0
        return sum(_guarded(lambda name=name: self._see_to(name, people), 0, lane=name) for name in names)

    def _see_to(self, name: str, people: list[Person]) -> int:
        """See to the tickets of a lane; returns how many went to the alerting queue."""
        lane = read_lane(name)
        asked = lane.before or lane
        if asked.queue == ALERTS:
            return 0
        able = _able(asked, people)
        if lane.before is not None:
            self._back(name, able)
            return 0
        if len(able) > _FEW:
            self._able.pop(name, None)
            return 0
        return self._alert_in(name, lane, able)

    def _alert_in(self, name: str, lane: Lane, able: list[str]) -> int:
        before, since = self._able.get(name, (None, 0.0))
        if before != able:
            since = self._monotonic()
        self._able[name] = (able, since)
        if self._monotonic() - since < self._patience_s:
            return 0
        stuck = self._next_of(name, lambda row: set(able) <= set(row.excluded))
        moved = sum(self._move(row, _why(lane, row)) for row in stuck)
        if moved:
            why = f"nobody who is known may take it: {_asked(lane)}"
            if able:
                why = f"four eyes exclude all who may take it: {', '.join(able)}"
            _log.error("inbox.unroutable", queue=lane.queue, tickets=moved, to=ALERTS, why=why)
        return moved

    def _back(self, name: str, able: list[str]) -> None:
        """Give tickets that nobody touched back to the queue from which an alert took them, if somebody may take them again."""
        if not able:
            return
        free = self._next_of(name, lambda row: not set(able) <= set(row.excluded))
        moved = sum(self._move(row, "somebody who may take it is known again", back=True) for row in free)
        if moved:
            _log.info("inbox.routable", tickets=moved, lane=name)

    def _next_of(self, name: str, wanted: Callable[[TicketRow], bool]) -> list[TicketRow]:
        """Return what is wanted of the next page of a lane; the look after the last page begins anew."""
        rows = self._rows(FindOffered(lanes=[name], after=self._places.get(name, ""), limit=_PAGE))
        found = [row for row in rows if wanted(row)]
        place = rows[-1].order if len(rows) == _PAGE else ""
        if len(found) > _AT_ONCE:
            found = found[:_AT_ONCE]
            place = found[-1].order
        self._places[name] = place
        return found

    def _move(self, row: TicketRow, why: str, *, back: bool = False) -> bool:
        """Move a ticket to the alerting queue or back, and say whether it is there now: it may have been claimed since."""
        body = cmd.AlertTicket(ticket_no=row.ticket_no, version=row.version, why=why, back=back)

        def move() -> bool:
            held = self._controller.run(row.session_id, body, ROUTING).held
            ticket = held.state.ticket(row.ticket_no) if held and held.state else None
            return ticket is not None and (ticket.queue == ALERTS) is not back

        return _guarded(move, False, session=row.session_id, ticket=row.ticket_no)

    def _rows(self, query: FindOffered | FindTickets) -> list[TicketRow]:
        return cast("list[TicketRow]", self._controller.store.find(query))

    # -- whose holder lost a grant --------------------------------------------------------------------------

    def _release(self) -> int:
        """End the claims of principals whose grants shrank, where they may not hold what they hold any more."""
        now, sweeps = self._monotonic(), self._directory.sweeps()
        self._noted = {note: self._noted.get(note, now) for note in sweeps}
        return sum(
            _guarded(lambda name=name, version=version: self._sweep(name, version, now), 0, holder=name)
            for name, version in sweeps
        )

    def _sweep(self, name: str, version: int, now: float) -> int:
        rows = self._rows(FindTickets(holder=name, limit=_MOST_HELD))
        done = [
            _guarded(lambda row=row: self._let_go(row, name), None, session=row.session_id) for row in rows
        ]
        ended = sum(one is True for one in done)
        if None in done:
            return ended  # what could not be looked at now is looked at again
        # Until then some process may still trust what it read before, and claim once more.
        settled = now - self._noted[name, version] > TRUSTED_S
        if settled and (len(rows) < _MOST_HELD or not ended):
            self._directory.swept(name, version)
        return ended

    def _why_not(self, ticket: Ticket, name: str) -> str:
        person = self._directory.person(name)
        if person is None or not person.takes_tickets:
            return f"{name} takes no tickets any more"
        return why_not(ticket, name, None if "operator" in person.roles else person.who)

    def _let_go(self, row: TicketRow, name: str) -> bool:
        try:
            state = self._controller.load(row.session_id).state
        except NotFound:
            return False
        ticket = state.ticket(row.ticket_no) if state else None
        if ticket is None or ticket.holder is None or ticket.holder.by != name:
            return False
        why = self._why_not(ticket, name)
        if not why:
            return False
        body = cmd.ReleaseTicket(
            ticket_no=row.ticket_no, lease=ticket.holder.claim_id, why="access", reason=why
        )
        try:
            self._controller.run(row.session_id, body, ROUTING)
        except Conflict:
            return False  # it was decided meanwhile
        _log.warning("inbox.claim_ended", session=row.session_id, ticket=row.ticket_no, holder=name, why=why)
        return True


def _guarded(act: Callable[[], T], otherwise: T, **about: object) -> T:
    """Return what `act` returns, or `otherwise` where it fails, which is said; raises Unavailable where the store is away."""
    try:
        return act()
    except Unavailable as error:
        if is_away(error, str(about.get("session", ""))):
            raise
        _log.warning("inbox.not_routed", **about, error=str(error))
    except PassdownError as error:
        _log.warning("inbox.not_routed", **about, error=str(error))
    except Exception:  # noqa: BLE001 - one broken session must not keep the others from being looked at
        _log.exception("inbox.not_routed", **about)
    return otherwise


def _able(lane: Lane, people: list[Person]) -> list[str]:
    """Return who may take the tickets of a lane.

    Operators may take any, but are not asked to do what is somebody else's: they count on their own queue, and on all
    where only they are known.
    """
    alone = all("operator" in person.roles for person in people)
    theirs = alone or lane.queue == OPERATORS
    return [
        person.name
        for person in people
        if (theirs and "operator" in person.roles) or lane.serves(person.name, person.who)
    ]


def _why(lane: Lane, row: TicketRow) -> str:
    """Say why a ticket is moved by what stands in it alone, so that two processes say the same of it."""
    excluded = f", and not for {', '.join(row.excluded)}" if row.excluded else ""
    return f"nobody who is known may take it: {_asked(lane)}{excluded}"


def _asked(lane: Lane) -> str:
    """Say what the tickets of a lane ask of whoever takes them."""
    who = " or ".join(lane.candidates) or f"group:{lane.queue}"
    return f"it asks for {who}" + (f" with {', '.join(lane.skills)}" if lane.skills else "")
