"""One worker for many roles, in threads of the test's own process, so that what it takes can be counted."""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from passdown.broker.app import App, compose
from passdown.broker.client import Broker
from passdown.broker.tick import Tick
from passdown.broker.worker import WorkerSpec, serve

AGENTS = str(Path(__file__).with_name("crowd_agents.py"))


class Takes:
    """Notes each take of a worker, in order: the role that was asked for, and the sessions that it brought."""

    def __init__(self, app: App) -> None:
        self.noted: list[tuple[str, list[str]]] = []
        self.at: list[float] = []
        store: Any = app.store
        take, commit = store.take, store.commit

        def taking(request: Any) -> Any:
            return self._noted(request, take(request))

        def committing(commits: Any, request: Any = None) -> Any:
            outcomes, taken = commit(commits, request)
            return outcomes, taken and self._noted(request, taken)

        store.take, store.commit = taking, committing

    def _noted(self, request: Any, taken: Any) -> Any:
        import os
        if os.environ.get("TR"): import time; print(round(time.monotonic(),3), request.role, request.slots, request.linger_ms, len(taken.packs), taken.more)
        if taken.packs:
            self.noted.append((request.role, [one.session_id for one in taken.packs]))
            import time; self.at.append(time.monotonic())
        return taken

    def before(self, session_id: str, since: int = 0) -> int:
        """Return how many takes of others that brought something came before that of a session's pack."""
        noted = self.noted[since:]
        return next(n for n, (_, sessions) in enumerate(noted) if session_id in sessions)


@contextmanager
def working(
    store: str, transport: str, roles: Sequence[str], *, concurrency: int = 8
) -> Generator[tuple[Broker, Takes]]:
    """Run a worker and a tick; lends a broker on a connection of its own, and what the worker takes."""
    spec = WorkerSpec(
        store=store,
        transport=transport,
        roles=list(roles),
        modules=[AGENTS],
        concurrency=concurrency,
        grace_s=1.0,
    )
    app = compose(store, transport)
    takes = Takes(app)
    stop = threading.Event()
    with Broker.connect(store, transport=transport, by="user:producer") as broker:
        threads = [
            threading.Thread(target=lambda: serve(spec, stop, app=app), name="worker"),
            threading.Thread(target=lambda: Tick(broker.app.controller).run(stop), name="tick"),
        ]
        for thread in threads:
            thread.start()
        try:
            yield broker, takes
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
