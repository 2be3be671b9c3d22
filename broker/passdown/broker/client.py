"""What producers use: submit work, watch it, answer for it. The same verbs as the command line.

::

    broker = Broker.connect("sqlite:///passdown.db")
    session = broker.submit("refund", task="Acme refund 4711", inputs={"orderId": "4711"}, key="order-4711")
    print(session.result(timeout_s=60))
"""

import getpass
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, TypeVar, cast
from uuid import uuid4

from passdown.broker.app import App, compose
from passdown.broker.core.state import Outcome, State
from passdown.broker.plans import Plan as AuthoredPlan
from passdown.broker.plans import compile_plan, delegate_plan, load_plan
from passdown.broker.stores.base import (
    Beside,
    Documents,
    FindBeside,
    FindPack,
    FindSessions,
    FindTickets,
    SessionRow,
    TicketRow,
)
from passdown.contracts import commands as cmd
from passdown.contracts import ids
from passdown.contracts.codec import check, convert, decode_any, encode, plain
from passdown.contracts.errors import ContractError, NotFound, Unavailable
from passdown.contracts.events import Logged, Resolution
from passdown.contracts.pack import Pack, Resource, read_pack
from passdown.contracts.plans import Plan, PlanRef, plan_ref
from passdown.contracts.schema import Schema
from passdown.contracts.tools import ToolSpec, tool_digest


def me() -> str:
    """Return the principal of whoever runs this process: the operating system's user."""
    return f"user:{getpass.getuser()}"


