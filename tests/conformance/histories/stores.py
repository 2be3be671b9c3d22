"""The stores that histories run over. Another one joins by an entry in `STORES`."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from passdown.broker.stores.base import Store
from passdown.broker.stores.redis import RedisStore
from passdown.broker.stores.redis.keys import Keys
from passdown.broker.stores.sqlite import SqliteStore
from tests.servers.redis import RedisServer


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


class Redis:
    """`RedisStore` on a server that a test gives to the class; each history begins with an empty one."""

    server: ClassVar[RedisServer | None] = None
    _last: ClassVar[RedisStore | None] = None

    def __init__(self, clock: Callable[[], int]) -> None:
        assert self.server is not None, "histories over Redis need a server"
        if Redis._last is not None:
            Redis._last.close()
        self._client: Any = self.server.client()
        self._client.flushall()
        self.store = Redis._last = RedisStore(self.server.url(), clock=clock)
        self._keys = Keys(0)

    def rows(self) -> Rows:
        sessions = self._keys.session("")
        rows = Rows({}, {}, {})
        for key in self._client.scan_iter(match=f"{sessions}*", count=1000):
            name = key.decode().removeprefix(sessions)
            queued, claimed, dues = (self._field(key, field) for field in "qld")
            if queued:
                rows.queue[name] = (queued[0], queued[2], queued[3])
                self._stands_once(queued[0], name)
            if claimed and claimed[3] != "told":
                rows.leases[name] = (claimed[0], claimed[3])
            if dues:
                rows.dues[name] = {(kind, subject, at) for kind, subject, at, _ in dues}
        return rows

    def _field(self, key: bytes, field: str) -> Any:
        packed = self._client.hget(key, field)
        return msgspec.msgpack.decode(packed) if packed else None

    def _stands_once(self, role: str, name: str) -> None:
        """What a session says of its place in the queue is where it stands."""
        found = [
            kind
            for kind in ("queue", "queued")
            for handle in self._client.zrange(f"{self._keys.base}{kind}:{role}", 0, -1)
            if handle[12:].decode() == name
        ]
        assert found == ["queue", "queued"], found


STORES: dict[str, Callable[[Callable[[], int]], Driver]] = {"sqlite": Sqlite, "redis": Redis}
