"""The fan-outs of a session and their branches, as people ask about them: how each stands, and what it waits for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from passdown.broker.answers import no_session
from passdown.broker.controller import Controller
from passdown.broker.core.evolve import evolve
from passdown.broker.core.items import look_up, names_of, opener
from passdown.broker.core.join import FINAL, WAITING, WINDOW, Row, judge, needed, total
from passdown.broker.core.parts import Join
from passdown.broker.core.state import State
from passdown.broker.joins import reading
from passdown.broker.joins.lists import items_of
from passdown.broker.joins.waits import Waiting, waits_of
from passdown.broker.logbook import events, read_logged
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import FindJoin, JoinRecord
from passdown.contracts.codec import Wire, digest
from passdown.contracts.errors import NotFound
from passdown.contracts.ids import branch_id
from passdown.contracts.plans import FanOut

#: What is said of a branch beside its status: it ended by itself after its join was closed; its join was closed before
#: it was opened; it is not opened yet.
LATE, SKIPPED, UNOPENED = "late", "skipped", "unopened"
#: Branches of which there is no session.
ABSENT = (SKIPPED, UNOPENED)
#: What a record says of a branch that is at work, or waits for a person.
OPEN = "open"


@dataclass(frozen=True, slots=True)
class Fan:
    """One fan-out of a session, also of an earlier step, with its contract and its record."""

    parent: State
    join: Join
    contract: FanOut
    record: JoinRecord


class JoinView(Wire, frozen=True, kw_only=True):
    """How a join stands: ``have`` branches count by now, and ``need`` must.

    ``standing`` is ``wait``, ``enough`` (which nobody has looked at yet, or it is joined), ``conflict``, ``short``,
    ``sent-back``, ``partial``, ``chosen``, ``vetoed`` or ``left``; ``closed`` says that it is decided, ``drained`` that
    all branches have ended. ``outcomes`` counts all branches by what is said of them. Times are store milliseconds.
    """

    join_id: str
    step: int
    stage: str
    branches: int
    need: int
    rule: str
    have: int
    outcomes: dict[str, int]
    standing: str
    closed: bool
    drained: bool
    merge: str
    why: str = ""
    branch: str = ""
    ticket: str = ""
    deadline: int | None = None


class BranchView(Wire, frozen=True, kw_only=True):
    """How a branch stands. ``status`` is what is said of it, ``outcome`` how it ended (empty: it has not).

    ``counts``: its output is one of those that are merged, or would be by now.
    """

    place: int
    name: str
    session_id: str
    status: str
    outcome: str = ""
    counts: bool = False
    reason: str = ""
    stage: str = ""
    attempt: int = 0
    waits: list[Waiting] = []


# -- joins --


def fans_of(controller: Controller, session_id: str) -> list[Fan]:
    """Return the fan-outs of a session in the order of their steps. Raises NotFound."""
    held = controller.load(session_id)
    if held.state is None:
        raise no_session(session_id, held.removed)
    return fans(controller, held.state)


def fans(controller: Controller, state: State, *, past: bool = True) -> list[Fan]:
    """Return the fan-outs of the session that has this state; without `past` those of which something is to come."""
    stages = controller.catalog.document(state.plan).stages
    entered = {name: count for name, count in state.entries.items() if stages[name].fan_out is not None}
    joins = _joins(controller.store, state, sum(entered.values())) if past else state.joins
    found: list[Fan] = []
    for join in joins:
        contract = stages[join.stage].fan_out
        if contract is not None:
            found.append(Fan(state, join, contract, _record(controller.store, join)))
    return found


def fan_of(controller: Controller, session_id: str, join_id: str | None = None) -> Fan:
    """Return one fan-out of a session, by default the last. Raises NotFound."""
    found = fans_of(controller, session_id)
    for one in reversed(found):
        if join_id in (None, one.join.join_id):
            return one
    known = ", ".join(one.join.join_id for one in found)
    raise NotFound(
        "join", join_id or session_id, f"its joins are {known}" if known else "it opened no branches"
    )


def _joins(store: Store, state: State, entered: int) -> list[Join]:
    """Return all joins of a session: those that are over stand in its log only."""
    if len(state.joins) == entered:
        return state.joins
    found: dict[str, Join] = {}
    folded: State | None = None
    for raw in events(store, state.session_id, until=state.seq):
        folded = evolve(folded, read_logged(raw), digest(raw))
        found.update({join.join_id: join for join in folded.joins})
    left = {join.join_id for join in state.joins}
    return [one if one.join_id in left else replace(one, drained=True) for one in found.values()]


def _record(store: Store, join: Join) -> JoinRecord:
    record = store.find(FindJoin(join_id=join.join_id))
    return (
        record
        if isinstance(record, JoinRecord)
        else JoinRecord(join_id=join.join_id, version=0, rewrites=0, counts={})
    )


def join_view(fan: Fan) -> JoinView:
    """Return how a join stands."""
    join, contract, counts = fan.join, fan.contract, fan.record.counts
    have = total(join.outcomes if join.digest else counts, contract.counts)
    ticket = next((one.ticket_no for one in fan.parent.tickets if one.about == join.join_id), None)
    return JoinView(
        join_id=join.join_id,
        step=join.step,
        stage=join.stage,
        branches=join.branches,
        need=needed(contract, join.branches),
        rule=rule_of(contract, join.branches),
        have=1 if join.branch else have,
        outcomes=tally(fan),
        standing=_standing(fan),
        closed=join.closed,
        drained=join.drained,
        merge=contract.merge,
        why=join.why,
        branch=join.branch,
        ticket="" if ticket is None else f"{fan.parent.session_id}/{ticket}",
        deadline=None if join.closed or join.asked else join.deadline,
    )


def _standing(fan: Fan) -> str:
    join = fan.join
    if join.closed:
        return join.how
    if join.sent_back is not None:
        return "sent-back"
    return join.asked or judge(fan.contract, join.branches, fan.record.counts)


def rule_of(contract: FanOut, branches: int) -> str:
    """Return in words which branches must end how."""
    how = " or ".join(contract.counts)
    match contract.need:
        case "any":
            return f"one of {branches:,} must be {how}"
        case "veto":
            return f"all {branches:,} must be {how}, and one that refuses ends it"
        case "all":
            return f"all {branches:,} must be {how}" if branches != 1 else f"it must be {how}"
        case int():
            return f"{contract.need:,} of {branches:,} must be {how}"


def tally(fan: Fan) -> dict[str, int]:
    """Count the branches of a fan-out by what is said of them."""
    join, counts = fan.join, fan.record.counts
    in_time = join.outcomes if join.digest else counts
    found = {name: in_time.get(name, 0) for name in ("done", "refused", "failed")}
    late = total(counts, found) - sum(found.values())
    found |= {"cancelled": counts.get("cancelled", 0), LATE: late, WAITING: counts.get(WAITING, 0)}
    found[OPEN] = join.opening - total(counts, (*FINAL, WAITING))
    found[SKIPPED if join.closed else UNOPENED] = join.branches - join.opening
    return {name: count for name, count in found.items() if count}


# -- branches --


def said_of(fan: Fan, place: int, row: Row | None) -> str:
    """Return in one word how a branch stands by its row: its outcome, or that it has none yet."""
    join = fan.join
    if place >= join.opening:
        return SKIPPED if join.closed else UNOPENED
    if row is None:
        return OPEN
    if join.digest and row.order > join.upto and row.outcome in ("done", "refused", "failed"):
        return LATE
    return row.outcome


def is_counted(fan: Fan, row: Row) -> bool:
    """Whether a branch is one of those that are merged, or would be by now."""
    if fan.join.closed:
        return reading.counts_in(fan.contract, fan.join, row)
    return row.outcome in fan.contract.counts


def places(store: Store, fan: Fan, first: int, upto: int) -> Iterator[tuple[int, Row | None]]:
    """Yield the places from `first` to `upto`, each with its row where there is one."""
    for start in range(first, upto, WINDOW):
        end = min(start + WINDOW, upto)
        there = {
            one.place: reading.row_of(one)
            for one in reading.page(store, fan.join.join_id, start, end - start)
        }
        for place in range(start, end):
            yield place, there.get(place)


def branches(store: Store, fan: Fan, first: int, limit: int) -> Iterator[BranchView]:
    """Yield the branches of so many places from `first` on."""
    names = namer(store, fan)
    for place, row in places(store, fan, first, min(first + limit, fan.join.branches)):
        live = row is None or row.outcome not in FINAL
        state = reading.branch_state(store, fan.join.join_id, place) if live else None
        yield branch_view(fan, place, row, state, names)


def missing(store: Store, fan: Fan, most: int) -> list[BranchView]:
    """Return the first `most` branches that have not ended and do not count yet."""
    names = namer(store, fan)
    found: list[BranchView] = []
    for place, row in places(store, fan, 0, fan.join.branches):
        if len(found) >= most:
            break
        if row is None or row.outcome not in (*FINAL, *fan.contract.counts):
            state = (
                None if place >= fan.join.opening else reading.branch_state(store, fan.join.join_id, place)
            )
            found.append(branch_view(fan, place, row, state, names))
    return found


def branch_view(
    fan: Fan, place: int, row: Row | None, state: State | None, names: Callable[[int], str]
) -> BranchView:
    """Return how a branch stands, from its row and, where that is at hand, its state."""
    said = said_of(fan, place, row)
    outcome = row.outcome if row and row.outcome in FINAL else ""
    if state is None and said == OPEN:
        said = UNOPENED
    return BranchView(
        place=place,
        name=row.branch if row else state.parent.branch if state and state.parent else names(place),
        session_id=branch_id(fan.join.join_id, place),
        status=said if outcome or state is None else state.shown_status,
        outcome=outcome,
        counts=row is not None and is_counted(fan, row),
        reason=row.about.reason if row else "",
        stage=state.stage if state else "",
        attempt=state.attempt if state else 0,
        waits=waits_of(state) if state else [],
    )


def namer(store: Store, fan: Fan) -> Callable[[int], str]:
    """Return what names the branch at a place before it has a row; its place, where that cannot be told any more."""
    contract, state = fan.contract, fan.parent
    if contract.branches or not contract.key:
        named = names_of(contract)
        return lambda place: named[place] if named else str(place)
    inline = look_up(state.data, contract.each)
    make = opener(contract, state)
    items = items_of(
        store, state, contract.each, None if inline is not None else state.lists.get(contract.each)
    )

    def name(place: int) -> str:
        try:
            return make(place, items(place)).name
        except (NotFound, IndexError, TypeError):  # the list was written over by a later stage's output
            return str(place)

    return name


def find_branch(store: Store, fan: Fan, name: str) -> str:
    """Return the session id of the branch of this name. Raises NotFound, also where it is not opened yet."""
    place = _place_of(store, fan, name)
    if place is None:
        raise NotFound("branch", name, f"join {fan.join.join_id} has none of this name")
    session_id = branch_id(fan.join.join_id, place)
    if store.load(session_id).state is None:
        why = "it was skipped: its join came to an end before" if fan.join.closed else "it is not opened yet"
        raise NotFound("branch", name, why)
    return session_id


def _place_of(store: Store, fan: Fan, name: str) -> int | None:
    names: Any = namer(store, fan)
    if not fan.contract.key or fan.contract.branches:
        return next((place for place in range(fan.join.branches) if names(place) == name), None)
    for place, row in places(store, fan, 0, fan.join.branches):
        if name == (row.branch if row else names(place)):
            return place
    return None
