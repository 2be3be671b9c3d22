"""Pools in this process on real servers: a consumer that hears nothing, one that is slow, many roles, what stays behind."""

import re
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import kombu
import pytest
import structlog
from celery.worker.consumer.consumer import Consumer

from passdown.broker import watching
from passdown.broker.app import Transport, transport_of
from passdown.broker.doorbell import KombuDoorbell
from passdown.broker.pool import Pool
from passdown.broker.transports.carrier import Publisher
from tests.conformance.transport_suite import QUEUE, Drains, Reader, put_foreign
from tests.integration.site import wait_until
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

SQLITE = "sqlite:///x.db"


@contextmanager
def running(transport: Transport, drains: Any, *roles: str, **more: Any) -> Generator[Pool]:
    bell = KombuDoorbell(transport)
    settings: dict[str, Any] = {"concurrency": 2, **more}
    pool = Pool(drains, bell, transport, list(roles), **settings)
    thread = threading.Thread(target=pool.run)
    thread.start()
    try:
        yield pool
    finally:
        pool.stop(1.0)
        thread.join(20)
        bell.close()
        assert not thread.is_alive()


@pytest.fixture
def rabbit(rabbitmq_url: str) -> Transport:
    return transport_of(SQLITE, rabbitmq_url)


@pytest.fixture
def redis(redis_server: RedisServer) -> Transport:
    return transport_of(SQLITE, redis_server.url())


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge after a second, for tests that wait for it."""
    monkeypatch.setattr(watching, "PROBE_EVERY_S", 0.2)
    monkeypatch.setattr(watching, "HUNG_AFTER_S", 1.5)


def consumer_of(pool: Pool) -> Any:
    return cast("Any", pool.watch)._ear.consumer


class Slow(Drains):
    """Drains that end when they are let go of."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def drain(self, role: str, _: Callable[[str], None]) -> bool:
        self.roles.append(role)
        self.go_on.wait(60)
        return False


class TestHung:
    """Fault celery#8030: connected, and nothing comes any more."""

    def test_a_consumer_that_rabbitmq_has_forgotten(self, rabbit: Transport, soon: None) -> None:
        drains, bell = Drains(), KombuDoorbell(rabbit)
        with running(rabbit, drains, "desk") as pool:
            wait_until(lambda: drains.roles, "a first drain")
            # The server cancels it, and the client is told nothing: its connection stays as good as before.
            consumer = consumer_of(pool).task_consumer
            for tag in list(consumer._active_tags.values()):
                consumer.channel.send_method((60, 30), "sb", (tag, True))
            drained = len(drains.roles)
            wait_until(lambda: pool.restarts == 1, "it was noticed", 15)
            wait_until(lambda: len(drains.roles) > drained, "its roles are drained", 5)
            drained = len(drains.roles)
            bell.ring("desk")
            wait_until(lambda: len(drains.roles) > drained, "it hears again", 5)
        bell.close()

    def test_a_consumer_that_asks_redis_for_nothing(self, redis: Transport, soon: None) -> None:
        drains, bell = Drains(), KombuDoorbell(redis)
        with running(redis, drains, "desk") as pool:
            wait_until(lambda: drains.roles, "a first drain")
            # What kombu's poller forgot is never asked for again.
            consumer_of(pool).task_consumer.channel._active_queues.clear()
            drained = len(drains.roles)
            wait_until(lambda: pool.restarts == 1, "it was noticed", 15)
            wait_until(lambda: len(drains.roles) > drained, "its roles are drained", 5)
            drained = len(drains.roles)
            bell.ring("desk")
            wait_until(lambda: len(drains.roles) > drained, "it hears again", 5)
        bell.close()

    def test_one_that_new_connections_do_not_help_is_made_anew(
        self, rabbit: Transport, soon: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "_MOST_CUTS", 0)
        drains = Drains()
        with running(rabbit, drains, "desk") as pool:
            wait_until(lambda: drains.roles, "a first drain")
            worker, drained = cast("Any", pool)._worker, len(drains.roles)
            consumer = consumer_of(pool).task_consumer
            for tag in list(consumer._active_tags.values()):
                consumer.channel.send_method((60, 30), "sb", (tag, True))
            wait_until(lambda: cast("Any", pool)._worker is not worker, "another consumer", 15)
            wait_until(lambda: len(drains.roles) > drained, "its roles are drained", 10)

    @pytest.mark.parametrize("which", ["rabbit", "redis"])
    def test_while_all_slots_are_busy_nothing_is_judged(
        self, request: pytest.FixtureRequest, soon: None, which: str
    ) -> None:
        transport: Transport = request.getfixturevalue(which)
        drains, bell = Slow(), KombuDoorbell(transport)
        with running(transport, drains, "desk", concurrency=1) as pool:
            wait_until(lambda: drains.roles, "the only slot is busy")
            for _ in range(8):
                bell.ring("desk")
            busy_until = time.monotonic() + 4
            while time.monotonic() < busy_until:
                assert pool.watch.silent_s < 1.5
                time.sleep(0.1)
            drains.go_on.set()
            wait_until(lambda: len(drains.roles) > 1, "it goes on")
            assert pool.restarts == 0
        bell.close()


