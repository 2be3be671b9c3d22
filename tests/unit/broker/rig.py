"""A broker in memory, driven by hand: its clock stands still unless it is moved, and its store fails when told to."""

from collections.abc import Collection
from typing import Any

from passdown.agents import Done, agent, tool
from passdown.agents.claim import counter_key
from passdown.agents.options import Options
from passdown.agents.results import write_return
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, Transport
from passdown.broker.client import Broker, Session
from passdown.broker.controller import Controller
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.stores.base import Store
from passdown.broker.stores.sqlite import SqliteStore
from passdown.broker.tick import Tick
from passdown.contracts import ids
from passdown.contracts.gateway import AgentInfo, Claim
from passdown.contracts.pack import Pack
from passdown.contracts.plans import Backoff, Grant, Next, Plan, Stage
from passdown.contracts.tools import ToolSpec, tool_digest
from tests.conformance.building import Clock
from tests.conformance.faulty import FaultyStore, Script

ME = AgentInfo(name="me")
ROLE = "worker"


@agent(ROLE)
def honest(pack: Any, ctx: Any) -> Done:
    """Be done."""
    return Done({"attempt": pack.attempt})


@tool("pay", effect=True, identity=["order"], dedupes=True)
def pay(order: str, *, key: str) -> None:
    """Pay."""


def stage(**more: Any) -> Stage:
    """Return a stage whose retries need not be waited for."""
    fields: dict[str, Any] = {"role": ROLE, "backoff": Backoff(first_seconds=0.0), "lease_seconds": 10.0}
    return Stage(**{**fields, **more})


def plan(name: str = "p", **more: Any) -> Plan:
    """Return a plan of one stage."""
    return Plan(name=name, start="only", stages={"only": stage(**more)})


def two_stages(name: str = "two", **more: Any) -> Plan:
    """Return a plan of two stages."""
    return Plan(name=name, start="a", stages={"a": stage(next=Next(to="b"), **more), "b": stage(**more)})


class Bells:
    """A doorbell that writes down for whom it rang."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    def ring(self, role: str) -> None:
        """Note the ring."""
        self.rung.append(role)


class Rig:
    """A store, a controller, a gateway, a tick, a producer and a person."""

    def __init__(self, limits: Limits | None = None, *, patience_s: float = 0.0) -> None:
        self.clock = Clock()
        self.store = FaultyStore(SqliteStore(":memory:", clock=self.clock), Script())
        self.bells = Bells()
        self.controller = Controller(self.store, self.bells, patience_s=patience_s)
        self.app = App(self.store, Transport("", {}), self.bells, self.controller)
        self.broker = Broker(self.app, "user:producer")
        self.gateway = DirectGateway(self.controller, limits)
        self.tick = Tick(self.controller, monotonic=lambda: self.clock.now / 1000)

    def fail(self, *faults: Any, only: Collection[str] = ()) -> None:
        """Have the next calls of the store (of the methods `only`) meet these faults."""
        self.store.plan = Script(*faults, only=only)

    def listen(self) -> list[str]:
        """Return a list that names each call of the store from here on."""
        calls: list[str] = []
        self.store.plan = calls.append
        return calls

    def person(self, name: str = "user:ann") -> Broker:
        """Return the broker as somebody else uses it."""
        return Broker(self.app, name)

    def other(self, store: Store | None = None) -> Controller:
        """Return another process's controller on the same store."""
        return Controller(store or self.store, Bells(), patience_s=0.0)

    def open(self, made: Plan | None = None, **more: Any) -> Session:
        """Open a session of a plan."""
        return self.broker.submit(self.broker.register(made or plan()), **more)

    def take(self, slots: int = 1) -> list[Pack]:
        """Take packs."""
        return [offer.pack for offer in self.gateway.take(ROLE, slots).offers]

    def claim(self, pack: Pack | None = None, claim_id: str = "claim-00000001") -> "Attempt":
        """Take a pack, or a given one, and claim it."""
        if pack is None:
            (pack,) = self.take()
        return Attempt(self, pack, self.gateway.claim(pack, claim_id, ME))

    def lose(self, attempt: "Attempt") -> None:
        """Let a lease run out, and whoever sweeps see it."""
        self.clock.forward(int(attempt.pack.lease_seconds * 1000) + 1)
        self.sweep()

    def sweep(self) -> None:
        """Sweep until nothing is due."""
        while self.tick.once().done:
            pass

    def drain(self, *agents: Any, role: str = ROLE) -> bool:
        """Let agents work until nothing waits."""
        options = Options(linger_seconds=0.0)
        return Runtime(self.gateway, agents=agents or [honest], options=options).drain(role)


class Attempt:
    """A claimed pack."""

    def __init__(self, rig: Rig, pack: Pack, claim: Claim) -> None:
        self.rig = rig
        self.pack = pack
        self.claim = claim

    def give(self, result: Any = None, **more: Any) -> Any:
        """Give a return."""
        body = write_return(result or Done({}), self.pack, self.claim.fence)
        return self.rig.gateway.give(self.claim, body, [], **more)

    def effect_id(self, order: str = "a", n: int = 1) -> str:
        """Return the id of a payment."""
        return ids.effect_id(self.pack.session_id, self.pack.step, "pay", {"order": order}, n)

    def pay(self, order: str = "a", n: int = 1) -> Any:
        """Ask to pay."""
        args = {"order": order}
        counters = {counter_key("pay", args): n}
        return self.rig.gateway.effect(self.claim, self.effect_id(order, n), "pay", args, counters, None, [])


def paying(name: str = "paying", **more: Any) -> Plan:
    """Return a plan of one stage that may pay."""
    return plan(name, tools=[Grant(tool="pay")], recovery="continue", **more)


def spec(name: str = "look", description: str = "") -> ToolSpec:
    """Return the specification of a reading tool."""
    return ToolSpec(name=name, params={"type": "object"}, description=description)


def digest(name: str = "look", description: str = "") -> str:
    """Return its digest."""
    return tool_digest(spec(name, description))
