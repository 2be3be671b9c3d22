"""Joins and pages on Redis: what a row costs, each limit and one beyond it, and that a large join is let go of beside."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Remove
from passdown.broker.stores.joining import PAGES_WAIT_MS, WOKEN_MS, JoinPut, Page, Wake
from passdown.broker.stores.queries import FindJoin
from passdown.broker.stores.redis import RedisStore, joins, scripts
from passdown.broker.stores.redis.joins import MOST_OUTCOMES, MOST_PAGE, MOST_WAKES
from passdown.broker.stores.redis.packed import as_it_is
from passdown.contracts.errors import ContractError
from passdown.contracts.ids import branch_id, join_id, session_id
from tests.conformance.building import Clock, do, done, due, opened, pack, row, step
from tests.conformance.joining import (
    JOIN,
    PARENT,
    branch,
    closing,
    fan_out,
    keep,
    mark,
    marked,
    outcomes,
    page,
    put,
    record,
    rows,
    standing,
    wake,
)
from tests.conformance.scripted import KEYS, call
from tests.servers.process import wait_until
from tests.servers.redis import RedisServer
from tests.servers.slots import Watch

#: Joins that one call of `remove.lua` removes.
MOST_JOINS = 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(redis_server: RedisServer, clock: Clock) -> Iterator[RedisStore]:
    store = RedisStore(redis_server.url(), clock=clock)
    yield store
    store.close()


@pytest.fixture
def shards(redis_server: RedisServer, clock: Clock) -> Iterator[RedisStore]:
    store = RedisStore(redis_server.url(), shards=4, clock=clock)
    yield store
    store.close()


def commands(server: RedisServer) -> dict[str, int]:
    """Return how often the server did each command."""
    stats: dict[str, Any] = server.client().info("commandstats")
    return {
        name: said["calls"]
        for name, said in stats.items()
        if name not in ("cmdstat_info", "cmdstat_config|resetstat")
    }


def cost(store: RedisStore, server: RedisServer, act: Any) -> dict[str, int]:
    """Commit, and return the commands that it took."""
    server.client().config_resetstat()
    done(store, act)
    return commands(server)


def ended(version: int) -> Any:
    return step(PARENT, version - 1, row=row(PARENT, version, status="done"))


# -- what it costs --


def test_a_step_without_joins_touches_none(store: RedisStore, redis_server: RedisServer) -> None:
    fan_out(store, wake(9))
    watch = Watch(redis_server.client())
    opened(store, "s0-a")
    done(store, step("s0-a", 1, queue=pack(), row=row("s0-a", 2, status="done")))
    keys = {key for call in watch.calls() for key in call.keys}
    assert {key.split(b":")[2] for key in keys} & {b"join", b"joins", b"pages", b"unopened"} == set()
    assert any(b":session:s0-a" in key for key in keys)


def test_rule_07_a_row_takes_as_many_commands_whatever_rows_there_are(
    store: RedisStore, redis_server: RedisServer
) -> None:
    """The last one, too, which wakes the join."""
    fan_out(store, wake(1002), wake(1003))
    first = cost(store, redis_server, branch(0))
    do(store, *(branch(n) for n in range(1, 1000)))
    assert cost(store, redis_server, branch(1000)) == first
    woke = cost(store, redis_server, branch(1001))
    assert cost(store, redis_server, branch(1002)) == woke
    assert sum(woke.values()) == sum(first.values()) + 2


def test_rule_12_a_row_takes_little_beside_what_it_is_about(
    store: RedisStore, redis_server: RedisServer
) -> None:
    client: Any = redis_server.client()
    fan_out(store)
    about = b'{"digest":"%064d","bytes":120}' % 7
    done(store, *(replace(branch(n), join_row=mark(n, about=about)) for n in range(1000)))
    assert rows(store, 999)[0].about == about
    assert client.memory_usage(KEYS.join(JOIN), samples=0) < 1000 * (len(about) + 200)
    assert client.hstrlen(KEYS.join(JOIN), "h") < 100


# -- limits --


def most(wakes: int, named: int) -> JoinPut:
    return put(*[Wake(outcomes=[f"o{n}" for n in range(named)], at=1)] * wakes)


def test_a_join_has_so_many_wakes_and_outcomes_and_no_more(store: RedisStore) -> None:
    for wakes, named in ((MOST_WAKES + 1, 1), (1, MOST_OUTCOMES + 1)):
        with pytest.raises(ContractError, match=f"has {wakes} wakes of up to {named} outcomes, and may have"):
            do(store, step("s0-a"), step(PARENT, join=most(wakes, named)))
    assert store.load(PARENT).version == store.load("s0-a").version == 0
    done(store, step(PARENT, join=most(MOST_WAKES, MOST_OUTCOMES)))
    last = f"o{MOST_OUTCOMES - 1}"
    assert marked(store, 0, outcome=last).woke == [JOIN]
    assert standing(store) == (1, 0, {last: 1}, None)


def test_an_outcome_of_255_bytes_will_do_and_a_longer_one_is_refused(store: RedisStore) -> None:
    fan_out(store)
    longest = "ä" * 127 + "x"
    marked(store, 0, outcome=longest)
    with pytest.raises(ContractError, match="a script refused"):
        marked(store, 1, outcome=longest + "x")
    assert outcomes(store) == [(0, longest, 1)]
    assert store.load("s0-b1").version == 0


def test_rows_of_any_size_and_bytes_come_back(store: RedisStore) -> None:
    fan_out(store)
    abouts = [b"", b"\xff\0", bytes(range(256)) * 32, b"x" * 8192, b"\0" * 100_000]
    done(store, *(branch(n, about=about) for n, about in enumerate(abouts)))
    assert [one.about for one in rows(store)] == abouts


def test_many_places_are_read_in_one_go(store: RedisStore) -> None:
    fan_out(store)
    marked(store, 0, 499, 500, 1499, 70_000)
    assert [one.place for one in rows(store, 0, 100_000)] == [0, 499, 500, 1499, 70_000]
    assert [one.place for one in rows(store, 499, 1000)] == [499, 500]
    assert [one.place for one in rows(store, -5, 10)] == [0]
    assert rows(store, 0, -1) == []


def test_a_page_of_eight_mebibytes_is_kept_and_a_larger_one_refused(
    store: RedisStore, redis_server: RedisServer
) -> None:
    with pytest.raises(ContractError, match=r"it has 8,388,609 bytes, and may have 8,388,608"):
        keep(store, 0, b"x" * (MOST_PAGE + 1))
    assert page(store, 0) is None
    client = redis_server.client()
    with pytest.raises(ContractError, match="more than 8 MiB"):
        call(store, scripts.PAGE, (PARENT, "items", 0, PAGES_WAIT_MS), b"\0" * (MOST_PAGE + 2))
    assert client.exists(KEYS.pages(PARENT)) == 0
    call(store, scripts.PAGE, (PARENT, "items", 0, PAGES_WAIT_MS), b"\0" * (MOST_PAGE + 1))
    assert page(store, 0) == b"\0" * MOST_PAGE


# -- shards --


def test_a_join_lies_with_its_parent_and_its_branches_on_one_shard(shards: RedisStore, clock: Clock) -> None:
    parents = {session_id(f"order-{n}", 4) for n in range(24)}
    assert {parent[:3] for parent in parents} == {"s0-", "s1-", "s2-", "s3-"}
    made = [join_id(parent, 1) for parent in parents]
    for parent, join in zip(parents, made, strict=True):
        fan_out(shards, wake(2), parent=parent)
        names = [branch_id(join, place) for place in range(2)]
        marks = [replace(mark(n, join=join), session_id=name) for n, name in enumerate(names)]
        acts = [step(one.session_id, join_row=one) for one in marks]
        assert done(shards, *acts).woke == [join]
        assert [one.session_id for one in rows(shards, join=join)] == names
        assert standing(shards, join) == (2, 0, {"done": 2}, None)
    clock.forward(WOKEN_MS)
    assert sorted(subject for _, kind, subject in due(shards) if kind == "join") == sorted(made)


def test_rule_11_a_row_of_a_join_on_another_shard_is_refused(shards: RedisStore) -> None:
    fan_out(shards)
    with pytest.raises(ContractError, match=r"the join 's0-p\.j-1' lies on another shard than 's1-b'"):
        do(shards, step("s0-a"), step("s1-b", join_row=mark(0)))
    assert shards.load("s1-b").version == shards.load("s0-a").version == 0
    assert standing(shards) == (0, 0, {}, None)


def test_rule_11_a_join_of_another_session_is_refused(store: RedisStore) -> None:
    with pytest.raises(ContractError, match=r"the join 's0-p\.j-1' is not of its session 's0-q'"):
        do(store, step("s0-q", join=put()))
    assert store.load("s0-q").version == 0
    assert store.find(FindJoin(join_id=JOIN)) is None


def test_what_names_no_shard_has_no_join_and_keeps_no_page(shards: RedisStore) -> None:
    assert shards.find(FindJoin(join_id="s7-a.j-1")) is None
    assert rows(shards, join="order") == []
    assert page(shards, 0, session="s7-a") is None
    with pytest.raises(ContractError, match="'s7-a' names none of the store's shards"):
        keep(shards, 0, b"[]", session="s7-a")


# -- closing and removal --


def test_a_commit_that_wrote_nothing_leaves_a_join_to_the_byte(
    store: RedisStore, redis_server: RedisServer
) -> None:
    client = redis_server.client()
    fan_out(store, wake(1))
    marked(store, 0, 1)
    before = client.dump(KEYS.join(JOIN))
    do(store, step(PARENT, 1, join=put(wake(5), close=closing(2, rewrites=1))))
    do(store, step("s0-b0", 7, join_row=mark(0, "failed")))
    marked(store, 0, expected=1)  # says nothing new
    assert client.dump(KEYS.join(JOIN)) == before
    assert record(store).version == 2


def test_what_a_row_is_about_counts_however_it_was_made_smaller(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients need not make a text smaller in the same way: the same text again is still no other row."""
    fan_out(store)
    about = b'{"digest":"%064d"}' % 1 * 8
    done(store, branch(0, about=about))
    monkeypatch.setattr(joins, "squeeze", as_it_is)
    done(store, branch(0, expected=1, about=about))
    assert standing(store) == (1, 0, {"done": 1}, None)
    done(store, branch(0, expected=2, about=about + b" "))
    assert standing(store) == (2, 1, {"done": 1}, None)