def test_rule_1_a_message_is_acknowledged_before_its_drain_ends(
    rabbit: Transport, shared_rabbitmq: RabbitServer, rabbitmq_url: str
) -> None:
    """Fault celery#6760: what is not acknowledged for long costs the channel, and the task runs again elsewhere."""
    drains, bell = Slow(), KombuDoorbell(rabbit)
    vhost = rabbitmq_url.rpartition("/")[2]
    unacked = f"""[proplists:get_value(messages_unacknowledged, I) || I <- rabbit_amqqueue:info_all(<<"{vhost}">>,
        [messages_unacknowledged])]""".replace("\n", " ")
    with running(rabbit, drains, "desk"):
        wait_until(lambda: drains.roles, "a drain runs")
        wait_until(lambda: set(re.findall(r"\d+", shared_rabbitmq.eval(unacked))) == {"0"}, "nothing is held")
        drains.go_on.set()
    bell.close()


@pytest.mark.parametrize("which", ["rabbit", "redis"])
def test_of_200_roles_a_quiet_one_waits_for_no_loud_one(request: pytest.FixtureRequest, which: str) -> None:
    """Fault celery/kombu#166: many queues starve one with a single message."""
    transport: Transport = request.getfixturevalue(which)
    drains, bell = Drains(), KombuDoorbell(transport)
    roles = [f"role-{n}" for n in range(200)]
    with running(transport, drains, *roles, concurrency=4):
        wait_until(lambda: set(drains.roles) == set(roles), "each was drained once", 30)
        drained = len(drains.roles)
        loud, stop = (
            threading.Thread(target=lambda: _ring_until(transport, "role-0", stop)),
            threading.Event(),
        )
        loud.start()
        wait_until(lambda: len(drains.roles) > drained + 20, "the loud one is loud")
        drains.roles.clear()
        bell.ring("role-199")
        wait_until(lambda: "role-199" in drains.roles, "the quiet one is drained", 5)
        before = drains.roles.index("role-199")
        stop.set()
        loud.join()
    bell.close()
    # What lay on the loud one's queue or was on its way, at most.
    assert before <= 30


def _ring_until(transport: Transport, role: str, stop: threading.Event) -> None:
    bell = KombuDoorbell(transport)
    while not stop.is_set():
        bell.ring(role)
    bell.close()


