"""Tickets, drafts and records on Redis: over several shards, what they cost, each limit and one beyond it, older formats."""

import json
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Remove
from passdown.broker.stores.queries import FindDraft, FindLanes, FindOffered, FindTickets, LaneRow, TicketRow
from passdown.broker.stores.records import MOST_BYTES, Draft
from passdown.broker.stores.redis import RedisStore, scripts
from passdown.broker.stores.redis.packed import as_it_is, filed_under
from passdown.contracts.errors import Conflict, ContractError, Unavailable
from tests.conformance.building import Clock, do, done, row, step, ticket
from tests.conformance.scripted import KEYS, call
from tests.conformance.suite_records import rec, stands, write
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer

SHARDS = 4
LEADS = '{"candidates":[],"queue":"leads","skills":[]}'


@pytest.fixture
def store(redis_server: RedisServer) -> Iterator[RedisStore]:
    store = RedisStore(redis_server.url(), clock=Clock())
    yield store
    store.close()


@pytest.fixture
def shards(redis_server: RedisServer) -> Iterator[RedisStore]:
    store = RedisStore(redis_server.url(), shards=SHARDS, clock=Clock())
    yield store
    store.close()


def offer(session_id: str, ticket_no: int = 1, *, order: str = "", lane: str = LEADS) -> TicketRow:
    """Return a ticket on offer."""
    return replace(ticket(session_id, ticket_no), lane=lane, order=order or f"p{ticket_no:04}")


def held(row: TicketRow, holder: str = "user:ann") -> TicketRow:
    """Return a ticket as it is once somebody claimed it."""
    return replace(row, version=row.version + 1, holder=holder, lane="", order="")


def offered(store: RedisStore, *lanes: str, after: str = "", limit: int = 50) -> list[TicketRow]:
    found = store.find(FindOffered(lanes=list(lanes) or [LEADS], after=after, limit=limit))
    return cast("list[TicketRow]", found)


def opened(store: RedisStore, **query: Any) -> list[TicketRow]:
    return cast("list[TicketRow]", store.find(FindTickets(**query)))


def counted(store: RedisStore) -> dict[str, int]:
    rows = cast("list[LaneRow]", store.find(FindLanes(counted=True)))
    assert {one.lane for one in cast("list[LaneRow]", store.find(FindLanes()))} == {one.lane for one in rows}
    return {one.lane: one.waiting for one in rows}


def families(server: RedisServer) -> set[str]:
    """Return the names of the families of which there is any key."""
    return {key.decode().split(":")[2] for key in server.client().scan_iter()}


def commands(server: RedisServer) -> int:
    """Return how many commands the server did since it was asked last."""
    client: Any = server.client()
    calls = sum(said["calls"] for said in client.info("commandstats").values())
    client.config_resetstat()
    return calls


# -- several shards --


def test_a_lane_is_one_over_all_shards(shards: RedisStore) -> None:
    rows = [offer(f"s{n % SHARDS}-{n}", order=f"p{n:02}") for n in range(12)]
    for one in reversed(rows):
        done(shards, step(one.session_id, tickets=[one]))
    assert counted(shards) == {LEADS: 12}
    assert offered(shards) == rows
    assert offered(shards, limit=5) == rows[:5]
    assert offered(shards, after="p04", limit=5) == rows[5:10]
    done(shards, step("s1-1", 1, tickets=[held(rows[1])]))
    assert offered(shards, limit=3) == [rows[0], rows[2], rows[3]]
    assert counted(shards) == {LEADS: 11}


