"""The whole of a history's world: a store, processes with workers, ticks, people, clocks, and the outside."""

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from passdown.broker.controller import Controller
from passdown.broker.core.decide import dues
from passdown.broker.core.state import State
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.stores.base import Documents
from passdown.broker.tick import Tick
from passdown.contracts import commands as cmd
from passdown.contracts import ids
from passdown.contracts.errors import PassdownError, Unavailable
from passdown.contracts.gateway import Offer, Taking
from passdown.contracts.pack import Pack
from passdown.contracts.plans import PlanRef, plan_ref
from passdown.contracts.replies import Reply
from tests.conformance.faulty import FaultyStore
from tests.conformance.histories import event_rules, state_rules
from tests.conformance.histories.jobs import Job, Script
from tests.conformance.histories.markers import marked
from tests.conformance.histories.outside import Arrival, Outside
from tests.conformance.histories.plans import BOOK, DELETE, LATE, MAIL, PAY, PLANS, READ, documents
from tests.conformance.histories.stores import Driver
from tests.conformance.histories.surroundings import Bells, Clock, Faults, Observed, tick_log, timepiece
from tests.conformance.histories.watch import Followed, Watch

KEYS = ["k0", "k1", "k2", "k3", "k4"]
PEOPLE = ["user:ann", "user:bob", "user:cara"]
TICKS = 3


T = TypeVar("T")


def pick(items: Sequence[T], number: int) -> T:
    """Return one of `items`, whatever the number."""
    return items[number % len(items)]


