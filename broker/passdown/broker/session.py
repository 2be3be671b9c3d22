"""A handle on one session: look at it, wait for it, answer and decide."""

import math
import time
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar, cast

from passdown.broker.access.acting import Acting, log_refused
from passdown.broker.access.policy import Verb
from passdown.broker.acts import Held
from passdown.broker.answers import no_session
from passdown.broker.app import App
from passdown.broker.controller import Controller
from passdown.broker.core.parts import Outcome
from passdown.broker.core.state import State
from passdown.broker.inbox import Inbox
from passdown.broker.joins.comparing import Comparison, compare
from passdown.broker.joins.showing import (
    BranchView,
    JoinView,
    branches,
    fan_of,
    fans_of,
    find_branch,
    join_view,
)
from passdown.broker.stores.queries import Beside, FindBeside, FindPack
from passdown.contracts import commands as cmd
from passdown.contracts.codec import convert, decode_any, plain
from passdown.contracts.errors import Conflict, ContractError, Denied, NotFound, Unavailable
from passdown.contracts.events import InputRequested, Logged, StageEntered
from passdown.contracts.pack import Pack, Parent, read_pack
from passdown.contracts.ticket_events import Resolution

#: How often whoever waits looks at the session: at first, and at most (seconds). What ends in this process is
#: heard of at once.
_LOOK_FIRST, _LOOK_MOST = 0.0004, 0.25
_PAGE = 500
#: The most branches that are looked at in one call.
_MOST_BRANCHES = 1000


class Connection(Protocol):
    """What a session needs: a store with its controller, and the principal that acts."""

    app: App

    @property
    def acting(self) -> Acting:
        """Who acts."""
        ...

    @property
    def inbox(self) -> Inbox:
        """The tickets that they may see and take."""
        ...


