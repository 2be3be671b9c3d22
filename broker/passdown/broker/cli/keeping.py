"""Holding on to a ticket while a person types."""

import time
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Self

from passdown.broker.client import Broker
from passdown.broker.inbox import Ref, TicketView
from passdown.broker.logbook import events, read_logged
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict, Denied, PassdownError, Unavailable

#: How often it is looked whether the ticket is still held (seconds).
_LOOK_S = 1.0


class Keeper:
    """Extends a claim at half of what is left of it, in a thread of its own; calls `lost` with why where it is lost."""

    def __init__(self, broker: Broker, view: TicketView, lost: Callable[[PassdownError], None]) -> None:
        """`view` is a ticket that this person holds."""
        self._broker = broker
        self._ref = Ref(view.session_id, view.ticket_no)
        self._lease = view.lease
        self._lost = lost
        self._done = Event()
        self._seq = self._newest()
        self._until: int | None = None
        self._extend_at = 0.0
        self._see(view)
        self._thread = Thread(target=self._keep, name="passdown-lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(timeout=5)

    def _newest(self) -> int:
        state = self._broker.app.controller.load(self._ref.session_id).state
        return state.seq if state else 0

    def _keep(self) -> None:
        while not self._done.wait(_LOOK_S):
            try:
                self._look()
            except Unavailable:
                continue  # the lease may run out meanwhile; nobody can take the ticket either
            except PassdownError as error:
                self._lost(error)
                return

    def _look(self) -> None:
        inbox = self._broker.inbox
        try:
            view = inbox.show(*self._ref)
        except Denied as error:  # it is on a queue that they do not serve
            raise self._gone("") from error
        if view.lease != self._lease:
            raise self._gone(view.holder)
        self._see(view)
        if time.monotonic() >= self._extend_at:
            self._see(inbox.extend(*self._ref, lease=self._lease))

    def _see(self, view: TicketView) -> None:
        """Note a lease that is new; when it is half over it is extended."""
        if view.until is None or view.until == self._until:
            return
        self._until = view.until
        left = (view.until - self._broker.app.store.load("").now) / 1000
        self._extend_at = time.monotonic() + max(left / 2, 0.0)

    def _gone(self, holder: str) -> Conflict:
        what = f"you no longer hold ticket {self._ref.session_id}/{self._ref.ticket_no}"
        by, how = self._how()
        return Conflict(what, holder or by, how or "claim it again")

    def _how(self) -> tuple[str, str]:
        """Return who claimed the ticket last, and what became of the claim, by the log since then."""
        by = found = ""
        for raw in events(self._broker.app.store, self._ref.session_id, after=self._seq):
            logged = read_logged(raw)
            match logged.event:
                case ev.TicketClaimed(ticket_no=self._ref.ticket_no, taken_from=""):
                    by = logged.by
                case ev.TicketClaimed(ticket_no=self._ref.ticket_no, reason=reason):
                    by, found = logged.by, f"took it over: {reason}"
                case ev.TicketReleased(ticket_no=self._ref.ticket_no, why="lapsed"):
                    found = "your lease ran out"
                case ev.TicketReleased(ticket_no=self._ref.ticket_no, reason=reason):
                    found = reason or "it was given back"
                case ev.TicketReassigned(ticket_no=self._ref.ticket_no, to=to, reason=reason):
                    by, found = to, f"it was handed on{f': {reason}' if reason else ''}"
                case ev.TicketEscalated(ticket_no=self._ref.ticket_no, queue=queue):
                    by, found = "", f"it went on to queue {queue}"
                case ev.TicketSnoozed(ticket_no=self._ref.ticket_no):
                    found = "it was snoozed"
                case _:
                    pass
        return by, found