class Process:
    """A worker's process: it loses what it holds in memory when it crashes."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.gateway = self._start()

    def _start(self) -> DirectGateway:
        limit = self._world.limit
        roles = {"clerk": limit, "cashier": limit} if limit else {}
        return DirectGateway(self._world.controller(), Limits(claim_by_ms=10_000, roles=roles))

    def restart(self) -> None:
        self.gateway = self._start()


class Worker:
    """One slot of a process: it drains a role while it was rung for it, one pack at a time."""

    def __init__(self, world: "World", process: Process) -> None:
        self._world = world
        self.process = process
        self.job: Job | None = None
        self.offers: deque[Offer] = deque()
        #: The role that is being drained, and whether its queue held more than was taken.
        self.role: str | None = None
        self._more = False

    @property
    def idle(self) -> bool:
        return self.job is None and not self.offers and self.role is None

    def rung(self, role: str) -> None:
        self.role = role

    def go_on(self, script: Script) -> bool:
        """Do the next thing; False where there is nothing to do."""
        if self.job is None and not self._begin(script):
            return False
        assert self.job is not None
        self.job.go_on()
        if self.job.over:
            if self.job.taking is not None:
                self._absorb(self.job.pack.role, self.job.taking)
            self.job = None
        return True

    def _begin(self, script: Script) -> bool:
        if not self.offers and self.role is not None:
            self._take(self.role)
        if not self.offers:
            return False
        offer = self.offers.popleft()
        self.job = Job(self._world, self.process.gateway, offer, script, self._world.claim_id())
        self.job.holding = bool(self.offers)
        return True

    def _take(self, role: str) -> None:
        try:
            taking = self.process.gateway.take(role, self._world.slots)
        except Unavailable:
            self.role = None
            return
        self._absorb(role, taking)

    def _absorb(self, role: str, taking: Taking) -> None:
        alone = [offer for offer in taking.offers if offer.solo]
        assert not alone or len(self.offers) + len(taking.offers) == 1, (
            "a pack to be run alone came with others"
        )
        self.offers.extend(taking.offers)
        self._more = taking.more
        if not taking.offers:
            self.role = None
        if taking.more:
            self._world.bells.ring(role)

    def end_turn(self) -> None:
        """Take nothing any more; ring on where packs remain."""
        if self.role is not None and self._more:
            self._world.bells.ring(self.role)
        self.role = None

    def crash(self) -> None:
        self.job, self.role = None, None
        self.offers.clear()


class World:
    """Composes everything; its methods are what can happen."""

    def __init__(
        self, driver_of: Callable[[Clock], Driver], *, patient: bool = False, slots: int = 1, limit: int = 0
    ) -> None:
        self.clock = Clock()
        timepiece.clock = self.clock
        tick_log.broken.clear()
        #: Whether a controller tries again while the store is away, before it says so.
        self.patient = patient
        #: How many packs a worker takes at once, and how many of a role may run at once (0: no limit).
        self.slots = slots
        self.limit = limit
        self.driver = driver_of(self.clock)
        self.faults = Faults()
        self.bells = Bells()
        self.store = FaultyStore(Observed(self.driver.store, self.bells), self.faults)
        self.watch = Watch(self.driver.store, event_rules.check)
        self.outside = Outside(frozenset({BOOK.name, MAIL.name, LATE}), self._arrives)
        self.people = self.controller()
        self.ticks = [Tick(self.controller(), batch=20, monotonic=timepiece.monotonic) for _ in range(TICKS)]
        processes = [Process(self), Process(self)]
        self.workers = [Worker(self, processes[0]), Worker(self, processes[0]), Worker(self, processes[1])]
        self.frozen: list[Job] = []
        self.acts: list[tuple[str, cmd.Body, str, Reply]] = []
        self._claims = 0
        self._dues: dict[str, set[tuple[cmd.DueKind, str, int]]] = {}
        self.register(documents(PLANS, [READ, PAY, BOOK, MAIL, DELETE]))

    def controller(self) -> Controller:
        return Controller(self.store, self.bells, patience_s=1.0 if self.patient else 0.0)

    def register(self, what: Documents) -> None:
        """Register documents, as somebody who sees to it that it is done."""
        self.watch.registered(what)
        self.driver.store.put(what)

    def plan(self, name: str) -> PlanRef:
        """Return the newest registered version of a plan."""
        return max(
            (plan_ref(one) for one in self.watch.plans.values() if one.name == name),
            key=lambda ref: ref.version,
        )

    # -- what programs need

    def claim_id(self) -> str:
        self._claims += 1
        return f"claim-{self._claims:06}"

    def key(self, session_id: str) -> str:
        return self.watch.sessions[session_id].state.key

    def version(self, session_id: str) -> int:
        return self.driver.store.load(session_id).version

    def saw_pack(self, pack: Pack) -> None:
        """Rule 4: what a worker is offered is what was issued, and of no other session."""
        followed = self.watch.catch_up(pack.session_id)
        assert followed, "rule 4: a pack of no session"
        assert followed.pack(pack.step, pack.attempt) == pack, "rule 4: another pack than was issued"

    def _arrives(self, arrival: Arrival) -> None:
        followed = self.watch.catch_up(ids.session_of(arrival.key))
        assert followed, "rule 3: a write of no session"
        state_rules.rule_3_nothing_is_written_without_an_intent(followed, arrival)

    # -- what can happen

    def submit(self, key: str, plan: str, by: str, *, cents: int = 10) -> None:
        inputs = {"order": marked(key), "cents": cents}
        body = cmd.Submit(key=key, plan=self.plan(plan), inputs=inputs, task_name=marked(key, "task"))
        self.act(ids.session_id(key), body, by)

    def act(self, session_id: str, body: cmd.Body, by: str) -> Reply | PassdownError:
        """Let somebody act; a refusal changes nothing (rule 11), and an act that counted can be repeated."""
        before = self.version(session_id)
        outcome = self._try(session_id, body, by)
        moved = self.version(session_id) != before
        if isinstance(outcome, Unavailable):
            return outcome
        if isinstance(outcome, PassdownError):
            unmoved = isinstance(body, cmd.Give | cmd.Fail) or not moved
            assert unmoved, f"rule 11: {outcome} was said, and something changed"
        elif moved:
            self.acts.append((session_id, body, by, outcome))
        return outcome

    def _try(self, session_id: str, body: cmd.Body, by: str) -> Reply | PassdownError:
        try:
            return self.people.run(session_id, body, by).reply
        except PassdownError as error:
            return error

    def repeat(self, number: int) -> None:
        """Make an act once more that was made already: it is answered as then, and changes nothing."""
        session_id, body, by, reply = self.acts[number % len(self.acts)]
        before = self.version(session_id)
        try:
            again = self.people.run(session_id, body, by).reply
        except Unavailable:
            return
        assert again == reply, f"rule 1: {body} made again is answered {again}, not {reply}"
        assert self.version(session_id) == before, "rule 1: an act made again changed something"

    def tick(self, number: int) -> None:
        with contextlib.suppress(Unavailable):
            self.ticks[number % TICKS].once()
        assert not tick_log.broken, tick_log.broken[0]

    def check(self) -> None:
        """Hold everything to the rules."""
        for followed in self.watch.catch_up_all():
            seen = self._dues.setdefault(followed.session_id, set())
            seen.update((due.kind, due.subject, due.at) for due in dues(followed.state))
        rows = state_rules.check(self.watch, self.driver, self.outside)
        if not self.store.given:
            state_rules.rule_1_a_new_pack_is_rung_for(self.bells, rows)

    def past_dues(self, state: State) -> set[tuple[cmd.DueKind, str, int]]:
        """Return the due entries that a session had, and has no longer."""
        return self._dues.get(state.session_id, set()) - {
            (due.kind, due.subject, due.at) for due in dues(state)
        }

    def busy(self) -> list[Worker]:
        return [one for one in self.workers if not one.idle]

    def held(self) -> list[Job]:
        """Return the jobs that hold a claim, as far as they know."""
        jobs = [*(one.job for one in self.workers if one.job), *self.frozen]
        return [job for job in jobs if job.claim]

    def work_waits(self) -> bool:
        """Whether a pack is in a queue, or will be after a wait."""
        late = any(spec.name == LATE for spec in self.watch.tools.values())
        return any(
            (state.issued and not state.claim)
            or (any(due.kind == "retry-at" for due in dues(state)) and (late or state.stage != "wait"))
            for state in self.states()
        )

    def followed(self) -> list[Followed]:
        return list(self.watch.sessions.values())

    def states(self) -> list[State]:
        return [one.state for one in self.watch.sessions.values()]

    def close(self) -> None:
        self.driver.store.close()
