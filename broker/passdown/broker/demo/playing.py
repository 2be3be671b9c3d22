"""Lets the processes of a demo work, and scripted people answer, until every session has settled."""

import threading
from dataclasses import dataclass, field

from rich.console import Console

from passdown.broker.client import Broker
from passdown.broker.demo.chaos import Chaos, Monkey
from passdown.broker.demo.fleet import Fleet
from passdown.broker.demo.people import Decide, Desk
from passdown.broker.demo.place import Place
from passdown.broker.demo.process import MODULE, Child
from passdown.broker.demo.progress import Progress
from passdown.broker.demo.watching import Watch
from passdown.broker.gateway import Limits
from passdown.broker.worker import WorkerSpec
from passdown.contracts.codec import encode

_LOOK_SECONDS = 0.05
#: Where nothing at all has changed for so long something is wrong, and the demo says so. Under chaos bells
#: that were lost may be rung again only after a minute.
_STUCK_SECONDS, _STUCK_SECONDS_CHAOS = 45.0, 120.0
#: Reservations end soon, for workers are killed that hold some.
_CLAIM_BY_MS = 2_000
#: At the end nothing of these sessions runs any more.
_GRACE_S = 2.0


@dataclass(slots=True)
class Played:
    """How it went. ``faults``: sessions that are wrongly at rest, or none that moves any more."""

    faults: list[str] = field(default_factory=list[str])
    restarts: int = 0
    freezes: int = 0


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part: worker processes for some roles of some modules, people by queue, and chaos."""

    roles: list[str]
    module: str
    workers: int
    people: dict[str, Decide]
    #: The queue on which sessions are left with people.
    left: str
    chaos: Chaos | None = None


def play(place: Place, broker: Broker, cast: Cast, expected: dict[str, str], console: Console) -> Played:
    """Play until all sessions have settled. Raises Unavailable where the processes cannot work."""
    watch = Watch(broker, expected, frozenset(cast.people), cast.left)
    with Fleet(place) as fleet:
        _start(fleet, place, cast)
        with Desk(broker, cast.people), Progress(console, len(expected)) as progress:
            monkey = Monkey(cast.chaos, fleet) if cast.chaos else None
            patience = _STUCK_SECONDS_CHAOS if monkey else _STUCK_SECONDS
            stuck = _until_settled(watch, fleet, monkey, progress, patience)
            if monkey:
                monkey.rest()
    faults = [f"{one} is {status}, expected {watch.expected[one]}" for one, status in watch.wrong.items()]
    if stuck:
        missing = [one for one in expected if one not in watch.settled]
        faults.append(f"nothing moved for {patience:g} s; not settled: {', '.join(missing[:10])}")
    return Played(faults, fleet.restarts, monkey.freezes if monkey else 0)


def _start(fleet: Fleet, place: Place, cast: Cast) -> None:
    def child(name: str, roles: list[str]) -> str:
        spec = WorkerSpec(
            store=place.store,
            transport=place.transport,
            roles=roles,
            modules=[cast.module] if roles else [],
            limits=Limits(claim_by_ms=_CLAIM_BY_MS),
            grace_s=_GRACE_S,
            log_format="json",
        )
        return encode(Child(name=name, worker=spec, chaos=cast.chaos)).decode()

    fleet.add("tick", "tick", MODULE, child("tick", []))
    for number in range(1, cast.workers + 1):
        name = f"worker-{number}"
        fleet.add(name, "worker", MODULE, child(name, cast.roles))


def _until_settled(
    watch: Watch, fleet: Fleet, monkey: Monkey | None, progress: Progress, patience_s: float
) -> bool:
    """Return whether it came to a stop, for `patience_s`, before all had settled."""
    pause = threading.Event()
    while True:
        fleet.mend()
        if monkey:
            monkey.act()
        watch.look()
        progress.update(len(watch.settled), f"{fleet.restarts} restarts" if fleet.restarts else "")
        if watch.complete:
            return False
        if watch.idle_seconds() > patience_s:
            return True
        pause.wait(_LOOK_SECONDS)
