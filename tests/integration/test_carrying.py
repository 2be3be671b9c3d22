"""Messages that must arrive, over real servers: queues that are full or gone, a store that is away for long, a socket."""

import threading
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.app import Transport, transport_of
from passdown.broker.doorbell import KombuDoorbell
from passdown.broker.transports import carrier, queues
from passdown.broker.transports.carrier import Publisher, Received, Refused, connection_to
from passdown.contracts.errors import Unavailable
from tests.conformance.transport_suite import QUEUE, Drains, Reader
from tests.integration.site import wait_until
from tests.integration.test_transport_consumers import running
from tests.servers.fixtures import StartRedis

FULL = {"x-max-length": 1, "x-overflow": "reject-publish"}


@pytest.fixture
def rabbit(rabbitmq_url: str) -> Transport:
    return transport_of("sqlite:///x.db", rabbitmq_url)


def declare(transport: Transport, name: str, arguments: dict[str, Any], *, bound_to: str = "") -> None:
    with connection_to(transport) as connection:
        channel: Any = connection.channel()
        channel.queue_declare(name, durable=True, auto_delete=False, arguments=arguments)
        if bound_to:
            queues.topic(bound_to).bind(channel).declare()
            channel.queue_bind(name, bound_to, "#")


class TestRefused:
    """The server is there, and takes no such message: that says nothing about others."""

    def test_by_a_full_queue(self, rabbit: Transport) -> None:
        declare(rabbit, "shop.full", FULL)
        publisher = Publisher(rabbit)
        publisher.publish(b"1", queue="shop.full", theirs=True)
        for _ in range(3):
            with pytest.raises(Refused, match="MessageNacked"):
                publisher.publish(b"2", queue="shop.full", theirs=True)
            publisher.publish(b"2", queue="shop.other", theirs=True)
        publisher.close()

    def test_by_an_exchange_with_a_full_queue(self, rabbit: Transport) -> None:
        declare(rabbit, "shop.full", FULL, bound_to="shop.events")
        publisher = Publisher(rabbit)
        publisher.publish(b"1", exchange="shop.events", routing_key="done.p")
        with pytest.raises(Refused, match="MessageNacked"):
            publisher.publish(b"2", exchange="shop.events", routing_key="done.p")
        publisher.close()

    def test_by_nobody_where_a_queue_is_gone(
        self, rabbit: Transport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that is deleted again and again, faster than it is made."""

        def gone_again(*_: object) -> None: ...

        monkeypatch.setattr(queues, "declare_theirs", gone_again)
        publisher = Publisher(rabbit)
        with pytest.raises(Refused, match="NO_ROUTE"):
            publisher.publish(b"1", queue="shop.gone", theirs=True)
        publisher.close()


class TestAway:
    """A return that nobody can take in, because the store is away, is never counted as dead."""

    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Give back soon what cannot be dealt with, and count few times."""
        monkeypatch.setattr(carrier, "_HOLD_RABBITMQ_S", 0.01)
        monkeypatch.setitem(vars(queues)["_QUORUM"], "x-delivery-limit", 3)

    def test_rule_01_what_is_given_back_many_times_is_not_given_up(self, rabbit: Transport) -> None:
        tries: list[Received] = []

        def handle(received: Received) -> None:
            tries.append(received)
            if len(tries) < 20:
                raise Unavailable("store", "it is away")

        publisher = Publisher(rabbit)
        publisher.publish(
            b"\xff\x00", queue=QUEUE, content_type="text/odd", headers={"a": "b"}, message_id="7"
        )
        publisher.publish(b"2", queue=QUEUE)
        with Reader(rabbit, handle) as reader:
            wait_until(lambda: len(reader.got) == 2, "both", 30)
        publisher.close()
        assert sorted(reader.bodies()) == [b"2", b"\xff\x00"]
        assert {(one.content_type, str(one.headers), one.message_id) for one in tries} == {
            ("text/odd", "{'a': 'b'}", "7"),
            ("application/json", "{}", ""),
        }
        assert dead(rabbit) == []

    def test_rule_01_nor_what_stopped_consumers_held(self, rabbit: Transport) -> None:
        tried = threading.Event()

        def away(_: Received) -> None:
            tried.set()
            raise Unavailable("store", "it is away")

        publisher = Publisher(rabbit)
        publisher.publish(b"1", queue=QUEUE)
        publisher.close()
        for _ in range(6):
            with Reader(rabbit, away):
                wait_until(tried.is_set, "it was tried")
            tried.clear()
        with Reader(rabbit) as reader:
            wait_until(lambda: reader.got, "it")
        assert dead(rabbit) == []

    def test_rule_11_what_ends_its_consumer_each_time_is(self, rabbit: Transport) -> None:
        publisher = Publisher(rabbit)
        publisher.publish(b"poison", queue=QUEUE)
        publisher.close()
        for _ in range(10):
            with connection_to(rabbit) as connection:
                channel: Any = connection.channel()
                found = queues.lasting(QUEUE).bind(channel).get()
                if found is None:
                    break
                carrier.drop(connection)
        wait_until(lambda: dead(rabbit) == [b"poison"], "it is dead")


def dead(transport: Transport) -> list[bytes]:
    """Return what was given up, and let it go where it was."""
    with connection_to(transport) as connection:
        channel: Any = connection.channel()
        queues.declare_dead(channel)
        found: list[bytes] = []
        while (message := channel.basic_get(queues.DEAD)) is not None:
            body: Any = message.body
            found.append(body if isinstance(body, bytes) else body.encode())
        return found


def test_a_store_by_a_socket_brings_doorbells_and_messages(start_redis: StartRedis, tmp_path: Path) -> None:
    start_redis(unixsocket=str(tmp_path / "redis.sock"), requirepass="s&cret")
    transport = transport_of(f"unix://{tmp_path}/redis.sock?db=2&password=s%26cret")
    drains, bell, publisher = Drains(), KombuDoorbell(transport), Publisher(transport)
    with running(transport, drains, "desk"), Reader(transport) as reader:
        wait_until(lambda: drains.roles, "a first drain")
        drained = len(drains.roles)
        bell.ring("desk")
        wait_until(lambda: len(drains.roles) > drained, "it hears")
        publisher.publish(b"\xff", queue=QUEUE)
        wait_until(lambda: reader.bodies() == [b"\xff"], "the message")
    bell.close()
    publisher.close()