def test_a_page_of_a_session_that_was_removed_is_left_out(
    store: RedisStore, redis_server: RedisServer
) -> None:
    done(store, step(PARENT), ended(2))
    store.put(Remove(session_id=PARENT, version=2, status="done", keep_ms=1000))
    store.put(Page(session_id=PARENT, name="items", number=0, body=b"[]"))
    assert page(store, 0) is None
    assert redis_server.client().exists(KEYS.pages(PARENT)) == 0


@pytest.mark.parametrize("more", [0, 1])
def test_a_thousand_joins_are_removed_at_once_and_more_in_several_calls(
    store: RedisStore, redis_server: RedisServer, more: int
) -> None:
    client: Any = redis_server.client()
    count = MOST_JOINS + more
    names = [f"{PARENT}.j-{n}" for n in range(count)]
    done(store, *(step(PARENT, n, join=put(wake(0), join=name)) for n, name in enumerate(names)))
    done(store, ended(count + 1))
    asked = (PARENT, count + 1, "done", 1000)
    if more:
        assert call(store, scripts.REMOVE, asked) == 2
        # It stays for now, and so does what is left of it; who comes next goes on.
        assert store.load(PARENT).version == count + 1
        assert client.lrange(KEYS.joins(PARENT), 0, -1) == [names[-1].encode()]
        assert client.zcard(KEYS.dues) == more
    store.put(Remove(session_id=PARENT, version=count + 1, status="done", keep_ms=1000))
    assert store.load(PARENT).removed == "done"
    left = {key.rpartition(b"}:")[2] for key in client.scan_iter()}
    assert left == {b"meta", b"gone", b"forget"}


