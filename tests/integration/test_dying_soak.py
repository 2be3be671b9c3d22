"""Random harm to all servers and processes, two kinds at once, for as long as it is asked to go on.

The seed is printed; ``SOAK_SEED`` sets it. What must hold is said in `test_dying_servers`.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import pytest

from tests.integration.flow import Flow, clock, say
from tests.servers.fixtures import StartRabbit, StartRedis
from tests.servers.process import ServerProcess
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer
from tests.servers.replies import AmqpReplies

#: The share of SOAK_MINUTES that goes to each combination.
SOAK_SHARE = 0.1
#: Within so many seconds all is well again, after harm of two kinds at once.
WITHIN_S = 60.0
#: How long harm lasts (seconds): at the least, and at the most.
LEAST_S, MOST_S = 0.2, 4.0
#: The longest that Redis is away (seconds); workers have more patience than that.
AWAY_S = 20.0

Harm = Callable[[], AbstractContextManager[None]]


class Harms:
    """What can be done to a flow; each is harm while it is entered, and is mended at its end."""

    def __init__(self, flow: Flow, chance: random.Random) -> None:
        self._flow = flow
        self._chance = chance
        self.known: dict[str, Harm] = {
            "a worker killed": lambda: self._ended(flow.workers, flow.worker, signal.SIGKILL),
            "a worker stopped": lambda: self._ended(flow.workers, flow.worker, signal.SIGTERM),
            "a worker frozen": self._frozen_worker,
            "a worker an hour off": self._off_clock,
            "a tick killed": lambda: self._ended(flow.ticks, flow.tick, signal.SIGKILL),
            "a tick, and two more": self._three_ticks,
        }

    def server(self, name: str, server: ServerProcess, proxy: Proxy) -> None:
        """Add what can be done to a server, and to the connections to it."""
        self.known |= {
            f"{name} killed": lambda: _down(server, server.kill),
            f"{name} stopped": lambda: _down(server, server.stop),
            f"{name} frozen": lambda: _between(server.pause, server.resume),
            f"{name} reset": lambda: _between(proxy.reset, proxy.reset),
            f"{name} silent": lambda: _between(proxy.silence, proxy.pass_on),
            f"{name} losing replies": lambda: _between(proxy.lose_replies, proxy.pass_on),
            f"{name} refusing": lambda: _between(proxy.refuse, proxy.pass_on),
        }

    def store(self, server: RedisServer) -> None:
        """Add what can be done to the store's Redis only."""
        self.known |= {
            "store restarted three times": lambda: self._restarts(server),
            "store away for long": lambda: self._away(server),
            "store full": lambda: _full(server),
        }

    def bells(self, server: RedisServer) -> None:
        """Add what can be done to the Redis of doorbells only."""
        flush: Callable[[], Any] = server.client().flushall
        self.known |= {"bells flushed": lambda: _between(flush, flush), "bells full": lambda: _full(server)}

    @contextmanager
    def _ended(self, some: list[Any], start: Callable[[], Any], number: int) -> Generator[None]:
        self._flow.kill(self._chance.choice(some), number)
        yield
        start()

    @contextmanager
    def _frozen_worker(self) -> Generator[None]:
        worker = self._chance.choice(self._flow.workers)
        worker.send_signal(signal.SIGSTOP)
        yield
        self._flow.pass_by(self._chance.uniform(0, MOST_S))
        worker.send_signal(signal.SIGCONT)

    @contextmanager
    def _off_clock(self) -> Generator[None]:
        self._flow.kill(self._chance.choice(self._flow.workers), signal.SIGTERM)
        off = self._flow.worker(prefix=clock(self._chance.choice(["+1h", "-1h"])))
        yield
        self._flow.pass_by(3.0)
        self._flow.kill(off)
        self._flow.worker()

    @contextmanager
    def _three_ticks(self) -> Generator[None]:
        more = [self._flow.tick(), self._flow.tick()]
        yield
        for one in more:
            self._flow.kill(one)

    @contextmanager
    def _restarts(self, server: RedisServer) -> Generator[None]:
        for how in (server.kill, server.stop, server.kill):
            how()
            server.start()
            self._flow.pass_by(self._chance.uniform(0, 1))
        yield

    @contextmanager
    def _away(self, server: RedisServer) -> Generator[None]:
        with _down(server, server.kill):
            yield
            self._flow.pass_by(AWAY_S - MOST_S)


