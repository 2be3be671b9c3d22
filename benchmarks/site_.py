"""One process with a store, a pool and a trivial agent: what `passdown up` is, without its command line."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from passdown.agents import Done, Pack, SyncContext, agent
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, compose
from passdown.broker.client import Broker
from passdown.broker.gateway import DirectGateway
from passdown.broker.pool import Pool
from passdown.broker.tick import Tick
from passdown.contracts.plans import Next, Plan, Stage


@agent("adder")
def adder(pack: Pack, _ctx: SyncContext) -> Done:
    """Add one."""
    return Done({"x": pack.inputs["x"] + 1})


def chain(steps: int) -> Plan:
    """Return a plan of so many stages in a row."""
    stages = {
        f"s{n}": Stage(role="adder", next=Next(to=f"s{n + 1}") if n + 1 < steps else Next())
        for n in range(steps)
    }
    return Plan(name=f"chain{steps}", start="s0", stages=stages)


class Running:
    """A broker whose pool runs in this process."""

    def __init__(self, path: Path, concurrency: int) -> None:
        self.app: App = compose(f"sqlite:///{path / 'bench.db'}", "memory://")
        self.broker = Broker(self.app, "user:bench")
        runtime = Runtime(
            DirectGateway(self.app.controller), agents=[adder], options=Options(linger_seconds=0.0)
        )
        runtime.start()
        self._pool = Pool(runtime, self.app.doorbell, self.app.transport, ["adder"], concurrency=concurrency)
        self._stop = threading.Event()
        threading.Thread(target=self._pool.run, daemon=True).start()
        threading.Thread(target=Tick(self.app.controller).run, args=(self._stop,), daemon=True).start()

    def close(self) -> None:
        """Stop all of it."""
        self._stop.set()
        self._pool.stop()
        self.app.close()


@contextmanager
def running(path: Path, *, concurrency: int = 2) -> Iterator[Running]:
    """Run a broker and its pool in a folder."""
    made = Running(path, concurrency)
    try:
        yield made
    finally:
        made.close()
