"""Doorbells within one process: a consumer is woken, and brokers do not hear each other's."""

import threading
import time
from typing import Any

import kombu
import pytest

from passdown.broker.transports import memory


def connect(host: str) -> kombu.Connection:
    return kombu.Connection(f"{memory.SCHEME}://{host}")


@pytest.fixture
def host(request: pytest.FixtureRequest) -> str:
    return request.node.name.replace("_", "-")


def ring(host: str, queue: str = "q") -> None:
    with connect(host) as connection:
        kombu.Producer(connection.channel()).publish(b"x", routing_key=queue, content_type="text/plain")


class Ear:
    """A consumer in a thread: notes when each message came."""

    def __init__(self, host: str) -> None:
        self.heard: list[float] = []
        self.came = threading.Semaphore(0)
        self.stop = threading.Event()
        self._host = host
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _note(self, _body: Any, message: Any) -> None:
        message.ack()
        self.heard.append(time.monotonic())
        self.came.release()

    def _listen(self) -> None:
        with connect(self._host) as connection, connection.Consumer(kombu.Queue("q"), callbacks=[self._note]):
            while not self.stop.is_set():
                try:
                    connection.drain_events(timeout=60)
                except TimeoutError:
                    continue

    def close(self) -> None:
        self.stop.set()
        self._thread.join(10)
        assert not self._thread.is_alive()


def test_a_message_wakes_its_consumer(host: str) -> None:
    ear = Ear(host)
    late: list[float] = []
    for _ in range(20):
        began = time.monotonic()
        ring(host)
        assert ear.came.acquire(timeout=10)
        late.append(ear.heard[-1] - began)
    ear.close()
    assert min(late) < 0.05


def test_a_message_that_comes_between_a_look_and_the_wait_is_not_missed() -> None:
    house = vars(memory)["_House"]()
    seen = house.count
    house.arrived()
    began = time.monotonic()
    house.wait_beyond(seen, 60)
    assert time.monotonic() - began < 10


def test_brokers_in_one_process_have_queues_of_their_own(host: str) -> None:
    ring(f"{host}-a")
    ear = Ear(f"{host}-b")
    assert not ear.came.acquire(timeout=0.3)
    ring(f"{host}-b")
    assert ear.came.acquire(timeout=10)
    ear.close()


def test_a_closed_broker_that_was_alone_leaves_no_queues() -> None:
    for address, left in ((memory.alone(), False), (memory.shared("/a.db"), True)):
        host = address.partition("://")[2]
        ring(host)
        assert host in vars(memory)["_houses"]
        memory.forget(address)
        assert (host in vars(memory)["_houses"]) == left


def test_a_consumer_that_is_told_to_stop_hears_it_soon(host: str) -> None:
    with connect(host) as connection, connection.Consumer(kombu.Queue("q"), callbacks=[print]):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=60)
        assert time.monotonic() - began < 10
