"""Fan-outs for tests: plans, one process's broker whose every commit is watched, and what a tree must show in the end."""

from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from passdown.agents import Absent, Found, tool
from passdown.agents.runtime import Runtime
from passdown.agents.tools import AnyTool
from passdown.broker.client import Broker, Session
from passdown.broker.core.join import outcome_of
from passdown.broker.joins.reading import page
from passdown.broker.stores.queries import FindJoin, JoinRecord
from passdown.contracts import events as ev
from passdown.contracts.gateway import AgentInfo, Claim, Offer
from passdown.contracts.ids import branch_id
from passdown.contracts.plans import FanOut, Plan, Stage
from tests.conformance.faulty import FaultPlan
from tests.conformance.trees.witness import Witness
from tests.integration import join_desk as desk
from tests.integration.faults import World, world
from tests.integration.site import stage

ME = AgentInfo(name="worker")
AGENTS = (desk.counter, desk.actor, desk.judge, desk.total, desk.raising, desk.junk)


def fan_plan(
    role: str = "actor",
    *,
    branch: dict[str, Any] | None = None,
    fan: dict[str, Any] | None = None,
    **contract: Any,
) -> Plan:
    """Return a plan that opens a branch of a role for each of the ``items``.

    `branch` and `fan` say more of the two stages, `contract` of the join; ``other`` is a stage to go to instead.
    """
    more = {"on_failed": "fail", "max_attempts": 2, "lease_seconds": 60.0, **(branch or {})}
    stages = {
        "fan": Stage(fan_out=FanOut(each="items", stage="one", **contract), **(fan or {})),
        "one": stage(role, **more),
        "other": Stage(queue="others"),
    }
    if "other" not in (contract.get("on_short"), contract.get("on_conflict")):
        del stages["other"]
    return Plan(name="fan", start="fan", stages=stages)


def do(*what: str) -> dict[str, Any]:
    """Return the inputs of a session whose branches do each of these."""
    return {"items": [{"do": one} for one in what]}


class Joins:
    """A broker whose every commit is watched, and what works for it."""

    def __init__(self, inner: World) -> None:
        self.world = inner
        self.broker = inner.broker
        self.tick = inner.tick
        self.clock = inner.clock
        self.witness = Witness(inner.store.inner)
        inner.store.inner = self.witness
        #: Effect → how often it was written outside.
        self.outside: Counter[str] = Counter()
        self.runtime = Runtime(inner.gateway, agents=AGENTS, tools=[self._tally()])
        self.runtime.start()
        self._claims = 0

    def _tally(self) -> AnyTool:
        def find(order: str, *, key: str) -> Found | Absent:
            return Found({"n": 1}) if self.outside[key] else Absent()

        @tool("tally.add", effect=True, scope="tally", verify=find, dedupes=True)
        def add(order: str, *, key: str) -> dict[str, Any]:
            """Add to what is counted outside."""
            self.outside[key] += 1
            return {"n": 1}

        return add

    def submit(self, plan: Plan, inputs: dict[str, Any]) -> Session:
        self.broker.register(plan)
        return self.broker.submit(plan.name, inputs=inputs)

    def sweep(self) -> None:
        """Let ticks do all that is due by now, and what follows within a moment."""
        idle = 0
        while idle < 2:
            self.clock.forward(0.3)
            idle = 0 if self.tick.once().done else idle + 1

    def go_on(self, *roles: str) -> None:
        """Let ticks and workers do all that they can."""
        known = roles or (
            "actor",
            "counter",
            "judge",
            "passdown.merge",
            "reduce.total",
            "reduce.raising",
            "reduce.junk",
        )
        while True:
            before = self.witness.commits
            self.sweep()
            for role in known:
                self.runtime.drain(role)
            if self.witness.commits == before:
                return

    def offers(self, role: str, count: int) -> list[Offer]:
        """Take packs of a role, which must be there."""
        found = self.world.gateway.take(role, count).offers
        assert len(found) == count
        return found

    def claim(self, offer: Offer) -> Claim:
        self._claims += 1
        return self.world.gateway.claim(offer.pack, f"claim-{self._claims:08d}", ME)


@contextmanager
def joins(path: Path, plan: FaultPlan | None = None, patience_s: float = 10) -> Generator[Joins]:
    """Open a broker; at the end nothing of the order of commits may have been broken."""
    with world(path, plan, patience_s=patience_s) as inner:
        made = Joins(inner)
        yield made
        assert made.witness.broken == []


# -- what a tree shows --


def family(session: Session, broker: Broker) -> Iterator[Session]:
    """Yield a session, and all branches below it that were opened."""
    yield session
    opening: dict[str, int] = {}
    for logged in session.events():
        if isinstance(logged.event, ev.FannedOut | ev.BranchesOpened):
            opening[logged.event.join_id] = logged.event.opening
    for join_id, places in opening.items():
        for place in range(places):
            yield from family(Session(broker, branch_id(join_id, place)), broker)


def branch(session: Session, broker: Broker, place: int, step: int = 1) -> Session:
    """Return the branch at a place of a session's join."""
    return Session(broker, branch_id(f"{session.id}.j-{step}", place))


def counted(session: Session) -> Counter[str]:
    """Return how often each type of event is in a session's log."""
    return Counter(type(logged.event).__name__ for logged in session.events())


def event(session: Session, kind: type[Any]) -> Any:
    """Return the only event of a type in a session's log."""
    (found,) = [logged.event for logged in session.events() if isinstance(logged.event, kind)]
    return found


def assert_joined_once(session: Session, broker: Broker) -> None:
    """Each join was closed once, on rows that are those of its branches, and all branches ended (rule 1)."""
    fanned = [logged.event.join_id for logged in session.events() if isinstance(logged.event, ev.FannedOut)]
    joined = [logged.event.join_id for logged in session.events() if isinstance(logged.event, ev.Joined)]
    assert sorted(joined) == sorted(fanned)
    store = broker.app.store
    for join_id in fanned:
        rows = page(store, join_id, 0, 100_000)
        record = store.find(FindJoin(join_id=join_id))
        assert isinstance(record, JoinRecord)
        assert {name: n for name, n in record.counts.items() if n} == Counter(row.outcome for row in rows)
        for row in rows:
            state = Session(broker, row.session_id).state()
            assert state.over
            assert row.outcome == outcome_of(state)
