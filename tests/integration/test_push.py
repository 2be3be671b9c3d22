"""Push delivery over real servers, to workers in plain AMQP and plain Redis that know nothing of our Python."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import amqp
import jsonschema_rs
import pytest

from tests.integration.pushing import JSON, Push, all_in, answer, fetch
from tests.integration.site import Site, types, wait_until
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


@pytest.fixture
def rabbit(site: Site, rabbitmq_url: str) -> Iterator[Push]:
    made = Push(site, rabbitmq_url)
    yield made
    made.close()


def conforms(message: Any, schema: str) -> None:
    """Check a message against a schema as it is published."""
    jsonschema_rs.validate(json.loads((SCHEMAS / schema).read_text()), message)


def test_a_worker_in_plain_amqp_does_a_handoff(rabbit: Push) -> None:
    sessions = rabbit.submit(20)
    rabbit.tick()
    rabbit.over_amqp()
    wait_until(lambda: all_in(sessions, "done"), "all sessions are done")
    assert [session.result(timeout_s=5).output for session in sessions] == [
        {"echo": {"n": n}, "attempt": 1} for n in range(20)
    ]
    assert types(sessions[0]) == [
        "SessionOpened",
        "StageEntered",
        "PackIssued",
        "Claimed",
        "Returned",
        "Completed",
    ]
    assert rabbit.quarantined() == []


def test_a_worker_in_plain_redis_does_a_handoff(site: Site, redis_server: RedisServer) -> None:
    push = Push(site, redis_server.url())
    try:
        sessions = push.submit(20)
        push.tick()
        push.over_redis()
        wait_until(lambda: all_in(sessions, "done"), "all sessions are done")
        assert push.quarantined() == []
    finally:
        push.close()


def test_packs_of_a_store_on_redis_are_pushed_too(
    site: Site, redis_server: RedisServer, rabbitmq_url: str
) -> None:
    site.store = redis_server.url()
    push = Push(site, rabbitmq_url)
    try:
        sessions = push.submit(20)
        push.tick()
        push.over_amqp("twice")
        wait_until(lambda: all_in(sessions, "done"), "all sessions are done")
        assert push.quarantined() == []
    finally:
        push.close()


def test_the_messages_conform_to_their_published_schemas(rabbit: Push) -> None:
    rabbit.submit(1)
    rabbit.tick()
    (message,) = fetch(rabbit.channel(), 1)
    conforms(message, "push.json")
    conforms(message["pack"], "pack.json")
    conforms(json.loads(answer(message)), "return.json")
    with pytest.raises(jsonschema_rs.ValidationError):
        conforms({**message, "claimId": None}, "push.json")


def test_rule_02_doubled_and_reordered_returns_count_once(rabbit: Push) -> None:
    sessions = rabbit.submit(50)
    rabbit.tick()
    rabbit.over_amqp("twice")
    wait_until(lambda: all_in(sessions, "done"), "all sessions are done")
    assert all(types(session).count("Returned") == 1 for session in sessions)
    assert rabbit.quarantined() == []


def test_a_silent_worker_is_given_up_and_a_person_asked_in_the_end(rabbit: Push) -> None:
    (session,) = rabbit.submit(1, lease_seconds=1.0, max_attempts=2)
    rabbit.tick()
    silent = rabbit.over_amqp("silent")
    wait_until(lambda: session.state().attempt == 2, "the pack is published anew")
    wait_until(lambda: session.status() == "waiting-human", "a ticket is opened")
    assert types(session).count("LeaseLost") == 2
    rabbit.site.kill(silent)
    session.retry()
    rabbit.over_amqp()
    wait_until(lambda: session.status() == "done", "an honest worker does it")


JUNK: list[tuple[bytes, str]] = [
    (b"\xff\xfe\x00", JSON),
    (b"not json", JSON),
    (b"", JSON),
    (b'{"a": 1}', JSON),
    (b"[1, 2]", JSON),
    (b"[" * 5_000_000, JSON),
    (b'{"x": "' + b"y" * 10_000_000 + b'"}', JSON),
    (b"{}", "text/plain"),
    (b"\x80\x04K\x01.", "application/x-python-serialize"),
    (b'[["a"], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]', JSON),
]


def test_rule_11_junk_on_the_queue_of_returns_stops_nobody(rabbit: Push) -> None:
    """Fault #33."""
    sessions = rabbit.submit(20)
    rabbit.tick()
    channel = rabbit.channel()
    packs = fetch(channel, 20)
    for n, pack in enumerate(packs):
        body, kind = JUNK[n % len(JUNK)]
        headers = {"task": "other.task", "id": "1", "compression": "application/x-gzip"}
        junk = amqp.Message(body, content_type=kind, application_headers=headers)
        channel.basic_publish(junk, routing_key="passdown.returns")
        channel.basic_publish(amqp.Message(answer(pack), content_type=JSON), routing_key="passdown.returns")
        nonsense = amqp.Message(body[:1000], content_type=kind, content_encoding="nowhere")
        channel.basic_publish(nonsense, routing_key="passdown.push")
    wait_until(lambda: all_in(sessions, "done"), "all good returns count", 5.0)
    wait_until(lambda: len(rabbit.quarantined()) >= 20, "junk is in quarantine", 5.0)
    of_returns = [row for row in rabbit.quarantined() if row.source == "passdown.returns"]
    assert len(of_returns) == 20
    assert all(row.reason for row in of_returns)
    (late,) = rabbit.submit(1, priority=1)
    rabbit.over_amqp()
    wait_until(lambda: late.status() == "done", "the bells are still heard", 10.0)


