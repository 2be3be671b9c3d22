"""Scripted people: they look at what waits on their queues, and answer it. Asking them twice is fine.

One `Desk` polls for all of them, from a thread of its own; each decision is a command under a person's
name, so that an answer that was given already is met as such.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import structlog

from passdown.broker.client import Broker
from passdown.broker.stores.queries import TicketRow
from passdown.contracts.errors import Conflict, NotFound, PassdownError

#: Decides a ticket and says so, or leaves it; whatever it raises is said, and it is asked again at the next look.
Decide = Callable[[TicketRow], bool]

_log = structlog.get_logger("passdown.demo")

_LOOK_SECONDS = 0.02
_AT_ONCE = 8
_PAGE = 1000


class Desk:
    """Polls some queues and has their tickets decided, several at once; use it as a context."""

    def __init__(self, broker: Broker, queues: dict[str, Decide]) -> None:
        self._broker = broker
        self._queues = queues
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="passdown-desk")
        self._thread = threading.Thread(target=self._run, name="passdown-desk", daemon=True)
        self.decided = 0

    def look(self) -> int:
        """Look once; return how many tickets were decided."""
        found = [
            (decide, ticket)
            for queue, decide in self._queues.items()
            for ticket in self._broker.tickets(queue=queue, limit=_PAGE)
        ]
        done = sum(self._pool.map(self._decide, found))
        self.decided += done
        return done

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                found = self.look()
            except PassdownError as error:
                _log.warning("the desk could not look", action="desk-away", error=str(error))
                found = 0
            if not found:
                self._stop.wait(_LOOK_SECONDS)

    def _decide(self, found: tuple[Decide, TicketRow]) -> bool:
        decide, ticket = found
        try:
            return decide(ticket)
        except (Conflict, NotFound):
            # Decided meanwhile: by an earlier try whose reply was lost, or by the session moving on.
            return False
        except PassdownError as error:
            _log.warning("a ticket was not decided", action="desk-failed", why=ticket.why, error=str(error))
            return False
