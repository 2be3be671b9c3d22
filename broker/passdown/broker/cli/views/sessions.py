"""A session as people ask about it: where it stands, what it waits for and until when, and what to type next."""

from typing import Any

from msgspec.structs import replace

from passdown.broker.answers import no_session
from passdown.broker.cli.words import clean, many, span
from passdown.broker.client import Broker, Session
from passdown.broker.commits import queue_of
from passdown.broker.core.join import FINAL
from passdown.broker.core.packing import granted
from passdown.broker.core.parts import Asked, Effect, Issued, Outcome, Ticket
from passdown.broker.core.state import State
from passdown.broker.joins.showing import BranchView, Fan, JoinView, fans, join_view, missing
from passdown.broker.joins.tree import Above, path_of
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import Beside, FindQueues, QueueRow
from passdown.contracts.codec import Wire
from passdown.contracts.errors import PassdownError, PlanError
from passdown.contracts.schema import Schema

#: Branches that are named of those that a join waits for.
_MISSING = 5


class Wait(Wire, frozen=True, kw_only=True):
    """One thing that the session waits for, until when (store milliseconds), and what to type about it."""

    kind: str
    what: str
    until: int | None = None
    do: str = ""


class QuestionView(Wire, frozen=True, kw_only=True):
    """A question of the present step."""

    attempt: int
    id: str
    text: str
    schema: Schema
    ask: str
    answered: bool
    value: Any
    by: str
    do: str


class TicketView(Wire, frozen=True, kw_only=True):
    """An open ticket. ``about`` is an effectId or an attempt; ``args`` are those of the pending action."""

    ticket: str
    kind: str
    queue: str
    why: str
    actions: list[str]
    about: str
    tool: str
    args: Any
    opened_at: int
    do: str


class EffectView(Wire, frozen=True, kw_only=True):
    """A row of the ledger; ``args`` and ``result`` are null where they stand in the log only (see `why`)."""

    effect_id: str
    ordinal: int
    step: int
    tool: str
    status: str
    attempts: int
    args: Any
    result: Any
    error: str
    approved_by: str


class StatusView(Wire, frozen=True, kw_only=True):
    """Where a session stands. Times are store milliseconds; ``now`` is when this was asked."""

    session_id: str
    task_id: str
    task_name: str
    key: str
    plan: str
    status: str
    stage: str
    step: int
    attempt: int
    cause: str
    failures: int
    by: str
    opened_at: int
    updated_at: int
    now: int
    waits: list[Wait]
    worker: str
    lease_left_ms: int | None
    handed_back: str
    missing_tools: list[str]
    questions: list[QuestionView]
    tickets: list[TicketView]
    effects: list[EffectView]
    feedback: list[str]
    outcome: Outcome | None
    counts: dict[str, int]
    events: int
    above: list[Above] = []
    joins: list[JoinView] = []


def status_view(broker: Broker, session: Session) -> StatusView:
    """Ask the store where a session stands."""
    held = broker.app.controller.load(session.id)
    state = held.state
    if state is None:
        raise no_session(session.id, held.removed)
    missing = _missing_tools(broker, state, held.catalog)
    beside = session.beside()
    found = broker.app.store.find(FindQueues())
    queues = {row.role: row for row in found if isinstance(row, QueueRow)} if isinstance(found, list) else {}
    view = view_of(state, beside, queues, missing, held.now)
    return _with_branches(broker, state, view) if state.joins or state.parent else view


def _with_branches(broker: Broker, state: State, view: StatusView) -> StatusView:
    """Add what only the records of joins tell: how the branches stand, and of which session this one is a branch."""
    controller = broker.app.controller
    try:
        open_ones = [fan for fan in fans(controller, state, past=False) if not fan.join.drained]
    except PlanError:
        open_ones = []  # a plan that is gone says so when the session is next decided about
    waits = [] if state.over else [_join_wait(controller.store, fan) for fan in open_ones if _is_awaited(fan)]
    return replace(
        view,
        waits=[*waits, *view.waits],
        above=path_of(controller, state),
        joins=[join_view(fan) for fan in open_ones],
    )


def _is_awaited(fan: Fan) -> bool:
    """Whether the session can do nothing before these branches do."""
    state = fan.parent
    if fan.join.closed:
        return state.status == "waiting-join"
    return not fan.join.asked and not state.ending