def test_a_large_join_is_given_back_beside_so_that_nobody_waits(
    store: RedisStore, redis_server: RedisServer
) -> None:
    client: Any = redis_server.client()
    fan_out(store)
    marked(store, 0)
    kept = client.hget(KEYS.join(JOIN), "0")
    client.hset(KEYS.join(JOIN), mapping={str(place): kept for place in range(1, 20_000)})
    for number in range(100):
        keep(store, number, bytes(range(number, number + 100)))
    done(store, ended(2))
    client.config_resetstat()
    store.put(Remove(session_id=PARENT, version=2, status="done", keep_ms=1000))
    assert client.exists(KEYS.join(JOIN), KEYS.pages(PARENT)) == 0
    wait_until_given_back_beside(redis_server, 2)


def wait_until_given_back_beside(server: RedisServer, count: int) -> None:
    """Wait until the server has given back so many keys in a thread of its own since its counts were reset."""
    client: Any = server.client()

    def beside() -> int:
        return client.info("memory")["lazyfreed_objects"]

    wait_until(lambda: beside() == count, lambda: f"{count} keys are let go of beside ({beside()})", 10)


# -- pages whose session does not come --


def test_a_page_costs_the_same_whatever_pages_there_are(
    store: RedisStore, clock: Clock, redis_server: RedisServer
) -> None:
    def cost_of(number: int) -> dict[str, int]:
        redis_server.client().config_resetstat()
        keep(store, number, b"[]")
        return commands(redis_server)

    keep(store, 0, b"[]")  # the first call leaves the clock's mark
    first = cost_of(1)
    for number in range(2, 1000):
        keep(store, number, b"[]")
    assert cost_of(1000) == first
    client = redis_server.client()
    assert (client.zcard(KEYS.unopened), client.zscore(KEYS.unopened, PARENT)) == (
        1,
        clock.now + PAGES_WAIT_MS,
    )


