"""The stores that histories run over. Another one joins by an entry in `STORES`."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from passdown.broker.stores.base import Store
from passdown.broker.stores.sqlite import SqliteStore


class Rows(NamedTuple):
    """What stands beside the states, by session, read past the store's protocol.

    ``queue``: (role, step, attempt); ``leases``: (claim id, standing), where the claim is not over;
    ``dues``: (kind, subject, at).
    """

    queue: dict[str, tuple[str, int, int]]
    leases: dict[str, tuple[str, str]]
    dues: dict[str, set[tuple[str, str, int]]]


class Driver(Protocol):
    """A store to try, and a look past its protocol."""

    @property
    def store(self) -> Store: ...

    def rows(self) -> Rows: ...


class Sqlite:
    """`SqliteStore` in memory."""

    _QUEUE = "SELECT s.session_id, q.role, q.step, q.attempt FROM queue q JOIN sessions s USING (n)"
    _LEASES = (
        "SELECT s.session_id, l.claim_id, l.standing FROM leases l JOIN sessions s USING (n)"
        " WHERE l.standing <> 'told'"
    )
    _DUES = "SELECT s.session_id, d.kind, d.subject, d.at FROM dues d JOIN sessions s USING (n)"

    def __init__(self, clock: Callable[[], int]) -> None:
        self.store = SqliteStore(":memory:", clock=clock)
        self._writer = vars(self.store)["_writer"]

    def rows(self) -> Rows:
        queue, leases, dues = self._writer.run(self._read)
        by_session: dict[str, set[tuple[str, str, int]]] = {}
        for session_id, *entry in dues:
            by_session.setdefault(session_id, set()).add(tuple(entry))
        assert len(queue) == len({row[0] for row in queue}), "a session is in the queue twice"
        return Rows(
            {row[0]: tuple(row[1:]) for row in queue}, {row[0]: tuple(row[1:]) for row in leases}, by_session
        )

    def _read(self, batch: Any) -> list[list[Any]]:
        db = batch.settled()
        return [db.execute(query).fetchall() for query in (self._QUEUE, self._LEASES, self._DUES)]


STORES: dict[str, Callable[[Callable[[], int]], Driver]] = {"sqlite": Sqlite}