class Broker:
    """A connection to a store and its transport. Thread-safe."""

    def __init__(self, app: App, by: str | None = None) -> None:
        self.app = app
        self.by = _principal(by or me())

    @classmethod
    def connect(
        cls, url: str = "sqlite:///passdown.db", *, transport: str = "", by: str | None = None
    ) -> "Broker":
        """Open the store at `url`. `by` is the principal that acts (``user:ann``).

        Raises ContractError for an address that is none, Unavailable where the store cannot be opened.
        """
        return cls(compose(url, transport), by)

    def close(self) -> None:
        """Let go of the store and the transport."""
        self.app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def register(self, plan: Plan | AuthoredPlan | Path | str) -> PlanRef:
        """Register a plan (compiled, authored in Python, or a path of a TOML file); raises PlanError.

        Registering the same content again changes nothing; the same version with another content is
        what new sessions run from then on, open ones keep theirs.
        """
        if isinstance(plan, Path | str):
            plan = load_plan(Path(plan))
        elif isinstance(plan, AuthoredPlan):
            plan = compile_plan(plan)
        ref = plan_ref(plan)
        self.app.store.put(Documents(plans=[(ref, encode(plan))]))
        return ref

    def register_tools(self, specs: list[ToolSpec]) -> None:
        """Publish tool specifications, as workers do when they start."""
        self.app.store.put(Documents(tools=[(tool_digest(spec), spec) for spec in specs]))

    def submit(
        self,
        plan: str | PlanRef,
        *,
        task: str = "",
        inputs: Any = None,
        key: str | None = None,
        resources: list[Resource] | None = None,
        trace: str = "",
    ) -> "Session":
        """Open a session of a registered plan (``name`` is its newest version, or ``name@version``).

        The same `key` again is the same session, however often it is submitted; without one each call
        opens its own. Raises NotFound (plan), ContractError (inputs), BudgetExceeded, Conflict (the
        same key with other inputs).
        """
        given = plain(inputs if inputs is not None else {}, what="inputs")
        if not isinstance(given, dict):
            raise ContractError("inputs", "expected a JSON object")
        key = key or uuid4().hex
        check(key, what="key")
        session_id = ids.session_id(key)
        held = self.app.controller.load(session_id)
        ref = plan if isinstance(plan, PlanRef) else self.app.controller.catalog.plan(plan, held.catalog)
        body = cmd.Submit(
            key=key,
            plan=ref,
            inputs=cast("dict[str, Any]", given),
            task_name=task,
            resources=resources or [],
            trace=trace,
        )
        # A session that is there already is met by its recorded command, which only a load by its id finds.
        known = held if held.state is None else None
        self.app.controller.run(session_id, _checked(body), self.by, held=known)
        return Session(self, session_id)

    def delegate(
        self,
        role: str,
        goal: str,
        inputs: Any = None,
        *,
        returns: Schema | type | None = None,
        task: str = "",
        key: str | None = None,
    ) -> "Session":
        """Hand one piece of work to a role, without a plan of one's own."""
        ref = self.register(delegate_plan(role, goal, returns=returns))
        return self.submit(ref, task=task or goal[:80], inputs=inputs, key=key)

    def session(self, session_id: str) -> "Session":
        """Return a session by its id or its submit key; raises NotFound."""
        for candidate in (session_id, ids.session_id(session_id)):
            if self.app.store.load(candidate).state is not None:
                return Session(self, candidate)
        raise NotFound("session", session_id)

    def sessions(
        self,
        *,
        status: str | None = None,
        plan: str | None = None,
        task: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> list[SessionRow]:
        """Return sessions, newest first; `before` is the last id of the page before."""
        query = FindSessions(status=status, plan=plan, task=task, limit=limit, before=before)
        return cast("list[SessionRow]", self.app.store.find(query))

    def tickets(
        self, *, queue: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> list[TicketRow]:
        """Return open tickets, oldest first."""
        query = FindTickets(queue=queue, session_id=session_id, limit=limit)
        return cast("list[TicketRow]", self.app.store.find(query))


def _principal(name: str) -> str:
    if not re.match(cmd.PRINCIPAL_PATTERN, name):
        raise ContractError("principal", f"expected kind:name, for example user:ann, got {name!r}")
    return name


B = TypeVar("B", cmd.Submit, cmd.Resolve)


def _checked(body: B) -> B:
    """Return a command after checking the constraints of its fields, which constructing it does not."""
    return convert(plain(body, what="command"), type(body), what=type(body).__name__.lower())


class Session:
    """A handle on one session; it holds no state of its own."""

    def __init__(self, broker: Broker, session_id: str) -> None:
        self._broker = broker
        self.id = session_id

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    def state(self) -> State:
        """Return the session as it stands; raises NotFound."""
        state = self._broker.app.controller.load(self.id).state
        if state is None:
            raise NotFound("session", self.id)
        return state

    def status(self) -> str:
        """Return the status in one word (DESIGN §5)."""
        return self.state().shown_status

    def result(self, timeout_s: float = 60.0) -> Outcome:
        """Wait until the session ends; returns its outcome. Raises Unavailable when `timeout_s` ran out first."""
        deadline = time.monotonic() + timeout_s
        controller = self._broker.app.controller
        wait = 0.005
        while True:
            seen = controller.wait_for_change(-1, 0)
            state = self.state()
            if state.over and state.outcome is not None:
                return state.outcome
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unavailable(
                    f"the result of {self.id}", f"after {timeout_s:g} s it is {state.shown_status}"
                )
            controller.wait_for_change(seen, min(wait, left))
            wait = min(wait * 1.5, 0.25)

    def events(self) -> Iterator[Logged]:
        """Yield the session's log in order."""
        for raw in self.raw_events():
            yield decode_any(raw, Logged, what="log")

    def raw_events(self) -> Iterator[bytes]:
        """Yield the log's bytes in order."""
        after = 0
        while page := self._broker.app.store.events(self.id, after=after, limit=500):
            yield from page
            after += len(page)

    def beside(self) -> Beside:
        """Return what stands beside the state: the running lease, the last hand-back, counts."""
        return cast("Beside", self._broker.app.store.find(FindBeside(session_id=self.id)))

    def pack(self, step: int, attempt: int) -> Pack:
        """Return what an attempt was given; raises NotFound."""
        raw = self._broker.app.store.find(FindPack(session_id=self.id, step=step, attempt=attempt))
        if not isinstance(raw, bytes):
            raise NotFound("pack", f"{self.id}/{step}/{attempt}")
        return read_pack(raw)

    def answer(self, question: str, value: Any, *, attempt: int | None = None) -> None:
        """Answer an open question by its id (of `attempt`, where the id was asked more than once).

        Raises NotFound, Conflict (answered already, by whom), ContractError (does not fit its schema).
        """
        if attempt is None:
            asked = [one.attempt for one in self.state().questions if one.id == question]
            attempt = asked[-1] if asked else 1
        self._run(cmd.Answer(attempt=attempt, id=question, value=plain(value, what="answer")))

    def resolve(
        self, ticket_no: int, resolution: Resolution, value: Any = None, *, note: str = "", version: int = 1
    ) -> None:
        """Decide a ticket. Raises Conflict (no longer open), Denied (not allowed), ContractError (value)."""
        given = plain(value, what="resolution")
        body = cmd.Resolve(
            ticket_no=ticket_no, version=version, resolution=resolution, value=given, note=note
        )
        self._run(_checked(body))

    def cancel(self, reason: str = "") -> None:
        """Call the session off."""
        self._run(cmd.Cancel(seen=self.state().seq, reason=reason))

    def pause(self, *, for_s: float | None = None, reason: str = "") -> None:
        """Issue nothing new until resumed, or for `for_s` seconds."""
        for_ms = None if for_s is None else int(for_s * 1000)
        self._run(cmd.Pause(seen=self.state().seq, for_ms=for_ms, reason=reason))

    def resume(self) -> None:
        """Go on after a pause."""
        self._run(cmd.Resume(seen=self.state().seq))

    def retry(self) -> None:
        """Issue the present step again, its failures forgotten."""
        self._run(cmd.Retry(seen=self.state().seq))

    def _run(self, body: cmd.Body) -> None:
        self._broker.app.controller.run(self.id, body, self._broker.by)