class TestFaultsOfACallback:
    """Fault celery/kombu#2582: an error that is taken for a lost connection, and the same message again for ever."""

    def test_what_breaks_in_celery_costs_one_message_and_no_connection(
        self, redis: Transport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, tries = Consumer.create_task_handler, list[object]()

        def broken_once(consumer: Any, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
            handle = whole(consumer, *args, **kwargs)

            def on_message(message: Any) -> None:
                tries.append(message)
                if len(tries) == 2:
                    raise KeyError("x")
                handle(message)

            return on_message

        monkeypatch.setattr(Consumer, "create_task_handler", broken_once)
        drains, bell = Drains(), KombuDoorbell(redis)
        with running(redis, drains, "desk") as pool:
            wait_until(lambda: drains.roles, "a first drain")
            connections = consumer_of(pool).restart_count
            bell.ring("desk")
            wait_until(lambda: len(tries) == 2, "it broke")
            bell.ring("desk")
            wait_until(lambda: len(drains.roles) == 2, "the next is answered")
            assert len(tries) == 3
            assert consumer_of(pool).restart_count == connections
        bell.close()

    def test_whoever_keeps_junk_may_break(self, redis: Transport, redis_server: RedisServer) -> None:
        def keep(_: str, __: bytes, ___: str) -> None:
            raise KeyError("x")

        drains, bell = Drains(), KombuDoorbell(redis)
        with running(redis, drains, "desk", on_junk=keep) as pool:
            wait_until(lambda: drains.roles, "a first drain")
            connections = consumer_of(pool).restart_count
            redis_server.client().lpush("passdown:passdown.desk", b"junk")
            put_foreign(redis, "passdown.desk", b"{}", {})
            bell.ring("desk")
            wait_until(lambda: len(drains.roles) == 2, "the bell is answered")
            assert consumer_of(pool).restart_count == connections
        bell.close()


class TestLeftBehind:
    def test_on_redis_nothing_but_messages(self, redis: Transport, redis_server: RedisServer) -> None:
        drains = Drains()
        with running(redis, drains, "desk"):
            wait_until(lambda: drains.roles, "a first drain")
        keys = {bytes(cast("bytes", key)) for key in redis_server.client().scan_iter()}
        # The bell that a pool rings at its end, for others that serve its roles.
        assert keys <= {b"passdown:passdown.desk"}

    def test_on_redis_a_consumer_leaves_nothing_once_all_is_read(
        self, redis: Transport, redis_server: RedisServer
    ) -> None:
        publisher = Publisher(redis)
        with Reader(redis) as reader:
            publisher.publish(b"1", queue=QUEUE)
            wait_until(lambda: reader.got, "it")
        publisher.close()
        assert list(redis_server.client().scan_iter()) == []

    def test_on_rabbitmq_a_queue_for_each_role_and_a_probe_that_expires(
        self, rabbit: Transport, shared_rabbitmq: RabbitServer, rabbitmq_url: str
    ) -> None:
        drains = Drains()
        vhost = rabbitmq_url.rpartition("/")[2]
        with running(rabbit, drains, "desk"):
            wait_until(lambda: drains.roles, "a first drain")
        found = shared_rabbitmq.eval(
            f'[{{element(4, amqqueue:get_name(Q)), amqqueue:get_arguments(Q)}} || Q <- rabbit_amqqueue:list(<<"{vhost}">>)]'
        )
        names = set(re.findall(r'<<"(passdown[^"]*)">>', found))
        probes = {name for name in names if name.startswith(f"passdown.probe.{socket.gethostname()[:60]}")}
        assert names - probes == {"passdown.desk"}
        assert len(probes) == 1
        assert found.count("x-expires") == 1
        exchanges = shared_rabbitmq.eval(
            f'[element(4, element(2, E)) || E <- rabbit_exchange:list(<<"{vhost}">>)]'
        )
        assert set(re.findall(r'<<"([^"]*)">>', exchanges)) <= {
            "",
            "amq.direct",
            "amq.fanout",
            "amq.headers",
            "amq.match",
            "amq.rabbitmq.trace",
            "amq.topic",
        }


def delete(transport: Transport, queue: str) -> None:
    with kombu.Connection(transport.url, transport_options=transport.options) as connection:
        cast("Any", connection.channel()).queue_delete(queue)


def test_a_queue_that_somebody_deletes_is_made_again(rabbit: Transport) -> None:
    publisher = Publisher(rabbit)
    publisher.publish(b"1", queue=QUEUE)
    delete(rabbit, QUEUE)
    publisher.publish(b"2", queue=QUEUE)
    with Reader(rabbit) as reader:
        wait_until(lambda: reader.bodies() == [b"2"], "the second")
        with structlog.testing.capture_logs() as said:
            delete(rabbit, QUEUE)
            wait_until(lambda: "carrier.lost" in [one["event"] for one in said], "the consumer was told")
        publisher.publish(b"3", queue=QUEUE)
        wait_until(lambda: reader.bodies() == [b"2", b"3"], "the third", 15)
    publisher.close()
