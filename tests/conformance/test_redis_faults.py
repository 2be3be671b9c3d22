"""A server that is away, full, new, frozen or forgetful, and a network that loses replies."""

import os
import signal
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import (
    Committed,
    Count,
    Documents,
    Drop,
    Quarantine,
    Remove,
    Repeated,
    Told,
)
from passdown.broker.stores.queries import Beside, FindBeside, FindSessions
from passdown.broker.stores.redis import RedisStore, scripts
from passdown.broker.stores.redis.committing import batches_of, outcomes_of
from passdown.broker.stores.redis.keys import Keys
from passdown.broker.stores.redis.taking import answer_of
from passdown.contracts.errors import ContractError, Unavailable
from tests.conformance.building import (
    ask,
    back,
    claim,
    do,
    done,
    entry,
    events_of,
    names,
    opened,
    pack,
    renew,
    request,
    row,
    step,
    take,
    ticket,
)
from tests.conformance.suite_faults import until_answered
from tests.conformance.suite_reading import tool
from tests.servers.fixtures import StartRedis
from tests.servers.process import HOST
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer


@pytest.fixture
def store(redis_server: RedisServer) -> Iterator[RedisStore]:
    store = RedisStore(redis_server.url())
    yield store
    store.close()


def contents(server: RedisServer) -> dict[bytes, Any]:
    """Return all that a server holds, but for the mark of the clock, which every script may move."""
    client = server.client()
    client.hdel("pd:{0}:meta", "mark")
    return {key: client.dump(key) for key in client.scan_iter(count=1000)}


# -- replies that are lost --


def test_rule_1_of_two_replies_one_is_lost_and_each_act_happens_once(redis_server: RedisServer) -> None:
    with Proxy(redis_server.port) as proxy:
        store = RedisStore(redis_server.url().replace(str(redis_server.port), str(proxy.port)))
        proxy.lose_replies()
        for n in range(20):
            act = step(f"s0-{n}", events=2, queue=pack())
            outcome = until_answered(lambda act=act: do(store, act))[0]
            assert isinstance(outcome, Committed | Repeated)
        assert proxy.lost >= 10
        proxy.pass_on()
        for n in range(20):
            assert store.events(f"s0-{n}") == events_of(f"s0-{n}", 1, 2)
        assert sorted(names(take(store, slots=50))) == sorted(f"s0-{n}" for n in range(20))
        store.close()


def test_a_command_is_sent_once_where_its_reply_is_lost(redis_server: RedisServer) -> None:
    # redis-py's own retries made two of one (TRAPS: one INCR whose reply was lost gave 2).
    with Proxy(redis_server.port) as proxy:
        store = RedisStore(redis_server.url().replace(str(redis_server.port), str(proxy.port)))
        store.put(Count(session_id="s0-b", name="late"))
        proxy.lose_replies(every=1)
        with pytest.raises(Unavailable, match="a retry is safe"):
            store.put(Count(session_id="s0-a", name="late"))
        proxy.pass_on()
        assert store.find(FindBeside(session_id="s0-a")) == Beside(counts={"late": 1})
        store.close()


def test_connections_that_were_reset_are_made_anew(redis_server: RedisServer) -> None:
    with Proxy(redis_server.port) as proxy:
        store = RedisStore(redis_server.url().replace(str(redis_server.port), str(proxy.port)))
        done(store, step("s0-a"))
        proxy.reset()
        assert until_answered(lambda: do(store, step("s0-a", 1)), tries=2)
        assert store.load("s0-a").version == 2
        store.close()


# -- scripts that the server does not know --


