"""What every tree must show in the end, however it was disturbed, by the numbers of the rules of DESIGN §3."""

from collections import Counter
from typing import cast

from passdown.broker.core.evolve import fold
from passdown.broker.core.join import FINAL, outcome_of
from passdown.broker.core.state import State
from passdown.broker.stores.base import DueRequest
from passdown.broker.stores.queries import FindJoin, FindQueues, JoinRecord, QueueRow
from passdown.contracts import events as ev
from passdown.contracts.codec import decode_any, encode
from passdown.contracts.ids import branch_id
from passdown.contracts.plans import FanOut
from tests.conformance.trees import work
from tests.conformance.trees.people import attend
from tests.conformance.trees.work import all_rows
from tests.conformance.trees.world import World

#: How long is waited between rounds (seconds); the last is longer than anything that a plan waits for.
WAITS = [0.5, 2, 6, 31, 31, 100]
ROUNDS = 24

Log = list[ev.Logged]


def finish(world: World) -> None:
    """Let all faults be over, and everybody do what they should, until nothing happens any more; then hold it to the rules."""
    world.faults.pending.clear()
    for one in world.processes:
        one.store.kept.clear()
    still = 0
    for round_ in range(ROUNDS):
        before = world.witness.commits
        _go_on(world)
        for state in world.open():
            attend(world, state, round_)
        _go_on(world)
        world.check()
        still = still + 1 if world.witness.commits == before else 0
        if not world.open() or still > len(WAITS):
            break
        world.clock.elapse(int(1000 * (WAITS[still % len(WAITS)])))
    prove(world)


def _go_on(world: World) -> None:
    """Do all that can be done by now."""
    for _ in range(400):
        before = world.witness.commits
        while world.notes:
            world.deliver(world.notes.pop(), 0)
        for role in world.roles():
            while work.attempt(world, 0, role, work.HONEST):
                pass
        while world.tick(0):
            pass
        if world.witness.commits == before and not world.notes:
            return
    raise AssertionError("rule 1: it goes on and on")


def prove(world: World) -> None:
    """Hold a tree at rest to the rules."""
    rule_1_nothing_waits_in_vain(world)
    logs = {one: _log(world, one) for one in world.sessions()}
    rule_6_the_log_gives_the_state(world, logs)
    rule_3_each_effect_happened_once(world)
    for session_id, log in logs.items():
        for logged in log:
            world.seen[type(logged.event).__name__] += 1
            if isinstance(logged.event, ev.FannedOut):
                _prove_join(world, world.state(session_id), log, logged.event)
    world.check()


def _log(world: World, session_id: str) -> Log:
    return [decode_any(raw, ev.Logged) for raw in world.inner.events(session_id, limit=10_000)]


def rule_1_nothing_waits_in_vain(world: World) -> None:
    waiting = [f"{one.session_id} {one.shown_status} in {one.stage}: {one}" for one in world.open()]
    assert not waiting, "rule 1: nothing can happen any more, and there wait\n" + "\n".join(waiting)
    assert world.tickets() == [], "rule 1: a ticket of what has ended"
    rows = cast("list[QueueRow]", world.inner.find(FindQueues()))
    left = [row for row in rows if row.ready or row.running]
    assert not left, f"rule 1: packs of what has ended: {left}"
    world.clock.elapse(10_000_000)
    entries = world.inner.due(DueRequest(limit=100, reserve_ms=1)).entries
    assert not entries, f"rule 1: due, and nothing waits for it: {entries}"


def rule_6_the_log_gives_the_state(world: World, logs: dict[str, Log]) -> None:
    for session_id, log in logs.items():
        loaded = world.inner.load(session_id)
        assert loaded.state == encode(fold(log)), f"rule 6: the log of {session_id} gives another state"
        assert loaded.state == world.witness.states[session_id]


def rule_3_each_effect_happened_once(world: World) -> None:
    known: set[str] = set()
    for state in world.states():
        for effect in state.effects:
            known.add(effect.effect_id)
            expected = 1 if effect.status == "done" else 0
            if effect.effect_id not in world.lied:
                assert world.outside[effect.effect_id] == expected, f"rule 3: {effect} of {state.session_id}"
    assert set(world.outside) <= known, "rule 3: something was written that no ledger knows"


