"""A decision in the making: events are added one by one, and each is folded at once."""

from passdown.broker.core.evolve import evolve
from passdown.broker.core.given import Command, Decision, Given
from passdown.broker.core.state import State
from passdown.contracts.codec import digest, encode
from passdown.contracts.events import Event, Logged
from passdown.contracts.plans import Stage
from passdown.contracts.replies import Accepted, Reply


class Draft:
    """Collects what a command leads to. ``at`` never goes back, whatever the clock does (DESIGN §11)."""

    def __init__(self, state: State | None, command: Command) -> None:
        self._state = state
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
        self.events.append(raw)

    def decision(self, reply: Reply | None = None) -> Decision:
        """Return what was decided."""
        return Decision(self._state, self.events, reply or Accepted(), self.pack)
