"""What every transport must do: carry bytes as they are, lose nothing that it was told to keep, and stop for nothing."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Self, cast

import kombu
import pytest

from passdown.broker.app import Transport
from passdown.broker.doorbell import DRAIN_TASK, KombuDoorbell, queue_name
from passdown.broker.pool import Kind, Pool
from passdown.broker.transports import queues
from passdown.broker.transports.carrier import Consumer, Publisher, Received
from passdown.contracts.errors import Unavailable
from tests.conformance.together import together
from tests.integration.site import wait_until

QUEUE = "passdown.returns"
BODIES = [b"", b"x", b"\xff\xfe\x00", b'{"__type__":"x","__value__":"y"}', b'{"a":NaN}', b"[" * 300_000]

#: Messages that a foreign program might put on a queue of ours: body, and what it says of it.
FOREIGN: dict[str, tuple[bytes, dict[str, Any]]] = {
    "bytes": (b"\xff\xfe", {}),
    "text": (b"not json", {"content_type": "text/plain"}),
    "object": (b'{"a":1}', {"content_type": "application/json"}),
    "list": (b"[1,2]", {"content_type": "application/json"}),
    "deep": (b"[" * 5_000_000, {"content_type": "application/json"}),
    "pickle": (b"cos\nsystem\n", {"content_type": "application/x-python-serialize"}),
    "unknown type": (b"{}", {"content_type": "application/x-klingon", "content_encoding": "klingon"}),
    "celery": (b"[[],{},{}]", {"headers": {"task": "their.task", "id": "1", "lang": "py"}}),
    "celery, ours": (b'[["desk"],{},{}]', {"headers": {"task": DRAIN_TASK, "id": "1"}}),
    "no role": (json.dumps({"task": DRAIN_TASK, "id": "1", "args": [5], "kwargs": {}}).encode(), {}),
}

#: Bytes that are no message at all, for transports where one can put them there.
RAW = {
    "empty": b"",
    "bytes": b"\xff\xfe",
    "text": b"not json",
    "number": b"5",
    "list": b"[1,2]",
    "object": b'{"a":1}',
    "deep": b"[" * 5_000_000,
    "base64": b'{"body":"%%%","headers":{},"properties":{"delivery_tag":"t","delivery_info":'
    b'{"exchange":"","routing_key":"q"},"body_encoding":"base64"}}',
    "no address": b'{"body":"eA==","headers":{},"properties":{"delivery_tag":"t","body_encoding":"base64"}}',
    "compressed": b'{"body":"eA==","headers":{"compression":"application/x-gzip"},"properties":{"delivery_tag":"t",'
    b'"delivery_info":{"exchange":"","routing_key":"q"},"body_encoding":"base64"}}',
}


class Reader:
    """A consumer in a thread, and what it got."""

    def __init__(self, transport: Transport, handle: Callable[[Received], None] | None = None) -> None:
        self.got: list[Received] = []
        self.junk: list[bytes] = []
        self._handle = handle
        self.consumer = Consumer(transport, QUEUE, self._take, on_junk=lambda body, _: self.junk.append(body))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.consumer.run, args=(self._stop,))

    def _take(self, received: Received) -> None:
        if self._handle:
            self._handle(received)
        self.got.append(received)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(15)
        assert not self._thread.is_alive()

    def bodies(self) -> list[bytes]:
        return [one.body for one in self.got]


class Drains:
    """Stands where a runtime does."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.roles: list[str] = []

    def drain(self, role: str, _: Callable[[str], None]) -> bool:
        self.roles.append(role)
        if self.fault:
            raise self.fault
        return False

    def close(self) -> None: ...

    def stop(self, _: float) -> None: ...


