"""The log, event by event: as lines to read, and folded to prove the stored state (rule 6)."""

from typing import Any, cast

import msgspec

from passdown.broker.answers import no_session
from passdown.broker.cli.views.sentences import sentence
from passdown.broker.cli.words import brief
from passdown.broker.core.evolve import evolve
from passdown.broker.core.state import State
from passdown.broker.logbook import Readable, events, read_logged
from passdown.contracts.codec import Wire, digest, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.events import Logged

#: How many differing places are named.
_DIFFERENCES = 5


class Transition(Wire, frozen=True, kw_only=True):
    """One event; ``before`` and ``after`` are the session's status, where it was folded."""

    seq: int
    at: int
    by: str
    event: str
    text: str
    before: str = ""
    after: str = ""


class Proof(Wire, frozen=True, kw_only=True):
    """What folding a log came to. ``problems`` is empty where it gives the stored state; ``at`` is where it broke.

    ``parent`` is the session whose branch this is, empty for others.
    """

    session_id: str
    events: int
    bytes: int
    digest: str
    problems: list[str]
    at: int | None = None
    parent: str = ""

    @property
    def holds(self) -> bool:
        """Whether the log proves the state."""
        return not self.problems


def transition(logged: Logged) -> Transition:
    """Return an event as a line to read."""
    name = type(logged.event).__name__
    return Transition(seq=logged.seq, at=logged.at, by=logged.by, event=name, text=sentence(logged.event))


class Replay:
    """Folds one session's log and holds the outcome against the stored state."""

    def __init__(self, store: Readable, session_id: str) -> None:
        """Read the state first: events that come later are not part of the proof. Raises NotFound."""
        loaded = store.load(session_id)
        if loaded.state is None:
            raise no_session(session_id, loaded.removed)
        self._store = store
        self._session_id = session_id
        self._stored = loaded.state
        self._version = loaded.version
        self._state: State | None = None
        self._count = 0
        self._broken = ""

    def __iter__(self) -> "Replay":
        self._rest = events(self._store, self._session_id, until=self._version)
        return self

    def __next__(self) -> Transition:
        """Fold the next event. Ends where the log does, or where it breaks."""
        if self._broken:
            raise StopIteration
        raw = next(self._rest)
        try:
            return self._fold(raw)
        except Exception as error:
            self._broken = str(error) or type(error).__name__
            raise StopIteration from error

    def _fold(self, raw: bytes) -> Transition:
        logged = read_logged(raw)
        if encode(logged) != raw:
            raise ContractError("log", f"event {logged.seq} is not in its canonical form")
        before = self._state
        self._state = evolve(before, logged, digest(raw))
        self._count += 1
        return msgspec.structs.replace(
            transition(logged),
            before=before.shown_status if before else "",
            after=self._state.shown_status,
        )

    def proof(self) -> Proof:
        """Return what the fold came to, after the last event."""
        folded = encode(self._state) if self._state else b""
        parent = self._state.parent if self._state else None
        return Proof(
            session_id=self._session_id,
            events=self._count,
            bytes=len(self._stored),
            digest=digest(self._stored),
            problems=self._problems(folded),
            at=self._count + 1 if self._broken else None,
            parent=parent.session_id if parent else "",
        )

    def _problems(self, folded: bytes) -> list[str]:
        if self._broken:
            return [f"at event {self._count + 1}: {self._broken}"]
        if self._count != self._version:
            return [f"the log has {self._count} events, the state is of event {self._version}"]
        return [] if folded == self._stored else differences(self._stored, folded)


def prove(store: Readable, session_id: str) -> Proof:
    """Fold a session's log and compare. Raises NotFound."""
    replay = Replay(store, session_id)
    for _ in replay:
        pass
    return replay.proof()


def differences(stored: bytes, folded: bytes) -> list[str]:
    """Return where two states differ, as JSON pointers with both values; at least one line."""
    try:
        had: Any = msgspec.json.decode(stored)
    except msgspec.DecodeError as error:
        return [f"the stored state is not JSON: {error}"]
    found = list(_differ(had, msgspec.json.decode(folded), ""))
    return found[:_DIFFERENCES] or ["the same content is stored in other bytes"]


def _differ(had: Any, got: Any, pointer: str) -> list[str]:
    if encode(had) == encode(got):
        return []
    if isinstance(had, dict) and isinstance(got, dict):
        left, right = cast("dict[str, Any]", had), cast("dict[str, Any]", got)
        names = sorted(left.keys() | right.keys())
        return [
            one for name in names for one in _differ(left.get(name), right.get(name), f"{pointer}/{name}")
        ]
    if isinstance(had, list) and isinstance(got, list):
        pairs = list(zip(cast("list[Any]", had), cast("list[Any]", got), strict=False))
        inner = [one for n, (old, new) in enumerate(pairs) for one in _differ(old, new, f"{pointer}/{n}")]
        lengths = (len(cast("list[Any]", had)), len(cast("list[Any]", got)))
        return inner or [f"{pointer}: stored {lengths[0]} items, the log gives {lengths[1]}"]
    return [f"{pointer or '/'}: stored {brief(had, 80)}, the log gives {brief(got, 80)}"]
