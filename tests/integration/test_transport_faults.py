"""Real workers on real transports that die, restart, forget, go silent and reset: each pool is back within seconds."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.integration.carried import BACK_WITHIN_S, Carried
from tests.integration.site import Site, wait_until
from tests.servers.fixtures import StartRabbit, StartRedis
from tests.servers.proxy import Proxy
from tests.servers.rabbitmq import RabbitServer
from tests.servers.replies import AmqpReplies

#: As long after a connection went silent its consumer has another.
NOTICED_WITHIN_S = 25.0


@pytest.fixture
def carried(site: Site) -> Iterator[Callable[[str], Carried]]:
    made: list[Carried] = []

    def start(url: str) -> Carried:
        made.append(Carried(site, url))
        return made[-1]

    yield start
    for one in made:
        one.broker.close()


@pytest.fixture
def proxied(shared_rabbitmq: RabbitServer, rabbitmq_url: str) -> Iterator[tuple[Proxy, str, str]]:
    """A proxy before RabbitMQ, the address through it, and the direct one."""
    with Proxy(shared_rabbitmq.port, AmqpReplies) as proxy:
        yield proxy, rabbitmq_url.replace(f":{shared_rabbitmq.port}/", f":{proxy.port}/"), rabbitmq_url


class TestRedis:
    def test_rule_1_a_server_that_is_not_there_at_the_start(
        self, carried: Callable[[str], Carried], start_redis: StartRedis
    ) -> None:
        server = start_redis()
        server.stop()
        site = carried(server.url())
        worker, _ = site.worker(), site.tick()
        sessions = site.submit(3)
        wait_until(lambda: "pool.transport_away" in site.site.log(), "the worker tried")
        assert worker.poll() is None
        server.start()
        site.done(sessions)

    def test_rule_1_three_restarts_within_ten_seconds_under_load(
        self, carried: Callable[[str], Carried], start_redis: StartRedis
    ) -> None:
        """Fault celery#8030: connected, and takes nothing until it is restarted."""
        server = start_redis()
        site = carried(server.url())
        worker = site.worker()
        site.warm()
        began = time.monotonic()
        sessions = site.submit(20)
        for kind in ("kill", "stop", "kill"):
            getattr(server, kind)()
            sessions += site.submit(20)
            server.start()
            sessions += site.submit(20)
        assert time.monotonic() - began < 10
        site.done(sessions, 30)
        assert (worker.poll(), site.tick_process.poll()) == (None, None)
        # And it consumes: a session from now on needs no tick to be rung for.
        site.done(site.submit(), BACK_WITHIN_S)

    def test_rule_1_flushall_under_load(
        self, carried: Callable[[str], Carried], start_redis: StartRedis
    ) -> None:
        server = start_redis()
        site = carried(server.url())
        site.worker()
        site.warm()
        sessions = site.submit(30)
        for _ in range(5):
            server.client().flushall()
            sessions += site.submit(10)
        site.done(sessions, 30)

    def test_silent_connections_are_left_and_the_health_says_so(
        self, carried: Callable[[str], Carried], start_redis: StartRedis
    ) -> None:
        server = start_redis()
        with Proxy(server.port) as proxy:
            site = carried(server.url())
            site.worker(server.url().replace(str(server.port), str(proxy.port)))
            site.warm()
            wait_until(lambda: site.health("worker")[0] == 0, "green")
            proxy.silence()
            wait_until(lambda: site.health("worker", "3s")[0] == 6, "red", NOTICED_WITHIN_S)
            assert "transport" in site.health("worker", "3s")[1]["faults"][0]
            sessions = site.submit(3)
            proxy.pass_on()
            site.done(sessions, NOTICED_WITHIN_S)
            wait_until(lambda: site.health("worker")[0] == 0, "green again")

    def test_reset_connections(self, carried: Callable[[str], Carried], start_redis: StartRedis) -> None:
        server = start_redis()
        with Proxy(server.port) as proxy:
            site = carried(server.url())
            worker = site.worker(server.url().replace(str(server.port), str(proxy.port)))
            site.warm()
            for _ in range(5):
                proxy.reset()
                site.done(site.submit(5))
            assert worker.poll() is None

    def test_a_key_of_another_type_under_a_queues_name(
        self, carried: Callable[[str], Carried], start_redis: StartRedis
    ) -> None:
        server = start_redis()
        site = carried(server.url())
        site.worker()
        site.warm()
        server.client().delete("passdown:passdown.searcher")
        server.client().set("passdown:passdown.searcher", "x")
        site.done(site.submit(3), 10)
        aside = "passdown:passdown.searcher.junk"
        wait_until(lambda: server.client().get(aside) == b"x", "what lay there is put aside")
        site.done(site.submit())

    @pytest.mark.parametrize("pool", ["threads", "prefork", "solo"])
    def test_every_kind_of_pool_comes_back(
        self, carried: Callable[[str], Carried], start_redis: StartRedis, pool: str
    ) -> None:
        server = start_redis()
        site = carried(server.url())
        site.worker(pool=pool, concurrency=2)
        site.warm()
        server.kill()
        sessions = site.submit(2)
        server.start()
        site.done(sessions, 10)


