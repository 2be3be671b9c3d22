"""A decision in the making: events are added one by one, and each is folded at once."""

from passdown.broker.core import join
from passdown.broker.core.evolve import evolve
from passdown.broker.core.given import Command, Decision, Given
from passdown.broker.core.parts import Join
from passdown.broker.core.state import State
from passdown.contracts.codec import digest, encode
from passdown.contracts.events import Event, Logged
from passdown.contracts.plans import Stage
from passdown.contracts.replies import Accepted, Reply


class Draft:
    """Collects what a command leads to. ``at`` never goes back, whatever the clock does (DESIGN §11)."""

    def __init__(self, state: State | None, command: Command) -> None:
        self._before = state
        self._state = state
        #: Each join as it was last, also one that is left behind in this very commit.
        self._joins = {one.join_id: one for one in state.joins} if state else {}
        self.command = command
        self.at = max(command.at, state.at if state else 0)
        self.events: list[bytes] = []
        self.pack: bytes | None = None

    @property
    def state(self) -> State:
        """The state with all events so far; there is one from the first event on."""
        if self._state is None:
            raise AssertionError("a session is opened before anything else is decided")
        return self._state

    @property
    def opened(self) -> bool:
        """Whether there is a session."""
        return self._state is not None

    @property
    def given(self) -> Given:
        """What the decision is given beside the state."""
        return self.command.given

    @property
    def stage(self) -> Stage:
        """The plan's stage in which the session stands."""
        return self.given.stage(self.state.stage)

    def add(self, event: Event) -> None:
        """Log one event and fold it."""
        before = self._state
        logged = Logged(
            seq=before.seq + 1 if before else 1,
            at=self.at,
            by=self.command.by,
            prev=before.head if before else "",
            event=event,
        )
        raw = encode(logged)
        self._state = evolve(before, logged, digest(raw))
        self._joins = join.followed(self._joins, self._state.joins)
        self.events.append(raw)

    def decision(self, reply: Reply | None = None) -> Decision:
        """Return what was decided."""
        return Decision(
            self._state, self.events, reply or Accepted(), self.pack, self._waking(), self._mark()
        )

    @property
    def changed_join(self) -> Join | None:
        """The join that differs from what it was before; at most one does in one commit."""
        before = self._before
        differ = (one for one in self._joins.values() if not (before and before.join(one.join_id) == one))
        return next(differ, None)

    def _waking(self) -> join.Waking | None:
        changed = self.changed_join or self._resumed()
        if changed is None:
            return None
        contract = self.given.stage(changed.stage).fan_out
        if contract is None:
            raise AssertionError(f"stage {changed.stage} opens no branches")
        facts = self.command.join
        before = self._before.join(changed.join_id) if self._before else None
        # One that is left because the session is called off stays open: nothing is merged, and no row is late.
        closes = bool(changed.digest) and not (before and before.digest)
        rewrites = (facts.rewrites if facts else 0) if closes else None
        return join.Waking(changed, join.wakes(contract, changed), rewrites)

    def _resumed(self) -> Join | None:
        """Return the join that nobody looked at to open more while the session was paused: it is looked at anew."""
        before, state = self._before, self._state
        if before is None or state is None or not before.paused or state.paused:
            return None
        return next((one for one in state.joins if not one.closed), None)

    def _mark(self) -> join.Mark | None:
        state = self._state
        if state is None or state.parent is None or not self.events:
            return None
        contract = self.given.stage(state.parent.stage).fan_out
        return join.mark_of(self._before, state, contract) if contract else None
