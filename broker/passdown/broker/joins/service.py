"""Carries out what joins wait for: opens their branches, looks at them, calls branches off, sends back to them.

All of it may be done twice, by several processes at once, and stop anywhere: branches are opened under ids that
follow from the join, what was done is recorded with the parent afterwards, and until then it is due.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from passdown.broker.acts import Ask, Held, is_away
from passdown.broker.controller import Controller
from passdown.broker.core.branching import due_at
from passdown.broker.core.decide import dues
from passdown.broker.core.given import DueAt
from passdown.broker.core.items import Branch, feedback_for, look_up, opener, stage_at
from passdown.broker.core.join import FINAL, WINDOW
from passdown.broker.core.parts import Join
from passdown.broker.core.state import State
from passdown.broker.joins import reading
from passdown.broker.joins.lists import items_of
from passdown.broker.stores.joining import JoinSeen
from passdown.broker.stores.queries import FindJoin, JoinRecord
from passdown.contracts import commands as cmd
from passdown.contracts.errors import PassdownError
from passdown.contracts.ids import branch_id, session_of
from passdown.contracts.pack import Parent
from passdown.contracts.plans import FanOut

JOINS = "service:joins"
#: Branches that are opened, or called off, in one round trip.
_AT_ONCE = 100


class JoinService:
    """The join service over a controller. Thread-safe; any number may run at once."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def look(self, join_id: str) -> None:
        """Look at a join of which enough rows may be there. Raises Unavailable, and what `decide` raises."""
        _raise_any(self.look_all([join_id]))

    def look_all(self, join_ids: Iterable[str]) -> dict[str, PassdownError]:
        """Look at several joins, with what follows for all of them in one round trip; returns what went wrong, by join."""
        failed: dict[str, PassdownError] = {}
        looks: list[_Look] = []
        for join_id in join_ids:
            try:
                found = self._read(join_id)
            except PassdownError as error:
                failed[join_id] = error
            else:
                looks += [found] if found else []
        answers, _ = self._controller.run_all([one.ask for one in looks])
        for one, answer in zip(looks, answers, strict=True):
            if isinstance(answer, PassdownError):
                failed[one.join_id] = answer
            elif answer.held is None or answer.held.state is None or answer.held.state.seq == one.seq:
                self._controller.store.put(JoinSeen(join_id=one.join_id, version=one.version))
        return failed

    def _read(self, join_id: str) -> "_Look | None":
        """Return what is to be decided about a join, on the session first and the join's record after it."""
        session_id, store = session_of(join_id), self._controller.store
        held = self._controller.load(session_id)
        state = held.state
        if state is None:
            return None
        # Named by the parent's version: whatever is decided raises it, and is not decided twice.
        body = cmd.Due(kind="join", subject=join_id, due_at=state.seq)
        given, _ = self._controller.catalog.given(state, state.plan, held.catalog)
        facts = reading.facts_for(store, state, given.plan, body)
        version = facts.version if facts else 0
        if facts is None:
            record = store.find(FindJoin(join_id=join_id))
            version = record.version if isinstance(record, JoinRecord) else 0
        return _Look(join_id, state.seq, version, Ask(session_id, body, JOINS, held, facts))

    def see_to_all(
        self, session_ids: Iterable[str], going_on: Callable[[], bool] = lambda: True
    ) -> dict[str, PassdownError]:
        """Do what is due about the branches of several sessions, together; returns what went wrong, by session.

        Stops between two steps once `going_on` says no. Raises Unavailable where the store is away.
        """
        failed: dict[str, PassdownError] = {}
        seen: dict[str, int] = {}
        going = [self._controller.load(session_id) for session_id in dict.fromkeys(session_ids)]
        while going_on() and (due := list(_due_of(going, seen))):
            self._carry_out(due, failed)
            asks = [
                Ask(state.session_id, _done(entry), JOINS, held)
                for held, state, entry in due
                if state.session_id not in failed
            ]
            going.clear()
            for ask, answer in zip(asks, self._controller.run_all(asks)[0], strict=True):
                if isinstance(answer, PassdownError):
                    failed[ask.session_id] = answer
                elif answer.held is not None:
                    going.append(answer.held)
        return failed

    def branches(self, session_id: str, entry: DueAt) -> None:
        """Do one thing that is due about the branches of a session. Raises as `look` does."""
        held = self._controller.load(session_id)
        # What is not done here must not be recorded as done, though it may be due again by then.
        if held.state is None or entry not in dues(held.state):
            return
        failed: dict[str, PassdownError] = {}
        self._carry_out([_Due(held, held.state, entry)], failed)
        _raise_any(failed)
        self._controller.run(session_id, _done(entry), JOINS, held=held)

    def _carry_out(self, due: list["_Due"], failed: dict[str, PassdownError]) -> None:
        """Do to branches what is due, many in one round trip; notes what went wrong. Raises Unavailable."""
        batch: list[tuple[str, Ask]] = []
        for step in self._steps(due, failed):
            batch.append(step)
            if len(batch) == _AT_ONCE:
                self._run_all(batch, failed)
                batch.clear()
        self._run_all(batch, failed)

    def _run_all(self, batch: list[tuple[str, Ask]], failed: dict[str, PassdownError]) -> None:
        answers, _ = self._controller.run_all([ask for _, ask in batch])
        for (session_id, ask), answer in zip(batch, answers, strict=True):
            if isinstance(answer, PassdownError):
                if is_away(answer, ask.session_id):
                    raise answer
                failed.setdefault(session_id, answer)

    def _steps(self, due: list["_Due"], failed: dict[str, PassdownError]) -> Iterator[tuple[str, Ask]]:
        """Yield what is to be done to branches, with the session whose they are.

        No more is opened for a session for which that went wrong. But one branch that cannot be called off, or sent
        back to, holds back no other: they would run on.
        """
        for held, state, entry in due:
            if entry.kind != "branches":
                continue
            try:
                for ask in self._steps_of(held, state, entry):
                    yield state.session_id, ask
                    if (
                        isinstance(ask.body, cmd.OpenBranch)
                        and not ask.body.cancel
                        and state.session_id in failed
                    ):
                        break
            except PassdownError as error:
                failed[state.session_id] = error

    def _steps_of(self, held: Held, state: State, entry: DueAt) -> Iterator[Ask]:
        join_id, what, _ = entry.subject.rsplit("/", 2)
        join = state.join(join_id)
        if join is None:
            return iter(())
        given, _ = self._controller.catalog.given(state, state.plan, held.catalog)
        contract = given.stage(join.stage).fan_out
        if contract is None:
            raise AssertionError(f"stage {join.stage} opens no branches")
        if what == "open":
            return self._open(state, join, contract)
        return self._call_off(state, join, contract) if what == "cancel" else self._send_back(join)

    def _open(self, state: State, join: Join, contract: FanOut) -> Iterator[Ask]:
        make = opener(contract, state)
        named = bool(contract.branches)
        stored = state.lists.get(contract.each) if look_up(state.data, contract.each) is None else None
        items = None if named else items_of(self._controller.store, state, contract.each, stored)
        for place in range(join.opened, join.opening):
            body = _opening(state, join, place, make(place, items(place) if items else None))
            yield Ask(branch_id(join.join_id, place), body, state.by, self._controller.unopened())

    def _call_off(self, state: State, join: Join, contract: FanOut) -> Iterator[Ask]:
        first = join.told or 0
        places = range(first, min(first + WINDOW, join.opening))
        ended = {
            row.place
            for row in reading.page(self._controller.store, join.join_id, first, len(places))
            if row.outcome in FINAL
        }
        why = state.ending_reason or "its branch is no longer needed"
        for place in places:
            if place not in ended:
                branch = Branch(str(place), stage_at(contract, place), {})
                body = _opening(state, join, place, branch, cancel=why)
                yield Ask(branch_id(join.join_id, place), body, JOINS, None)

    def _send_back(self, join: Join) -> Iterator[Ask]:
        told = join.sent_back
        if told is None:
            return
        wanted = set(told.branches)
        for row in reading.rows(self._controller.store, join):
            if row.branch in wanted:
                body = cmd.Rework(join_id=join.join_id, ticket_no=told.ticket_no, feedback=told.feedback)
                yield Ask(branch_id(join.join_id, row.place), body, told.by, None)


