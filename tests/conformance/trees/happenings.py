"""What may happen to a tree, drawn and shrunk by hypothesis: each is a value, and the list of them is the history."""

import contextlib
from typing import Any, Literal, NamedTuple, Protocol, cast

from hypothesis import strategies as st

from passdown.broker.core.given import DueAt
from passdown.broker.tick import TICK
from passdown.contracts import commands as cmd
from passdown.contracts.errors import PassdownError
from tests.conformance.faulty import Fault
from tests.conformance.trees import people, work
from tests.conformance.trees.plans import LEASE_S
from tests.conformance.trees.work import Script
from tests.conformance.trees.world import World, pick


class Happening(Protocol):
    """Something that happens."""

    def happen(self, world: World) -> None: ...


class Work(NamedTuple):
    """A worker takes the pack of some role that waits; where none does, the broker goes on."""

    role: int
    process: int
    script: Script

    def happen(self, world: World) -> None:
        roles = world.roles()
        if roles:
            work.attempt(world, self.process, pick(roles, self.role), self.script)
        elif world.notes:
            world.deliver(world.notes.pop(0), self.process)
        else:
            world.clock.elapse(300)
            world.tick(self.process)


class Works(NamedTuple):
    """A worker does one pack after another, well."""

    role: int
    process: int
    packs: int

    def happen(self, world: World) -> None:
        for _ in range(self.packs):
            Work(self.role, self.process, work.HONEST).happen(world)


class LateReturn(NamedTuple):
    """A worker that was slow gives its return, perhaps long after its lease was lost."""

    which: int

    def happen(self, world: World) -> None:
        if world.late:
            work.give(world, world.late.pop(self.which % len(world.late)))


class FollowUp(NamedTuple):
    """A process does what commits led to, ``most`` of it, or loses it, or does it and it comes again."""

    which: int
    process: int
    most: int
    fate: Literal["done", "lost", "doubled"]

    def happen(self, world: World) -> None:
        for _ in range(self.most):
            if not world.notes:
                return
            note = pick(world.notes, self.which)
            if self.fate != "doubled":
                world.notes.remove(note)
            if self.fate != "lost":
                world.deliver(note, self.process)


class Ticks(NamedTuple):
    """A tick sweeps."""

    process: int

    def happen(self, world: World) -> None:
        world.tick(self.process)


class Wait(NamedTuple):
    """Time goes by."""

    seconds: float

    def happen(self, world: World) -> None:
        world.clock.elapse(int(self.seconds * 1000))


class LeaseLost(NamedTuple):
    """Time goes by until what nobody renews is lost, and ticks see to it."""

    process: int

    def happen(self, world: World) -> None:
        for ms in (int(LEASE_S * 1000) + 1_000, 2_000):
            world.clock.elapse(ms)
            world.tick(self.process)


class SlowLook(NamedTuple):
    """A process loads a session, and will go on with what it saw when that is old."""

    which: int
    process: int

    def happen(self, world: World) -> None:
        world.processes[self.process % 2].store.look(pick(world.sessions(), self.which))


class OldDue(NamedTuple):
    """A tick acts, late or again, on an entry that it was handed out before."""

    which: int
    process: int

    def happen(self, world: World) -> None:
        if not world.witness.handed_out:
            return
        entry = pick(world.witness.handed_out, self.which)
        process = world.processes[self.process % 2]
        with contextlib.suppress(PassdownError):
            if entry.kind == "join":
                process.joins.look(entry.subject)
            elif entry.kind == "branches":
                due = DueAt(kind=entry.kind, subject=entry.subject, at=entry.at)
                process.joins.branches(entry.session_id, due)
            else:
                body = cmd.Due(kind=entry.kind, subject=entry.subject, due_at=entry.at)
                process.controller.run(entry.session_id, body, TICK)


class Again(NamedTuple):
    """Somebody does once more what they did before."""

    which: int

    def happen(self, world: World) -> None:
        if world.acts:
            session_id, body, by = pick(world.acts, self.which)
            world.act(session_id, body, by, self.which)


