"""Faults that users of queues and stores met elsewhere, tried here; each test names where they were reported."""

from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from passdown.agents import Done, NeedsInput, Pack, Question, SyncContext, agent
from passdown.broker.core.evolve import fold
from passdown.broker.gateway import Limits
from passdown.broker.stores.queries import FindQueues, QueueRow
from passdown.contracts.codec import encode
from passdown.contracts.errors import Conflict, ContractError, NotFound, Unavailable
from passdown.contracts.gateway import AgentInfo
from tests.conformance.faulty import Chance, Script
from tests.integration.faults import honest, world
from tests.integration.site import one_stage, types

ME = AgentInfo(name="worker")


def claim_id(n: int) -> str:
    return f"claim-{n:08d}"


def test_rule_01_slots_come_from_live_leases_never_from_a_counter(tmp_path: Path) -> None:
    """hatchet#4494: the claim succeeded, its reply was lost, again and again; after the leases all slots are free."""
    with world(tmp_path, limits=Limits(roles={"worker": 5})) as w:
        w.broker.register(one_stage("p", "worker", lease_seconds=60.0, max_attempts=1000))
        for _ in range(5):
            w.broker.submit("p")
        for n in range(300):
            offers = w.gateway.take("worker", 10).offers
            if not offers:
                w.clock.forward(61)
                while w.tick.once().done:
                    pass
                w.clock.forward(301)
                while w.tick.once().done:
                    pass
                continue
            w.store.plan = Script("after", only={"commit"})
            w.gateway.claim(offers[0].pack, claim_id(n), ME)
            w.store.plan = Script()
        w.clock.forward(400)
        while w.tick.once().done:
            pass
        w.clock.forward(400)
        while w.tick.once().done:
            pass
        # Each of them was lost before, so each goes alone; and all five are there to be taken.
        taken = [w.gateway.take("worker", 10).offers for _ in range(5)]
        assert [len(offers) for offers in taken] == [1] * 5


def test_rule_02_a_key_is_good_for_as_long_as_the_session_is_kept(tmp_path: Path) -> None:
    """inngest#4394, A2A#928: the same key days later, and after the end, is the same session."""
    with world(tmp_path) as w:
        w.broker.register(one_stage("p", "worker"))
        first = w.broker.submit("p", inputs={"a": 1}, key="k")
        w.clock.forward(10 * 86_400)
        assert w.broker.submit("p", inputs={"a": 1}, key="k").id == first.id
        w.runtime(honest).drain("worker")
        assert first.status() == "done"
        assert w.broker.submit("p", inputs={"a": 1}, key="k").id == first.id
        with pytest.raises(Conflict):
            w.broker.submit("p", inputs={"a": 2}, key="k")
        assert types(first).count("SessionOpened") == 1


@pytest.mark.parametrize("fault", ["before", "after", "stale"])
def test_rule_02_each_lost_reply_is_asked_for_again_and_counts_once(tmp_path: Path, fault: str) -> None:
    """rate-limit-redis#251: a replayed commit returns the first outcome; the version rises by one."""
    with world(tmp_path) as w:
        w.broker.register(one_stage("p", "worker"))
        # What was written before its reply was lost is found by its id, and not committed again.
        faults = ["after"] * 10 if fault == "after" else [fault, None] * 10
        w.store.plan = Script(*faults, only={"commit"})  # type: ignore[arg-type]
        session = w.broker.submit("p", key="k")
        w.runtime(honest).drain("worker")
        assert len(w.store.given) >= 3
        assert types(session) == [
            "SessionOpened",
            "StageEntered",
            "PackIssued",
            "Claimed",
            "Returned",
            "Completed",
        ]


def test_rule_01_a_faulty_sweep_is_finished_by_the_next(tmp_path: Path) -> None:
    """dbos#716: 30 % of the store's calls fail during a pass over 250 vanished handoffs."""
    # The sweep itself must cope, not the retries below it.
    with world(tmp_path, patience_s=0) as w:
        w.broker.register(one_stage("p", "worker"))
        sessions = [w.broker.submit("p") for _ in range(250)]
        for n, offer in enumerate(w.gateway.take("worker", 250).offers):
            w.gateway.claim(offer.pack, claim_id(n), ME)
        w.clock.forward(30)
        w.store.plan = Chance(seed=1, rate=0.3)
        for _ in range(40):
            with suppress(Unavailable):
                w.tick.once()
            w.clock.forward(2)
        w.store.plan = Script()
        w.tick.once()
        for session in sessions:
            assert session.state().attempt == 2
            assert types(session).count("LeaseLost") == 1


def test_many_overdue_entries_are_dealt_with_in_bounded_batches(tmp_path: Path) -> None:
    """dramatiq#258, in small (1,000): one pass takes a batch, and says that it is worth going on at once."""
    with world(tmp_path) as w:
        w.broker.register(one_stage("p", "worker", deadline_seconds=100.0))
        for _ in range(1_000):
            w.broker.submit("p")
        w.clock.forward(200)
        passes = 0
        while (swept := w.tick.once()).done:
            assert swept.done <= 200
            passes += 1
        assert passes == 5
        assert w.broker.sessions(status="queued") == []