def test_scripts_are_loaded_again_in_the_middle_of_a_pipeline(store: RedisStore) -> None:
    keys = Keys(0)
    calls = scripts.Calls(None)

    acts = [step("s0-a", expected, queue=pack(attempt=expected + 1)) for expected in range(3)]
    batches = [batches_of([act], "", 1) for act in acts]
    one, two, three = (calls.call(scripts.COMMIT, keys, *batch.call()[1:]) for (batch,) in batches)
    about = ("analyst", 3, 10_000, 0, 0, 0, 0)
    sent = [one, two, ("SCRIPT FLUSH",), three, calls.call(scripts.TAKE, keys, about)]
    first, second, flushed, third, taken = store._wire.exchange(sent)  # pyright: ignore[reportPrivateUsage]
    outcomes = [
        outcomes_of([act], batch, [said])
        for act, batch, said in zip(acts, batches, (first, second, third), strict=True)
    ]
    assert [getattr(outcome, "version", None) for (outcome,) in outcomes] == [1, 2, 3]
    assert flushed == b"OK"
    assert [(one.session_id, one.step, one.attempt) for one in answer_of(taken).packs] == [("s0-a", 1, 3)]
    assert store.events("s0-a") == events_of("s0-a", 1, 3)


def test_a_server_that_was_started_anew_is_taught_its_scripts(start_redis: StartRedis) -> None:
    server = start_redis(appendfsync="always")
    store = RedisStore(server.url())
    done(store, step("s0-a", queue=pack()))
    server.stop()
    with pytest.raises(Unavailable):
        store.load("s0-a")
    server.start()
    outcomes, taken = store.commit([step("s0-a", 1), step("s0-b", queue=pack())], request(slots=5))
    assert [type(one) for one in outcomes] == [Committed, Committed]
    assert taken is not None
    assert sorted(names(taken)) == ["s0-a", "s0-b"]
    store.close()


def test_a_frozen_server_is_unavailable_after_the_time_out(start_redis: StartRedis) -> None:
    server = start_redis()
    store = RedisStore(f"{server.url()}?timeout=0.3")
    server.pause()
    with pytest.raises(Unavailable, match="did not answer in time"):
        done(store, step("s0-a"))
    server.resume()
    # Whether the first one or the second reaches the server first: the act is done once.
    assert isinstance(until_answered(lambda: do(store, step("s0-a")))[0], Committed | Repeated)
    assert store.events("s0-a") == events_of("s0-a", 1, 1)
    store.close()


# -- a full server --


def full(start_redis: StartRedis) -> tuple[RedisServer, RedisStore]:
    """Return a server whose memory is full, with a store on it in which one of everything is under way."""
    server = start_redis()
    store = RedisStore(server.url())
    store.put(Documents(tools=[tool("look")]))
    store.put(Quarantine(source="http", reason="junk", body=b"["))
    opened(store, "s0-claimed", "s0-taken", "s0-queued")
    claim(store, names(take(store, slots=1))[0])
    take(store, slots=1)
    done(store, step("s0-due", dues=[entry(after_ms=0)], tickets=[ticket("s0-due")], tell=True))
    done(store, step("s0-over", row=row("s0-over", 1, status="done")))
    server.client().config_set("maxmemory", "1mb")
    return server, store


def test_a_full_server_refuses_what_needs_room_and_no_half_of_it_is_done(start_redis: StartRedis) -> None:
    server, store = full(start_redis)
    before = contents(server)
    everything = step("s0-claimed", 2, queue=pack(), dues=[entry(after_ms=1)], lease="end", tell=True)
    refused = [
        lambda: do(store, replace(everything, tickets=[ticket("s0-claimed")])),
        lambda: do(store, step("s0-new", queue=pack())),
        lambda: store.commit([step("s0-new"), step("s0-taken", 1)], request(slots=5)),
        lambda: take(store, slots=5),
        lambda: store.put(Documents(tools=[tool("pay")])),
        lambda: store.put(Quarantine(source="http", reason="junk", body=b"{")),
        lambda: store.put(Count(session_id="s0-due", name="late")),
    ]
    for act in refused:
        with pytest.raises(Unavailable, match="maxmemory"):
            act()
    assert contents(server) == before
    store.close()


