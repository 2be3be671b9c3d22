"""Outgoing events over real servers: at least once and in order per session, whoever dies."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import amqp
import kombu
import pytest

from passdown.agents import Done, agent
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, Transport, open_store, transport_of
from passdown.broker.client import Broker
from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.stores.queries import FindEnded
from passdown.broker.transports import queues
from passdown.broker.transports.carrier import connection_to
from passdown.contracts.plans import Plan
from tests.integration.site import Site, one_stage, wait_until
from tests.servers.fixtures import StartRabbit, StartRedis
from tests.servers.redis import RedisServer

ROLE = "clerk"
EVENTS = "shop.events"
ALL, REPLIES = "shop.all", "shop.replies"


@agent(ROLE)
def clerk(pack: Any, ctx: Any) -> Done:
    return Done({"n": pack.inputs["n"]})


class Shop:
    """A producer and its pool on a site's store, which ring for nobody: what is sent here is what ticks tell."""

    def __init__(self, site: Site) -> None:
        store = open_store(site.store)
        controller = Controller(store, SilentDoorbell(), events_to=EVENTS)
        self.broker = Broker(App(store, Transport("", {}), SilentDoorbell(), controller), "user:shop")
        self._runtime = Runtime(
            DirectGateway(controller), agents=[clerk], options=Options(linger_seconds=0.0)
        )
        self.plan = self.broker.register(one_stage("sale", ROLE))

    def submit(self, numbers: range, *, plan: Plan | None = None, reply_to: str = REPLIES) -> list[str]:
        """Submit work; returns the sessions' ids."""
        ref = self.broker.register(plan) if plan else self.plan
        return [
            self.broker.submit(ref, inputs={"n": n}, key=f"{ref.name}-{n}", reply_to=reply_to).id
            for n in numbers
        ]

    def work(self) -> None:
        """Do all that waits."""
        self._runtime.drain(ROLE)

    def to_tell(self, sessions: list[str]) -> set[str]:
        """Return the ended sessions that somebody is still to be told of."""
        free = self.broker.app.store.find(FindEnded(older_ms=0, limit=10_000))
        assert isinstance(free, list)
        return set(sessions) - {getattr(row, "session_id", "") for row in free}


class Reader:
    """Reads what arrives on two queues of its own, over whatever connection it gets."""

    def __init__(self, url: str) -> None:
        self._transport = transport_of("sqlite:///:memory:", url)
        self.seen: dict[str, list[dict[str, Any]]] = {ALL: [], REPLIES: []}
        with connection_to(self._transport) as connection:
            self._queues(connection.channel())

    def _queues(self, channel: Any) -> list[kombu.Queue]:
        bound = kombu.Queue(ALL, queues.topic(EVENTS), routing_key="#", durable=True).bind(channel)
        replies = queues.theirs(REPLIES).bind(channel)
        for queue in (bound, replies):
            queue.declare()
        return [bound, replies]

    def read(self) -> None:
        """Take what lies there."""
        with connection_to(self._transport) as connection:
            for queue in self._queues(connection.channel()):
                while (message := queue.get()) is not None:
                    assert message.content_type == "application/cloudevents+json"
                    self.seen[queue.name].append(json.loads(message.body or b""))
                    message.ack()

    def statuses(self, session_id: str, queue: str = ALL) -> list[str]:
        """Return the statuses told of a session, doubles dropped by their id."""
        mine = {event["id"]: event for event in self.seen[queue] if event["subject"] == session_id}
        return [event["data"]["status"] for event in mine.values()]

    def doubles(self) -> int:
        """Return how many messages came more than once."""
        ids = [(queue, event["id"]) for queue, seen in self.seen.items() for event in seen]
        return len(ids) - len(set(ids))


@pytest.fixture
def shop(site: Site) -> Iterator[Shop]:
    made = Shop(site)
    yield made
    made.broker.close()


def tick(site: Site, url: str) -> Any:
    return site.passdown("--transport", url, "tick")


def all_told(shop: Shop, sessions: list[str]) -> Callable[[], bool]:
    return lambda: not shop.to_tell(sessions)


@pytest.mark.timeout(240)
def test_rule_01_every_outcome_arrives_though_rabbitmq_and_a_tick_are_killed(
    site: Site, shop: Shop, start_rabbitmq: StartRabbit
) -> None:
    server = start_rabbitmq()
    reader = Reader(server.url())
    ticks = [tick(site, server.url()) for _ in range(3)]
    sessions = shop.submit(range(100))
    shop.work()
    wait_until(lambda: len(shop.to_tell(sessions)) < 60, "some are told of")
    server.kill()
    sessions += shop.submit(range(100, 200))
    shop.work()
    site.kill(ticks[0])
    wait_until(lambda: "teller.away" in site.log(), "a tick says that RabbitMQ is away")
    server.start()
    wait_until(all_told(shop, sessions), "all are told of", 120)
    reader.read()
    for session in sessions:
        assert reader.statuses(session) == ["queued", "running", "done"]
        assert reader.statuses(session, REPLIES) == ["done"]
    assert all(process.poll() is None for process in ticks[1:]), site.log()