class _Look(NamedTuple):
    """A look at a join: the versions of its session and of its record that it was read at, and what is asked."""

    join_id: str
    seq: int
    version: int
    ask: Ask


class _Due(NamedTuple):
    """One thing that is due about the branches of a session."""

    held: Held
    state: State
    entry: DueAt


def _raise_any(failed: dict[str, PassdownError]) -> None:
    for error in failed.values():
        raise error


def _done(entry: DueAt) -> cmd.Due:
    return cmd.Due(kind=entry.kind, subject=entry.subject, due_at=entry.at)


def _due_of(sessions: Iterable[Held], seen: dict[str, int]) -> Iterator[_Due]:
    """Yield what is due of each session, unless that is as it was `seen`: session → version.

    Where the last one changed nothing, another process was faster, or it must wait for something else.
    """
    for held in sessions:
        state = held.state
        entry = _first_due(state, held.at())
        if state is not None and entry is not None and seen.get(state.session_id) != state.seq:
            seen[state.session_id] = state.seq
            yield _Due(held, state, entry)


def _first_due(state: State | None, now: int) -> DueAt | None:
    """Return what of a session's joins is due by now, or a step that only waits for its own commit."""
    if state is None:
        return None
    mine = {(kind, subject) for kind, subject, _ in due_at(state)}
    for entry in dues(state):
        if (entry.kind, entry.subject) in mine and entry.kind == "branches":
            return entry
        if entry.kind == "retry-at" and entry.at <= now and state.owed and state.owed.cause == "first":
            return entry
    return None


def _opening(state: State, join: Join, place: int, branch: Branch, *, cancel: str = "") -> cmd.OpenBranch:
    parent = Parent(
        session_id=state.session_id, join_id=join.join_id, branch=branch.name, stage=join.stage, place=place
    )
    return cmd.OpenBranch(
        parent=parent,
        plan=state.plan,
        stage=branch.stage,
        inputs=branch.inputs,
        task_id=state.task_id,
        task_name=state.task_name,
        resources=state.resources,
        trace=state.trace,
        events_to=state.events_to,
        feedback=feedback_for(state),
        cancel=cancel,
    )
