"""A session that fans out, with the record of its joins as a store would keep it, and its branches.

`Parent` is a `Session` whose commands are given what the record says, and whose commits change it. Rows come
from `ends`, which stands for a branch that ended, or from a real branch (`branch`), a session of its own. After
each command of the parent `Parent.check` sees to it that its joins wait for nothing that cannot happen.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from passdown.broker.core.branching import due_at
from passdown.broker.core.given import as_object
from passdown.broker.core.items import feedback_for, names_of, opener
from passdown.broker.core.join import (
    FINAL,
    WAITING,
    About,
    Facts,
    Late,
    Mark,
    Row,
    Waking,
    about_of,
    summarize,
    total,
)
from passdown.broker.core.parts import Join, Outcome
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import decode, encode
from passdown.contracts.ids import branch_id
from passdown.contracts.pack import Parent as Of
from passdown.contracts.plans import FanOut, Next, Plan, Stage
from passdown.contracts.replies import Reply
from passdown.contracts.tools import ToolSpec
from tests.unit.core.plans import NO_WAIT, stage
from tests.unit.core.spec import TICK, Session

JOINS = "service:joins"
#: The output of a branch that gives an empty one.
NOTHING: dict[str, Any] = {}


def fan(fan_out: FanOut | None = None, *, before: bool = False, **fields: Any) -> Plan:
    """Return a plan whose stage ``spread`` opens three branches that work, and goes on with ``tell``."""
    contract = fan_out or named()
    said: dict[str, Any] = {"next": Next(to="tell"), "backoff": NO_WAIT, **fields}
    spread = Stage(fan_out=contract, **said)
    stages = {
        "spread": spread,
        "work": stage(),
        "tell": stage(),
        "other": stage(),
        "first": stage(next=Next(to="spread")),
    }
    return Plan(name="fan", start="first" if before else "spread", stages=stages)


def named(*names: str, **contract: Any) -> FanOut:
    """Return a fan-out into branches of these names, ``a``, ``b`` and ``c`` by default."""
    return FanOut(branches=dict.fromkeys(names or ("a", "b", "c"), "work"), **contract)


def listed(**contract: Any) -> FanOut:
    """Return a fan-out over the list ``items``."""
    return FanOut(each="items", stage="work", **contract)


@dataclass
class Record:
    """The record of a join."""

    rows: dict[int, Row] = field(default_factory=dict[int, Row])
    version: int = 0
    rewrites: int = 0
    wakes: list[tuple[list[str], int]] = field(default_factory=list[tuple[list[str], int]])
    closed_at: int | None = None
    closes: int = 0
    #: It is due to be looked at: set by what makes a wake hold, cleared by whoever looked and found nothing to do.
    woken: bool = False
    effects: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(row.outcome for row in self.rows.values()))

    def _wake_holds(self) -> bool:
        return any(total(self.counts, outcomes) >= at for outcomes, at in self.wakes)

    def put(self, waking: Waking) -> None:
        self.wakes = waking.wakes
        self.woken = self._wake_holds()
        if waking.rewrites is None:
            return
        assert self.closed_at is None, "a join is closed twice"
        assert waking.rewrites == self.rewrites, "a join is closed on rows that were written anew since"
        self.closed_at = waking.join.upto
        self.closes += 1

    def write(self, mark: Mark) -> None:
        about = decode(mark.about, About)
        had = self.rows.get(mark.place)
        if had and (had.outcome, had.about) == (mark.outcome, about):
            return
        if had and self.closed_at is not None and had.order <= self.closed_at:
            return
        self.version += 1
        self.rewrites += had is not None and had.outcome in FINAL
        self.rows[mark.place] = Row(mark.place, mark.branch, mark.outcome, self.version, about)
        self.woken = self.woken or self._wake_holds()


class Parent(Session):
    """A session that fans out."""

    def __init__(self, plan: Plan, *tools: ToolSpec, key: str = "k", of: "Parent | None" = None) -> None:
        super().__init__(plan, *tools, key=key)
        self.records: dict[str, Record] = {}
        self.of = of
        self.children: dict[str, Parent] = {}

    # What the controller does

    def facts(self, body: cmd.Body) -> Facts | None:
        join_id = self._subject(body)
        join = self._state.join(join_id) if self._state else None
        record = self.records.get(join_id)
        if join is None or record is None:
            return None
        asked = body.value if isinstance(body, cmd.Resolve) else None
        names = [asked] if isinstance(asked, str) else as_object(asked).get("branches", [])
        contract = self.contract(join)
        rows = [row for _, row in sorted(record.rows.items())]
        return Facts(
            join_id=join_id,
            version=record.version,
            rewrites=record.rewrites,
            counts=record.counts,
            summary=summarize(contract, rows, record.version, asked_about=frozenset(names)),
            late=self._late(join, contract, record),
        )

    def _subject(self, body: cmd.Body) -> str:
        if isinstance(body, cmd.Due) and body.kind != "ticket-escalate":
            return body.subject.split("/")[0]
        number = body.ticket_no if isinstance(body, cmd.Resolve) else 0
        if isinstance(body, cmd.Due):
            number = int(body.subject)
        ticket = self._state.ticket(number) if self._state else None
        return ticket.about if ticket else ""

    def _late(self, join: Join, contract: FanOut, record: Record) -> Late:
        counted = {
            row.branch
            for row in record.rows.values()
            if join.digest and row.order <= join.upto and row.outcome in contract.counts
        }
        if join.branch:
            counted = {join.branch}
        did = {row.branch: row.about.effects for row in record.rows.values()}
        found = [(name, *one) for name, rows in record.effects.items() if name not in counted for one in rows]
        every = sum(effects for name, effects in did.items() if name not in counted)
        return Late(found, max(0, every - len(found)), sum(did[name] for name in counted))

    def contract(self, join: Join) -> FanOut:
        found = self.plan.stages[join.stage].fan_out
        assert found
        return found

    def do(self, body: cmd.Body, by: str = "agent:worker") -> Reply:
        try:
            return super().do(body, by)
        finally:
            self._committed()

    def _committed(self) -> None:
        decision, self.decision = self.decision, None
        if decision is None:
            return
        if decision.waking is not None:
            record = self.records.setdefault(decision.waking.join.join_id, Record())
            record.put(decision.waking)
        if decision.mark is not None and self.of is not None:
            self.of.records[decision.mark.join_id].write(decision.mark)
        self.check()

    def check(self) -> None:
        """Each join has something due, or is woken, or some branch or person can still act."""
        state = self.state
        for join in state.joins:
            record = self.records[join.join_id]
            assert record.closes <= 1
            assert (record.closed_at is not None) == bool(join.digest)
            if join.drained or record.woken or state.paused:
                continue
            due = any(subject.startswith(join.join_id) for _, subject, _ in due_at(state))
            at_work = join.opening - total(record.counts, FINAL)
            asked = any(ticket.about == join.join_id for ticket in state.tickets)
            assert due or at_work > 0 or asked, f"join {join} waits for nothing that can happen"
            if not (due or asked) and not join.closed and join.opening < join.branches:
                at_rest = total(record.counts, (*FINAL, WAITING))
                waiting = record.counts.get(WAITING, 0)
                assert join.opening > at_rest or waiting, "branches are never opened"

    # The join

    @property
    def join(self) -> Join:
        """The newest join."""
        return self.state.joins[-1]

    @property
    def rows(self) -> Record:
        """The record of the newest join."""
        return self.records[max(self.records, key=lambda name: int(name.rpartition("-")[2]))]

    def opens(self) -> "Parent":
        """Do what is due about branches, until nothing is, without any real branch."""
        while any(kind == "branches" for kind, _, _ in due_at(self.state)):
            self.due("branches")
        return self

    def ends(
        self, place: int, outcome: str = "done", output: dict[str, Any] | None = NOTHING, *, effects: int = 0
    ) -> "Parent":
        """Write the row of a branch that ended so; `output` is None where it gave none."""
        join_id = max(self.records, key=lambda name: int(name.rpartition("-")[2]))
        contract = self.contract(next(one for one in self.state.joins if one.join_id == join_id))
        name = names_of(contract)[place] if contract.branches else str(place)
        about = About()
        if outcome in FINAL:
            done = outcome == "done"
            ended = Outcome(result=outcome, output=output if done else None, reason="" if done else outcome)
            about = about_of(ended, effects, contract)
        self.rows.write(Mark(join_id, place, name, outcome, encode(about)))
        return self

    def all_end(self, outcomes: Iterable[str]) -> "Parent":
        for place, outcome in enumerate(outcomes):
            self.ends(place, outcome)
        return self

    def look(self) -> "Parent":
        """Look at the join as whoever is woken does; nothing where it is not woken."""
        self.last = []
        join = self.state.joins[-1] if self.state.joins else None
        if join is not None and self.records[join.join_id].woken:
            self.look_anyway(join.join_id)
        return self

    def look_anyway(self, join_id: str | None = None) -> "Parent":
        name = join_id or self.join.join_id
        self.do(cmd.Due(kind="join", subject=name, due_at=self.state.seq), TICK)
        if not self.last:
            self.records[name].woken = False
        return self

    # Branches

    def opening(self, place: int, *, cancel: str = "", item: Any = None) -> cmd.OpenBranch:
        join = self.join
        branch = opener(self.contract(join), self.state)(place, item)
        return cmd.OpenBranch(
            parent=Of(
                session_id=self.id, join_id=join.join_id, branch=branch.name, stage=join.stage, place=place
            ),
            plan=self.state.plan,
            stage=branch.stage,
            inputs=branch.inputs,
            task_id=self.state.task_id,
            task_name=self.state.task_name,
            events_to=self.state.events_to,
            feedback=feedback_for(self.state),
            cancel=cancel,
        )

    def branch(self, place: int, *, cancel: str = "", item: Any = None) -> "Parent":
        """Return a branch as a session: opened, or called off; the same one each time."""
        body = self.opening(place, cancel=cancel, item=item)
        child_id = branch_id(self.join.join_id, place)
        child = self.children.get(child_id)
        if child is None:
            child = self.children[child_id] = Parent(
                self.plan, *(one for _, one in self.registered.values()), of=self
            )
            child.id = child_id
        child.at = max(child.at, self.at)
        child.do(body, JOINS)
        return child

    def rework(self, join_id: str, ticket_no: int = 1, feedback: str = "better") -> "Parent":
        self.do(cmd.Rework(join_id=join_id, ticket_no=ticket_no, feedback=feedback), JOINS)
        return self


def spread(fan_out: FanOut | None = None, inputs: dict[str, Any] | None = None, **fields: Any) -> Parent:
    """Return a session that has fanned out, all of its branches opened."""
    parent = Parent(fan(fan_out, **fields))
    parent.submit(inputs)
    return parent.opens()


def asked(kind: str, *, contract: FanOut | None = None, **fields: Any) -> Parent:
    """Return a session whose ticket asks a person about its join: in conflict, or short."""
    if kind == "conflict":
        parent = spread(contract or named(conflict=["x"]), **fields)
        parent.ends(0, output={"x": 1}).ends(1, output={"x": 2}).ends(2, output={"x": 2})
    else:
        parent = spread(contract, **fields).all_end(["done", "failed", "done"])
    parent.look()
    assert isinstance(parent.last[-1], ev.TicketOpened)
    return parent
