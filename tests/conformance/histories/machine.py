"""The rules of a history, for hypothesis: what may happen next, drawn and shrunk."""

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from passdown.contracts.errors import Unavailable
from tests.conformance.histories import deeds, desks
from tests.conformance.histories.behaviours import (
    FORGED,
    SECOND,
    at_desks,
    deciders,
    disturbances,
    fates,
    keys,
    lengths,
    people,
    plans,
    scripts,
    seconds,
    small,
    writings,
)
from tests.conformance.histories.ends import finish, heal
from tests.conformance.histories.jobs import Job, Script
from tests.conformance.histories.outside import Writing
from tests.conformance.histories.plans import LEASE_S, NEWS
from tests.conformance.histories.stores import STORES
from tests.conformance.histories.world import Worker, World, pick


class Histories(RuleBasedStateMachine):
    """Generated histories over one store."""

    store: ClassVar[str] = "sqlite"
    #: How many histories ran to their end, and which events they held.
    finished: ClassVar[int] = 0
    seen: ClassVar[Counter[str]] = Counter()

    world: World

    @initialize(
        patient=st.booleans(),
        wake=st.booleans(),
        first=plans,
        slots=st.sampled_from([1, 1, 2]),
        limit=st.sampled_from([0, 0, 1]),
    )
    def begin(self, patient: bool, wake: bool, first: str, slots: int = 1, limit: int = 0) -> None:
        self.world = World(STORES[self.store], patient=patient, slots=slots, limit=limit)
        self.wake = wake
        self.world.submit("k0", first, "user:ann")

    # -- work: several rules do nearly the same, since hypothesis picks each rule as often as any other

    @precondition(lambda self: self.world.work_waits())
    @rule(which=small, steps=lengths, script=scripts, fate=fates)
    def attempt(self, which: int, steps: int, script: Script, fate: str) -> None:
        self._attempt(which, steps, script, fate)

    @precondition(lambda self: self.world.work_waits())
    @rule(which=small, steps=lengths, script=scripts, fate=fates)
    def attempt_too(self, which: int, steps: int, script: Script, fate: str) -> None:
        self._attempt(which, steps, script, fate)

    @precondition(lambda self: self.world.work_waits())
    @rule(which=small, script=scripts)
    def whole_attempt(self, which: int, script: Script) -> None:
        self._attempt(which, 40, script, "goes on")

    @precondition(lambda self: self.world.work_waits())
    @rule(which=small, script=scripts)
    def whole_attempt_too(self, which: int, script: Script) -> None:
        self._attempt(which, 40, script, "goes on")

    @precondition(lambda self: self.world.work_waits())
    @rule(which=small, steps=st.integers(1, 6), writing=writings, fate=st.sampled_from(["freezes", "dies"]))
    def half_an_effect(self, which: int, steps: int, writing: Writing, fate: str) -> None:
        """Stop an attempt near its first write, before or after telling about it, until its lease is lost."""
        self._attempt(which, steps, Script(writings=(writing,), stubborn=True), fate)

    @precondition(lambda self: self.world.work_waits())
    @rule(
        which=small,
        first=st.integers(1, 9),
        script=scripts,
        others=st.lists(scripts, min_size=1, max_size=3),
        second=lengths,
        goes_on=st.booleans(),
    )
    def late_riser(
        self, which: int, first: int, script: Script, others: list[Script], second: int, goes_on: bool
    ) -> None:
        """One worker freezes until its claim is lost, others go on with the work, and the first wakes up."""
        frozen = len(self.world.frozen)
        self._attempt(which, first, replace(script, stubborn=True), "freezes")
        for other in others[:-1]:
            self._attempt(which, 40, other, "goes on")
        self._attempt(which, second, others[-1], "goes on")
        for job in self.world.frozen[frozen : frozen + 1]:
            while not job.over:
                job.go_on()
        if goes_on:
            for worker in self.world.workers:
                while worker.job and worker.go_on(script):
                    pass

    @precondition(lambda self: self.world.work_waits())
    @rule(which=small, by=people, stated=st.booleans())
    def ask_and_answer(self, which: int, by: str, stated: bool) -> None:
        self._attempt(which, 40, Script(end="needs-input", checkpoint=stated), "goes on")
        deeds.answer_all(self.world, by)

    def _attempt(self, which: int, steps: int, script: Script, fate: str) -> None:
        """Answer a ring, do so many steps of what comes of it, and perhaps never come back to it."""
        worker = pick([one for one in self.world.workers if one.idle] or self.world.workers, which)
        if worker.job:
            self.world.frozen.append(worker.job)
        worker.crash()
        self._begin(worker, which, script)
        for _ in range(steps):
            if worker.job is None or not worker.go_on(script):
                break
        if worker.job is None:
            worker.end_turn()
        elif fate != "goes on":
            if fate == "freezes":
                self.world.frozen.append(worker.job)
            worker.crash()
            if fate != "crashes":
                self._time_goes_by(LEASE_S + 1, 25)

    def _begin(self, worker: Worker, which: int, script: Script) -> None:
        """Answer rings, of which some come in vain, until there is a pack to work on."""
        pending = self.world.bells.pending
        for _ in range(4):
            if not pending:
                self._time_goes_by(61)
            if pending:
                worker.rung(pending.pop(which % len(pending)))
                if worker.go_on(script):
                    return

    def _time_goes_by(self, *each: float) -> None:
        for one in each:
            self.world.clock.elapse(int(one * SECOND))
            self.world.tick(0)

    @precondition(lambda self: self.world.bells.pending)
    @rule(which=small, worker=small, fate=st.sampled_from(["heard", "heard", "heard", "lost", "doubled"]))
    def ring(self, which: int, worker: int, fate: str) -> None:
        pending = self.world.bells.pending
        role = pick(pending, which)
        if fate != "doubled":
            pending.remove(role)
        idle = [one for one in self.world.workers if one.idle]
        if fate != "lost" and idle:
            pick(idle, worker).rung(role)

    @precondition(lambda self: self.world.busy())
    @rule(worker=small, steps=st.integers(1, 9), script=scripts, whole=st.booleans())
    def work(self, worker: int, steps: int, script: Script, whole: bool) -> None:
        one = pick(self.world.busy(), worker)
        for _ in range(40 if whole else steps):
            if not one.go_on(script):
                break

    @precondition(lambda self: self.world.busy())
    @rule(worker=small, how=st.sampled_from(["freezes", "crashes", "process crashes"]))
    def break_down(self, worker: int, how: str) -> None:
        one = pick(self.world.busy(), worker)
        if how == "freezes" and one.job:
            self.world.frozen.append(one.job)
        one.crash()
        if how == "process crashes":
            one.process.restart()
            for other in self.world.workers:
                if other.process is one.process:
                    other.crash()

    @precondition(lambda self: self.world.frozen)
    @rule(which=small, steps=st.integers(1, 9))
    def thaw(self, which: int, steps: int) -> None:
        job: Job = pick(self.world.frozen, which)
        for _ in range(steps):
            if job.over:
                break
            job.go_on()
        if job.over:
            self.world.frozen.remove(job)

    @precondition(lambda self: self.world.held())
    @rule(which=small)
    def renew(self, which: int) -> None:
        claim = pick(self.world.held(), which).claim
        assert claim is not None
        try:
            standing = self.world.workers[0].process.gateway.renew([claim])[0]
        except Unavailable:
            return
        state = self.world.watch.sessions[claim.session_id].state
        if state.claim is None or state.claim.claim_id != claim.fence.claim_id:
            assert standing != "held", "rule 2: a claim that is over is told that it is held"
            return
        told = ("held", "cancelled") if state.ending else ("held",)
        assert standing in told, f"rule 2: a claim that is held is told {standing}"

    # -- time and faults

    @rule(each=seconds, tick=st.sampled_from([None, 0, 1, 2]))
    def wait(self, each: float, tick: int | None) -> None:
        self.world.clock.elapse(int(each * SECOND))
        if tick is not None:
            self.world.tick(tick)

    @rule(event=disturbances)
    def disturb(self, event: tuple[str, Any]) -> None:
        """Let something happen that nobody ordered."""
        what, how = event
        match what:
            case "clock":
                self.tick_and_jump(how)
            case "store":
                self.world.faults.pending.extend(how)
            case "late due":
                deeds.late_due(self.world, *how)
            case "news":
                self.world.register(NEWS[how]())
            case _:
                if self.world.acts:
                    self.world.repeat(how)

    @precondition(lambda self: self.world.watch.sessions)
    @rule(which=small, what=st.sampled_from(FORGED), old=small)
    def forge(self, which: int, what: str, old: int) -> None:
        deeds.forge(self.world, which, what, old)

    def tick_and_jump(self, ms: int) -> None:
        """Set the store's clock. Ticks ask every second: what they saw last is where a step back is told by."""
        if ms < 0:
            self.world.faults.pending.clear()
            self.world.tick(0)
        self.world.clock.jump(ms)

    # -- people

    @rule(key=keys, plan=plans, by=people, cents=st.sampled_from([10, 10, 11]))
    def submit(self, key: str, plan: str, by: str, cents: int) -> None:
        self.world.submit(key, plan, by, cents=cents)

    @precondition(lambda self: any(one.questions for one in self.world.states()))
    @rule(which=small, question=small, by=people, value=st.sampled_from([1, 1, 1, 2, "a few", "bulk"]))
    def answer(self, which: int, question: int, by: str, value: Any) -> None:
        deeds.answer(self.world, which, question, by, value)

    @precondition(lambda self: any(one.tickets_opened for one in self.world.states()))
    @rule(which=small, ticket=small, by=people, honest=st.booleans(), choice=small)
    def resolve(self, which: int, ticket: int, by: str, honest: bool, choice: int) -> None:
        deeds.resolve(self.world, which, ticket, by, honest=honest, choice=choice)

    @precondition(lambda self: any(one.tickets for one in self.world.states()))
    @rule(which=small, ticket=small, choice=st.sampled_from([0, 0, 0, 1, 2, 3]), by=deciders)
    def resolve_well(self, which: int, ticket: int, choice: int, by: str) -> None:
        deeds.resolve(self.world, which, ticket, by, honest=True, choice=choice)

    @precondition(lambda self: any(one.tickets for one in self.world.states()))
    @rule(which=small, ticket=small, done=at_desks)
    def at_desk(self, which: int, ticket: int, done: list[desks.Deed]) -> None:
        desks.at_desk(self.world, which, ticket, done)

    @rule(
        which=small,
        verb=st.sampled_from(["pause", "resume", "resume", "retry", "retry", "cancel"]),
        by=people,
        for_ms=st.sampled_from([None, 0, 1, 5_000, 600_000]),
        stale=st.sampled_from([0, 0, 0, 1]),
    )
    def operate(self, which: int, verb: deeds.Verb, by: str, for_ms: int | None, stale: int) -> None:
        if self.world.watch.sessions:
            deeds.operate(self.world, which, verb, by, for_ms=for_ms, stale=stale)

    # -- always

    @invariant()
    def the_rules_hold(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            heal(self.world, wake=self.wake)
            finish(self.world)
        finally:
            self.world.close()
        kind = type(self)
        kind.finished += 1
        kind.seen.update(self.world.watch.seen)