def test_rule_01_outcomes_arrive_over_redis_though_it_is_away_for_long_and_timers_go_on(
    site: Site, shop: Shop, start_redis: StartRedis
) -> None:
    server = start_redis(appendfsync="always")
    reader = Reader(server.url())
    tick(site, server.url())
    sessions = shop.submit(range(20))
    shop.work()
    wait_until(all_told(shop, sessions), "all are told of")
    server.kill()
    late = shop.submit(range(10), plan=one_stage("late", "nobody", deadline_seconds=1.0))
    ended = [shop.broker.session(one).result(20.0).result for one in late]
    assert set(ended) == {"expired"}
    assert shop.to_tell(late) == set(late)
    wait_until(lambda: "teller.away" in site.log(), "the tick says that Redis is away")
    server.start()
    wait_until(all_told(shop, late), "all are told of", 60)
    reader.read()
    for session in sessions:
        assert reader.statuses(session) == ["queued", "running", "done"]
    for session in late:
        assert reader.statuses(session) == ["queued", "expired"]
        assert reader.statuses(session, REPLIES) == ["expired"]


@pytest.fixture(params=["rabbitmq", "redis", "redis with the store"])
def place(request: pytest.FixtureRequest, site: Site) -> Iterator[tuple[Shop, str]]:
    """A shop, and the address of the transport."""
    if request.param == "rabbitmq":
        url: str = request.getfixturevalue("rabbitmq_url")
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        url = server.url(1)
        if request.param != "redis":
            site.store = server.url(0)
    made = Shop(site)
    yield made, url
    made.broker.close()


def test_who_dies_between_publishing_and_noting_it_is_made_good(
    site: Site, place: tuple[Shop, str], tmp_path: Path
) -> None:
    shop, url = place
    reader = Reader(url)
    (session,) = shop.submit(range(1))
    shop.work()
    module = "tests.integration.killing_teller"
    dies = site.start(module, site.store, url, str(tmp_path / "marker"))
    assert dies.wait(30) == -9, site.log()
    assert shop.to_tell([session]) == {session}
    tick(site, url)
    wait_until(all_told(shop, [session]), "it is told of")
    reader.read()
    assert reader.statuses(session) == ["queued", "running", "done"]
    assert reader.doubles() == 4, "three changes and an outcome were told twice, under the same ids"


def test_queues_of_others_are_used_as_they_declared_them(site: Site, shop: Shop, rabbitmq_url: str) -> None:
    """A plain AMQP client, with queues that are neither durable nor shared; an odd exchange or a full queue stops nobody."""
    transport = transport_of("sqlite:///:memory:", rabbitmq_url)
    with kombu.Connection(transport.url) as looked_up:
        info = looked_up.info()
    host, vhost = f"{info['hostname']}:{info['port']}", info["virtual_host"]
    with amqp.Connection(host, "guest", "guest", virtual_host=vhost) as client:
        channel = client.channel()
        channel.queue_declare("mine.alone", exclusive=True, auto_delete=True)
        channel.queue_declare("mine.fleeting", durable=False, auto_delete=False)
        channel.queue_declare("mine.odd", durable=True, arguments={"x-max-priority": 3}, auto_delete=False)
        controller = Controller(shop.broker.app.store, SilentDoorbell())
        shop.broker.app = App(shop.broker.app.store, Transport("", {}), SilentDoorbell(), controller)
        full = {"x-max-length": 0, "x-overflow": "reject-publish"}
        channel.queue_declare("mine.full", durable=True, arguments=full, auto_delete=False)
        (rejected,) = shop.submit(range(8, 9), reply_to="mine.full")
        names = ["mine.alone", "mine.fleeting", "mine.odd", "mine.missing"]
        sessions = [shop.submit(range(n, n + 1), reply_to=name)[0] for n, name in enumerate(names)]
        channel.exchange_declare("odd", "fanout", durable=False, auto_delete=False)
        odd = Controller(shop.broker.app.store, SilentDoorbell(), events_to="odd")
        shop.broker.app = App(shop.broker.app.store, Transport("", {}), SilentDoorbell(), odd)
        (refused,) = shop.submit(range(9, 10), reply_to="")
        shop.work()
        tick(site, rabbitmq_url)
        wait_until(all_told(shop, sessions), "all but one are told of")
        for n, name in enumerate(names):
            message = channel.basic_get(name)
            assert message is not None, name
            assert json.loads(message.body)["data"]["output"] == {"n": n}
            assert message.properties["delivery_mode"] == 2
            assert message.properties["message_id"] == json.loads(message.body)["id"]
    wait_until(
        lambda: site.log().count("teller.refused") >= 2, "it is said that exchange and queue take nothing"
    )
    assert shop.to_tell([refused, rejected]) == {refused, rejected}
