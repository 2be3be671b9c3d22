"""What producers use: submit work, watch it, answer for it. The same verbs as the command line.

::

    broker = Broker.connect("sqlite:///passdown.db")
    session = broker.submit("refund", task="Acme refund 4711", inputs={"orderId": "4711"}, key="order-4711")
    print(session.result(timeout_s=60))

Any call may raise Unavailable where the store does not answer; then it is safe to call again.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self, cast

from msgspec.structs import replace

from passdown.broker.access.acting import Acting
from passdown.broker.access.policy import VERBS, Verb
from passdown.broker.acts import Ask, Held
from passdown.broker.answers import no_session
from passdown.broker.app import compose
from passdown.broker.connected import Connected, me, principal_of
from passdown.broker.controller import PATIENCE_S, QUEUE_LIMIT
from passdown.broker.core.state import State
from passdown.broker.durability import require_durable
from passdown.broker.findings import may_lose
from passdown.broker.joins.lists import keep_list
from passdown.broker.joins.tickets import OpenTicket, TicketPage, open_tickets
from passdown.broker.plans import Plan as AuthoredPlan
from passdown.broker.plans import compile_plan, delegate_plan, load_plan
from passdown.broker.session import Session, require_session
from passdown.broker.stores.base import Documents
from passdown.broker.stores.queries import (
    FindQueues,
    FindSessions,
    QueueRow,
    SessionRow,
)
from passdown.broker.submitting import Prepared, Submission, at_place, submit_of, with_lists
from passdown.broker.ticket_reading import names_of_queue
from passdown.contracts import commands as cmd
from passdown.contracts import ids
from passdown.contracts.codec import convert, digest_of, encode
from passdown.contracts.errors import ContractError, NotFound, PassdownError, PlanError, Unavailable
from passdown.contracts.pack import Resource
from passdown.contracts.plans import Plan, PlanRef, plan_ref
from passdown.contracts.schema import Schema
from passdown.contracts.tools import ToolSpec, tool_digest

__all__ = ["Broker", "Session", "Submission", "me"]

#: The most rows that one page of a list has.
MOST_ROWS = 1000
#: Verbs that begin with a session that is named by its key.
_NAMED_BY: list[Verb] = [verb for verb in VERBS if verb.startswith(("session.", "ticket."))]
#: Sessions that are opened in one round trip.
_AT_ONCE = 100


class Broker(Connected):
    """A connection to a store and its transport. Thread-safe."""

    @classmethod
    def connect(
        cls,
        url: str = "sqlite:///passdown.db",
        *,
        transport: str = "",
        by: str | None = None,
        patience_s: float = PATIENCE_S,
        events: str = "",
        queue_limit: int = QUEUE_LIMIT,
        accept_effect_loss: bool = False,
        token: str = "",
    ) -> "Broker":
        """Open the store at `url`; it is made where there is none.

        `by` is the principal that acts (``user:ann``), by default `me`; `patience_s` is how long a command is
        tried again while the store does not answer (seconds); `events` is the exchange on which each change of
        status is told of the sessions that are submitted here (docs/events.md); `queue_limit` and
        `accept_effect_loss` are the settings of these names. With a `token` its principal acts, as far as the token
        goes (docs/security.md). Raises ContractError for an address, an exchange,
        a principal or a token that is none and for a store of a newer version, Unavailable where it cannot be opened
        now.
        """
        named = None if by is None else principal_of(by)
        convert(token, str, what="token")
        app = compose(
            url,
            transport,
            patience_s=patience_s,
            events=events,
            queue_limit=queue_limit,
            accept_effect_loss=accept_effect_loss,
        )
        return cls(app, named, token=token)

    def close(self) -> None:
        """Let go of the store and the transport; a second time does nothing."""
        self.app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def register(self, plan: Plan | AuthoredPlan | Path | str) -> PlanRef:
        """Register a plan (compiled, authored in Python, or a path of a TOML file); raises PlanError.

        So it does where the plan writes with tools that lack `dedupes` and the store may lose its last moments,
        unless that is accepted; `submit` looks again, for tools may be registered after their plan.
        Registering the same content again changes nothing; the same version with another content is
        what new sessions run from then on, open ones keep theirs.
        """
        self.acting.require("plan.register")
        if isinstance(plan, Path | str):
            plan = load_plan(Path(plan))
        elif isinstance(plan, AuthoredPlan):
            plan = compile_plan(plan)
        self.acting.require("plan.register", f"plan:{plan.name}")
        return self._register(plan)

    def _register(self, plan: Plan) -> PlanRef:
        ref = plan_ref(plan)
        if not self.app.accept_effect_loss:
            require_durable(self.app.store, str(ref), plan)
        self.app.controller.register(Documents(plans=[(ref, encode(plan))]))
        return ref

    def register_tools(self, specs: list[ToolSpec]) -> None:
        """Publish tool specifications, as workers do when they start."""
        self.acting.require("tool.register")
        self.app.controller.register(Documents(tools=[(tool_digest(spec), spec) for spec in specs]))

    def submit(
        self,
        plan: str | PlanRef,
        *,
        task: str = "",
        inputs: Any = None,
        key: str | None = None,
        resources: list[Resource] | None = None,
        trace: str = "",
        reply_to: str = "",
        lists: Mapping[str, Iterable[Any]] | None = None,
    ) -> Session:
        """Open a session of a registered plan (``name`` is its newest version, or ``name@version``).

        `task` is what its user calls the work (at most 200 characters), `inputs` a JSON object or what
        becomes one (a Struct, a dataclass, a pydantic model), `resources` bulk by reference, each under a
        name of its own, `trace` a W3C ``traceparent``, `reply_to` a message queue of your own that the outcome
        is sent to (docs/events.md). `lists` are lists, by name, that are too long for the inputs: they are kept
        beside the session, and a fan-out whose ``each`` is the name opens a branch for each item.

        The same `key` (1 to 200 characters) again is the same session, however often it is submitted, also
        where the plan has a newer version by then; without one each call opens its own. Raises
        ContractError for what does not fit, BudgetExceeded for what is too large, NotFound for a plan that
        is not registered, Conflict for a key whose session was submitted with another content.
        """
        self.acting.require("session.submit", f"plan:{_plan_name(plan)}")
        work = Submission(
            inputs,
            task=task,
            key=key,
            resources=resources or [],
            trace=trace,
            reply_to=reply_to,
            lists=lists or {},
        )
        return self._opened(plan, [self._prepared(plan, work)])[0]

    def submit_all(self, plan: str | PlanRef, work: Iterable[Submission]) -> list[Session]:
        """Open many sessions of one plan in few round trips; returns them in the order of `work`.

        Each is what `submit` would have opened. Where one is malformed, nothing is submitted: raises
        ContractError, which names its place. Else all are tried, and the first error that `submit` would
        have raised is raised at the end; Unavailable at once. With keys it is safe to submit all again.
        """
        self.acting.require("session.submit", f"plan:{_plan_name(plan)}")
        prepared: list[Prepared] = []
        for place, one in enumerate(work):
            try:
                prepared.append(self._prepared(plan, one))
            except ContractError as error:
                raise at_place(place, error) from None
        return self._opened(plan, prepared)

    def _prepared(self, plan: str | PlanRef, work: Submission) -> Prepared:
        """Return a piece of work that is well formed; its lists are read by what its plan says of them."""
        body = submit_of(work)
        if not work.lists:
            return Prepared(body)
        controller = self.app.controller
        session_id = self._id_of(body.key)
        held = controller.load(session_id)
        ref = plan if isinstance(plan, PlanRef) else self._meant(plan, session_id, body, held)
        return with_lists(body, work.lists, ref, controller.catalog.document(ref))

    def _opened(self, plan: str | PlanRef, work: list[Prepared]) -> list[Session]:
        sessions: list[Session] = []
        failed: PassdownError | None = None
        for start in range(0, len(work), _AT_ONCE):
            group = work[start : start + _AT_ONCE]
            opened = self._open_all(plan, group)
            for one, done in zip(group, opened, strict=True):
                try:
                    sessions.append(
                        Session(self, self._id_of(one.body.key)) if done else self._submit(plan, one)
                    )
                except Unavailable:
                    raise
                except PassdownError as error:
                    failed = failed or error
        if failed:
            raise failed
        return sessions

    def _open_all(self, plan: str | PlanRef, work: Sequence[Prepared]) -> list[bool]:
        """Open those sessions that nobody has opened yet; says which were. Those with lists are left out."""
        controller = self.app.controller
        fresh = controller.unopened()
        try:
            ref = plan if isinstance(plan, PlanRef) else controller.catalog.plan(plan, fresh.catalog)
            self._require_durable(ref, fresh)
        except (NotFound, PlanError):
            # It may have been registered a moment ago; and what is open already is met, whatever it may do.
            return [False] * len(work)
        bare = [place for place, one in enumerate(work) if not one.lists]
        bodies = [work[place].body for place in bare]
        asks = [Ask(self._id_of(body.key), replace(body, plan=ref), self.by, fresh) for body in bodies]
        opened, _ = controller.try_all(asks)
        done = {place for place, outcome in zip(bare, opened, strict=True) if outcome is not None}
        return [place in done for place in range(len(work))]

    def _id_of(self, key: str) -> str:
        """Return the id of the session that a submit with this key opens in this store."""
        return ids.session_id(key, self.app.store.shards)

    def _submit(self, plan: str | PlanRef, work: Prepared) -> Session:
        """Open or meet the session of a key that may have been used before."""
        body = work.body
        session_id = self._id_of(body.key)
        controller = self.app.controller
        held = controller.load(session_id)
        ref = plan if isinstance(plan, PlanRef) else self._meant(plan, session_id, body, held)
        # A session that is there already is met by its recorded command, which only a load by its id finds.
        known = None if held.state else held
        if known:
            self._require_durable(ref, known)
        if known and not held.removed:
            for name, listed in work.lists.items():
                keep_list(self.app.store, session_id, name, listed)
        controller.run(session_id, replace(body, plan=ref), self.by, held=known)
        return Session(self, session_id)

    def _require_durable(self, ref: PlanRef, held: Held) -> None:
        """Raise PlanError where sessions of this plan may write twice on this store, and that is not accepted."""
        app = self.app
        if not app.accept_effect_loss and may_lose(app.store):
            given, _ = app.controller.catalog.given(None, ref, held.catalog)
            tools = {name: spec for name, (_, spec) in given.registered.items()}
            require_durable(app.store, str(ref), given.plan, tools)

    def _meant(self, plan: str, session_id: str, body: cmd.Submit, held: Held) -> PlanRef:
        """Return the plan that a name stands for: which version was settled when the key was first used."""
        catalog = self.app.controller.catalog
        pinned = held.state.plan if held.state else None
        if pinned and plan in (pinned.name, str(pinned)):
            return pinned
        # Of a session that was removed only the outcome of its submit is left, and that only for the same content.
        for ref in catalog.versions(plan, held.catalog) if held.removed else ():
            submitted = replace(body, plan=ref)
            command_id = cmd.command_id(session_id, submitted, self.by)
            if self.app.store.load(session_id, command_id, digest_of(submitted)).reply is not None:
                return ref
        return catalog.plan(plan, held.catalog)

    def delegate(
        self,
        role: str,
        goal: str,
        inputs: Any = None,
        *,
        returns: Schema | type | None = None,
        task: str = "",
        key: str | None = None,
        reply_to: str = "",
    ) -> Session:
        """Hand one piece of work to a role, without a plan of one's own.

        `returns` is what must come back: a JSON Schema, or a class (a pydantic model, a Struct, a
        dataclass). What differs from one piece of work to the next belongs into `inputs`, which the goal
        may quote (``{inputs.name}``): each goal is registered, once. Raises PlanError for a role, goal or
        schema that will not do, and what `submit` raises.
        """
        made = delegate_plan(role, goal, returns=returns)
        self.acting.require("session.submit", f"plan:{made.name}")
        ref = self._register(made)
        return self.submit(ref, task=task or goal[:80], inputs=inputs, key=key, reply_to=reply_to)

    def session(self, session_id: str) -> Session:
        """Return a session by its id or its submit key; raises NotFound, and Denied where they may not read it."""
        state = self._find(session_id)
        require_session(self.app.controller, self.acting, "session.read", state)
        return Session(self, state.session_id)

    def session_id(self, name: str) -> str:
        """Return the id of a session by that or by its submit key, and nothing else of it; raises NotFound.

        For whoever may decide its tickets, and not read it; Denied for who may do neither, to any session.
        """
        acting = self.acting
        if not any(acting.covers(verb) for verb in _NAMED_BY):
            acting.require("session.read")
        return self._find(name).session_id

    def _find(self, name: str) -> State:
        convert(name, str, what="session")
        removed = ""
        for candidate in (name, self._id_of(name)):
            held = self.app.controller.load(candidate)
            if held.state is not None:
                return held.state
            removed = removed or held.removed
        raise no_session(name, removed)

    def sessions(
        self,
        *,
        status: str | None = None,
        plan: str | None = None,
        task: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> list[SessionRow]:
        """Return at most `limit` (1 to 1000) sessions that are no branches, newest first, from after the id `before` on.

        `status` is one as it is shown (``waiting-human``), `plan` is ``name@version``, `task` its id or name. Who may
        not read all gets those that they may among the `MOST_ROWS` newest.
        """
        acting = self.acting
        acting.require("session.read")
        query = FindSessions(status=status, plan=plan, task=task, limit=_limit(limit), before=before)
        if acting.sees_all:
            return self._rows(query)
        looked_at = self._rows(replace(query, limit=MOST_ROWS))
        return list(islice((row for row in looked_at if self._may_read(acting, row.session_id)), limit))

    def _rows(self, query: FindSessions) -> list[SessionRow]:
        return cast("list[SessionRow]", self.app.store.find(query))

    def _may_read(self, acting: Acting, session_id: str) -> bool:
        try:
            state = self.app.controller.load(session_id).state
        except ContractError:
            return False  # it cannot be read, which is said to whoever asks for it
        return state is not None and acting.may_read(state)

    def queues(self) -> list[QueueRow]:
        """Return each role queue on which a pack waits or runs, by its role."""
        self.acting.require("queue.read")
        return cast("list[QueueRow]", self.app.store.find(FindQueues()))

    def tickets(
        self, *, queue: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> list[OpenTicket]:
        """Return at most `limit` (1 to 1000) open tickets, oldest first; of a session also those of its branches.

        A ticket of a branch says which: by name from its root on, with the session that opened it.
        """
        return self.ticket_page(queue=queue, session_id=session_id, limit=limit).tickets

    def ticket_page(
        self, *, queue: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> TicketPage:
        """Return what `tickets` does, with how many branches were not looked at."""
        acting = self.acting
        acting.require("ticket.read", *names_of_queue(queue))
        if session_id is not None:
            session_id = self.session(session_id).id
        elif not (acting.sees_all or (queue is not None and acting.actor.operates)):
            why = "it takes the role operator; `inbox` has those that you may take"
            raise acting.refused("ticket.read", "list the tickets of everybody", why)
        return open_tickets(self.app.controller, queue=queue, session_id=session_id, limit=_limit(limit))


def _plan_name(plan: str | PlanRef) -> str:
    return plan.name if isinstance(plan, PlanRef) else convert(plan, str, what="plan").partition("@")[0]


def _limit(limit: int) -> int:
    if type(limit) is not int or not 1 <= limit <= MOST_ROWS:
        raise ContractError("limit", f"expected 1 to {MOST_ROWS}, got {limit}")
    return limit