def _join_wait(store: Store, fan: Fan) -> Wait:
    view = join_view(fan)
    do = f"passdown show {fan.parent.session_id}"
    if view.closed:
        left = sum(view.outcomes.get(name, 0) for name in ("open", "waiting"))
        what = f"{many(left, 'branch')} to end, called off" if left else "a tick: all its branches have ended"
        then = f", then it is {fan.parent.ending}" if fan.parent.ending else ""
        return Wait(kind="branches", what=f"{what}{then}", do=do)
    shown = missing(store, fan, _MISSING)
    left = view.branches - sum(view.outcomes.get(name, 0) for name in FINAL)
    more = f" and {left - len(shown):,} more" if left > len(shown) else ""
    named = "; not yet: " + ", ".join(_not_yet(one) for one in shown) + more if shown else ""
    counted = f"{view.have:,} of {many(view.need, 'branch')} of stage {view.stage} ({view.rule})"
    return Wait(kind="join", what=f"{counted}{named}", until=view.deadline, do=do)


def _not_yet(branch: BranchView) -> str:
    people = [one.ticket for one in branch.waits if one.ticket]
    return f"{branch.name} ({branch.status}{f', ticket {people[0]}' if people else ''})"


def _missing_tools(broker: Broker, state: State, catalog: int) -> list[str]:
    if state.over or state.human:
        return []
    try:
        given, _ = broker.app.controller.catalog.given(state, state.plan, catalog)
        return granted(given, state.stage).missing
    except PassdownError:
        return []  # a plan that is gone says so when the session is next decided about


def view_of(
    state: State, beside: Beside, queues: dict[str, QueueRow], missing: list[str], now: int
) -> StatusView:
    """Return the view of a state and of what stands beside it."""
    return StatusView(
        session_id=state.session_id,
        task_id=state.task_id,
        task_name=state.task_name,
        key=state.key,
        plan=str(state.plan),
        status=state.shown_status,
        stage=state.stage,
        step=state.step,
        attempt=state.attempt,
        cause=state.issued.cause if state.issued else "",
        failures=state.failures,
        by=state.by,
        opened_at=state.opened_at,
        updated_at=state.at,
        now=now,
        waits=_waits(state, beside, queues, missing),
        worker=_worker(state),
        lease_left_ms=beside.lease_left_ms,
        handed_back=beside.handed_back,
        missing_tools=missing,
        questions=[_question(state, one) for one in state.questions],
        tickets=[_ticket(state, one) for one in state.tickets],
        effects=[_effect(one) for one in state.effects],
        feedback=[f"attempt {one.attempt}, {one.kind}: {one.text}" for one in state.feedback],
        outcome=state.outcome,
        counts=beside.counts,
        events=state.seq,
    )


def _worker(state: State) -> str:
    held = state.claim
    if held is None:
        return ""
    agent = " ".join(part for part in (held.agent, held.agent_version, held.model) if part)
    return f"{held.by} (claim {held.claim_id[:8]}{f', {agent}' if agent else ''})"


def _waits(state: State, beside: Beside, queues: dict[str, QueueRow], missing: list[str]) -> list[Wait]:
    """Return everything that this session waits for; empty once it has ended."""
    if state.over:
        return []
    found = [*_machine_waits(state, beside, queues, missing)]
    found += [_ticket_wait(state, ticket) for ticket in state.tickets]
    found += [_question_wait(state, one) for one in state.questions if _asks_producer(state, one)]
    if state.deadline is not None and not state.ending:
        found.append(Wait(kind="deadline", what=f"the deadline of stage {state.stage}", until=state.deadline))
    return found


def _machine_waits(
    state: State, beside: Beside, queues: dict[str, QueueRow], missing: list[str]
) -> list[Wait]:
    found: list[Wait] = []
    if state.ending and (state.unfinished() or not state.undrained()):
        count = many(len(state.unfinished()), "effect")
        found.append(Wait(kind="settle", what=f"{count} to be settled, then it is {state.ending}"))
    if state.paused:
        do = f"passdown resume {state.session_id}"
        found.append(Wait(kind="resume", what="being resumed", until=state.resume_at, do=do))
    if state.claim:
        left = "" if beside.lease_left_ms is None else f", lease left {span(beside.lease_left_ms)}"
        found.append(Wait(kind="return", what=f"the return of {clean(_worker(state))}{left}"))
    elif state.issued:
        found.append(Wait(kind="worker", what=_for_worker(state.issued, queues)))
    elif state.owed and not state.tickets and not any(not one.answered for one in state.questions):
        found.append(_owed(state, missing))
    return found


