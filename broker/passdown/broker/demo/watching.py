"""Waits for sessions to settle: each as expected, or wrongly at rest, which is said at once."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from passdown.broker.client import Broker
from passdown.broker.core.state import TERMINAL
from passdown.broker.stores.queries import SessionRow

_PAGE = 500
WAITING = "waiting-human"
#: The kind of ticket that asks whether an effect happened.
EFFECT = "effect"


@dataclass(slots=True)
class Watch:
    """Which sessions have settled. ``attended`` are the queues on which somebody will act.

    ``expected``: session id → its status at the end; one that is to end as `waiting-human` waits on ``left``.
    """

    broker: Broker
    expected: dict[str, str]
    attended: frozenset[str]
    left: str
    settled: dict[str, str] = field(default_factory=dict[str, str])
    clock: Callable[[], float] = time.monotonic
    _moved: float = 0.0
    _seen: int = -1

    @property
    def complete(self) -> bool:
        """Whether all sessions have settled."""
        return len(self.settled) == len(self.expected)

    @property
    def wrong(self) -> dict[str, str]:
        """The sessions that settled otherwise than expected, and how."""
        return {one: status for one, status in self.settled.items() if status != self.expected[one]}

    def look(self) -> None:
        """Look at the sessions that have not settled yet."""
        before: str | None = None
        missing = len(self.expected) - len(self.settled)
        versions = 0
        while missing and (rows := self.broker.sessions(limit=_PAGE, before=before)):
            before = rows[-1].session_id
            for row in rows:
                if row.session_id in self.expected and row.session_id not in self.settled:
                    missing -= 1
                    versions += row.version
                    self._judge(row)
        self._note(versions + len(self.settled))

    def idle_seconds(self) -> float:
        """Return for how long nothing has changed."""
        return self.clock() - self._moved if self._moved else 0.0

    def _note(self, seen: int) -> None:
        if seen != self._seen or not self._moved:
            self._seen, self._moved = seen, self.clock()

    def _judge(self, row: SessionRow) -> None:
        if row.status in TERMINAL or (row.status == WAITING and self._rests(row)):
            self.settled[row.session_id] = row.status

    def _rests(self, row: SessionRow) -> bool:
        """Whether a session waits for people who will not come."""
        tickets = self.broker.tickets(session_id=row.session_id)
        queues = {ticket.queue for ticket in tickets}
        if self.expected[row.session_id] == WAITING:
            # Whether an effect happened is asked in passing; it is no end.
            return queues == {self.left} and all(ticket.kind != EFFECT for ticket in tickets)
        return bool(queues) and not queues & self.attended
