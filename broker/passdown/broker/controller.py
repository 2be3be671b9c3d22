"""Load, decide, commit, ring; on a conflict again. The only writer of sessions.

A command's id is derived from the act, so each of these steps may be repeated after a lost reply: a
command that was recorded is answered from its record (DESIGN §4).
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol, TypeVar

import stamina
import structlog

from passdown.broker.acts import Act, Ask, Done, Held, act_of, held_of, is_away, name_of, require_still_held
from passdown.broker.answers import another_content, no_session
from passdown.broker.catalog import CatalogCache
from passdown.broker.commits import commit_of
from passdown.broker.core.branching import calls_for_more
from passdown.broker.core.decide import decide
from passdown.broker.core.given import Command, Decision, Who
from passdown.broker.doorbell import Doorbell
from passdown.broker.endings import Ended, Endings
from passdown.broker.joins.reading import facts_for
from passdown.broker.stores.base import (
    Commit,
    Committed,
    Count,
    Documents,
    Full,
    HandBack,
    Loaded,
    Repeated,
    Store,
    Taken,
    TakeRequest,
)
from passdown.contracts import commands as cmd
from passdown.contracts import replies
from passdown.contracts.errors import PassdownError, QueueFull, Unavailable
from passdown.contracts.replies import Refusal, raise_refusal, read_reply

T = TypeVar("T")

_log = structlog.get_logger("passdown.controller")

#: For how long a command is tried again while the store does not answer (seconds), unless settings say otherwise.
PATIENCE_S = 20.0
#: Reloads after a conflict before giving up: each means that somebody else got through.
_CONFLICTS = 50
#: How many packs may wait for a role before new sessions are refused, unless settings say otherwise.
QUEUE_LIMIT = 1_000_000
#: For how long the store's time is reckoned from what it said last, where nothing is held (seconds).
_HEARD_FOR_S = 1.0
#: How long what is due about branches is left to the process whose commit made it due (milliseconds), before a tick does it.
BRANCHES_MS = 1_000


class Afterwards(Protocol):
    """What is told after a commit what that leads to about joins."""

    def note(self, what: Literal["look", "see-to"], subject: str) -> None:
        """Have something done soon: ``look`` at a join, or ``see-to`` a session. Never waits, never raises."""
        ...

    def close(self) -> None:
        """Finish what is under way, and leave the rest to the tick."""
        ...


class Controller:
    """Carries out commands on sessions. Thread-safe, keeps nothing that matters."""

    def __init__(
        self,
        store: Store,
        doorbell: Doorbell,
        *,
        patience_s: float = PATIENCE_S,
        events_to: str = "",
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        """`events_to` is the exchange on which the sessions opened here are told of (empty: on none).

        `queue_limit`: where so many packs wait for a role no new session may add one (0: no limit).
        """
        self.store = store
        self.catalog = CatalogCache(store)
        self._doorbell = doorbell
        self._patience_s = patience_s
        self._events_to = events_to
        self._queue_limit = queue_limit
        self._closed = False
        self._ends = Endings()
        #: Does at once what a commit leads to about joins; without it the tick does.
        self.afterwards: Afterwards | None = None
        #: The store's time and count of registrations as they were told last.
        self._heard: Held | None = None

    def run(
        self,
        session_id: str,
        body: cmd.Body,
        by: str,
        *,
        held: Held | None = None,
        take: TakeRequest | None = None,
        who: Who | None = None,
    ) -> Done:
        """Carry out one command, whatever gets lost on the way; retries for `patience_s` where the store is away.

        `who` is what is known of `by`, where tickets may ask for that (None: nothing is asked, as of an operator).

        With `held` it is decided on that state first, and on the store's where that says no or is out of
        date. With `take` the packs come in the same round trip; where the command is refused they are
        handed back. Raises what `decide` raises; Conflict where the same act was recorded with another
        content; Unavailable where the store stays away (then a retry is safe).
        """
        return self._through(Act(session_id, body, by, take, who=who), held)

    def _through(self, act: Act, held: Held | None) -> Done:
        try:
            try:
                return self._run(act, held)
            except QueueFull:
                raise  # nothing was written, and waiting here would only hide it
            except Unavailable as error:
                # Only the store knows whether the command was carried out: load, do not trust `held`.
                return self._again(error, lambda: self._run(act, None), act.session_id)
        except Unavailable:
            raise  # what was taken along is free again when its reservation runs out
        except Exception:
            self._hand_back(act)
            raise

    def run_all(
        self, asks: Sequence[Ask], *, take: TakeRequest | None = None
    ) -> tuple[list[Done | PassdownError], Taken | None]:
        """Carry out commands on several sessions, in one round trip as far as they can be decided on what is held.

        Each stands or falls alone: its place in the answer has what `run` returns, or raises. The packs that
        `take` asks for come with the same round trip, or with one more.
        """
        acts = [act_of(ask) for ask in asks]
        tried, taken = self._together(asks, acts, take)
        answers: list[Done | PassdownError] = []
        away: PassdownError | None = None
        for act, done in zip(acts, tried, strict=True):
            # Where the store stayed away for one, it is not waited for again for each of the others.
            answer = done or away or self._alone(act)
            away = answer if isinstance(answer, Unavailable) and is_away(answer, act.session_id) else None
            answers.append(answer)
        if take is not None and taken is None and not away:
            taken = self.patiently(lambda: self.store.take(take))
        return answers, taken

    def try_all(
        self, asks: Sequence[Ask], *, take: TakeRequest | None = None
    ) -> tuple[list[Done | None], Taken | None]:
        """Carry out in one round trip what can be decided on what is held; None in the places of the rest."""
        return self._together(asks, [act_of(ask) for ask in asks], take)

    def _together(
        self, asks: Sequence[Ask], acts: list[Act], take: TakeRequest | None
    ) -> tuple[list[Done | None], Taken | None]:
        decided = [
            self._decide_on_held(act, ask.held) if ask.held else None
            for act, ask in zip(acts, asks, strict=True)
        ]
        answers, taken = self._commit_all(asks, acts, decided, take)
        return [answers.get(n) for n in range(len(asks))], taken

    def _commit_all(
        self,
        asks: Sequence[Ask],
        acts: list[Act],
        decided: list[Decision | None],
        take: TakeRequest | None,
    ) -> tuple[dict[int, Done], Taken | None]:
        """Write what was decided; returns answers by place, none for what must be decided anew, and what was taken."""
        commits = {
            n: self._commit_of(act, ask.held, decision)
            for n, (act, ask, decision) in enumerate(zip(acts, asks, decided, strict=True))
            if decision is not None and ask.held is not None
        }
        if not commits:
            return {}, None
        for n in commits:
            acts[n].forget_facts()
        try:
            outcomes, taken = self.store.commit(list(commits.values()), take)
        except PassdownError as error:
            # Each is asked for by its id from here on: some may be recorded, and one may be what is refused.
            _log.warning("controller.not_together", sessions=len(commits), error=str(error))
            return {}, None
        answers: dict[int, Done] = {}
        rung: dict[str, None] = {}
        for n, outcome in zip(commits, outcomes, strict=True):
            decision, held = decided[n], asks[n].held
            if isinstance(outcome, Committed) and decision is not None and held is not None:
                rung.update(dict.fromkeys(outcome.ring))
                answers[n] = self._written(decision, outcome, held.catalog, None)
            elif isinstance(outcome, Repeated) and isinstance(acts[n].body, cmd.OpenBranch):
                # Another process was faster: what became of the branch since is nothing to whoever opens it.
                answers[n] = Done(read_reply(outcome.reply), None)
        for role in rung:
            self._doorbell.ring(role)
        return answers, taken

    def _alone(self, act: Act) -> Done | PassdownError:
        try:
            return self._through(act, None)
        except PassdownError as error:
            return error

    def patiently(self, attempt: Callable[[], T], session_id: str = "") -> T:
        """Return what `attempt` returns; while the store is away again, with jittered waits, for `patience_s`.

        Raises Unavailable where it stays away. `attempt` must be safe to repeat.
        """
        try:
            return attempt()
        except Unavailable as error:
            return self._again(error, attempt, session_id)

    def _again(self, error: Unavailable, attempt: Callable[[], T], session_id: str) -> T:
        if self._patience_s <= 0 or self._closed:
            raise error
        _log.warning("controller.store_away", session=session_id, error=str(error))
        for again in stamina.retry_context(on=self._may_come_back, attempts=None, timeout=self._patience_s):
            with again:
                return attempt()
        raise AssertionError("retry_context ends by returning or raising")

    def _may_come_back(self, error: Exception) -> bool:
        return isinstance(error, Unavailable) and not isinstance(error, QueueFull) and not self._closed

    def close(self) -> None:
        """Have no more patience: the store is closed from here, and will not come back."""
        self._closed = True
        if self.afterwards is not None:
            self.afterwards.close()

    def _run(self, act: Act, held: Held | None) -> Done:
        for _ in range(_CONFLICTS):
            decision = self._decide_on_held(act, held) if held else None
            if held is None or decision is None:
                loaded = self.store.load(act.session_id, act.id, act.digest)
                self.catalog.heard(loaded.catalog)
                held = held_of(loaded.state, loaded.now, loaded.catalog, loaded.removed)
                if loaded.reply is not None or loaded.clash:
                    return self._recorded(act, held, loaded)
                decision = self._decide(act, held)
            if not decision.events:
                return self._nothing(act, decision, held)
            done = self._commit(act, held, decision)
            if done is not None:
                return done
            held = None
            act.forget_facts()
        raise Unavailable(
            name_of(act.session_id), f"it changed {_CONFLICTS} times while a command was decided"
        )

    def _decide_on_held(self, act: Act, held: Held) -> Decision | None:
        """Decide on a state that was not loaded just now; None where that is not good enough.

        A refusal may be what is out of date, or this very act may be recorded already; and what writes
        nothing is not compared with the store by any commit.
        """
        try:
            decision = self._decide(act, held)
        except Unavailable:
            raise
        except PassdownError:
            return None
        return None if not decision.events or isinstance(decision.reply, Refusal) else decision

    def _decide(self, act: Act, held: Held) -> Decision:
        state, body = held.state, act.body
        if isinstance(body, cmd.Submit | cmd.OpenBranch) and not held.removed:
            plan = body.plan
        elif state is None:
            raise no_session(act.session_id, held.removed)
        else:
            plan = state.plan
        given, act.catalog = self.catalog.given(state, plan, held.catalog)
        facts = act.facts_on(state)
        if facts is None and state is not None and state.joins:
            facts = facts_for(self.store, state, given.plan, body)
        return decide(
            state, Command(act.session_id, body, held.at(), act.by, given, self._events_to, facts, act.who)
        )

    def _commit(self, act: Act, held: Held, decision: Decision) -> Done | None:
        """Write a decision; None where session or catalog moved on meanwhile, or another try recorded the act."""
        commit = self._commit_of(act, held, decision)
        refused = isinstance(decision.reply, Refusal)
        (outcome,), taken = self.store.commit([commit], None if refused else act.take)
        act.keep(taken)
        if isinstance(outcome, Full):
            raise QueueFull(outcome.role, outcome.waiting, self._queue_limit)
        if not isinstance(outcome, Committed):
            return None
        for role in outcome.ring:
            self._doorbell.ring(role)
        done = self._written(decision, outcome, held.catalog, act.taken)
        raise_refusal(decision.reply)
        return done

    def _commit_of(self, act: Act, held: Held, decision: Decision) -> Commit:
        left_ms = BRANCHES_MS if self.afterwards is not None else 0
        return commit_of(
            act.id, act.digest, held.state, decision, act.catalog, room=self._queue_limit, left_ms=left_ms
        )

    def _written(self, decision: Decision, outcome: Committed, catalog: int, taken: Taken | None) -> Done:
        state = decision.state
        if state is not None and state.over:
            self._ends.tell(state)
        if self.afterwards is not None:
            for join_id in outcome.woke:
                self.afterwards.note("look", join_id)
            if state is not None and decision.waking is not None and calls_for_more(state):
                self.afterwards.note("see-to", state.session_id)
        now = Held(state, outcome.now, time.monotonic(), catalog)
        self._heard = now._replace(state=None)
        return Done(decision.reply, now, taken)

    def _recorded(self, act: Act, held: Held, loaded: Loaded) -> Done:
        """Answer an act that was carried out before."""
        if loaded.reply is None:
            raise another_content(
                act.session_id, act.body, held.state.plan if held.state else None, held.removed
            )
        reply = read_reply(loaded.reply)
        raise_refusal(reply)
        if isinstance(reply, replies.Held | replies.Run) and isinstance(act.body, cmd.Claim | cmd.Intend):
            require_still_held(act.body, held.state)
        self._take_now(act)
        return Done(reply, held, act.taken)

    def _nothing(self, act: Act, decision: Decision, held: Held) -> Done:
        if isinstance(decision.reply, Refusal) and isinstance(act.body, cmd.Give | cmd.Fail):
            self.store.put(Count(session_id=act.session_id, name="fenced"))
        raise_refusal(decision.reply)
        self._take_now(act)
        return Done(decision.reply, held, act.taken)

    def _take_now(self, act: Act) -> None:
        if act.take is not None:
            act.taken = self.store.take(act.take)

    def _hand_back(self, act: Act) -> None:
        """Let others have what a refused command took along; else it would stay reserved for a while."""
        packs = act.taken.packs if act.taken else []
        for one in packs:
            back = HandBack(session_id=one.session_id, step=one.step, attempt=one.attempt, after_ms=0, why="")
            try:
                self.store.hand_back(back)
            except PassdownError as error:
                _log.info("controller.not_handed_back", session=one.session_id, error=str(error))
        if packs:
            self.ring(act.role)

    @contextmanager
    def watching(self, session_id: str) -> Generator[Ended]:
        """Yield an event that is set when the session ends by a commit of this process; others' do not set it."""
        with self._ends.watch(session_id) as ended:
            yield ended

    def register(self, documents: Documents) -> None:
        """Register plans and tools; what is issued afterwards, by any process, knows of them. Raises Unavailable."""
        self.patiently(lambda: self.store.put(documents))
        self._heard = None

    def ring(self, role: str) -> None:
        """Ring for a role."""
        self._doorbell.ring(role)

    def unopened(self) -> Held:
        """Return a session that nobody has opened, as of a moment ago: whoever opens it need not load it first."""
        heard = self._heard
        if heard is None or time.monotonic() - heard.seen > _HEARD_FOR_S:
            heard = self.load("")
        return heard._replace(state=None, removed="")

    def load(self, session_id: str, *, patient: bool = True) -> Held:
        """Return a session as it stands; its state is None where there is none.

        Raises Unavailable where the store stays away, or is (not `patient`).
        """
        load = self.store.load
        loaded = self.patiently(lambda: load(session_id), session_id) if patient else load(session_id)
        self.catalog.heard(loaded.catalog)
        self._heard = held_of(None, loaded.now, loaded.catalog)
        return held_of(loaded.state, loaded.now, loaded.catalog, loaded.removed)