def test_rule_11_junk_on_a_redis_list_stops_nobody(site: Site, redis_server: RedisServer) -> None:
    """Fault #33."""
    push = Push(site, redis_server.url())
    try:
        sessions = push.submit(10)
        push.tick()
        client = redis_server.client()
        for queue in ("passdown.returns", "passdown.push"):
            wrapped = [json.dumps({"body": "!", "properties": {"body_encoding": "base64"}}).encode()]
            for body in [b"\xff\xfe", b"not json", b"[1,2]", b"{}", b"", b"[" * 1_000_000, *wrapped]:
                client.lpush(f"passdown:{queue}", body)
        push.over_redis()
        wait_until(lambda: all_in(sessions, "done"), "all good returns count", 10.0)
        wait_until(
            lambda: len([row for row in push.quarantined() if row.source == "passdown.returns"]) >= 7,
            "junk is in quarantine",
            5.0,
        )
    finally:
        push.close()


def test_rule_01_a_tick_killed_while_it_pushes_loses_and_counts_nothing(rabbit: Push) -> None:
    sessions = rabbit.submit(150)
    for _ in range(2):
        tick = rabbit.tick()
        seen = sum(session.status() == "running" for session in sessions)
        wait_until(
            lambda seen=seen: sum(one.status() == "running" for one in sessions) > seen, "some packs are out"
        )
        rabbit.site.kill(tick, signal.SIGKILL)
    rabbit.tick()
    rabbit.over_amqp()
    wait_until(lambda: all_in(sessions, "done"), "all sessions are done", 60.0)
    assert all(session.state().attempt == 1 for session in sessions)


def test_rule_01_rabbitmq_restarted_with_packs_out_loses_nothing(
    site: Site, start_rabbitmq: Callable[[], RabbitServer]
) -> None:
    server = start_rabbitmq()
    push = Push(site, server.url())
    try:
        sessions = push.submit(200)
        push.tick()
        wait_until(lambda: all_in(sessions, "running"), "all packs are out", 60.0)
        server.stop()
        more = push.submit(5, priority=2)
        server.start()
        push.over_amqp()
        wait_until(lambda: all_in(sessions + more, "done"), "all sessions are done", 60.0)
        assert all(session.state().attempt == 1 for session in sessions)
    finally:
        push.close()
