"""Much work at once: workers for many roles, in this process so that what they take can be counted, or in their own."""

import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from passdown.broker.app import App, compose
from passdown.broker.client import Broker, Submission
from passdown.broker.gateway import Limits
from passdown.broker.modules import registry_of
from passdown.broker.tick import Tick
from passdown.broker.worker import WorkerSpec, serve
from passdown.contracts.codec import encode
from passdown.contracts.plans import Plan
from tests.integration.site import Site, one_stage

AGENTS = str(Path(__file__).with_name("crowd_agents.py"))
#: A reservation that nobody claims ends so soon, where the real setting is ten seconds.
CLAIM_BY_MS = 1_500


def plan_for(role: str, **more: Any) -> Plan:
    """Return a plan of one stage under the role's name, with leases that outlast a busy machine."""
    return one_stage(role, role, **{"lease_seconds": 30.0, **more})


def work(count: int, name: str = "work", **inputs: Any) -> list[Submission]:
    """Return so many pieces of work, each under a key."""
    return [Submission(inputs, key=f"{name}-{n}") for n in range(count)]


def worker_spec(store: str, transport: str, roles: Sequence[str], **more: Any) -> WorkerSpec:
    """Return the specification of a worker for some roles of `crowd_agents`."""
    spec = WorkerSpec(
        store=store,
        transport=transport,
        roles=list(roles),
        modules=[AGENTS],
        limits=Limits(claim_by_ms=CLAIM_BY_MS),
        grace_s=1.0,
        log_level="warning",
    )
    return replace(spec, **more)


def start_worker(site: Site, *roles: str, **more: Any) -> Any:
    """Start a worker as a process of its own."""
    text = encode(worker_spec(site.store, site.transport, roles, **more)).decode()
    return site.start("passdown.broker.worker", text)


class Takes:
    """Notes each take of a worker that brought something, in order: its role, and whose packs they were."""

    def __init__(self, app: App) -> None:
        self.noted: list[tuple[str, list[str]]] = []
        store: Any = app.store
        take, commit = store.take, store.commit

        def taking(request: Any) -> Any:
            return self._noted(request, take(request))

        def committing(commits: Any, request: Any = None) -> Any:
            outcomes, taken = commit(commits, request)
            return outcomes, taken and self._noted(request, taken)

        store.take, store.commit = taking, committing

    def _noted(self, request: Any, taken: Any) -> Any:
        if taken.packs:
            self.noted.append((request.role, [one.session_id for one in taken.packs]))
        return taken

    def before(self, session_id: str, since: int) -> int:
        """Return how many takes, of those from place `since` on, came before that of a session's pack."""
        return next(n for n, (_, sessions) in enumerate(self.noted[since:]) if session_id in sessions)


@contextmanager
def working(spec: WorkerSpec, *, workers: int = 1) -> Generator[tuple[Broker, Takes]]:
    """Run workers and a tick in threads; lends a broker on a connection of its own, and what the first worker takes."""
    registry_of(spec.modules)  # imported here once, before threads do
    stop = threading.Event()
    apps = [compose(spec.store, spec.transport) for _ in range(workers)]
    takes = Takes(apps[0])
    with Broker.connect(spec.store, transport=spec.transport, by="user:producer") as broker:
        tick = Tick(broker.app.controller)
        acts = [lambda app=app: serve(spec, stop, app=app) for app in apps]
        threads = [threading.Thread(target=act) for act in (*acts, lambda: tick.run(stop))]
        for thread in threads:
            thread.start()
        try:
            yield broker, takes
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def say(line: str) -> None:
    """Tell what was measured, for who runs pytest with ``-rP``."""
    print(line)  # noqa: T201


def median_seconds(acts: Iterable[Any]) -> float:
    """Return the median of how long acts take (seconds)."""
    took: list[float] = []
    for act in acts:
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return sorted(took)[len(took) // 2]


def all_rows(broker: Broker) -> dict[str, str]:
    """Return the status of each session, page by page."""
    found: dict[str, str] = {}
    before = None
    while rows := broker.sessions(limit=1000, before=before):
        before = rows[-1].session_id
        found.update((row.session_id, row.status) for row in rows)
    return found
