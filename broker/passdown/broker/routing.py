"""Tickets that nobody can or may hold: those that no one known may take, and those whose holder lost a grant.

Whoever makes a ticket does not know who works today. The tick looks from time to time: what nobody known could ever
claim goes to the alerting queue, loudly; and a claim ends whose holder may not hold it any more (rule 10).
"""

import time
from collections.abc import Callable
from typing import NamedTuple, cast

import structlog

from passdown.broker.access.directory import TRUSTED_S, Directory, Person
from passdown.broker.controller import Controller
from passdown.broker.core.holding import why_not
from passdown.broker.core.lanes import Lane, read_lane
from passdown.broker.core.parts import Ticket
from passdown.broker.stores.queries import FindLanes, FindOffered, FindTickets, LaneRow, TicketRow
from passdown.contracts import commands as cmd
from passdown.contracts.errors import Conflict, NotFound
from passdown.contracts.plans import ALERTS

ROUTING = "service:routing"

#: Where so few people may take a lane's tickets, four eyes may exclude all of them from one: each ticket is looked at.
#: Who submitted, who proposed, and four of five who must approve.
_FEW = 6
#: Tickets of one lane, and of one holder, that one look deals with.
_AT_ONCE, _MOST_HELD = 100, 10_000

_log = structlog.get_logger("passdown.routing")


class Looked(NamedTuple):
    """What one look did: tickets that went to the alerting queue, and claims that ended."""

    alerted: int = 0
    released: int = 0


class Routing:
    """Looks every `every_s` seconds, however often it is asked; `monotonic` returns seconds, and is for tests."""

    def __init__(
        self,
        controller: Controller,
        *,
        every_s: float = 5.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller = controller
        self._directory = Directory(controller.store)
        self._every_s = every_s
        self._monotonic = monotonic
        self._next = 0.0
        self._noted: dict[tuple[str, int], float] = {}

    def now_and_then(self) -> Looked:
        """Look, where the last look was long enough ago. Raises Unavailable where the store is away."""
        now = self._monotonic()
        if now < self._next:
            return Looked()
        self._next = now + self._every_s
        return self.look()

    def look(self) -> Looked:
        """Look at once."""
        return Looked(self._alert(), self._release())

    # -- what nobody may take -------------------------------------------------------------------------------

    def _alert(self) -> int:
        """Raise the alert about tickets that nobody known may take; where nobody is known, everybody may."""
        people = [person for person in self._directory.people() if person.takes_tickets]
        if not people:
            return 0
        lanes = cast("list[LaneRow]", self._controller.store.find(FindLanes()))
        return sum(self._alert_in(row.lane, people) for row in lanes)

    def _alert_in(self, name: str, people: list[Person]) -> int:
        lane = read_lane(name)
        if lane.queue == ALERTS:
            return 0
        able = [person.name for person in people if lane.serves(person.name, person.who)]
        if len(able) > _FEW:
            return 0
        rows = self._rows(FindOffered(lanes=[name], limit=_AT_ONCE))
        stuck = [row for row in rows if set(able) <= set(row.excluded)]
        if not stuck:
            return 0
        why = f"nobody who is known may take it: {_asked(lane)}"
        if able:
            why = f"four eyes exclude all who may take it: {', '.join(able)}"
        for row in stuck:
            body = cmd.AlertTicket(ticket_no=row.ticket_no, version=row.version, why=why)
            self._controller.run(row.session_id, body, ROUTING)
        _log.error("inbox.unroutable", queue=lane.queue, tickets=len(stuck), to=ALERTS, why=why)
        return len(stuck)

    def _rows(self, query: FindOffered | FindTickets) -> list[TicketRow]:
        return cast("list[TicketRow]", self._controller.store.find(query))

    # -- whose holder lost a grant --------------------------------------------------------------------------

    def _release(self) -> int:
        """End the claims of principals whose grants shrank, where they may not hold what they hold any more."""
        now, sweeps = self._monotonic(), self._directory.sweeps()
        self._noted = {note: self._noted.get(note, now) for note in sweeps}
        return sum(self._sweep(name, version, now) for name, version in sweeps)

    def _sweep(self, name: str, version: int, now: float) -> int:
        rows = self._rows(FindTickets(holder=name, limit=_MOST_HELD))
        ended = sum(self._let_go(row, name) for row in rows)
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


def _asked(lane: Lane) -> str:
    """Say what the tickets of a lane ask of whoever takes them."""
    who = " or ".join(lane.candidates) or f"group:{lane.queue}"
    return f"it asks for {who}" + (f" with {', '.join(lane.skills)}" if lane.skills else "")