def test_who_holds_tickets_is_found_over_all_shards_oldest_first(shards: RedisStore) -> None:
    rows = [replace(held(offer(f"s{n % SHARDS}-{n}")), opened_at=1000 + n // 5) for n in range(20)]
    for one in reversed(rows):
        done(shards, step(one.session_id, tickets=[one]))
    done(shards, step("s0-other", tickets=[held(offer("s0-other"), "user:bob")]))
    assert [one.opened_at for one in opened(shards, holder="user:ann")] == [one.opened_at for one in rows]
    for limit in (1, 7, 20):
        assert len(opened(shards, holder="user:ann", limit=limit)) == limit
    assert [one.session_id for one in opened(shards, holder="user:bob")] == ["s0-other"]
    assert opened(shards, holder="user:eve") == []


def test_of_one_holder_all_are_looked_through_for_a_queue(shards: RedisStore) -> None:
    """More than are read at once, and of one moment."""
    for shard in range(SHARDS):
        name = f"s{shard}-a"
        rows = [held(ticket(name, n, queue="ops" if n == 399 else "leads")) for n in range(400)]
        done(shards, step(name, tickets=rows))
    found = opened(shards, holder="user:ann", queue="ops", limit=9)
    assert sorted((one.session_id, one.ticket_no) for one in found) == [
        (f"s{shard}-a", 399) for shard in range(SHARDS)
    ]
    assert len(opened(shards, holder="user:ann", queue="ops", limit=3)) == 3
    assert len(opened(shards, holder="user:ann", queue="leads", limit=5000)) == 4 * 399
    assert opened(shards, holder="", queue="leads") == []


# -- what it costs, and what it leaves --


def test_a_lane_costs_as_much_whatever_waits_in_it(store: RedisStore, redis_server: RedisServer) -> None:
    def look() -> int:
        commands(redis_server)
        assert len(offered(store, limit=5)) == 5
        assert len(cast("list[LaneRow]", store.find(FindLanes()))) == 1
        return commands(redis_server)

    done(store, *(step(f"s0-{n}", tickets=[offer(f"s0-{n}", order=f"p{n:05}")]) for n in range(5)))
    few = look()
    done(store, *(step(f"s0-{n}", tickets=[offer(f"s0-{n}", order=f"p{n:05}")]) for n in range(5, 1005)))
    assert look() == few


def test_a_step_that_changes_one_ticket_writes_one(store: RedisStore, redis_server: RedisServer) -> None:
    def claim(name: str, count: int) -> int:
        rows = [offer(name, n) for n in range(count)]
        done(store, step(name, tickets=rows))
        commands(redis_server)
        done(store, step(name, 1, tickets=[held(rows[0]), *rows[1:]]))
        return commands(redis_server)

    assert claim("s0-many", 1000) == claim("s0-few", 2)


def test_rule_12_an_emptied_lane_leaves_nothing(store: RedisStore, redis_server: RedisServer) -> None:
    long, odd = "x" * 4096, "\0'\"ä{1}"
    rows = [offer("s0-a", n, lane=lane) for n, lane in enumerate((LEADS, long, odd, long))]
    done(store, step("s0-a", tickets=rows))
    assert counted(store) == {LEADS: 1, long: 2, odd: 1}
    assert max(len(key) for key in redis_server.client().scan_iter()) < 100
    done(store, step("s0-a", 1, tickets=[held(rows[0]), rows[1], held(rows[2]), held(rows[3])]))
    assert counted(store) == {long: 1}
    done(store, step("s0-a", 2, tickets=[held(one) for one in rows]))
    assert counted(store) == {}
    assert families(redis_server) & {"lane", "lanes"} == set()
    done(store, step("s0-a", 3, row=row("s0-a", 4, status="done"), tickets=[]))
    assert families(redis_server) & {"tickets"} == set()


def test_a_lane_in_which_one_follows_another_stays(store: RedisStore) -> None:
    first = offer("s0-a")
    done(store, step("s0-a", tickets=[first]))
    later = replace(first, order="p0009")
    done(store, step("s0-a", 1, tickets=[later]))
    assert offered(store) == [later]
    assert counted(store) == {LEADS: 1}


def test_drafts_go_with_their_session(store: RedisStore, redis_server: RedisServer) -> None:
    done(store, step("s0-a"))
    store.put(Draft(session_id="s0-a", ticket_no=1, by="user:ann", body=b"yes"))
    done(store, step("s0-a", 1, row=row("s0-a", 2, status="done")))
    store.put(Remove(session_id="s0-a", version=2, status="done", keep_ms=1))
    assert "drafts" not in families(redis_server)
    assert store.find(FindDraft(session_id="s0-a", ticket_no=1, by="user:ann")) is None


def test_removed_records_leave_nothing(store: RedisStore, redis_server: RedisServer) -> None:
    write(store, rec("t1"), rec("t2"))
    write(store, rec("t1", 1, None), rec("t2", 1, None))
    assert families(redis_server) == {"meta"}


# -- what moved since its lane was read --


def test_tickets_that_were_claimed_meanwhile_are_left_out_and_others_come_in_their_place(
    store: RedisStore, redis_server: RedisServer
) -> None:
    rows = [offer("s0-a", n, order=f"p{n}") for n in (2, 4, 6)]
    done(store, step("s0-a", tickets=[held(offer("s0-a", 1)), *rows]))
    # As their lane stood before the first was claimed, a second one was resolved, and a third came to stand elsewhere.
    stale = {f"p{n}\0s0-a\0{number:010}": 0 for n, number in ((1, 1), (3, 3), (5, 6))}
    redis_server.client().zadd(KEYS.lane(LEADS), stale)
    assert offered(store, limit=1) == rows[:1]
    assert offered(store, limit=3) == rows
    assert offered(store, after="p2", limit=1) == rows[1:2]
    redis_server.client().zrem(KEYS.lane(LEADS), *stale)


# -- replies that are lost --


def test_records_whose_reply_was_lost_are_sent_once_and_a_second_try_is_a_conflict(
    redis_server: RedisServer,
) -> None:
    with Proxy(redis_server.port) as proxy:
        store = RedisStore(redis_server.url().replace(str(redis_server.port), str(proxy.port)))
        write(store, rec("t0"))
        proxy.lose_replies(every=1)
        with pytest.raises(Unavailable):
            write(store, rec("t1"), rec("t2"))
        proxy.pass_on()
        assert [stands(store, name) for name in ("t1", "t2")] == [(1, b"{}")] * 2
        with pytest.raises(Conflict, match="token t1 is at version 1, not 0"):
            write(store, rec("t1"), rec("t2"))
        store.close()


# -- limits --


def test_a_draft_that_is_too_large_is_refused_though_it_could_be_made_smaller(store: RedisStore) -> None:
    done(store, step("s0-a"))
    draft = Draft(session_id="s0-a", ticket_no=1, by="user:ann", body=b"x" * MOST_BYTES)
    store.put(draft)
    with pytest.raises(ContractError, match=f"the draft of user:ann .* {MOST_BYTES + 1} bytes"):
        store.put(replace(draft, body=b"x" * (MOST_BYTES + 1)))


def test_an_order_with_a_zero_byte_is_refused_before_it_is_sent(store: RedisStore) -> None:
    with pytest.raises(ContractError, match="of ticket 1 has a zero byte"):
        do(store, step("s0-b"), step("s0-a", tickets=[offer("s0-a", order="p\0")]))
    assert store.load("s0-b").version == 0


def test_scripts_refuse_more_than_a_hundred_records_and_more_than_64_kib(store: RedisStore) -> None:
    largest = as_it_is(b"x" * MOST_BYTES)
    with pytest.raises(ContractError, match="more than 100 records"):
        call(store, scripts.RECORDS, [("token", f"t{n}", 0, 1) for n in range(101)], *[b"\0"] * 101)
    for script, about in (
        (scripts.RECORDS, [("token", "t1", 0, 1)]),
        (scripts.DRAFT, ("s0-a", 1, "user:ann", 0)),
    ):
        with pytest.raises(ContractError, match="more than 64 KiB"):
            call(store, script, about, largest + b"x")
        call(store, script, about, largest)
    with pytest.raises(ContractError, match="more than 1000 records"):
        call(store, scripts.FIND_RECORDS, ("token", "", 1001))
    assert len(call(store, scripts.FIND_RECORDS, ("token", "", 1000))) == 2


# -- older formats --


def of_format_2(row: TicketRow) -> tuple[Any, ...]:
    """Return a ticket as format 2 kept it."""
    fields = [row.version, row.kind, row.queue, row.why, row.about, row.opened_at]
    return row.ticket_no, filed_under("queue", row.queue).hex(), row.opened_at, json.dumps(fields)


def test_tickets_of_format_2_are_found_and_come_on_offer_when_their_session_says_so(
    store: RedisStore, redis_server: RedisServer
) -> None:
    old = [ticket("s0-a", 1), ticket("s0-a", 2, queue="ops", opened_at=2000)]
    done(store, step("s0-a", tickets=old))
    kept = msgspec.msgpack.encode([of_format_2(one) for one in old])
    redis_server.client().hset(KEYS.session("s0-a"), "t", kept)
    assert opened(store) == old
    assert opened(store, queue="ops", holder="") == old[1:]
    assert opened(store, holder="user:ann") == []
    assert (counted(store), offered(store)) == ({}, [])
    new = [replace(old[0], lane=LEADS, order="p1"), held(old[1])]
    done(store, step("s0-a", 1, tickets=new))
    assert opened(store) == new
    assert (offered(store), opened(store, holder="user:ann")) == (new[:1], new[1:])
    done(store, step("s0-a", 2, tickets=[]))
    assert families(redis_server) & {"tickets", "lane", "lanes"} == set()
