"""A desk in this process on a Redis server that tests kill: what was acknowledged is written down, as is all that is written outside."""

import shutil
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from passdown.agents import Absent, Done, Found, Options, Pack, Runtime, SyncContext, agent, tool
from passdown.broker.app import App, Transport, open_store
from passdown.broker.cli.views.transitions import prove
from passdown.broker.client import Broker, Session
from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.stores.base import Committed
from passdown.broker.stores.queries import FindQueues, FindSessions, QueueRow, SessionRow
from passdown.broker.tick import Tick
from passdown.contracts.codec import digest
from passdown.contracts.errors import PassdownError
from passdown.contracts.plans import Backoff, Grant, Next, Plan, Stage
from tests.servers.redis import RedisServer

_STAGE: dict[str, Any] = {
    "role": "clerk",
    "lease_seconds": 3.0,
    "backoff": Backoff(first_seconds=0.0),
    "recovery": "continue",
    "max_attempts": 20,
}
PLAN = Plan(
    name="desk",
    start="pay",
    stages={
        "pay": Stage(tools=[Grant(tool="pay")], next=Next(to="mail"), **_STAGE),
        "mail": Stage(tools=[Grant(tool="mail")], **_STAGE),
    },
)


class Outside:
    """What arrived outside, by key; a payment that is there already is absorbed, a mail is sent again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.arrived: Counter[str] = Counter()
        #: Waits before each arrival; a test may put its own here.
        self.delayed_by: Callable[[], object] = lambda: None

    def arrive(self, key: str) -> dict[str, str]:
        """Note an arrival."""
        self.delayed_by()
        with self._lock:
            self.arrived[key] += 1
        return {"id": key[-6:]}


class Desk:
    """Agents, a tick and a producer on one store, in threads."""

    def __init__(self, url: str, *, accept: bool = True) -> None:
        self.outside = Outside()
        self.store: Any = open_store(url)
        self.acked: dict[str, dict[int, str]] = defaultdict(dict)
        self._watch_commits()
        bell = SilentDoorbell()
        self.controller = Controller(self.store, bell, patience_s=30)
        self.broker = Broker(
            App(self.store, Transport("", {}), bell, self.controller, accept), "user:producer"
        )
        self.gateway = DirectGateway(self.controller, Limits(claim_by_ms=1_000))
        self.tick = Tick(self.controller, reserve_ms=500, most_wait_ms=100)
        self.stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._runtime = self._made()

    def _watch_commits(self) -> None:
        """Write down which event each acknowledged commit ended with: that is what the store may not forget."""
        inner = self.store.commit

        def commit(commits: Any, take: Any = None) -> Any:
            outcomes, taken = inner(commits, take)
            for one, outcome in zip(commits, outcomes, strict=True):
                if isinstance(outcome, Committed):
                    self.acked[one.session_id][outcome.version] = digest(one.events[-1])
            return outcomes, taken

        self.store.commit = commit

    def _made(self) -> Runtime:
        outside = self.outside

        def find(order: str, *, key: str) -> Found | Absent:
            return Found({"id": key[-6:]}) if outside.arrived[key] else Absent()

        @tool("pay", effect=True, dedupes=True, verify=find)
        def pay(order: str, *, key: str) -> dict[str, str]:
            return outside.arrive(key)

        @tool("mail", effect=True, verify=find)
        def mail(order: str, *, key: str) -> dict[str, str]:
            return outside.arrive(key)

        @agent("clerk")
        def clerk(pack: Pack, ctx: SyncContext) -> Done:
            return Done(ctx.call(pack.stage, order="a"))

        options = Options(linger_seconds=0, patience_seconds=30)
        return Runtime(self.gateway, agents=[clerk], tools=[pay, mail], options=options)

    def work(self, workers: int = 4) -> None:
        """Begin: agents take packs and a tick looks, whatever becomes of the store."""
        self._runtime.start()
        self._thread(lambda: self.tick.run(self.stop))
        for _ in range(workers):
            self._thread(self._drain)

    def _drain(self) -> None:
        while not self.stop.is_set():
            try:
                if not self._runtime.drain("clerk"):
                    self.stop.wait(0.02)
            except PassdownError:
                self.stop.wait(0.1)

    def _thread(self, act: Any) -> None:
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        self._threads.append(thread)

    def produce(self, until: threading.Event, plan: str = "desk") -> None:
        """Submit until told to stop; an order whose submit was lost is submitted again under its key."""
        number = 0
        while not until.is_set():
            try:
                self.broker.submit(plan, key=f"order-{number}")
                number += 1
                time.sleep(0.004)  # no faster than the agents work
            except PassdownError:
                time.sleep(0.05)

    def close(self) -> None:
        """End all threads."""
        self.stop.set()
        self._runtime.stop(0.5)
        for thread in self._threads:
            thread.join(10)
        self.broker.close()

    # What is there

    def rows(self) -> list[SessionRow]:
        """Return all sessions."""
        found: list[SessionRow] = []
        while True:
            before = found[-1].session_id if found else None
            page = self.store.find(FindSessions(limit=1000, before=before))
            found += page
            if len(page) < 1000:
                return found

    def lost(self) -> int:
        """Return how many commits acknowledged since this was asked last are not there, or are another event."""
        # Taken away first: what is acknowledged while the logs are read is no loss.
        acked, self.acked = self.acked, defaultdict(dict)
        return sum(self._lost(session_id, heads) for session_id, heads in acked.items())

    def _lost(self, session_id: str, acked: dict[int, str]) -> int:
        log = self.store.events(session_id, limit=100_000)
        return sum(version > len(log) or digest(log[version - 1]) != head for version, head in acked.items())

    def assert_consistent(self) -> None:
        """Rule 6, for every session; and each pack that was issued and nobody holds is in the queue, and no other."""
        waiting = 0
        for row in self.rows():
            proof = prove(self.store, row.session_id)
            assert proof.holds, (row.session_id, proof.problems)
            state = Session(self.broker, row.session_id).state()
            assert state.seq == row.version == len(self.store.events(row.session_id, limit=100_000))
            waiting += state.issued is not None and state.claim is None
        queues = [one for one in self.store.find(FindQueues()) if isinstance(one, QueueRow)]
        assert sum(one.ready + one.reserved for one in queues) == waiting

    def unfinished(self) -> list[str]:
        """Return what stands neither at its end nor with a person."""
        at_rest = ("done", "waiting-human")
        return [f"{row.session_id} {row.status}" for row in self.rows() if row.status not in at_rest]

    def twice(self, tool: str) -> int:
        """Return how many effects of a tool arrived outside more than once."""
        named = {
            effect.effect_id
            for row in self.rows()
            for effect in Session(self.broker, row.session_id).state().effects
            if effect.tool == tool
        }
        return sum(self.outside.arrived[key] > 1 for key in named)


@contextmanager
def desk(server: RedisServer) -> Generator[Desk]:
    """Open a desk on a server, with its plan and tools registered."""
    made = Desk(server.url())
    try:
        yield made
    finally:
        made.close()


def copy_files(server: RedisServer, target: Path) -> None:
    """Copy the append-only files as they are at this moment."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(server.folder / "appendonlydir", target)


def put_back(server: RedisServer, source: Path) -> None:
    """Put an older copy in the place of the server's files; it must be down."""
    shutil.rmtree(server.folder / "appendonlydir")
    shutil.copytree(source, server.folder / "appendonlydir")