class TestRabbitMQ:
    def test_rule_1_it_is_killed_and_comes_back_under_load(
        self, carried: Callable[[str], Carried], start_rabbitmq: StartRabbit
    ) -> None:
        server = start_rabbitmq()
        site = carried(server.url())
        worker = site.worker()
        site.warm()
        sessions = site.submit(20)
        server.kill()
        sessions += site.submit(20)
        server.start()
        site.done(sessions, 3 * BACK_WITHIN_S)
        assert (worker.poll(), site.tick_process.poll()) == (None, None)
        # Others may have been taken by drains that had begun; this one needs the consumer.
        site.done(site.submit(), 3 * BACK_WITHIN_S)

    def test_connections_that_an_administrator_closes(
        self, carried: Callable[[str], Carried], rabbitmq_url: str, shared_rabbitmq: RabbitServer
    ) -> None:
        site = carried(rabbitmq_url)
        site.worker()
        site.warm()
        for _ in range(3):
            shared_rabbitmq.close_connections()
            site.done(site.submit(5))

    def test_silent_connections_are_left_and_the_health_says_so(
        self, carried: Callable[[str], Carried], proxied: tuple[Proxy, str, str]
    ) -> None:
        proxy, through, direct = proxied
        site = carried(direct)
        site.worker(through)
        site.warm()
        wait_until(lambda: site.health("worker")[0] == 0, "green")
        proxy.silence()
        wait_until(lambda: site.health("worker", "4s")[0] == 6, "red", NOTICED_WITHIN_S)
        sessions = site.submit(3)
        proxy.pass_on()
        site.done(sessions, NOTICED_WITHIN_S)
        wait_until(lambda: site.health("worker")[0] == 0, "green again")

    def test_reset_connections(
        self, carried: Callable[[str], Carried], proxied: tuple[Proxy, str, str]
    ) -> None:
        proxy, through, direct = proxied
        site = carried(direct)
        site.worker(through)
        site.warm()
        for _ in range(5):
            proxy.reset()
            site.done(site.submit(5))

    def test_a_commit_waits_for_a_silent_transport_no_longer_than_a_moment(
        self, carried: Callable[[str], Carried], proxied: tuple[Proxy, str, str]
    ) -> None:
        proxy, through, _ = proxied
        site = carried(through)
        site.submit()
        proxy.silence()
        took: list[float] = []
        for _ in range(20):
            began = time.monotonic()
            site.submit()
            took.append(time.monotonic() - began)
        assert max(took) < 2.5
        assert sum(took) < 8


def test_a_frozen_worker_is_red(
    carried: Callable[[str], Carried], start_redis: StartRedis, site: Site
) -> None:
    carrying = carried(start_redis().url())
    worker = carrying.worker()
    carrying.warm()
    wait_until(lambda: carrying.health("worker")[0] == 0, "green")
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: carrying.health("worker", "2s")[0] == 6, "red")
    worker.send_signal(signal.SIGCONT)
    wait_until(lambda: carrying.health("worker")[0] == 0, "green again")
    site.kill(worker, signal.SIGTERM)
    assert carrying.health("worker")[0] == 6
