"""A store of four shards is one store: what is asked of it is asked of all, and none of them waits for another."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from msgspec import structs

from passdown.broker.stores.base import Committed, Documents, Stale, Store
from passdown.broker.stores.queries import FindQueues, FindSessions, FindTickets, Query, QueueRow
from passdown.broker.stores.redis import RedisStore
from passdown.broker.stores.redis.keys import shard_of
from passdown.contracts.errors import ContractError
from passdown.contracts.ids import session_id
from tests.conformance.building import (
    Clock,
    claim,
    do,
    done,
    due,
    entry,
    names,
    opened,
    pack,
    row,
    step,
    take,
    ticket,
)
from tests.conformance.suite_reading import plan
from tests.conformance.together import together
from tests.servers.redis import RedisServer

SHARDS = 4
#: Five sessions of each shard, one shard after the other, as submits would name them.
SESSIONS = sorted(
    (session_id(f"order-{n}", SHARDS) for n in range(80)), key=lambda one: shard_of(one, SHARDS) or 0
)
SPREAD = [one for shard in range(SHARDS) for one in [s for s in SESSIONS if shard_of(s, SHARDS) == shard][:5]]

Connect = Callable[[], RedisStore]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def connect(redis_server: RedisServer, clock: Clock) -> Iterator[Connect]:
    stores: list[RedisStore] = []

    def connect(shards: int | None = SHARDS) -> RedisStore:
        stores.append(RedisStore(redis_server.url(), shards=shards, clock=clock))
        return stores[-1]

    yield connect
    for store in stores:
        store.close()


@pytest.fixture
def store(connect: Connect) -> RedisStore:
    return connect()


def drained(store: Store, **limits: Any) -> list[str]:
    """Take until nothing more may be taken."""
    taken: list[str] = []
    for _ in range(100):
        found = take(store, slots=3, **limits)
        taken += names(found)
        if not found.more:
            return taken
    raise AssertionError("there is more, and more, and more")


def rows_of(store: Store, query: Query) -> list[Any]:
    """Return the rows that a query finds."""
    rows = store.find(query)
    assert isinstance(rows, list)
    return cast(list[Any], rows)


def test_sessions_are_spread_over_the_shards() -> None:
    assert Counter(shard_of(one, SHARDS) for one in SPREAD) == dict.fromkeys(range(SHARDS), 5)


def test_every_pack_is_taken_once_and_more_is_said_until_then(store: Store) -> None:
    opened(store, *SPREAD)
    assert sorted(drained(store)) == sorted(SPREAD)


def test_packs_are_taken_once_by_many(connect: Connect) -> None:
    stores = [connect() for _ in range(4)]
    opened(stores[0], *SPREAD)
    taken = together(8, lambda n: drained(stores[n % 4]))
    assert sorted(one for mine in taken for one in mine) == sorted(SPREAD)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_one_pack_is_served_within_as_many_takes_as_there_are_shards(store: Store, shard: int) -> None:
    alone = next(one for one in SPREAD if shard_of(one, SHARDS) == shard)
    crowd = [f"s{(shard + 1) % SHARDS}-{n}" for n in range(100)]
    opened(store, *crowd, alone)
    assert alone in [names(take(store))[0] for _ in range(SHARDS)]


def test_of_one_shard_older_packs_come_first(store: Store, clock: Clock) -> None:
    order = SPREAD[::-1]
    for one in order:
        opened(store, one)
        clock.forward(1)
    taken = drained(store)
    for shard in range(SHARDS):
        mine = [one for one in taken if shard_of(one, SHARDS) == shard]
        assert mine == [one for one in order if shard_of(one, SHARDS) == shard]


def test_a_take_finds_the_only_pack_whosever_turn_it_is(store: Store) -> None:
    for one in SPREAD[:: len(SPREAD) // SHARDS]:
        opened(store, one)
        assert names(take(store)) == [one]


@pytest.mark.parametrize("limit", [4, 6, 9, 20])
def test_a_limit_is_split_and_used_up(store: Store, limit: int) -> None:
    opened(store, *SPREAD)
    taken = drained(store, role_limit=limit)
    assert len(taken) == limit
    assert max(Counter(shard_of(one, SHARDS) for one in taken).values()) <= -(-limit // SHARDS)


def test_a_limit_smaller_than_the_number_of_shards_lets_one_run_on_each(store: Store) -> None:
    opened(store, *SPREAD)
    assert len(drained(store, role_limit=1)) == SHARDS


def test_a_ring_is_given_once_for_all_shards_of_a_call(store: Store) -> None:
    outcomes = do(store, *(step(one, queue=pack()) for one in SPREAD))
    assert [one.ring for one in outcomes if isinstance(one, Committed) and one.ring] == [["analyst"]]


def test_a_take_clears_the_bell_of_every_shard(store: Store) -> None:
    """Also of those that it takes nothing from: else a drain that was woken leaves a shard deaf for seconds."""
    opened(store, *SPREAD)
    drained(store)
    for shard in range(SHARDS):
        (outcome,) = do(store, step(f"s{shard}-next", queue=pack()))
        assert isinstance(outcome, Committed)
        assert outcome.ring == ["analyst"]


def test_commits_of_one_call_are_answered_in_order_wherever_their_sessions_live(store: Store) -> None:
    done(store, *(step(one) for one in SPREAD[::2]))
    outcomes = do(store, *(step(one) for one in SPREAD))
    repeated = [not isinstance(one, Committed) for one in outcomes]
    assert repeated == [n % 2 == 0 for n in range(len(SPREAD))]


def test_what_is_due_is_found_on_every_shard_within_the_limit(store: Store, clock: Clock) -> None:
    for at, one in enumerate(SPREAD):
        done(store, step(one, dues=[entry(after_ms=1000 - at)]))
    clock.forward(1000)
    passes = [due(store, limit=6) for _ in range(8)]
    assert max(len(one) for one in passes) <= 6
    assert sorted(name for one in passes for name, _, _ in one) == sorted(SPREAD)


def test_sessions_are_found_newest_first_page_by_page(store: Store) -> None:
    rows = [row(one, 1, opened_at=1000 + at // 2) for at, one in enumerate(SPREAD[::3] + SPREAD[1::3])]
    done(store, *(step(one.session_id, row=one) for one in rows))
    pages: list[str] = []
    while found := rows_of(store, FindSessions(limit=4, before=pages[-1] if pages else None)):
        pages += [one.session_id for one in found]
    assert sorted(pages) == sorted(one.session_id for one in rows)
    when = {one.session_id: one.opened_at for one in rows}
    assert [when[one] for one in pages] == sorted(when.values(), reverse=True)


def test_tickets_are_found_oldest_first(store: Store) -> None:
    order = SPREAD[::-1]
    for at, one in enumerate(order):
        done(store, step(one, tickets=[ticket(one, opened_at=1000 + at)]))
    assert [one.session_id for one in rows_of(store, FindTickets(limit=7))] == order[:7]


def test_a_queue_is_the_sum_of_its_shards(store: Store, clock: Clock) -> None:
    opened(store, SPREAD[-1])
    clock.forward(500)
    opened(store, *SPREAD[:-1])
    taken = names(take(store, slots=1)) + names(take(store, slots=1))
    claim(store, taken[0])
    clock.forward(1000)
    oldest = 1000 if SPREAD[-1] == taken[0] else 1500
    assert store.find(FindQueues()) == [
        QueueRow(role="analyst", ready=len(SPREAD) - 2, reserved=1, running=1, oldest_ms=oldest)
    ]


def test_a_registration_is_known_on_every_shard(store: Store) -> None:
    """What was decided before it is stale, whichever shard the session lives on."""
    before = store.load(SPREAD[0]).catalog
    store.put(Documents(plans=[plan("refund")]))
    for one in SPREAD[::5]:
        assert store.load(one).catalog == before + 1
        (outcome,) = do(store, structs.replace(step(one, queue=pack()), catalog=before))
        assert isinstance(outcome, Stale)


def test_the_number_of_shards_is_that_of_the_first_who_opened_the_store(connect: Any) -> None:
    assert connect().shards == SHARDS
    assert connect(None).shards == SHARDS
    with pytest.raises(ContractError, match="it has 4 shards, and 2 were asked for"):
        connect(2)


def test_those_who_open_it_at_one_moment_agree(connect: Any) -> None:
    assert len({one.shards for one in together(8, lambda _: connect(None))}) == 1


@pytest.mark.parametrize("stranger", ["s4-a", "s01-a", "order-1", ""])
def test_an_id_that_names_no_shard_is_not_there_and_is_not_written(store: Store, stranger: str) -> None:
    assert store.load(stranger).state is None
    assert store.events(stranger) == []
    with pytest.raises(ContractError, match="names none of the store's 4 shards"):
        do(store, step(stranger))


def test_a_drain_that_found_a_pack_on_one_shard_is_promised_on_none(store: Store) -> None:
    done(store, step(SPREAD[0], queue=pack()))
    assert names(take(store, linger_ms=1000)) == [SPREAD[0]]
    # It is busy now: whoever brings a pack to another shard must ring for others.
    assert done(store, step(SPREAD[-1], queue=pack())).ring == ["analyst"]


def test_a_drain_that_found_nothing_anywhere_looks_again_by_itself(store: Store) -> None:
    assert names(take(store, linger_ms=1000)) == []
    for one in (SPREAD[0], SPREAD[-1]):
        assert done(store, step(one, queue=pack())).ring == []