def test_a_full_server_lets_go_and_keeps_claims_and_serves_again_when_there_is_room(
    start_redis: StartRedis,
) -> None:
    server, store = full(start_redis)
    claimed = next(n for n in ("s0-claimed", "s0-taken", "s0-queued") if store.load(n).version == 2)
    assert renew(store, claimed) == "held"
    for name in ("s0-claimed", "s0-taken", "s0-queued"):
        store.hand_back(back(name))
    found = store.due(ask(tell=5))
    assert [one.session_id for one in found.entries] == ["s0-due"]
    assert [one.session_id for one in found.tell] == ["s0-due"]
    store.put(Told(session_id="s0-due", seq=1))
    store.put(Remove(session_id="s0-over", version=1, status="done", keep_ms=1000))
    store.put(Drop(id=1))
    assert store.load("s0-over").removed == "done"
    assert store.find(FindSessions(status="done")) == []
    RedisStore(server.url()).close()
    server.client().config_set("maxmemory", "0")
    assert len(names(take(store, slots=5))) == 2
    store.close()


# -- what cannot be served --


def test_a_wrong_password_is_said(start_redis: StartRedis) -> None:
    server = start_redis(requirepass="secret")
    wrong = server.url().replace("secret", "other")
    with pytest.raises(ContractError, match="user name or password is wrong") as told:
        RedisStore(wrong)
    assert "other" not in str(told.value)
    with pytest.raises(ContractError, match="wants a password"):
        RedisStore(wrong.replace(":other@", ""))
    RedisStore(server.url()).close()


@pytest.mark.parametrize("protocol", [2, 3])
def test_both_protocols_are_spoken(redis_server: RedisServer, protocol: int) -> None:
    store = RedisStore(f"{redis_server.url()}?protocol={protocol}")
    opened(store, "s0-a")
    store.put(Documents(tools=[tool("look")]))
    assert names(take(store, slots=2)) == ["s0-a"]
    claim(store, "s0-a")
    done(store, step("s0-a", 2, lease="end", tickets=[ticket("s0-a")], row=row("s0-a", 3, status="done")))
    last = row("s0-a", 3, status="done")
    assert store.find(FindSessions(status="done")) == [last]
    store.close()


class _Old(socketserver.StreamRequestHandler):
    """Knows no HELLO, as servers and proxies before RESP3."""

    def handle(self) -> None:
        while line := self.rfile.readline():
            if line.strip() == b"PING":
                self.wfile.write(b"+PONG\r\n")
            if line.strip() == b"HELLO":
                self.wfile.write(b"-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n")


def test_a_server_without_hello_names_the_setting_that_helps() -> None:
    with socketserver.ThreadingTCPServer((HOST, 0), _Old) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ContractError, match="say protocol=2 in the address"):
            RedisStore(f"redis://{HOST}:{server.server_address[1]}/0?protocol=3")
        server.shutdown()


def test_a_closed_store_is_unavailable(store: RedisStore) -> None:
    store.close()
    with pytest.raises(Unavailable, match="it was closed here"):
        store.load("s0-a")


# -- forks --


def test_a_fork_in_the_middle_of_work_leaves_both_sides_working(store: RedisStore) -> None:
    stop = threading.Event()
    failed: list[BaseException] = []

    def work(n: int) -> None:
        version = 0
        try:
            while not stop.is_set():
                done(store, step(f"s0-busy-{n}", version))
                version += 1
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for n in range(5):
        child = os.fork()
        if child == 0:
            os._exit(0 if _of_a_child(store, n) else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [store.load(f"s0-child-{n}").version for n in range(5)] == [2] * 5


def _of_a_child(store: RedisStore, n: int) -> bool:
    signal.alarm(30)
    done(store, step(f"s0-child-{n}"))
    return done(store, step(f"s0-child-{n}", 1)).version == 2