@contextlib.contextmanager
def pool_of(
    transport: Transport, drains: Drains, junk: list[bytes], kind: Kind = "threads"
) -> Generator[Pool]:
    """Run a pool for the desk, once it has heard its first doorbell."""
    bell = KombuDoorbell(transport)
    pool = Pool(
        cast("Any", drains),
        bell,
        transport,
        ["desk"],
        concurrency=2,
        kind=kind,
        on_junk=lambda _, body, __: junk.append(body),
    )
    thread = threading.Thread(target=pool.run)
    thread.start()
    wait_until(lambda: drains.roles, "the first drain")
    try:
        yield pool
    finally:
        pool.stop(1.0)
        thread.join(15)
        bell.close()
        assert not thread.is_alive()


class TransportSuite:
    """A driver names its transport, and how bytes get onto a queue that are no message, where that can be."""

    @pytest.fixture
    def transport(self) -> Transport:
        raise NotImplementedError

    @pytest.fixture
    def put_raw(self) -> Callable[[str, bytes], None] | None:
        return None

    @pytest.fixture
    def publisher(self, transport: Transport) -> Iterator[Publisher]:
        made = Publisher(transport)
        yield made
        made.close()

    def test_a_body_arrives_byte_for_byte(self, transport: Transport, publisher: Publisher) -> None:
        with Reader(transport) as reader:
            for body in BODIES:
                publisher.publish(body, queue=QUEUE)
            wait_until(lambda: len(reader.got) == len(BODIES), "all of them")
        assert reader.bodies() == BODIES
        assert reader.junk == []

    def test_what_is_said_of_it_arrives_too(self, transport: Transport, publisher: Publisher) -> None:
        with Reader(transport) as reader:
            publisher.publish(
                b"x",
                queue=QUEUE,
                content_type="application/cloudevents+json",
                headers={"a": "b"},
                message_id="7",
            )
            wait_until(lambda: reader.got, "it")
        (got,) = reader.got
        assert (got.content_type, got.headers, got.message_id) == (
            "application/cloudevents+json",
            {"a": "b"},
            "7",
        )
        assert not got.again

    def test_what_nobody_reads_yet_is_kept_in_order(self, transport: Transport, publisher: Publisher) -> None:
        for n in range(50):
            publisher.publish(b"%d" % n, queue=QUEUE)
        with Reader(transport) as reader:
            wait_until(lambda: len(reader.got) == 50, "all of them")
        assert reader.bodies() == [b"%d" % n for n in range(50)]

    def test_from_many_threads_to_several_readers(self, transport: Transport, publisher: Publisher) -> None:
        with Reader(transport) as one, Reader(transport) as other:
            together(8, lambda n: [publisher.publish(b"%d-%d" % (n, m), queue=QUEUE) for m in range(10)])
            wait_until(lambda: len(one.got) + len(other.got) == 80, "all of them")
        assert len({*one.bodies(), *other.bodies()}) == 80

    def test_rule_1_what_cannot_be_handled_now_is_tried_again(
        self, transport: Transport, publisher: Publisher
    ) -> None:
        tries: list[float] = []

        def handle(_: Received) -> None:
            tries.append(time.monotonic())
            if len(tries) < 4:
                raise Unavailable("store", "it is away")

        with Reader(transport, handle) as reader:
            publisher.publish(b"1", queue=QUEUE)
            publisher.publish(b"2", queue=QUEUE)
            wait_until(lambda: len(reader.got) == 2, "both")
        assert reader.bodies() == [b"1", b"2"]
        assert tries[3] - tries[0] > 0.2  # not in a tight loop
        assert reader.junk == []

    def test_rule_1_what_a_stopped_consumer_held_comes_to_the_next(
        self, transport: Transport, publisher: Publisher
    ) -> None:
        tried = threading.Event()

        def away(_: Received) -> None:
            tried.set()
            raise Unavailable("store", "it is away")

        publisher.publish(b"1", queue=QUEUE)
        with Reader(transport, away):
            wait_until(tried.is_set, "it was tried")
        with Reader(transport) as reader:
            wait_until(lambda: reader.got, "it came again")
        assert reader.bodies() == [b"1"]

    @pytest.mark.parametrize("fault", [KeyError("x"), ValueError("x"), OSError("x"), RecursionError()])
    def test_rule_11_a_message_that_cannot_be_handled_is_junk_and_comes_once(
        self, transport: Transport, publisher: Publisher, fault: Exception
    ) -> None:
        tries: list[bytes] = []

        def handle(received: Received) -> None:
            tries.append(received.body)
            if received.body == b"bad":
                raise fault

        with Reader(transport, handle) as reader:
            publisher.publish(b"bad", queue=QUEUE)
            publisher.publish(b"good", queue=QUEUE)
            wait_until(lambda: reader.got, "the good one")
        assert tries == [b"bad", b"good"]
        assert reader.junk == [b"bad"]

    def test_rule_11_junk_that_nobody_can_keep_stops_nothing(
        self, transport: Transport, publisher: Publisher
    ) -> None:
        def handle(received: Received) -> None:
            if received.body == b"bad":
                raise ValueError

        def broken(_: bytes, __: str) -> None:
            raise KeyError("no place")

        with Reader(transport, handle) as reader:
            cast("Any", reader.consumer)._on_junk = broken
            publisher.publish(b"bad", queue=QUEUE)
            publisher.publish(b"good", queue=QUEUE)
            wait_until(lambda: reader.got, "the good one")

    def test_rule_11_bytes_that_are_no_message(
        self, transport: Transport, publisher: Publisher, put_raw: Callable[[str, bytes], None] | None
    ) -> None:
        if put_raw is None:
            return
        with Reader(transport) as reader:
            for data in RAW.values():
                put_raw(QUEUE, data)
            publisher.publish(b"good", queue=QUEUE)
            wait_until(lambda: reader.got, "the good one", 10)
        assert reader.bodies() == [b"good"]
        assert sorted(reader.junk) == sorted(RAW.values())

    def test_events_reach_whoever_listens_and_nobody_is_no_fault(
        self, transport: Transport, publisher: Publisher
    ) -> None:
        publisher.publish(b"early", exchange="passdown.events", routing_key="passdown.session.done")
        queue = kombu.Queue("theirs", queues.topic("passdown.events"), routing_key="passdown.session.*")
        got: list[bytes] = []
        with kombu.Connection(transport.url, transport_options=transport.options) as connection:
            channel: Any = connection.channel()
            queue.bind(channel).declare()
            publisher.publish(b"1", exchange="passdown.events", routing_key="passdown.session.done")
            publisher.publish(b"2", exchange="passdown.events", routing_key="passdown.ticket.opened")
            publisher.publish(b"3", exchange="passdown.events", routing_key="passdown.session.failed")

            def take() -> bool:
                found = queue.bind(channel).get(no_ack=True)
                if found is not None:
                    body: Any = found.body
                    got.append(body if isinstance(body, bytes) else body.encode())
                return len(got) == 2

            wait_until(take, "two of three")
        assert got == [b"1", b"3"]

    def test_a_forked_process_publishes_while_the_lock_is_held(
        self, transport: Transport, publisher: Publisher
    ) -> None:
        publisher.publish(b"parent", queue=QUEUE)
        with vars(publisher)["_lock"]:
            child = os.fork()
            if child == 0:
                try:
                    publisher.publish(b"child", queue=QUEUE)
                    os._exit(0)
                except BaseException:  # noqa: BLE001 - a forked test must not go on as a second test run
                    os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        publisher.publish(b"parent again", queue=QUEUE)
        with Reader(transport) as reader:
            wait_until(lambda: b"parent again" in reader.bodies(), "what was published after it")
        # What is published within a process stays there.
        assert reader.bodies() in ([b"parent", b"child", b"parent again"], [b"parent", b"parent again"])

    def test_a_consumer_says_when_it_was_heard_of_last(self, transport: Transport) -> None:
        with Reader(transport) as reader:
            wait_until(lambda: time.monotonic() - reader.consumer.last_poll < 1, "a first poll")
            first = reader.consumer.last_poll
            wait_until(lambda: reader.consumer.last_poll > first, "a later one", 15)

    def test_rule_12_hints_do_not_pile_up(self, transport: Transport) -> None:
        bell = KombuDoorbell(transport)
        for _ in range(50):
            bell.ring("nobody")
        bell.close()
        name = queue_name("nobody")
        lying = 0
        with kombu.Connection(transport.url, transport_options=transport.options) as connection:
            queue = queues.hints(name).bind(cast("Any", connection.channel()))
            while queue.get(no_ack=True) is not None:
                lying += 1
        assert 1 <= lying <= queues.MOST_HINTS


