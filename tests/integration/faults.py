"""One process's broker over a SQLite file with a clock that a test moves, and a store that fails when told to."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from passdown.agents import Done, Pack, SyncContext, agent
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, Transport
from passdown.broker.client import Broker
from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.stores.sqlite import SqliteStore
from passdown.broker.tick import Tick
from tests.conformance.faulty import FaultPlan, FaultyStore, Script

START = 1_800_000_000_000


class Clock:
    """The store's clock, in milliseconds; it stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: float) -> None:
        """Let time pass: for the store, and for the tick that measures how much passed."""
        self.now += int(seconds * 1000)


class World:
    """A broker, a gateway and a tick on one store."""

    def __init__(self, path: Path, plan: FaultPlan | None, limits: Limits | None, patience_s: float) -> None:
        self.clock = Clock()
        self.store = FaultyStore(SqliteStore(str(path / "faults.db"), clock=self.clock), plan or Script())
        bell = SilentDoorbell()
        self.controller = Controller(self.store, bell, patience_s=patience_s)
        self.broker = Broker(App(self.store, Transport("", {}), bell, self.controller), "user:producer")
        self.gateway = DirectGateway(self.controller, limits)
        self.tick = Tick(self.controller, reserve_ms=1_000, monotonic=lambda: self.clock.now / 1000)

    def runtime(self, *items: Any) -> Runtime:
        """Return a runtime with some agents."""
        return Runtime(self.gateway, agents=items)


@contextmanager
def world(
    path: Path, plan: FaultPlan | None = None, limits: Limits | None = None, patience_s: float = 10
) -> Generator[World]:
    """Open a world, and close it."""
    made = World(path, plan, limits, patience_s)
    try:
        yield made
    finally:
        made.store.plan = Script()
        made.broker.close()


@agent("worker")
def honest(pack: Pack, ctx: SyncContext) -> Done:
    """Be done."""
    return Done({"attempt": pack.attempt})
