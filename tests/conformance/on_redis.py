"""The driver of `RedisStore` for the conformance suite."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from msgspec import structs

from passdown.broker.stores.base import Commit, Outcome, Store, Taken, TakeRequest
from passdown.broker.stores.redis import RedisStore, ticking
from tests.conformance.building import Clock, done, pack, step, take
from tests.conformance.store_suite import StoreSuite
from tests.conformance.suite_drafts import DraftSuite
from tests.conformance.suite_records import RecordSuite
from tests.conformance.suite_tickets import TicketSuite
from tests.servers.redis import RedisServer


class Generous(RedisStore):
    """Takes limits as those of each shard, for all sessions of the suite live on the first.

    A store splits them among its shards (DESIGN §11); `test_redis_shards.py` is about that.
    """

    def commit(
        self, commits: list[Commit], take: TakeRequest | None = None
    ) -> tuple[list[Outcome], Taken | None]:
        generous = [structs.replace(one, room=one.room * self.shards) for one in commits]
        return super().commit(generous, take and self._times_shards(take))

    def take(self, request: TakeRequest) -> Taken:
        return super().take(self._times_shards(request))

    def _times_shards(self, request: TakeRequest) -> TakeRequest:
        return structs.replace(
            request,
            role_limit=request.role_limit * self.shards,
            task_limit=request.task_limit * self.shards,
        )


class OnRedis(StoreSuite, TicketSuite, DraftSuite, RecordSuite):
    """On Debian's Redis with one shard; a subclass may say otherwise."""

    shards = 1

    def test_looking_often_shortens_no_ring(self, store: Store, clock: Clock) -> None:
        """Of several shards each look asks all anew: a ring may be one too many, never one too few."""
        if self.shards == 1:
            super().test_looking_often_shortens_no_ring(store, clock)
            return
        take(store, linger_ms=1000)
        take(store, linger_ms=10)
        assert done(store, step("s0-1", queue=pack())).ring == []
        clock.forward(500)
        assert done(store, step("s0-2", queue=pack())).ring == ["analyst"]

    @pytest.fixture(autouse=True)
    def tick_clock(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        """A tick reckons how long it asked the shards before; by a clock that goes only when told to, that is no time."""
        monkeypatch.setattr(ticking, "time", SimpleNamespace(monotonic=lambda: clock() / 1000))

    @pytest.fixture
    def server(self, redis_server: RedisServer) -> RedisServer:
        return redis_server

    @pytest.fixture
    def connect(self, clock: Clock, server: RedisServer) -> Iterator[Callable[[], Store]]:
        stores: list[RedisStore] = []

        def connect() -> Store:
            stores.append(Generous(server.url(), shards=self.shards, clock=clock))
            return stores[-1]

        yield connect
        for store in stores:
            store.close()