def _for_worker(issued: Issued, queues: dict[str, QueueRow]) -> str:
    row = queues.get(queue_of(issued))
    line = f" (its queue: {row.ready} ready, {row.reserved} taken, {row.running} running)" if row else ""
    if issued.delivery == "push":
        return f"the pack to be pushed to role {issued.role}{line}"
    return f"a worker of role {issued.role} to take the pack{line}"


def _owed(state: State, missing: list[str]) -> Wait:
    owed = state.owed
    until = owed.at if owed else None
    if missing:
        names = ", ".join(missing)
        what = f"tools that nobody registered: {names}"
        return Wait(kind="tools", what=what, until=until, do="passdown tools register MODULE")
    if state.paused:
        return Wait(kind="pack", what=f"its next pack ({owed.cause if owed else ''}), once it is resumed")
    return Wait(kind="time", what=f"its next attempt ({owed.cause if owed else ''})", until=until)


def _asks_producer(state: State, question: Asked) -> bool:
    """Whether no ticket stands for this open question."""
    about = str(question.attempt)
    ticketed = any(one.kind == "question" and one.about == about for one in state.tickets)
    return not question.answered and not ticketed


def _question_wait(state: State, question: Asked) -> Wait:
    what = f"an answer to {question.id}: {question.text}"
    return Wait(kind="answer", what=what, do=_answer_command(state, question))


def _answer_command(state: State, question: Asked) -> str:
    same = sum(one.id == question.id for one in state.questions)
    attempt = f" --attempt {question.attempt}" if same > 1 else ""
    return f"passdown answer {state.session_id} {_quoted(question.id)} VALUE{attempt}"


def _quoted(text: str) -> str:
    plain = text.isascii() and all(char.isalnum() or char in "_-.:/" for char in text)
    return text if plain else "'" + clean(text).replace("'", "'\\''") + "'"


def _ticket_wait(state: State, ticket: Ticket) -> Wait:
    what = f"a decision on ticket {ticket.ticket_no} ({ticket.kind}) in {ticket.queue}: {ticket.why}"
    return Wait(kind="ticket", what=what, do=_resolve_command(state, ticket))


def _resolve_command(state: State, ticket: Ticket) -> str:
    if ticket.kind in ("conflict", "short"):
        return f"passdown show {state.session_id}/{ticket.ticket_no}"
    # A yes is said of the action as it is shown here.
    seen = f" --version {ticket.version}" if "approve" in ticket.actions else ""
    return f"passdown resolve {state.session_id}/{ticket.ticket_no} RESOLUTION{seen} --as PRINCIPAL"


def _question(state: State, one: Asked) -> QuestionView:
    return QuestionView(
        attempt=one.attempt,
        id=one.id,
        text=one.text,
        schema=one.schema,
        ask=one.ask,
        answered=one.answered,
        value=one.value,
        by=one.by,
        do="" if one.answered else _answer_command(state, one),
    )


def _ticket(state: State, one: Ticket) -> TicketView:
    effect = state.effect(one.about)
    return TicketView(
        ticket=f"{state.session_id}/{one.ticket_no}",
        kind=one.kind,
        queue=one.queue,
        why=one.why,
        actions=list(one.actions),
        about=one.about,
        tool=effect.tool if effect else "",
        args=effect.args if effect else None,
        opened_at=one.opened_at,
        do=_resolve_command(state, one),
    )


def _effect(one: Effect) -> EffectView:
    return EffectView(
        effect_id=one.effect_id,
        ordinal=one.ordinal,
        step=one.step,
        tool=one.tool,
        status=one.status,
        attempts=one.attempts,
        args=one.edited or one.args,
        result=one.result,
        error=one.error,
        approved_by=one.approval.by if one.approval else "",
    )
