"""Records of joins as decisions need them, read from the store page by page."""

from collections.abc import Iterator
from typing import Any, cast

from passdown.broker.core.given import as_object
from passdown.broker.core.join import FINAL, WINDOW, About, Facts, Late, Row, judge, summarize, total
from passdown.broker.core.parts import Join, Ticket
from passdown.broker.core.state import State
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import FindJoin, FindRows, JoinRecord, RowOfJoin
from passdown.contracts import commands as cmd
from passdown.contracts.codec import decode
from passdown.contracts.ids import branch_id
from passdown.contracts.plans import FanOut, Plan

#: Effects of branches that do not count, of which so many are named; and of how many branches they are read.
_MOST_LATE, _MOST_LATE_BRANCHES = 50, 20


def facts_for(store: Store, state: State, plan: Plan, body: cmd.Body) -> Facts | None:
    """Return what `decide` must know of a join for this command; None where it is about none."""
    join = state.join(_join_of(state, body))
    contract = plan.stages[join.stage].fan_out if join else None
    told = isinstance(body, cmd.Due) and body.kind == "branches"
    if join is None or contract is None or (told and (join.closed or not contract.at_once)):
        return None
    record = store.find(FindJoin(join_id=join.join_id))
    if not isinstance(record, JoinRecord):
        record = JoinRecord(join_id=join.join_id, version=0, rewrites=0, counts={})
    names = frozenset(_named(body)) if isinstance(body, cmd.Resolve) else frozenset[str]()
    late = summary = None
    if join.closed:
        if total(record.counts, FINAL) >= join.opening:
            late = _late(store, join, contract)
    elif not told and (_ticket_of(state, body) or _may_follow(contract, join, record.counts, body)):
        summary = summarize(contract, rows(store, join), record.version, asked_about=names)
    return Facts(
        join_id=join.join_id,
        version=record.version,
        rewrites=record.rewrites,
        counts=record.counts,
        summary=summary,
        late=late,
    )


def _may_follow(contract: FanOut, join: Join, counts: dict[str, int], body: cmd.Body) -> bool:
    """Whether anything may follow from what the rows say; else they need not be read, of which there may be many.

    While a person is asked, and other branches go on, the join is looked at again and again to open more of them.
    """
    verdict = judge(contract, join.branches, counts)
    if verdict == "wait":
        return isinstance(body, cmd.Due) and body.kind == "join-deadline" and not join.asked
    if verdict == "short":
        return not join.asked
    # Those that disagree may be outvoted in the end, but not before (see `wakes`).
    agree = join.asked != "conflict" or total(counts, FINAL) >= join.branches
    return verdict == "vetoed" or agree


def _join_of(state: State, body: cmd.Body) -> str:
    if isinstance(body, cmd.Due) and body.kind in ("join", "join-deadline"):
        return body.subject
    if isinstance(body, cmd.Due) and body.kind == "branches":
        return body.subject.rsplit("/", 2)[0]
    ticket = _ticket_of(state, body)
    return ticket.about if ticket and ticket.kind in ("conflict", "short") else ""


def _ticket_of(state: State, body: cmd.Body) -> Ticket | None:
    """Return the ticket that a command may close: a person decides, or nobody did in time."""
    if isinstance(body, cmd.Resolve):
        return state.ticket(body.ticket_no)
    if isinstance(body, cmd.Due) and body.kind == "ticket-escalate":
        return state.ticket(int(body.subject))
    return None


def _named(body: cmd.Resolve) -> list[str]:
    """Return the branches that a resolution names, whatever shape it has: `decide` judges it."""
    if isinstance(body.value, str):
        return [body.value]
    named = as_object(body.value).get("branches")
    return (
        [one for one in cast("list[Any]", named) if isinstance(one, str)] if isinstance(named, list) else []
    )


def rows(store: Store, join: Join, first: int = 0) -> Iterator[Row]:
    """Yield the rows of a join in the order of their places, from place `first` on."""
    for start in range(first, join.opening, WINDOW):
        for one in page(store, join.join_id, start, min(WINDOW, join.opening - start)):
            yield row_of(one)


def row_of(one: RowOfJoin) -> Row:
    """Return a row as the core knows it."""
    return Row(one.place, one.branch, one.outcome, one.order, decode(one.about, About, what="join row"))


def page(store: Store, join_id: str, first: int, places: int) -> list[RowOfJoin]:
    """Return the rows of so many places."""
    return cast("list[RowOfJoin]", store.find(FindRows(join_id=join_id, first=first, places=places)))


def branch_state(store: Store, join_id: str, place: int) -> State | None:
    """Return the state of a branch; None where it was never opened."""
    raw = store.load(branch_id(join_id, place)).state
    return decode(raw, State, what="state") if raw else None


def counts_in(contract: FanOut, join: Join, row: Row) -> bool:
    """Whether a row counts in a join that is closed."""
    if not join.digest or row.order > join.upto:
        return False
    # Whom a person chose counts, whatever the contract says of its outcome.
    return row.branch == join.branch if join.branch else row.outcome in contract.counts


def _late(store: Store, join: Join, contract: FanOut) -> Late:
    """Return the effects of branches that do not count: the work that was done for nothing, or must be undone."""
    found: list[tuple[str, str, str]] = []
    every = counted = looked_at = 0
    for row in rows(store, join):
        if counts_in(contract, join, row):
            counted += row.about.effects
            continue
        if not row.about.effects:
            continue
        every += row.about.effects
        if looked_at >= _MOST_LATE_BRANCHES or len(found) >= _MOST_LATE:
            continue
        looked_at += 1
        branch = branch_state(store, join.join_id, row.place)
        effects = [one for one in (branch.effects if branch else []) if one.status == "done"]
        found += [(row.branch, one.effect_id, one.tool) for one in effects[: _MOST_LATE - len(found)]]
    return Late(found, every - len(found), counted)