class Session:
    """A handle on one session; it holds no state of its own. Thread-safe. What is no id raises ContractError."""

    def __init__(self, broker: Connection, session_id: str) -> None:
        self._broker = broker
        self.id = convert(session_id, str, what="session")

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    def state(self) -> State:
        """Return the session as it stands; raises NotFound."""
        return self._known(self._broker.app.controller.load(self.id))

    def _known(self, held: Held) -> State:
        if held.state is None:
            raise no_session(self.id, held.removed)
        require_session(self._broker.app.controller, self._broker.acting, "session.read", held.state)
        return held.state

    def _require_read(self) -> None:
        """Raise Denied where this session is not theirs to read; NotFound."""
        if not self._broker.acting.sees_all:
            self.state()

    def status(self) -> str:
        """Return the status in one word (DESIGN §5); raises NotFound."""
        return self.state().shown_status

    def result(self, timeout_s: float = 60.0) -> Outcome:
        """Wait until the session ends, at most `timeout_s` seconds; returns its outcome, whatever that is.

        A session that failed and is retried has another outcome later. Raises NotFound; Unavailable where
        the time runs out first, or where the store stays away that long.
        """
        if type(timeout_s) not in (int, float) or not timeout_s >= 0:
            raise ContractError("timeout", f"expected seconds, at least 0, got {timeout_s!r}")
        deadline = time.monotonic() + timeout_s
        wait = _LOOK_FIRST
        with self._broker.app.controller.watching(self.id) as ended:
            while True:
                standing = ended.state or self._look(deadline)
                if standing is not None and standing.over and standing.outcome is not None:
                    return standing.outcome
                left = deadline - time.monotonic()
                if left <= 0:
                    shown = standing.shown_status if standing else "not known"
                    raise Unavailable(f"the result of {self.id}", f"after {timeout_s:g} s it is {shown}")
                ended.wait(min(wait, left))
                wait = min(wait * 1.25, _LOOK_MOST)

    def _look(self, deadline: float) -> State | None:
        """Return the state; None where the store is away and there is time to look again."""
        try:
            return self._known(self._broker.app.controller.load(self.id, patient=False))
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
            return None

    def events(self) -> Iterator[Logged]:
        """Yield the session's log in order."""
        for raw in self.raw_events():
            yield decode_any(raw, Logged, what="log")

    def raw_events(self) -> Iterator[bytes]:
        """Yield the log's canonical bytes in order, one event each."""
        self._require_read()
        after = 0
        while page := self._broker.app.store.events(self.id, after=after, limit=_PAGE):
            yield from page
            after += len(page)

    def beside(self) -> Beside:
        """Return what stands beside the state: the running lease, the last hand-back, counts."""
        self._require_read()
        return cast("Beside", self._broker.app.store.find(FindBeside(session_id=self.id)))

    def pack(self, step: int, attempt: int) -> Pack:
        """Return what an attempt was given; raises NotFound."""
        self._require_read()
        raw = self._broker.app.store.find(FindPack(session_id=self.id, step=step, attempt=attempt))
        if not isinstance(raw, bytes):
            raise NotFound("pack", f"{self.id}/{step}/{attempt}")
        return read_pack(raw)

    def answer(self, question: str, value: Any, *, attempt: int | None = None) -> None:
        """Answer an open question by its id.

        A question is (step, attempt, id): where several attempts asked under one id, the open one is meant,
        or the last; `attempt` names another. Raises NotFound, Conflict (answered already, by whom),
        ContractError (does not fit its schema).
        """
        given = plain(value, what="answer")
        step, meant = self._asked(question, attempt)
        self._run(cmd.Answer(step=step, attempt=meant, id=question, value=given))

    def _asked(self, question: str, attempt: int | None) -> tuple[int, int]:
        """Return (step, attempt) of a question: the open one of that id, else the last that the log knows."""
        state = self.state()
        asked = [one for one in state.questions if one.id == question and attempt in (None, one.attempt)]
        meant = [one for one in asked if not one.answered] or asked[-1:]
        if meant:
            return state.step, meant[0].attempt
        # The session has moved on: an answer that was given before is met by its record, not lost.
        step, found = 0, (state.step, attempt or 1)
        for logged in self.events():
            event = logged.event
            if isinstance(event, StageEntered):
                step = event.step
            elif isinstance(event, InputRequested) and any(one.id == question for one in event.questions):
                found = (step, event.attempt) if attempt in (None, event.attempt) else found
        return found

    def resolve(
        self,
        ticket_no: int,
        resolution: Resolution,
        value: Any = None,
        *,
        note: str = "",
        version: int | None = None,
    ) -> None:
        """Decide a ticket as it was seen: at `version`, by default the one that it has now (`Inbox.resolve`).

        What lets an action run (``approve``, ``edit``) needs the version: it is said of what was seen.

        `value`: answers by question for ``answer``, arguments for ``edit``, the output for ``complete``,
        feedback for ``send-back``, a stage for ``redirect``, the effect's result for ``done``. Of a
        join's ticket: a branch for ``choose``, ``{"branches": […], "feedback": …}`` for ``send-back``. Raises
        NotFound, Conflict (no longer open, or at another version), Denied (not allowed), ContractError
        (value).
        """
        self._broker.inbox.resolve(self.id, ticket_no, resolution, value, note=note, version=version)

    def joins(self) -> list[JoinView]:
        """Return how each fan-out of this session stands, in the order of its steps; raises NotFound."""
        self._require_read()
        return [join_view(fan) for fan in fans_of(self._broker.app.controller, self.id)]

    def branches(self, join: str | None = None, *, first: int = 0, limit: int = 100) -> list[BranchView]:
        """Return at most `limit` (1 to 1000) branches from place `first` on: how each stands, what it waits for.

        `join` is the id of one of this session's joins, by default the last. Raises NotFound, also where the
        session opened no branches.
        """
        convert([first, limit], tuple[int, int], what="branches")
        if first < 0 or not 1 <= limit <= _MOST_BRANCHES:
            raise ContractError(
                "branches", f"expected first from 0 on, limit 1 to {_MOST_BRANCHES}; got {first}, {limit}"
            )
        self._require_read()
        controller = self._broker.app.controller
        return list(branches(controller.store, fan_of(controller, self.id, join), first, limit))

    def branch(self, name: str, join: str | None = None) -> "Session":
        """Return the session of a branch by the branch's name; `join` as in `branches`.

        Raises NotFound where there is none of this name, or it is not opened.
        """
        self._require_read()
        controller = self._broker.app.controller
        found = find_branch(controller.store, fan_of(controller, self.id, join), name)
        return Session(self._broker, found)

    def comparison(self, ticket_no: int) -> Comparison:
        """Return what a person decides on who resolves an open ticket on a join: its branches side by side.

        At most 20 of them, so that each different value of the fields that decide is among them. Raises
        NotFound, and ContractError for a ticket that is about no join.
        """
        self._require_read()
        return compare(self._broker.app.controller, self.id, ticket_no)

    def cancel(self, reason: str = "") -> None:
        """Call the session off, and its branches. Raises Conflict where it has ended.

        Where an effect is under way or unknown, or a branch is still at work, it ends once that is settled.
        """
        self._run(cmd.Cancel(seen=self.state().seq, reason=reason))

    def pause(self, *, for_s: float | None = None, reason: str = "") -> None:
        """Issue nothing new until resumed, or for `for_s` seconds. Raises Conflict where it has ended."""
        self._run(cmd.Pause(seen=self.state().seq, for_ms=_milliseconds(for_s), reason=reason))

    def resume(self) -> None:
        """Go on after a pause. Raises Conflict where it has ended."""
        self._run(cmd.Resume(seen=self.state().seq))

    def retry(self) -> None:
        """Issue the present step again, its failures forgotten.

        Raises Conflict where there is nothing to retry, and for a branch that has ended: it is sent back to by the
        ticket of its join; where that is decided, nobody would wait for it any more.
        """
        state = self.state()
        if state.over and state.parent is not None:
            self._require_waited_for(state.parent)
        self._run(cmd.Retry(seen=state.seq))

    def _require_waited_for(self, parent: Parent) -> None:
        above = self._broker.app.controller.load(parent.session_id).state
        join = above.join(parent.join_id) if above else None
        if above is None or above.over:
            why = f"session {parent.session_id}, whose branch it is, has ended"
        elif join is None or join.closed:
            why = f"its join {parent.join_id} is decided"
        else:
            return
        raise Conflict(f"cannot retry: {why}", "", "submit the work anew")

    def _run(self, body: cmd.Body) -> None:
        acting, controller = self._broker.acting, self._broker.app.controller
        if not acting.sees_all:
            held = controller.load(self.id)
            if held.state is None:
                raise no_session(self.id, held.removed)
            verb = "session.answer" if isinstance(body, cmd.Answer) else "session.steer"
            require_session(controller, acting, verb, held.state)
            if isinstance(body, cmd.Answer):
                _require_asked(acting, held.state, body)
        try:
            controller.run(self.id, checked(body), acting.by, who=acting.who)
        except Denied as error:
            log_refused(error, type(body).__name__, acting.by)
            raise


def require_session(controller: Controller, acting: Acting, verb: Verb, state: State) -> None:
    """Raise Denied unless they may do this to a session. A branch belongs to whoever submitted its root."""
    if acting.sees_all:
        return
    root = state
    while root.parent is not None and (above := controller.load(root.parent.session_id).state) is not None:
        root = above
    acting.require_session(verb, state, submitted_by=root.by)


def _require_asked(acting: Acting, state: State, body: cmd.Answer) -> None:
    """Raise Denied where a question is asked of people, and they may not decide its ticket."""
    ticket = state.ticket_about("question", str(body.attempt)) if body.step == state.step else None
    if ticket is not None:
        acting.require_ticket("ticket.resolve", state, ticket)


B = TypeVar("B", bound=cmd.Body)


def checked(body: B) -> B:
    """Return a command after checking the types and limits of its fields, which constructing it does not.

    Raises ContractError.
    """
    return convert(plain(body, what="command"), type(body), what=type(body).__name__.lower())


def _milliseconds(seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if type(seconds) not in (int, float) or not 0 < seconds < math.inf:
        raise ContractError("pause", f"expected seconds above 0, got {seconds!r}")
    return max(1, int(seconds * 1000))
