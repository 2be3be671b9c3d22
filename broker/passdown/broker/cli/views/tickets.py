"""Tickets as the inbox prints them for scripts: every field is always there. Times are store milliseconds."""

import shlex
from typing import Any

from msgspec.structs import asdict

from passdown.broker.briefs import brief_of
from passdown.broker.cli.frame import Frame
from passdown.broker.client import Broker
from passdown.broker.inbox import KeptDraft, Outcome, Ref, TicketView
from passdown.broker.stores.queries import TicketRow
from passdown.contracts.brief import Brief
from passdown.contracts.codec import Wire
from passdown.contracts.errors import Conflict, ContractError, PassdownError

#: Resolution → what stands for its value in a command to copy.
_VALUES = {
    "answer": " 'ANSWERS'",
    "edit": " 'ARGUMENTS'",
    "complete": " 'OUTPUT'",
    "done": " 'RESULT'",
    "send-back": " 'WHAT TO DO BETTER'",
    "redirect": " STAGE",
    "choose": " BRANCH",
}


class ListedTicket(Wire, frozen=True, kw_only=True):
    """A row of the list. ``task`` is what its user calls the work; held or snoozed ``until`` then."""

    ticket: str
    version: int
    kind: str
    queue: str
    priority: int
    opened_at: int
    due_at: int | None
    overdue: bool
    held_by: str
    snoozed: bool
    until: int | None
    level: int
    lapses: int
    task: str
    why: str


class TicketJson(Wire, frozen=True, kw_only=True):
    """A ticket as one person sees it (`TicketView`); ``lease`` is the token of their own claim."""

    ticket: str
    version: int
    kind: str
    queue: str
    why: str
    actions: list[str]
    about: str
    stage: str
    priority: int
    opened_at: int
    due_at: int | None
    holder: str
    until: int | None
    lease: str
    why_not: str
    snoozed_until: int | None
    level: int
    lapses: int
    approvals: int
    approved_by: list[str]
    comments: int


class DraftJson(Wire, frozen=True, kw_only=True):
    """What this person has written and not sent; ``version`` counts how often it was kept."""

    ticket: str
    resolution: str | None
    value: Any
    note: str
    version: int
    at: int


class ShownTicket(Wire, frozen=True, kw_only=True):
    """A ticket with all that one needs to decide it."""

    ticket: TicketJson
    brief: Brief
    draft: DraftJson | None
    commands: list[str]
    now: int


class ErrorJson(Wire, frozen=True, kw_only=True):
    """Why nothing came of it; of a conflict: who was first, and what they decided."""

    code: str
    message: str
    winner: str
    decided: str


class OutcomeJson(Wire, frozen=True, kw_only=True):
    """What came of one ticket: the ticket, or null where it is decided; or the error. ``status`` is the session's."""

    ticket: str
    done: bool
    view: TicketJson | None
    status: str | None
    error: ErrorJson | None


def name_of(one: TicketRow | TicketView | Ref) -> str:
    """Return the name of a ticket."""
    return f"{one.session_id}/{one.ticket_no}"


def listed(broker: Broker, rows: list[TicketRow], now: int) -> list[ListedTicket]:
    """Return the rows of the list, each with its task."""
    return [_listed(row, _task(broker, row.session_id), now) for row in rows]


def _task(broker: Broker, session_id: str) -> str:
    try:
        state = broker.app.controller.load(session_id).state
    except ContractError:
        return ""  # it cannot be read, which is said to whoever asks for it
    return state.task_name if state else ""


def _listed(row: TicketRow, task: str, now: int) -> ListedTicket:
    return ListedTicket(
        ticket=name_of(row),
        version=row.version,
        kind=row.kind,
        queue=row.queue,
        priority=row.priority,
        opened_at=row.opened_at,
        due_at=row.due_at,
        overdue=row.due_at is not None and row.due_at <= now,
        held_by=row.holder,
        snoozed=not row.holder and row.until is not None,
        until=row.until,
        level=row.level,
        lapses=row.lapses,
        task=task,
        why=row.why,
    )


def ticket_json(view: TicketView) -> TicketJson:
    """Return a ticket with each of its fields."""
    fields = asdict(view)
    del fields["session_id"], fields["ticket_no"]
    return TicketJson(ticket=name_of(view), **fields)


def draft_json(ref: Ref, kept: KeptDraft | None) -> DraftJson | None:
    """Return what was kept, if anything was."""
    if kept is None:
        return None
    draft = kept.draft
    return DraftJson(
        ticket=name_of(ref),
        resolution=draft.resolution,
        value=draft.value,
        note=draft.note,
        version=kept.version,
        at=kept.at,
    )


def shown(broker: Broker, frame: Frame, view: TicketView) -> ShownTicket:
    """Return a ticket that this person may see with its brief. Raises PlanError where its plan is gone."""
    ref = Ref(view.session_id, view.ticket_no)
    return ShownTicket(
        ticket=ticket_json(view),
        brief=brief_of(broker.app.controller, *ref),
        draft=draft_json(ref, broker.inbox.draft(*ref)),
        commands=commands(view, broker.by, frame),
        now=broker.app.store.load("").now,
    )


def outcome_json(outcome: Outcome, status: str | None = None) -> OutcomeJson:
    """Return what came of one ticket."""
    error = outcome.error
    return OutcomeJson(
        ticket=name_of(outcome.ref),
        done=error is None,
        view=ticket_json(outcome.view) if outcome.view else None,
        status=status,
        error=None if error is None else _error(error),
    )


def _error(error: PassdownError) -> ErrorJson:
    conflict = isinstance(error, Conflict)
    return ErrorJson(
        code=error.code,
        message=str(error),
        winner=error.winner if conflict else "",
        decided=error.decided if conflict else "",
    )


def commands(view: TicketView, by: str, frame: Frame) -> list[str]:
    """Return what this person may type about a ticket now."""
    name, end = name_of(view), flags_of(frame)
    if view.holder == by:
        first = [f"resolve {name}"]
        also = [f"extend {name}", f"release {name}", f"snooze {name} 2h"]
    elif view.holder:
        return [f"passdown inbox take-over {name} --reason 'WHY'{end}"] if not view.why_not else []
    elif view.why_not:
        return []
    else:
        first, also = [f"claim {name}"], [f"wake {name}"] if view.snoozed_until else []
    joins = view.kind in ("conflict", "short")
    values = {**_VALUES, "send-back": " --branch NAME --note 'WHAT TO DO BETTER'"} if joins else _VALUES
    decide = [f"resolve {name} {one}{values.get(one, '')}{_seen(one, view)}" for one in view.actions]
    also.append(f"comment {name} 'TEXT'")
    return [f"passdown inbox {one}{end}" for one in [*first, *decide, *also]]


def _seen(resolution: str, view: TicketView) -> str:
    """Return what binds a yes to the action as it is shown."""
    return f" --version {view.version}" if resolution in ("approve", "edit") else ""


def flags_of(frame: Frame) -> str:
    """Return the shared flags that this command line had, for the next one."""
    words = [
        f" --{name} {shlex.quote(str(frame.flags[name]))}" for name in ("store", "as") if name in frame.flags
    ]
    return "".join(words) + (f" --config {shlex.quote(frame.config)}" if frame.config else "")
