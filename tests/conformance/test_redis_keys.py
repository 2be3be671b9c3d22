"""All keys of one script lie in one hash slot, as a cluster demands; and each key is of a family that is bounded."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Count, Documents, Quarantine, Remove, Store, Told
from passdown.broker.stores.joining import PAGES_WAIT_MS, JoinPut, JoinRow, JoinSeen, Page, Wake
from passdown.broker.stores.queries import (
    FindLanes,
    FindQuarantine,
    FindQueues,
    FindSessions,
    FindTickets,
    LaneRow,
)
from passdown.broker.stores.records import Draft
from passdown.broker.stores.redis import RedisStore
from passdown.broker.stores.redis.keys import FAMILIES, Keys, family_of, shard_of
from passdown.contracts.ids import branch_id, join_id, session_id
from tests.conformance.building import (
    Clock,
    back,
    claim,
    done,
    due,
    entry,
    names,
    pack,
    renew,
    row,
    step,
    take,
    ticket,
)
from tests.conformance.on_redis import Generous, OnRedis
from tests.conformance.suite_records import rec, write
from tests.servers.fixtures import StartRedis
from tests.servers.redis import RedisServer, slots_to_itself
from tests.servers.slots import SLOTS, Watch, slot

# What a role, a task or a session may be called, at its worst.
ODD = ["analyst", "", "{7}", "}", "{", "a:b", "{}", "x\ny\0", "ä{1}"]


def built(keys: Keys) -> dict[str, list[str]]:
    """Return what each builder of keys builds: by its name, for each odd name."""
    plain = {name: [value] for name, value in vars(keys).items() if isinstance(value, str) and name != "base"}
    builders = {name: build for name, build in vars(Keys).items() if not name.startswith("_")}
    return plain | {name: [build(keys, odd) for odd in ODD] for name, build in builders.items()}


@pytest.mark.parametrize("prefix", ["pd", "team-b", "A.b_c"])
@pytest.mark.parametrize("shard", [0, 3, 1023])
def test_all_keys_of_a_shard_lie_in_one_slot(shard: int, prefix: str) -> None:
    keys = [key for some in built(Keys(shard, prefix)).values() for key in some]
    assert {slot(key.encode()) for key in keys} == {slot(str(shard).encode())}


def test_shards_are_spread_over_the_slots() -> None:
    assert len({slot(Keys(shard).meta.encode()) for shard in range(1024)}) > 1000
    assert max(slot(Keys(shard).meta.encode()) for shard in range(1024)) > SLOTS * 0.99


def test_every_builder_is_of_a_family_and_every_family_has_a_builder() -> None:
    made = built(Keys(2, "team"))
    assert {name.replace("_", "-") for name in made} == {family.name for family in FAMILIES}
    for name, keys in made.items():
        for key in keys:
            family = family_of(key, "team")
            assert family is not None, key
            assert family.name == name.replace("_", "-")


def test_no_key_of_another_store_is_of_a_family() -> None:
    for key in (
        Keys(0, "other").dues,
        Keys(0, "p.").dues.replace("p.", "px"),
        "pd:dues",
        "pd:{0}:",
        "pd:{x}:dues",
    ):
        assert family_of(key, "p." if key.startswith("px") else "pd") is None


def test_an_id_that_names_no_shard_of_the_store_has_none() -> None:
    assert [shard_of(one, 4) for one in ("s0-a", "s3-a", "s4-a", "s03-a", "x", "", "s-a", "s1")] == [
        *(0, 3),
        *[None] * 6,
    ]


class TestWatched(OnRedis):
    """The suite once more, while each key that each script touches is looked at."""

    shards = 4

    @pytest.fixture
    def connect(self, clock: Clock, server: RedisServer) -> Iterator[Callable[[], Store]]:
        watch = Watch(server.client())
        stores: list[RedisStore] = []

        def connect() -> Store:
            stores.append(Generous(server.url(), shards=self.shards, clock=clock))
            return stores[-1]

        yield connect
        for store in stores:
            store.close()
        calls = watch.calls()
        assert [one for one in calls if len(one.slots) > 1] == []
        assert [one for one in calls if one.command == "evalsha" and one.keys] != []


@pytest.fixture
def cluster(start_redis: StartRedis) -> RedisServer:
    server = start_redis(cluster_enabled="yes")
    slots_to_itself(server)
    return server


def test_a_cluster_serves_a_store_with_a_prefix_and_shards(cluster: RedisServer) -> None:
    """The server itself refuses a script that leaves its slot."""
    clock = Clock()
    store = RedisStore(cluster.url(), shards=4, clock=clock, prefix="team-b")
    sessions = [session_id(f"order-{n}", 4) for n in range(16)]
    assert {shard_of(one, 4) for one in sessions} == {0, 1, 2, 3}
    store.put(Documents(plans=[], tools=[]))
    for one in sessions:
        on_offer = replace(ticket(one), lane="leads", order="1")
        done(store, step(one, queue=pack(), dues=[entry(after_ms=5000)], tickets=[on_offer]))
        store.put(Draft(session_id=one, ticket_no=1, by="user:ann", body=b"yes"))
    assert store.find(FindLanes(counted=True)) == [LaneRow(lane="leads", waiting=16)]
    write(store, *(rec(name, n, body) for name in ("t1", "t2") for n, body in ((0, b"{}"), (1, None))))
    taken = {name for _ in range(8) for name in names(take(store, slots=9))}
    assert taken == set(sessions)
    store.hand_back(back(sessions[0]))
    assert names(take(store, slots=9)) == [sessions[0]]
    for one in sessions:
        claim(store, one)
        assert renew(store, one) == "held"
        join = join_id(one, 1)
        done(store, step(one, 2, join=JoinPut(join_id=join, wakes=[Wake(outcomes=["done"], at=1)])))
        branch = branch_id(join, 0)
        row_of = JoinRow(join_id=join, place=0, branch="eu", session_id=branch, outcome="done", about=b"{}")
        of_parent = row(branch, 1, status="done", parent=one)
        assert done(store, step(branch, row=of_parent, join_row=row_of)).woke == [join]
        store.put(Page(session_id=one, name="items", number=0, body=b"[]"))
    clock.forward(5000)
    assert {name for name, kind, _ in due(store) if kind == "join"} == set(sessions)
    clock.forward(5000)
    for one in sessions:
        store.put(JoinSeen(join_id=join_id(one, 1), version=1))
    store.put(Count(session_id=sessions[0], name="fenced"))
    store.put(Quarantine(source="returns", reason="not JSON", body=b"\xff"))
    for one in sessions:
        ended = step(one, 3, row=row(one, 4, status="done"), dues=[], tickets=[], lease="end")
        done(store, ended)
    found = store.find(FindSessions(status="done"))
    assert isinstance(found, list)
    assert len(found) == len(sessions)
    assert store.find(FindTickets()) == []
    assert store.find(FindQueues()) == []
    assert store.find(FindQuarantine())
    for one in sessions:
        store.put(Told(session_id=one, seq=4))
        branch = branch_id(join_id(one, 1), 0)
        for name, version in ((branch, 1), (one, 4)):
            store.put(Remove(session_id=name, version=version, status="done", keep_ms=1000))
            assert store.load(name).removed == "done"
        store.put(Page(session_id=f"{one}-never", name="items", number=0, body=b"[]"))
    clock.forward(PAGES_WAIT_MS)
    assert due(store) == []
    assert {store.load(one).removed for one in sessions} == {""}
    store.close()
    left = [key.split(b":") for key in cluster.client().scan_iter()]
    assert {prefix for prefix, *_ in left} == {b"team-b"}
    assert {family for _, _, family, *_ in left} == {b"meta", b"quarantine"}
