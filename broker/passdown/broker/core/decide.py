"""`decide(state, command) -> Decision`: the one place where it is decided what a command leads to.

Pure: the clock, new ids, the plan and the tools come in with the command (DESIGN §4). A command that
may not be carried out raises an error and changes nothing; one that no longer applies decides nothing.
"""

from typing import assert_never

from passdown.broker.core import (
    branching,
    claims,
    effects,
    holding,
    opening,
    people,
    returning,
    settling,
    verbs,
)
from passdown.broker.core.advance import advance
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Command, Decision, DueAt
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.broker.core.tickets import end
from passdown.contracts import commands as cmd
from passdown.contracts.errors import NotFound


def decide(state: State | None, command: Command) -> Decision:  # noqa: C901, PLR0911, PLR0912 - one case a command
    """Return the events that `command` leads to, the state after them, and the reply.

    Raises NotFound where there is no such session, and what the command's own docstring names.
    """
    draft = Draft(state, command)
    body = command.body
    if isinstance(body, cmd.Submit):
        return opening.submit(draft, body)
    if isinstance(body, cmd.OpenBranch):
        return opening.open_branch(draft, body)
    if state is None:
        raise NotFound("session", command.session_id)
    match body:
        case cmd.Claim():
            return claims.claim(draft, body)
        case cmd.Release():
            return claims.release(draft, body)
        case cmd.Checkpoint():
            return claims.checkpoint(draft, body)
        case cmd.NoteTools():
            return claims.note(draft, body)
        case cmd.Intend():
            return effects.intend(draft, body)
        case cmd.Report():
            return settling.report(draft, body)
        case cmd.Settle():
            return settling.settle(draft, body)
        case cmd.Give():
            return returning.give(draft, body)
        case cmd.Fail():
            return returning.fail(draft, body)
        case cmd.Answer():
            return people.answer(draft, body)
        case cmd.Resolve():
            return people.resolve(draft, body)
        case cmd.Cancel():
            return verbs.cancel(draft, body)
        case cmd.Pause():
            return verbs.pause(draft, body)
        case cmd.Resume():
            return verbs.resume(draft)
        case cmd.Retry():
            return verbs.retry(draft)
        case cmd.Rework():
            return opening.rework(draft, body)
        case cmd.Due():
            return due(draft, body)
        case _:
            return _on_ticket(draft, body)


def _on_ticket(draft: Draft, body: cmd.TicketCommand) -> Decision:
    match body:
        case cmd.ClaimTicket():
            return holding.claim(draft, body)
        case cmd.ExtendTicket():
            return holding.extend(draft, body)
        case cmd.ReleaseTicket():
            return holding.release(draft, body)
        case cmd.ReassignTicket():
            return holding.reassign(draft, body)
        case cmd.SnoozeTicket():
            return holding.snooze(draft, body)
        case cmd.WakeTicket():
            return holding.wake(draft, body)
        case cmd.CommentTicket():
            return holding.comment(draft, body)
        case cmd.AlertTicket():
            return holding.alert(draft, body)
        case _:
            assert_never(body)


def due(draft: Draft, body: cmd.Due) -> Decision:
    """Act on a due entry, unless the state no longer waits for exactly that."""
    match body.kind:
        case "lease":
            return claims.lease_lost(draft, body.subject)
        case "restarted":
            return claims.store_restarted(draft, body.subject)
        case "join":
            branching.look(draft, body.subject)
            advance(draft)
            return draft.decision()
        case _:
            return _due_in_state(draft, body)


def _due_in_state(draft: Draft, body: cmd.Due) -> Decision:
    waited = DueAt(kind=body.kind, subject=body.subject, at=body.due_at)
    if waited not in dues(draft.state):
        return draft.decision()
    # The store lets durations pass: where its clock stepped back since, the time it names is still ahead.
    if body.kind != "branches":
        draft.at = max(draft.at, body.due_at)
    match body.kind:
        case "deadline":
            end(draft, "expired", f"the deadline of stage {draft.state.stage} passed")
        case "resume-at":
            return verbs.resume(draft)
        case "join-deadline":
            branching.too_late(draft, body.subject)
        case "branches":
            branching.told(draft, body.subject)
        case "ticket-lease":
            holding.lease_due(draft, int(body.subject))
        case "ticket-wake":
            holding.wake_due(draft, int(body.subject))
        case "ticket-escalate":
            holding.escalate_due(draft, int(body.subject))
        case _:
            pass  # `retry-at`, and nothing else stands in the state: `advance` sees to what is owed
    advance(draft)
    return draft.decision()


def dues(state: State) -> list[DueAt]:
    """Return what the state waits for and until when; leases and reservations stand beside the state."""
    found = [due for ticket in state.tickets for due in _dues_of(ticket)]
    if state.over:
        return found
    found += [DueAt(kind=kind, subject=subject, at=at) for kind, subject, at in branching.due_at(state)]
    if state.ending:
        return found
    if state.deadline is not None:
        found.append(DueAt(kind="deadline", subject=str(state.step), at=state.deadline))
    if state.paused and state.resume_at is not None:
        found.append(DueAt(kind="resume-at", subject="", at=state.resume_at))
    waiting = state.tickets or state.issued
    if state.owed is not None and not state.paused and not waiting:
        subject = f"{state.step}/{state.attempt + 1}"
        found.append(DueAt(kind="retry-at", subject=subject, at=state.owed.at))
    return found


def _dues_of(ticket: Ticket) -> list[DueAt]:
    """Return what is due about a ticket. While somebody holds it, nobody else is called for."""
    subject = str(ticket.ticket_no)
    found: list[DueAt] = []
    if ticket.holder is not None:
        return [DueAt(kind="ticket-lease", subject=subject, at=ticket.holder.until)]
    if ticket.snoozed_until is not None:
        found.append(DueAt(kind="ticket-wake", subject=subject, at=ticket.snoozed_until))
    if ticket.escalate_at is not None:
        found.append(DueAt(kind="ticket-escalate", subject=subject, at=ticket.escalate_at))
    return found
