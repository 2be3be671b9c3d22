"""What a handoff costs: store round trips, counted, and bytes stored."""

from typing import Any

from figures import at_most, folder, median
from site_ import adder, chain

from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, Transport
from passdown.broker.client import Broker, Submission
from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.stores.sqlite import SqliteStore

BULK = 50


class Counting:
    """A store that counts the calls which reach it."""

    def __init__(self, inner: SqliteStore) -> None:
        self._inner = inner
        self.calls: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if not callable(method):
            return method

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            return method(*args, **kwargs)

        return counted


def run(quick: bool) -> list[str]:
    """Measure, print, and return what was missed."""
    count = 50 if quick else 500
    with folder() as path:
        file = path / "handoff.db"
        store = Counting(SqliteStore(str(file)))
        bell = SilentDoorbell()
        controller = Controller(store, bell)
        broker = Broker(App(store, Transport("", {}), bell, controller), "user:bench")
        runtime = Runtime(
            DirectGateway(controller),
            agents=[adder],
            options=Options(linger_seconds=0.0, turn_seconds=3600.0),
        )
        runtime.start()
        broker.register(chain(1))
        broker.submit("chain1", inputs={"x": 0})
        runtime.drain("adder")
        trips = 0
        for _ in range(count):
            broker.submit("chain1", inputs={"x": 0})
            store.calls.clear()
            runtime.drain("adder")
            trips = max(trips, sum(store.calls.values()))
        in_bulk: list[float] = []
        for _ in range(count // BULK):
            store.calls.clear()
            broker.submit_all("chain1", [Submission({"x": 0})] * BULK)
            runtime.drain("adder")
            in_bulk.append(sum(store.calls.values()) / BULK)
        store.close()
        size = sum(one.stat().st_size for one in path.glob("handoff.db*"))
        print(f"bytes stored for each handoff (a session of one step): {size / (2 * count + 1):.0f}")
        # take; claim; return with the next take, which finds the queue empty.
        missed = at_most("round trips for a handoff one by one", trips, 3)
        return missed + at_most(f"round trips for a handoff in bulk of {BULK}", median(in_bulk), 0.3)
