"""The world of a tree: a store that may fail, two processes with all they run, people, and a place to write to."""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar, cast

from passdown.broker.controller import Controller
from passdown.broker.core.state import State
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.joins.lists import keep_list, paged
from passdown.broker.joins.service import JoinService
from passdown.broker.stores import base
from passdown.broker.stores.base import Documents, Store
from passdown.broker.stores.queries import FindQueues, FindTickets, QueueRow, TicketRow
from passdown.broker.tick import Tick
from passdown.contracts import commands as cmd
from passdown.contracts import ids
from passdown.contracts.codec import decode, encode
from passdown.contracts.errors import PassdownError, Unavailable
from passdown.contracts.gateway import Claim
from passdown.contracts.pack import ListRef
from passdown.contracts.plans import plan_ref
from passdown.contracts.tools import tool_digest
from tests.conformance.faulty import FaultyStore
from tests.conformance.histories.surroundings import Clock, Faults, tick_log, timepiece
from tests.conformance.trees.plans import COUNT, STORED, Tree
from tests.conformance.trees.witness import Witness

T = TypeVar("T")
StoreOf = Callable[[Clock], Store]
KEY = "tree"


def pick(items: Sequence[T], number: int) -> T:
    """Return one of `items`, whatever the number."""
    return items[number % len(items)]


class Note(NamedTuple):
    """What a commit leads to, as it was told to the process that committed."""

    what: Literal["look", "see-to"]
    subject: str


class Late(NamedTuple):
    """A worker that holds a claim, and has not given its return."""

    process: int
    claim: Claim
    body: bytes


class _Notes:
    """Stands in for the thread that follows up on commits: what is to be done waits until the history does it."""

    def __init__(self, notes: list[Note]) -> None:
        self._notes = notes

    def note(self, what: Literal["look", "see-to"], subject: str) -> None:
        note = Note(what, subject)
        if note not in self._notes:
            self._notes.append(note)

    def close(self) -> None:
        pass


class Lagging(FaultyStore):
    """A store that once answers with a session as it was a while ago: a process that loaded it, and was slow since."""

    def __init__(self, inner: base.Store) -> None:
        super().__init__(inner, lambda _: None)
        self.kept: dict[str, base.Loaded] = {}

    def look(self, session_id: str) -> None:
        """Load a session now, and go on with that later."""
        with contextlib.suppress(Unavailable):
            self.kept[session_id] = self.inner.load(session_id)

    def load(self, session_id: str, command_id: str = "", command_digest: str = "") -> base.Loaded:
        if not command_id and session_id in self.kept:
            return self.kept.pop(session_id)
        return super().load(session_id, command_id, command_digest)


class Process:
    """A process of the broker: a controller, what follows up on its commits, a tick, and the gateway of its workers."""

    def __init__(self, store: Store, notes: list[Note], *, patient: bool) -> None:
        self.store = Lagging(store)
        self.controller = Controller(self.store, SilentDoorbell(), patience_s=1.0 if patient else 0.0)
        self.controller.afterwards = _Notes(notes)
        self.joins = JoinService(self.controller)
        self.tick = Tick(self.controller, batch=20, reserve_ms=1_000, monotonic=timepiece.monotonic)
        self.gateway = DirectGateway(self.controller)


class World:
    """One session of one tree, and all that can happen to it."""

    def __init__(self, store_of: StoreOf, tree: Tree, *, patient: bool = True) -> None:
        self.clock = Clock()
        timepiece.clock = self.clock
        tick_log.broken.clear()
        self.inner = store_of(self.clock)
        self.witness = Witness(self.inner)
        self.faults = Faults()
        self.store = FaultyStore(self.witness, self.faults)
        self.plan = tree.plan
        self.notes: list[Note] = []
        # Where a process is not patient a fault of the store is as good as its crash: nobody asks again.
        self.processes = [Process(self.store, self.notes, patient=one) for one in (patient, False)]
        self.late: list[Late] = []
        self.acts: list[tuple[str, cmd.Body, str]] = []
        #: Effect → how often it was written outside.
        self.outside: Counter[str] = Counter()
        #: Effects of which a person said what is not so.
        self.lied: set[str] = set()
        #: What was found wrong while something else was going on.
        self.wrong: list[str] = []
        #: Types of events in the logs, and how joins were closed: that of a tree at rest.
        self.seen: Counter[str] = Counter()
        self._claims = 0
        documents = Documents(
            plans=[(plan_ref(tree.plan), encode(tree.plan))], tools=[(tool_digest(COUNT), COUNT)]
        )
        self.documents = documents
        self.inner.put(documents)
        self.root = ids.session_id(KEY, self.inner.shards)
        lists = {STORED: self._kept(tree.stored)} if tree.stored else {}
        body = cmd.Submit(key=KEY, plan=plan_ref(tree.plan), inputs=tree.inputs, lists=lists)
        self.processes[0].controller.run(self.root, body, "user:ann")

    def _kept(self, count: int) -> ListRef:
        listed = paged(STORED, [{"key": f"s{n}", "n": n} for n in range(count)], keys=["key"])
        keep_list(self.inner, self.root, STORED, listed)
        return listed.ref

    # -- what is there

    def claim_id(self) -> str:
        self._claims += 1
        return f"claim-{self._claims:06}"

    def sessions(self) -> list[str]:
        """Return all sessions of the tree in the order in which they were opened."""
        return list(self.witness.states)

    def state(self, session_id: str) -> State:
        """Return a session as it was stored last."""
        return decode(self.witness.states[session_id], State, what="state")

    def states(self) -> list[State]:
        return [self.state(one) for one in self.sessions()]

    def open(self) -> list[State]:
        return [one for one in self.states() if not one.over]

    def roles(self) -> list[str]:
        """Return the roles for which packs are ready."""
        rows = cast("list[QueueRow]", self.inner.find(FindQueues()))
        return sorted(row.role for row in rows if row.ready)

    def tickets(self) -> list[TicketRow]:
        return cast("list[TicketRow]", self.inner.find(FindTickets(limit=1000)))

    # -- what can happen

    def act(self, session_id: str, body: cmd.Body, by: str, process: int = 0) -> PassdownError | None:
        """Let somebody act; returns what was refused, and remembers what was not, so that it can be done again."""
        try:
            self.processes[process % 2].controller.run(session_id, body, by)
        except PassdownError as error:
            return error
        self.acts.append((session_id, body, by))
        return None

    def deliver(self, note: Note, process: int) -> None:
        """Have a process follow up on a commit, of its own or of another."""
        joins = self.processes[process % 2].joins
        with contextlib.suppress(PassdownError):
            if note.what == "look":
                joins.look(note.subject)
            else:
                joins.see_to_all([note.subject])

    def tick(self, process: int) -> int:
        """Make a pass; returns how many entries were dealt with."""
        with contextlib.suppress(Unavailable):
            return self.processes[process % 2].tick.once().done
        return 0

    def check(self) -> None:
        """Fail where something was wrong at a commit, at a merge, or within a tick."""
        wrong = [*self.witness.broken, *self.wrong, *tick_log.broken]
        assert not wrong, "\n".join(wrong[:3])

    def close(self) -> None:
        self.inner.close()
