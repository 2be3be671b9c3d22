"""One group of 2,000 and one of 20,000 branches: what is held of each does not grow with how many there are."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from passdown.agents.runtime import Runtime
from passdown.broker.app import App, Transport
from passdown.broker.client import Broker, Session
from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.stores import base
from passdown.broker.stores.queries import FindJoin, Found, JoinRecord, Query
from passdown.broker.stores.redis import RedisStore
from passdown.broker.stores.sqlite import SqliteStore
from passdown.broker.tick import Tick
from passdown.contracts.gateway import Claim, Claiming, Giving
from tests.conformance.faulty import FaultyStore
from tests.integration import join_desk as desk
from tests.integration.flow import say
from tests.integration.joins import ME, counted, fan_plan
from tests.integration.proof import assert_sound
from tests.integration.test_joins_faults import done
from tests.servers.redis import RedisServer
from tests.soaking import scaled

#: What the store is asked at once, at the most: commits in one call, rows of a join in one answer.
MOST_COMMITS, MOST_ROWS = 128, 500
#: What the state of a parent may have (bytes), what a branch may cost more where there are ten times as many of them,
#: and what all of them together may need more in the process.
STATE, FLAT, TOGETHER = 8_000, 1.3, 2


class Metered(FaultyStore):
    """A store that works, and keeps how much was asked of it at once."""

    def __init__(self, inner: base.Store) -> None:
        super().__init__(inner, lambda _: None)
        self.commits = self.rows = 0
        self.states: dict[str, int] = {}
        self.parent = ""

    def commit(
        self, commits: list[base.Commit], take: base.TakeRequest | None = None
    ) -> tuple[list[base.Outcome], base.Taken | None]:
        self.commits = max(self.commits, len(commits))
        for one in commits:
            if one.session_id == self.parent or not one.row.parent:
                self.states[one.session_id] = max(self.states.get(one.session_id, 0), len(one.state))
        return super().commit(commits, take)

    def find(self, query: Query) -> Found:
        found = super().find(query)
        if isinstance(found, list):
            self.rows = max(self.rows, len(found))
        return found


@dataclass
class Cost:
    """What a group cost (bytes): in the store for each branch, in the process at its peak, and the parent's largest state."""

    stored: float
    peak: int
    state: int


class Group:
    """A broker in this process, and groups of branches that it goes through."""

    def __init__(self, inner: base.Store, used: Callable[[], int]) -> None:
        self.store = Metered(inner)
        self._used = used
        bell = SilentDoorbell()
        controller = Controller(self.store, bell)
        self.broker = Broker(App(self.store, Transport("", {}), bell, controller), "user:producer")
        self._gateway = DirectGateway(controller)
        self._tick = Tick(controller, reserve_ms=1_000)
        self._runtime = Runtime(self._gateway, agents=[desk.total])
        self.broker.register(fan_plan("counter", merge="reduce:total", most=100_000))

    def run(self, count: int) -> Cost:
        """Go through a group, look at what it shows, and return what it cost."""
        before = self._used()
        tracemalloc.start()
        session = self.broker.submit("fan", lists={"items": range(count)}, key=f"group-{count}")
        while session.status() == "waiting-join":
            while self._work():
                pass
            self._tick.once()
        self._runtime.drain("reduce.total")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert session.result(timeout_s=60).output == {"n": count}
        self._prove(session, count)
        return Cost((self._used() - before) / count, peak, self.store.states[session.id])

    def _work(self) -> int:
        packs = [offer.pack for offer in self._gateway.take("counter", 100).offers]
        asked = [Claiming(pack, f"claim-{pack.session_id}", ME) for pack in packs]
        claims = self._gateway.claim_all(asked)
        given = [
            Giving(claim, done(pack, claim.fence.claim_id), [])
            for pack, claim in zip(packs, claims, strict=True)
            if isinstance(claim, Claim)
        ]
        failed, _ = self._gateway.give_all(given)
        assert failed == [None] * len(packs)
        return len(packs)

    def _prove(self, session: Session, count: int) -> None:
        seen = counted(session)
        assert seen["Joined"] == 1
        assert seen["BranchesOpened"] <= count // 500 + 1
        record: Any = self.broker.app.store.find(FindJoin(join_id=f"{session.id}.j-1"))
        assert isinstance(record, JoinRecord)
        assert (record.rewrites, record.counts["done"]) == (0, count)
        # Each row was written once, and the parent changed the record with each of these events alone.
        assert record.version == count + seen["BranchesOpened"] + seen["Joined"]
        assert_sound(session)


@pytest.mark.soak
@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_rule_12_what_a_branch_costs_does_not_grow_with_their_number(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    """dramatiq#258: no call is over its bounded batch, and ten times the branches cost ten times as much."""
    if store == "sqlite":
        path = tmp_path / "groups.db"
        inner: base.Store = SqliteStore(str(path))

        def used() -> int:
            return sum(one.stat().st_size for one in tmp_path.iterdir() if one.name.startswith(path.name))

    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        inner = RedisStore(server.url())
        client: Any = server.client()

        def used() -> int:
            return client.info("memory")["used_memory"]

    group = Group(inner, used)
    many = scaled(20_000, at_least=2_000)
    few, all_of_them = group.run(many // 10), group.run(many)
    say(f"{store}: {many // 10} branches {few}, {many} branches {all_of_them}")
    assert group.store.commits <= MOST_COMMITS
    assert group.store.rows <= MOST_ROWS
    assert max(few.state, all_of_them.state) < STATE
    assert all_of_them.stored < few.stored * FLAT
    assert all_of_them.peak < few.peak * TOGETHER
    group.broker.close()