def _prove_join(world: World, parent: State, log: Log, event: ev.FannedOut) -> None:
    contract = world.plan.stages[_stage_of(log, event.join_id)].fan_out
    assert contract is not None
    of_it = [one for one in log if getattr(one.event, "join_id", "") == event.join_id]
    joined = [one.event for one in of_it if isinstance(one.event, ev.Joined)]
    called_off = any(isinstance(one.event, ev.Ending | ev.Cancelled | ev.Expired) for one in log)
    assert len(joined) == 1 or (called_off and not joined), (
        f"rule 1: {event.join_id} was joined {len(joined)} times, and its session is {parent.status}"
    )
    opening = max(getattr(one.event, "opening", 0) for one in of_it)
    record = world.inner.find(FindJoin(join_id=event.join_id))
    assert isinstance(record, JoinRecord)
    _rule_1_the_record_is_the_sum_of_its_rows(world, event, record, opening)
    if joined:
        _rule_2_what_counted_is_what_was_joined(world, contract, joined[0], record)
        _rule_3_no_effect_of_a_branch_is_forgotten(world, contract, of_it, opening)


def _did(world: World, session_id: str) -> int:
    """Return how many writes outside a session did, with those of its branches and theirs."""
    every = world.states()
    mine = sum(effect.status == "done" for effect in world.state(session_id).effects)
    below = [one for one in every if one.parent is not None and one.parent.session_id == session_id]
    return mine + sum(_did(world, one.session_id) for one in below)


def _stage_of(log: Log, join_id: str) -> str:
    step = int(join_id.rpartition("-")[2])
    return next(
        one.event.stage for one in log if isinstance(one.event, ev.StageEntered) and one.event.step == step
    )


def _rule_1_the_record_is_the_sum_of_its_rows(
    world: World, event: ev.FannedOut, record: JoinRecord, opening: int
) -> None:
    rows = all_rows(world, event.join_id)
    counts = {name: count for name, count in record.counts.items() if count}
    assert counts == dict(Counter(row.outcome for row in rows)), f"rule 1: {record} and {rows}"
    assert [row.place for row in rows] == list(range(opening)), f"rule 1: {opening} branches, and {rows}"
    for row in rows:
        branch = world.state(branch_id(event.join_id, row.place))
        assert row.outcome == outcome_of(branch), f"rule 1: {row}, and {branch.status}"
        assert row.outcome in FINAL, f"rule 1: {row} of a branch that has not ended"
        assert branch.parent is not None
        assert branch.parent.branch in (row.branch, str(row.place))


def _rule_2_what_counted_is_what_was_joined(
    world: World, contract: FanOut, joined: ev.Joined, record: JoinRecord
) -> None:
    assert record.closed_at == joined.upto, f"rule 2: {record}, and {joined}"
    rows = [
        row
        for row in all_rows(world, joined.join_id)
        if row.order <= joined.upto and row.outcome in contract.counts
    ]
    if not joined.branch:
        assert len(rows) == joined.counted, f"rule 2: {joined} counts other rows than {rows}"
        if joined.how == "enough":
            assert len(rows) >= (contract.need if isinstance(contract.need, int) else 0)


def _rule_3_no_effect_of_a_branch_is_forgotten(
    world: World, contract: FanOut, of_it: Log, opening: int
) -> None:
    """What branches did that do not count is told to the parent, once all have ended."""
    joined = next(one.event for one in of_it if isinstance(one.event, ev.Joined))
    counted = {
        row.place
        for row in all_rows(world, joined.join_id)
        if row.order <= joined.upto
        and (row.branch == joined.branch if joined.branch else row.outcome in contract.counts)
    }
    did = 0
    for place in range(opening):
        state = world.state(branch_id(joined.join_id, place))
        if place not in counted:
            did += _did(world, state.session_id)
    told = sum(
        len(one.event.effects) + one.event.more for one in of_it if isinstance(one.event, ev.JoinDrained)
    )
    drained = any(isinstance(one.event, ev.JoinDrained) for one in of_it)
    assert told == did or (not drained and not did), (
        f"rule 3: {did} effects of {joined.join_id}, and {told} are told"
    )
