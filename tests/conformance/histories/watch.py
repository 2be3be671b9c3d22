"""Follows the log of each session past all faults, and holds each event to the rules as it appears."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from passdown.broker.core.evolve import evolve, fold
from passdown.broker.core.state import TRANSITIONS, State
from passdown.broker.stores.base import Documents, Store
from passdown.broker.stores.queries import FindPack, FindSessions, SessionRow
from passdown.contracts import events as ev
from passdown.contracts.codec import decode_any, digest, encode
from passdown.contracts.pack import Pack, read_pack
from passdown.contracts.plans import Plan, Stage
from passdown.contracts.tools import ToolSpec


@dataclass
class Step:
    """What the log says of one event: the state before it and after it."""

    logged: ev.Logged
    before: State | None
    after: State

    @property
    def event(self) -> ev.Event:
        return self.logged.event


@dataclass
class Followed:
    """One session as its log tells it."""

    session_id: str
    watch: "Watch"
    raw: list[bytes] = field(default_factory=list[bytes])
    steps: list[Step] = field(default_factory=list[Step])
    packs: dict[tuple[int, int], Pack] = field(default_factory=dict[tuple[int, int], Pack])
    #: Accepted returns by (step, attempt).
    returned: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    snapshots: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])

    @property
    def state(self) -> State:
        return self.steps[-1].after

    @property
    def plan(self) -> Plan:
        return self.watch.plans[self.state.plan.digest]

    @property
    def stage(self) -> Stage:
        return self.plan.stages[self.state.stage]

    def pack(self, step: int, attempt: int) -> Pack:
        """Return the pack that an attempt was given."""
        return self.packs[step, attempt]

    def intents(self, effect_id: str) -> list[ev.EffectIntended]:
        return [
            one.event
            for one in self.steps
            if isinstance(one.event, ev.EffectIntended) and one.event.effect_id == effect_id
        ]

    def resolved(self, ticket_no: int) -> tuple[ev.TicketResolved, str] | None:
        """Return how a ticket was resolved, and by whom."""
        for one in self.steps:
            if isinstance(one.event, ev.TicketResolved) and one.event.ticket_no == ticket_no:
                return one.event, one.logged.by
        return None


class Watch:
    """All sessions of a history, read from the store itself and not through its faults."""

    def __init__(self, store: Store, check: Callable[[Followed, Step], None]) -> None:
        self._store = store
        self._check = check
        self.sessions: dict[str, Followed] = {}
        self.plans: dict[str, Plan] = {}
        self.tools: dict[str, ToolSpec] = {}
        #: Event types seen.
        self.seen: Counter[str] = Counter()

    def registered(self, documents: Documents) -> None:
        """Remember what a digest stands for."""
        for ref, raw in documents.plans:
            self.plans[ref.digest] = decode_any(raw, Plan)
        self.tools.update(dict(documents.tools))

    def catch_up(self, session_id: str) -> Followed | None:
        """Read what is new in a session's log and hold it to the rules."""
        loaded = self._store.load(session_id)
        if loaded.state is None:
            return None
        followed = self.sessions.setdefault(session_id, Followed(session_id, self))
        known = len(followed.raw)
        if loaded.version != known:
            raw = self._store.events(session_id, after=known)
            assert len(raw) == loaded.version - known, "rule 6: the version is the number of events"
            for one in raw:
                self._append(followed, one)
            assert encode(followed.state) == loaded.state, (
                "rule 6: the fold of the log is not the stored state"
            )
        return followed

    def catch_up_all(self) -> list[Followed]:
        """Catch up with every session that moved on; return those."""
        rows: list[SessionRow] = self._store.find(FindSessions(limit=1000))  # pyright: ignore[reportAssignmentType]
        moved = [row for row in rows if len(self.raw(row.session_id)) != row.version]
        return [followed for row in moved if (followed := self.catch_up(row.session_id))]

    def raw(self, session_id: str) -> list[bytes]:
        """Return the log of a session as far as it was followed."""
        followed = self.sessions.get(session_id)
        return followed.raw if followed else []

    def _append(self, followed: Followed, raw: bytes) -> Step:
        logged: ev.Logged = decode_any(raw, ev.Logged)
        assert encode(logged) == raw, "rule 6: a logged event is not canonical"
        before = followed.steps[-1].after if followed.steps else None
        after = evolve(before, logged, digest(raw))
        rule_6_each_event_follows_on(logged, before, after)
        followed.raw.append(raw)
        step = Step(logged, before, after)
        followed.steps.append(step)
        self.seen[type(logged.event).__name__] += 1
        self._note(followed, step)
        self._check(followed, step)
        return step

    def _note(self, followed: Followed, step: Step) -> None:
        event = step.event
        if isinstance(event, ev.PackIssued):
            raw = self._store.find(
                FindPack(session_id=followed.session_id, step=event.step, attempt=event.attempt)
            )
            assert isinstance(raw, bytes), "rule 1: a pack was issued and is not in the store"
            followed.packs[event.step, event.attempt] = read_pack(raw)
        elif isinstance(event, ev.Checkpointed):
            followed.snapshots.setdefault(step.after.step, []).append(event.data)

    def refold(self) -> None:
        """Fold every log from its first byte on; what was followed must be what comes out (rule 6)."""
        for session_id, followed in self.sessions.items():
            raw = self._store.events(session_id)
            folded = fold(decode_any(one, ev.Logged) for one in raw)
            loaded = self._store.load(session_id)
            assert folded is not None
            assert encode(folded) == loaded.state == encode(followed.state), (
                "rule 6: fold differs from the state"
            )


def rule_6_each_event_follows_on(logged: ev.Logged, before: State | None, after: State) -> None:
    """The chain holds, time does not go back, and the status goes where the table says."""
    name = type(logged.event).__name__
    leads_to = TRANSITIONS[name].get(before.status, ()) if before else ("queued",)
    assert logged.seq == (before.seq if before else 0) + 1
    assert logged.prev == (before.head if before else "")
    assert logged.at >= (before.at if before else 0), "rule 6: time went back within a session"
    assert after.status in leads_to, f"rule 6: {name} led from {before and before.status} to {after.status}"
