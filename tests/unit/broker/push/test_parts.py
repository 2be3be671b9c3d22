"""Push delivery over transports without a server: bells are heard, packs go out, returns come in, junk stops nobody."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.broker.app import App, compose
from passdown.broker.client import Broker
from passdown.broker.parts import Parts
from passdown.broker.push.parts import push_parts
from passdown.broker.stores.queries import FindQuarantine
from passdown.broker.transports import queues
from passdown.broker.transports.addresses import Transport
from passdown.broker.transports.carrier import Consumer, Publisher, Received
from passdown.contracts.codec import decode
from passdown.contracts.push import RETURNS_QUEUE, Push, push_queue
from tests.integration.site import wait_until
from tests.unit.broker.push.foreign import JSON, answer, pushed_plan
from tests.unit.broker.rig import ROLE


@pytest.fixture(params=["memory://", "filesystem://"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    made = compose(f"sqlite:///{tmp_path}/push.db", request.param)
    yield made
    made.close()


class Worker:
    """Gives back what it gets, over the transport."""

    def __init__(self, transport: Transport) -> None:
        self._publisher = Publisher(transport)
        self._consumer = Consumer(transport, push_queue(ROLE), self._work, on_junk=self._junk)
        self.junk: list[bytes] = []

    def _work(self, message: Received) -> None:
        push = decode(message.body, Push)
        given = answer({"claimId": push.claim_id, "pack": _plain(push)})
        self._publisher.publish(given, queue=push.returns, content_type=JSON)

    def _junk(self, body: bytes, reason: str) -> None:
        del reason
        self.junk.append(body)

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop."""
        self._consumer.run(stop)
        self._publisher.close()


def _plain(push: Push) -> dict[str, object]:
    pack = push.pack
    return {
        "sessionId": pack.session_id,
        "step": pack.step,
        "attempt": pack.attempt,
        "stage": pack.stage,
        "digest": pack.digest,
    }


@pytest.fixture
def running(app: App) -> Iterator[Parts]:
    """The parts, and a worker."""
    stop = threading.Event()
    parts = Parts(stop)
    named = push_parts(app.controller, app.transport, 1_000)
    assert set(named) == {"push", "push-bells", "returns"}
    parts.start_all({**named, "worker": Worker(app.transport)})
    yield parts
    stop.set()
    parts.join()
    assert parts.faults == []


@pytest.mark.usefixtures("running")
def test_handoffs_go_out_and_come_back_at_the_sound_of_a_bell(app: App) -> None:
    broker = Broker(app, "user:producer")
    plan = broker.register(pushed_plan(lease_seconds=60.0))
    for n in range(5):
        assert broker.submit(plan, key=str(n)).result(10).result == "done"


@pytest.mark.usefixtures("running")
def test_rule_11_junk_on_bells_and_returns_is_kept_and_stops_nobody(app: App) -> None:
    publisher = Publisher(app.transport)
    for body in (b"\xff", b"{}", b'{"args": 7}', b'{"args": ["desk", "push/", "push/nobody"]}'):
        publisher.hint(body, queues.hints("passdown.push"))
        publisher.publish(body, queue=RETURNS_QUEUE)
    broker = Broker(app, "user:producer")
    plan = broker.register(pushed_plan(lease_seconds=60.0))
    assert broker.submit(plan, key="k").result(10).result == "done"

    def kept() -> list[str]:
        found = app.store.find(FindQuarantine())
        assert isinstance(found, list)
        return sorted(getattr(row, "source", "") for row in found)

    wait_until(lambda: kept() == ["passdown.push"] * 3 + ["passdown.returns"] * 4, "all junk is kept", 10.0)
    publisher.close()


def test_without_a_transport_there_are_no_parts(app: App) -> None:
    assert push_parts(app.controller, Transport("", {}), 1) == {}