class Resolve(NamedTuple):
    """A person decides a ticket, in one of the ways that it allows."""

    which: int
    choice: int
    value: int

    def happen(self, world: World) -> None:
        rows = world.tickets()
        if not rows:
            return
        row = pick(rows, self.which)
        state = world.state(row.session_id)
        ticket = state.ticket(row.ticket_no)
        if ticket is None:
            world.wrong.append(f"rule 1: {row} is listed, and its session has no such ticket")
            return
        people.resolve(world, state, ticket, pick(ticket.actions, self.choice), self.value)


class Answers(NamedTuple):
    """Whoever is asked answers."""

    which: int

    def happen(self, world: World) -> None:
        asking = [one for one in world.open() if one.unanswered()]
        if asking:
            people.answer(world, pick(asking, self.which))


class Operate(NamedTuple):
    """An operator uses a verb on the parent, or on some session of the tree."""

    which: int
    verb: Literal["pause", "resume", "cancel", "retry"]

    def happen(self, world: World) -> None:
        state = world.state(pick(world.sessions(), self.which))
        bodies: dict[str, cmd.Body] = {
            "pause": cmd.Pause(seen=state.seq, for_ms=None if self.which % 2 else 20_000),
            "resume": cmd.Resume(seen=state.seq),
            "cancel": cmd.Cancel(seen=state.seq, reason="no longer wanted"),
            "retry": cmd.Retry(seen=state.seq),
        }
        world.act(state.session_id, bodies[self.verb], people.ANN, self.which)


class Trouble(NamedTuple):
    """The next calls of the store fail: before they wrote, or after, or by a conflict that is none."""

    faults: list[Fault | None]

    def happen(self, world: World) -> None:
        world.faults.pending.extend(self.faults)


_which, _process = st.integers(0, 11), st.integers(0, 1)
_ends = st.sampled_from(
    [
        *("done",) * 5,
        *("fail", "fail", "fail", "refused", "refused", "escalate", "escalate"),
        *("needs-input", "junk", "release", "vanish", "later", "later"),
    ]
)
_scripts = st.builds(
    Script,
    end=cast("Any", _ends),
    v=st.sampled_from([1, 1, 1, 2]),
    writing=cast("Any", st.sampled_from(["ok", "ok", "ok", "silent", "never"])),
    twice=st.booleans(),
)
_work = st.builds(Work, _which, _process, _scripts)
_works = st.builds(Works, _which, _process, st.integers(1, 6))
_follow_ups = st.builds(
    FollowUp,
    _which,
    _process,
    st.integers(1, 4),
    cast("Any", st.sampled_from(["done", "done", "done", "lost", "doubled"])),
)
_ticks = st.builds(Ticks, _process)
_waits = st.builds(Wait, st.sampled_from([0.3, 1, 6, 41, 95]))
_rare: list[st.SearchStrategy[Happening]] = [
    _waits,
    st.builds(LateReturn, _which),
    st.builds(LeaseLost, _process),
    st.builds(SlowLook, _which, _process),
    st.builds(OldDue, st.integers(0, 99), _process),
    st.builds(Again, st.integers(0, 30)),
    st.builds(Resolve, _which, _which, _which),
    st.builds(Resolve, _which, _which, _which),
    st.builds(Answers, _which),
    st.builds(
        Operate,
        st.sampled_from([0, 0, *range(12)]),
        cast("Any", st.sampled_from(["pause", "resume", "cancel", "retry"])),
    ),
    st.builds(Trouble, st.lists(st.sampled_from([None, "before", "after", "stale"]), min_size=1, max_size=5)),
]
_happenings: st.SearchStrategy[Any] = st.one_of(
    *[_work] * 6, _works, _follow_ups, _ticks, *[st.one_of(*_rare)] * 4
)


def histories(most: int) -> st.SearchStrategy[list[Happening]]:
    """Return histories of up to so many happenings."""
    return st.lists(_happenings, min_size=most // 3, max_size=most)
