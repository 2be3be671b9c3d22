"""Redis killed and started again, and put back to older files: what may be lost there, and what may not."""

import threading
import time
from pathlib import Path

import pytest

from passdown.broker.client import Session
from passdown.broker.stores.base import DueNow, DueRequest
from passdown.broker.stores.redis import RedisStore
from tests.conformance.building import do, lease, step
from tests.integration.lossy import PLAN, Desk, copy_files, desk, put_back
from tests.integration.site import wait_until
from tests.servers.fixtures import StartRedis
from tests.servers.redis import RedisServer

ASK = DueRequest(limit=100, reserve_ms=200, elapsed_ms=0)


def restarted(store: RedisStore) -> list[DueNow]:
    return [one for one in store.due(ASK).entries if one.kind == "restarted"]


def kill(server: RedisServer) -> None:
    server.kill()
    server.start()


def test_rule_03_claims_that_stood_at_a_restart_are_handed_to_a_tick(start_redis: StartRedis) -> None:
    """Twice, for the tick that gets them may die of it; then they are forgotten, as are those that ended."""
    server = start_redis()
    store = RedisStore(server.url())
    do(store, step("s0-a", lease=lease("claim-a")), step("s0-b", lease=lease("claim-b")), step("s0-c"))
    assert restarted(store) == [], "the first look only notes which server this is"
    before = store.load("").catalog
    kill(server)
    other = RedisStore(server.url())
    assert [(one.session_id, one.subject) for one in restarted(other)] == [
        ("s0-a", "claim-a"),
        ("s0-b", "claim-b"),
    ]
    assert restarted(other) == [], "reserved"
    do(other, step("s0-b", 1, command="end", lease="end"))
    wait_until(lambda: restarted(other), "what nobody dealt with comes again", 5)
    assert not [key for key in server.client().scan_iter() if b"restarted" in key]
    assert other.load("").catalog == before, "nothing is registered, so no count needs to be told apart"
    seen = other.examine()
    assert [one.found for one in seen.findings if one.what == "restarts"] == [
        "the server was started anew 1 time since ticks watch it"
    ]
    store.close()
    other.close()


def test_a_store_that_loses_nothing_does_not_ask(start_redis: StartRedis) -> None:
    server = start_redis(appendfsync="always")
    store = RedisStore(server.url())
    assert store.may_lose == ""
    do(store, step("s0-a", lease=lease("claim-a")))
    restarted(store)
    kill(server)
    store.close()
    store = RedisStore(server.url())
    assert restarted(store) == []
    store.close()


def test_rule_03_what_was_under_way_at_a_restart_is_settled(start_redis: StartRedis) -> None:
    """The worker hangs in its tool, so that only the tick can know."""
    server = start_redis()
    with desk(server) as made:
        made.broker.register(PLAN)
        hangs = threading.Event()
        made.outside.delayed_by = lambda: hangs.wait(20)
        made.work(workers=1)
        session = made.broker.submit("desk", key="one")
        wait_until(lambda: [one.status for one in session.state().effects] == ["intended"], "it writes")
        kill(server)
        wait_until(
            lambda: "LeaseLost" in [type(one.event).__name__ for one in session.events()],
            "its claim is ended",
        )
        unknown = next(one.event for one in session.events() if type(one.event).__name__ == "EffectUnknown")
        assert unknown.why == "the store was restarted while it was under way"  # type: ignore[union-attr]
        hangs.set()
        wait_until(lambda: session.status() == "done", "it ends", 60)
        made.assert_consistent()
        assert made.twice("pay") == 0


def killed_under_load(server: RedisServer, times: int, load_s: float = 0.7) -> tuple[Desk, list[int]]:
    """Work, with the server killed and started again a few times; returns the desk, and what each kill lost."""
    made = Desk(server.url())
    made.broker.register(PLAN)
    made.work()
    over = threading.Event()
    producer = threading.Thread(target=made.produce, args=(over,), daemon=True)
    producer.start()
    lost: list[int] = []
    for _ in range(times):
        time.sleep(load_s)  # work of that long is the load
        server.kill()
        server.start()
        lost.append(made.lost())
    over.set()
    producer.join(30)
    return made, lost


@pytest.mark.parametrize("appendfsync", ["always", "everysec"])
def test_rule_06_killed_under_load_the_store_is_consistent_and_all_work_ends(
    start_redis: StartRedis, appendfsync: str
) -> None:
    server = start_redis(appendfsync=appendfsync)
    made, lost = killed_under_load(server, 3)
    try:
        wait_until(lambda: not made.unfinished(), "all work has ended", 60)
        made.assert_consistent()
        if appendfsync == "always":
            assert lost == [0, 0, 0], "what was acknowledged is there"
            assert max(made.outside.arrived.values()) == 1
    finally:
        made.close()


def test_rule_06_put_back_to_older_files_the_store_goes_on_from_there(
    start_redis: StartRedis, tmp_path: Path
) -> None:
    """Fault #81, at its worst: seconds are gone, and the workers that did the work are still there."""
    server = start_redis()
    with desk(server) as made:
        made.broker.register(PLAN)
        made.work()
        first = [made.broker.submit("desk", key=f"order-{number}") for number in range(20)]
        wait_until(lambda: any(one.status() == "done" for one in first), "some are done")
        copy_files(server, tmp_path / "older")
        later = [made.broker.submit("desk", key=f"order-{number}") for number in range(20, 40)]
        wait_until(lambda: all(one.status() == "done" for one in (*first, *later)), "all are done")
        server.kill()
        put_back(server, tmp_path / "older")
        server.start()
        assert made.lost() > 0
        for number in range(40):
            made.broker.submit("desk", key=f"order-{number}")
        wait_until(lambda: not made.unfinished(), "all work has ended again", 60)
        made.assert_consistent()
        assert {Session(made.broker, row.session_id).status() for row in made.rows()} <= {
            "done",
            "waiting-human",
        }
        assert len(made.rows()) == 40