class PoolSuite:
    """What a pool does over every transport; needs the fixtures of `TransportSuite`."""

    def test_a_doorbell_is_answered(self, transport: Transport) -> None:
        drains, bell = Drains(), KombuDoorbell(transport)
        with pool_of(transport, drains, []):
            for n in range(2, 5):
                bell.ring("desk")
                wait_until(lambda n=n: len(drains.roles) >= n, "a drain for each ring")
        bell.close()
        assert set(drains.roles) == {"desk"}

    @pytest.mark.parametrize("what", FOREIGN)
    def test_rule_11_a_foreign_message_is_kept_and_the_pool_goes_on(
        self, transport: Transport, what: str
    ) -> None:
        body, said = FOREIGN[what]
        drains, junk = Drains(), list[bytes]()
        bell = KombuDoorbell(transport)
        with pool_of(transport, drains, junk):
            put_foreign(transport, queue_name("desk"), body, said)
            wait_until(lambda: junk, "it was told", 5)
            drained = len(drains.roles)
            bell.ring("desk")
            wait_until(lambda: len(drains.roles) > drained, "a drain after it", 5)
        bell.close()
        assert junk == [body]

    def test_rule_11_bytes_that_are_no_message_stop_no_pool(
        self, transport: Transport, put_raw: Callable[[str, bytes], None] | None
    ) -> None:
        if put_raw is None:
            return
        drains, junk = Drains(), list[bytes]()
        bell = KombuDoorbell(transport)
        with pool_of(transport, drains, junk) as pool:
            for data in RAW.values():
                put_raw(queue_name("desk"), data)
            wait_until(lambda: len(junk) == len(RAW), "all were told", 10)
            drained = len(drains.roles)
            bell.ring("desk")
            wait_until(lambda: len(drains.roles) > drained, "a drain after it", 5)
            assert pool.restarts == 0
        bell.close()
        assert sorted(junk) == sorted(RAW.values())

    @pytest.mark.parametrize("kind", ["threads", "solo"])
    def test_a_key_error_is_no_lost_connection(self, transport: Transport, kind: Kind) -> None:
        """Fault celery/kombu#2582: each KeyError gave a new connection, and the same message again."""
        drains, bell = Drains(KeyError("x")), KombuDoorbell(transport)
        with pool_of(transport, drains, [], kind) as pool:
            connections = cast("Any", pool.watch)._ear.consumer.restart_count
            for n in range(2, 6):
                bell.ring("desk")
                wait_until(lambda n=n: len(drains.roles) >= n, "a drain")
            assert len(drains.roles) < 10
            assert pool.restarts == 0
            assert cast("Any", pool.watch)._ear.consumer.restart_count == connections
        bell.close()

    def test_silence_is_short_while_it_polls(self, transport: Transport) -> None:
        with pool_of(transport, Drains(), []) as pool:
            polled = pool.watch.polled
            wait_until(lambda: pool.watch.polled > polled, "another poll", 10)
            assert pool.watch.silent_s < 5


def put_foreign(transport: Transport, queue: str, body: bytes, said: dict[str, Any]) -> None:
    """Put a message as another program would."""
    how: dict[str, Any] = {"content_type": "application/octet-stream", "content_encoding": "binary", **said}
    with kombu.Connection(transport.url, transport_options=transport.options) as connection:
        producer = kombu.Producer(cast("Any", connection.channel()))
        producer.publish(body, routing_key=queue, exchange="", **how)