def test_rule_01_a_claim_that_is_slower_than_its_reservation_is_no_failure(tmp_path: Path) -> None:
    """rq#2061: the pack is taken again meanwhile; the first claim wins, the second is fenced, no attempt is lost."""
    with world(tmp_path, limits=Limits(claim_by_ms=1_000)) as w:
        w.broker.register(one_stage("p", "worker"))
        session = w.broker.submit("p")
        (slow,) = w.gateway.take("worker", 1).offers
        w.clock.forward(2)
        (quick,) = w.gateway.take("worker", 1).offers
        assert (quick.pack.step, quick.pack.attempt) == (slow.pack.step, slow.pack.attempt)
        w.gateway.claim(slow.pack, claim_id(1), ME)
        with pytest.raises(Exception, match="fence"):
            w.gateway.claim(quick.pack, claim_id(2), ME)
        assert session.state().failures == 0
        assert types(session).count("PackIssued") == 1


def test_recovery_is_as_quick_as_its_own_lease(tmp_path: Path) -> None:
    """arq#402: a stage with a lease of 3 s is not recovered at the pace of one with 10 minutes."""
    with world(tmp_path) as w:
        w.broker.register(one_stage("short", "worker", lease_seconds=3.0))
        w.broker.register(one_stage("long", "worker", lease_seconds=600.0))
        short, long = w.broker.submit("short"), w.broker.submit("long")
        for n, offer in enumerate(w.gateway.take("worker", 2).offers):
            w.gateway.claim(offer.pack, claim_id(n), ME)
        w.clock.forward(3.1)
        w.tick.once()
        w.clock.forward(1)
        w.tick.once()
        assert (short.state().attempt, long.state().attempt) == (2, 1)
        assert long.state().claim


def test_rule_02_all_questions_of_a_step_are_waited_for(tmp_path: Path) -> None:
    """langgraph#6208, #8579: two questions; one answer wakes nothing; an answer names its question."""
    runs: list[int] = []

    @agent("worker")
    def asks(pack: Pack, ctx: SyncContext) -> Done | NeedsInput:
        runs.append(pack.attempt)
        if not ctx.answers:
            return NeedsInput(
                [Question(id="a", text="a?"), Question(id="b", text="b?", schema={"type": "integer"})]
            )
        return Done({"a": ctx.answers["a"], "b": ctx.answers["b"]})

    with world(tmp_path) as w:
        w.broker.register(one_stage("p", "worker"))
        session = w.broker.submit("p")
        runtime = w.runtime(asks)
        runtime.drain("worker")
        session.answer("a", "x")
        runtime.drain("worker")
        assert (runs, session.status()) == ([1], "waiting-input")
        with pytest.raises(Conflict):
            session.answer("a", "y")
        with pytest.raises(NotFound):
            session.answer("c", 1)
        with pytest.raises(ContractError, match="/b"):
            session.answer("b", "no integer")
        session.answer("b", 2)
        runtime.drain("worker")
        assert runs == [1, 2]
        assert session.state().outcome.output == {"a": "x", "b": 2}  # type: ignore[union-attr]


def test_rule_11_an_exception_of_any_class_is_read_back_as_text(tmp_path: Path) -> None:
    """dbos#371: an exception with required arguments; a reader needs no class of the worker's."""

    class Odd(Exception):
        def __init__(self, *, needed: int) -> None:
            super().__init__(needed)

    @agent("worker")
    def raises(pack: Pack, ctx: SyncContext) -> Done:
        if pack.attempt == 1:
            raise Odd(needed=3)
        return Done({})

    with world(tmp_path) as w:
        w.broker.register(one_stage("p", "worker"))
        session = w.broker.submit("p")
        runtime = w.runtime(raises)
        runtime.drain("worker")
        w.clock.forward(5)
        w.tick.once()
        runtime.drain("worker")
        assert session.status() == "done"
        assert "Odd" in session.pack(1, 2).feedback[0].text


def test_a_role_without_workers_is_visible(tmp_path: Path) -> None:
    """celery#3239: packs of a role that nobody serves stay in the store, counted, with their age."""
    with world(tmp_path) as w:
        w.broker.register(one_stage("p", "nobody"))
        for _ in range(20):
            w.broker.submit("p")
        w.clock.forward(3600)
        (row,) = cast("list[QueueRow]", w.store.find(FindQueues()))
        assert (row.role, row.ready, row.oldest_ms) == ("nobody", 20, 3_600_000)


def test_rule_09_a_session_keeps_the_plan_that_it_was_opened_with(tmp_path: Path) -> None:
    """TradingAgents#1089: a plan of another shape under the same name changes no open session."""
    with world(tmp_path) as w:
        w.broker.register(one_stage("p", "worker", goal="old"))
        session = w.broker.submit("p", key="old")
        w.broker.register(one_stage("p", "other", goal="new"))
        assert w.broker.submit("p", key="new").state().issued.role == "other"  # type: ignore[union-attr]
        w.runtime(honest).drain("worker")
        assert session.status() == "done"
        assert session.pack(1, 1).goal == "old"


def test_rule_06_the_log_gives_the_state_after_faults_of_every_kind(tmp_path: Path) -> None:
    with world(tmp_path, Chance(seed=3, rate=0.3)) as w:
        w.store.plan = Script()
        w.broker.register(one_stage("p", "worker"))
        w.store.plan = Chance(seed=3, rate=0.3, faults=("after", "stale"))
        sessions = [w.broker.submit("p") for _ in range(20)]
        for _ in range(10):
            w.runtime(honest).drain("worker")
        w.store.plan = Script()
        w.clock.forward(60)
        while w.tick.once().done:
            w.clock.forward(60)
        w.runtime(honest).drain("worker")
        for session in sessions:
            assert session.status() == "done"
            assert encode(fold(session.events())) == encode(session.state())
            assert types(session).count("Returned") == 1
