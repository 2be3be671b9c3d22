"""How events change questions and tickets; a part of `evolve`."""

from typing import Any, assert_never

from msgspec.structs import replace

from passdown.broker.core import joining, ledger
from passdown.broker.core.bounds import (
    ANSWERS_BYTES,
    ANSWERS_KEPT,
    DECIDED_KEPT,
    FEEDBACK_BYTES,
    FEEDBACK_KEPT,
    newest,
)
from passdown.broker.core.parts import Asked, Decided, FeedbackItem, Owed, Ticket
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.codec import clean_text, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.returns import DoneReturn


def input_requested(state: State, event: ev.InputRequested) -> State:
    """Fold questions; of earlier rounds the newest answers stay."""
    asked = [
        Asked(attempt=event.attempt, id=one.id, text=one.text, schema=one.schema, ask=event.ask)
        for one in event.questions
    ]
    earlier = newest(state.questions, ANSWERS_KEPT, ANSWERS_BYTES)
    dropped = len(state.questions) - len(earlier)
    return replace(
        state, questions=[*earlier, *asked], left_out=state.left_out + dropped, kept=None, owed=None
    )


def input_provided(state: State, event: ev.InputProvided, logged: ev.Logged) -> State:
    """Fold an answer; the last one lets the step go on."""
    questions = [
        replace(one, answered=True, value=event.value, by=logged.by)
        if (one.attempt, one.id) == (event.attempt, event.id)
        else one
        for one in state.questions
    ]
    changed = replace(state, questions=questions)
    return changed if changed.unanswered() else replace(changed, owed=Owed(cause="input", at=logged.at))


def with_feedback(state: State, kind: str, text: str) -> State:
    """Return the state with one more reason why an attempt did not count, and without the oldest."""
    item = FeedbackItem(attempt=state.attempt, kind=kind, text=text)
    kept = newest([*state.feedback, item], FEEDBACK_KEPT, FEEDBACK_BYTES)
    dropped = len(state.feedback) + 1 - len(kept)
    return replace(state, feedback=kept, left_out=state.left_out + dropped)


def pending_output(state: State) -> dict[str, Any] | None:
    """Return the output of the stage that was just finished."""
    if state.completed is not None:
        return state.completed
    return state.kept.output if isinstance(state.kept, DoneReturn) else None


def with_output(state: State) -> State:
    """Overlay the inputs with what the finished stage gave."""
    output = pending_output(state)
    data = {**state.data, **output} if output else state.data
    return replace(state, data=data, kept=None, completed=None)


def ticket_opened(state: State, event: ev.TicketOpened, logged: ev.Logged) -> State:
    """Fold a ticket; one that decides what follows takes the place of what would have been issued."""
    ticket = Ticket(
        ticket_no=event.ticket_no,
        kind=event.kind,
        queue=event.queue,
        why=event.why,
        actions=event.actions,
        about=event.about,
        action=event.action,
        opened_at=logged.at,
        stage=event.stage,
        priority=event.priority,
        needs=event.needs,
        approvals=event.approvals,
        lease_ms=event.lease_ms,
        due_at=event.due_at,
        escalate_at=event.escalate_at,
    )
    if event.kind not in ("question", "effect", "approval", "permission", "unmet"):
        state = replace(joining.left_to_person(with_output(state)), owed=None)
    return replace(state, tickets=[*state.tickets, ticket], tickets_opened=event.ticket_no)


def ticket_closed(state: State, event: ev.TicketResolved | ev.TicketWithdrawn, logged: ev.Logged) -> State:
    """Fold the end of a ticket, and what a person decided."""
    ticket = state.ticket(event.ticket_no)
    if ticket is None:
        raise ContractError("log", f"ticket {event.ticket_no} is not open")
    resolved = isinstance(event, ev.TicketResolved)
    how = event.resolution if resolved else f"withdrawn: {clean_text(event.why, 200)}"
    decided = Decided(ticket_no=ticket.ticket_no, by=logged.by, how=how)
    changed = replace(
        state,
        tickets=[one for one in state.tickets if one.ticket_no != event.ticket_no],
        decided=[*state.decided, decided][-DECIDED_KEPT:],
    )
    return _resolved(changed, event, ticket, logged) if resolved else changed


def _resolved(state: State, event: ev.TicketResolved, ticket: Ticket, logged: ev.Logged) -> State:
    match event.resolution:
        case "approve" | "edit":
            return ledger.approved(state, event, ticket, logged)
        case "deny":
            return ledger.denied(state, event, ticket, logged)
        case "complete":
            return replace(state, completed=event.value, owed=None, kept=None)
        case "send-back" if ticket.kind in ("conflict", "short"):
            return joining.sent_back(state, event, ticket.about, logged.by)
        case "send-back":
            # Somebody has looked at it: the failures before are forgotten.
            changed = with_feedback(state, "sent-back", feedback_text(event))
            return replace(
                changed, owed=Owed(cause="rework", at=logged.at), kept=None, failures=0, settles_lost=0
            )
        case "redirect":
            return replace(state, questions=[], owed=None, kept=None)
        case "answer" | "cancel" | "done" | "not-done" | "choose" | "merge":
            return state
        case _:
            assert_never(event.resolution)


def feedback_text(event: ev.TicketResolved) -> str:
    """Return what a person sent back with: the value, as it is or as JSON, and the note."""
    value = event.value
    text = value if isinstance(value, str) else "" if value is None else encode(value).decode()
    return clean_text("\n".join(part for part in (text, event.note) if part))