def test_a_page_of_an_open_session_is_noted_nowhere(store: RedisStore, redis_server: RedisServer) -> None:
    done(store, step(PARENT))
    keep(store, 0, b"[]")
    assert redis_server.client().exists(KEYS.unopened) == 0


def test_rule_12_of_sessions_that_were_never_opened_nothing_is_left_on_any_shard(
    shards: RedisStore, clock: Clock, redis_server: RedisServer
) -> None:
    for n in range(4):
        keep(shards, 0, b"[]", session=f"s{n}-never")
        keep(shards, 0, b"[]", session=f"s{n}-opened")
        done(shards, step(f"s{n}-opened"))
    clock.forward(PAGES_WAIT_MS)
    due(shards)
    left = {key.rpartition(b"}:")[2] for key in redis_server.client().scan_iter(match="*:pages:*")}
    assert left == {f"pages:s{n}-opened".encode() for n in range(4)}
    assert [*redis_server.client().scan_iter(match="*:unopened")] == []


def test_a_list_that_is_forgotten_is_given_back_beside_so_that_nobody_waits(
    store: RedisStore, clock: Clock, redis_server: RedisServer
) -> None:
    client: Any = redis_server.client()
    keep(store, 0, b"[]")
    kept = client.hget(KEYS.pages(PARENT), "0:items")
    client.hset(KEYS.pages(PARENT), mapping={f"{number}:items": kept for number in range(1, 1000)})
    clock.forward(PAGES_WAIT_MS)
    client.config_resetstat()
    due(store)
    assert client.exists(KEYS.pages(PARENT)) == 0
    wait_until_given_back_beside(redis_server, 1)
