"""`RedisStore`: the store for pools of machines, on Redis 7.0 or newer, or Valkey."""

from collections.abc import Callable

from passdown.broker.stores import base, queries


class RedisStore:
    """A store in one database of one Redis or Valkey server."""

    def __init__(
        self,
        url: str,
        *,
        shards: int | None = None,
        clock: Callable[[], int] | None = None,
        prefix: str = "pd",
    ) -> None:
        """Open the store, and make it where there is none.

        ``url``: ``redis://host:port/db``, ``rediss://…`` or ``unix:///path``; see `address.Address` for its
        options. ``shards``: how many the store must have (None: as many as it has, one where it is made here).
        ``clock`` returns milliseconds since the epoch, and takes the place of the server's, for tests.
        """
        raise NotImplementedError

    @property
    def shards(self) -> int:
        """Over how many shards sessions are spread."""
        raise NotImplementedError

    def load(self, session_id: str, command_id: str = "", command_digest: str = "") -> base.Loaded:
        raise NotImplementedError

    def commit(
        self, commits: list[base.Commit], take: base.TakeRequest | None = None
    ) -> tuple[list[base.Outcome], base.Taken | None]:
        raise NotImplementedError

    def take(self, request: base.TakeRequest) -> base.Taken:
        raise NotImplementedError

    def hand_back(self, back: base.HandBack) -> None:
        raise NotImplementedError

    def renew(self, renewals: list[base.Renewal]) -> list[base.Verdict]:
        raise NotImplementedError

    def due(self, request: base.DueRequest) -> base.Dues:
        raise NotImplementedError

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        raise NotImplementedError

    def find(self, query: queries.Query) -> queries.Found:
        raise NotImplementedError

    def put(self, what: base.Put) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of connections."""