@contextmanager
def _between(harm: Callable[[], Any], mend: Callable[[], Any]) -> Generator[None]:
    harm()
    try:
        yield
    finally:
        mend()


def _down(server: ServerProcess, how: Callable[[], None]) -> AbstractContextManager[None]:
    return _between(how, server.start)


def _full(server: RedisServer) -> AbstractContextManager[None]:
    client = server.client()
    return _between(
        lambda: client.config_set("maxmemory", 1_000_000), lambda: client.config_set("maxmemory", 0)
    )


def subject(harm: str) -> str:
    """Return what a harm is done to: ``store``, ``bells``, or ``a`` process."""
    return harm.partition(" ")[0]


@pytest.fixture
def harms(
    request: pytest.FixtureRequest, start_redis: StartRedis, start_rabbitmq: StartRabbit
) -> Iterator[tuple[Flow, dict[str, Harm], random.Random]]:
    """A flow over the store and the transport that the parameter names, all through proxies."""
    seed = int(os.environ.get("SOAK_SEED", str(random.SystemRandom().randrange(10**6))))
    say(f"{request.node.name}: SOAK_SEED={seed}")
    store_kind, bells_kind = request.param.split("+")
    with ExitStack() as ending:
        store = start_redis(appendfsync="always") if store_kind == "redis" else None
        bells = start_redis() if bells_kind == "redis" else start_rabbitmq()
        replies = {} if bells_kind == "redis" else {"replies": AmqpReplies}
        before_bells = ending.enter_context(Proxy(bells.port, **replies))
        transport = bells.url().replace(f":{bells.port}/", f":{before_bells.port}/")
        address = ""
        before_store = ending.enter_context(Proxy(store.port)) if store else None
        if store and before_store:
            address = f"{store.url().replace(f':{store.port}/', f':{before_store.port}/')}?timeout=1s"
        flow: Flow = request.getfixturevalue("start_flow")(address, transport, every_s=0.2)
        chance = random.Random(seed)
        made = Harms(flow, chance)
        made.server("bells", bells, before_bells)
        if isinstance(bells, RedisServer):
            made.bells(bells)
        if store and before_store:
            made.server("store", store, before_store)
            made.store(store)
        yield flow, made.known, chance


@pytest.mark.soak
@pytest.mark.parametrize(
    "harms", ["redis+redis", "redis+rabbitmq", "sqlite+redis", "sqlite+rabbitmq"], indirect=True
)
def test_rule_01_and_03_random_harm(harms: tuple[Flow, dict[str, Harm], random.Random]) -> None:
    """Faults kombu#305, celery#8030, arq#435 and all the others of `test_dying_servers`, in any order."""
    flow, known, chance = harms
    ends = time.monotonic() + 60 * SOAK_SHARE * float(os.environ.get("SOAK_MINUTES", "10"))
    while not flow.recoveries or time.monotonic() < ends:
        chosen = chance.sample(sorted(known), chance.choice([1, 1, 2]))
        if len({subject(name) for name in chosen}) < len(chosen):
            continue  # each is harmed in one way at a time
        say(f"harm | {', '.join(chosen)}")
        with ExitStack() as mending:
            for name in chosen:
                mending.enter_context(known[name]())
            flow.pass_by(chance.uniform(LEAST_S, MOST_S))
        flow.recovered(" and ".join(chosen), WITHIN_S)
    flow.finish(within_s=WITHIN_S)
