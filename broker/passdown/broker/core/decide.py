"""`decide(state, command) -> Decision`: the one place where it is decided what a command leads to.

Pure: the clock, new ids, the plan and the tools come in with the command (DESIGN §4). A command that
may not be carried out raises an error and changes nothing; one that no longer applies decides nothing.
"""

from typing import assert_never

from passdown.broker.core import claims, effects, people
from passdown.broker.core.advance import advance, enter, issue_again, withdraw_tickets
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Command, Decision, DueAt
from passdown.broker.core.packing import build, granted
from passdown.broker.core.state import State
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import PACK_BUDGET, check, clean_text, encode
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, NotFound, PlanError
from passdown.contracts.ids import task_id
from passdown.contracts.replies import Opened
from passdown.contracts.schema import require


def decide(state: State | None, command: Command) -> Decision:  # noqa: C901, PLR0911, PLR0912 - one case a command
    """Return the events that `command` leads to, the state after them, and the reply.

    Raises NotFound where there is no such session, and what the command's own docstring names.
    """
    draft = Draft(state, command)
    body = command.body
    if isinstance(body, cmd.Submit):
        return submit(draft, body)
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
            return effects.report(draft, body)
        case cmd.Settle():
            return effects.settle(draft, body)
        case cmd.Give():
            return claims.give(draft, body)
        case cmd.Fail():
            return claims.fail(draft, body)
        case cmd.Answer():
            return people.answer(draft, body)
        case cmd.Resolve():
            return people.resolve(draft, body)
        case cmd.Cancel():
            return cancel(draft, body)
        case cmd.Pause():
            return pause(draft, body)
        case cmd.Resume():
            return resume(draft, body)
        case cmd.Retry():
            return retry(draft, body)
        case cmd.Due():
            return due(draft, body)
        case _:
            assert_never(body)


def submit(draft: Draft, body: cmd.Submit) -> Decision:
    """Open a session and issue its first pack. Raises ContractError where the inputs do not fit."""
    session_id = draft.command.session_id
    plan = draft.given.plan
    _check_inputs(draft, body)
    task = body.task_name or f"{plan.name} {body.key}"
    draft.add(
        ev.SessionOpened(
            session_id=session_id,
            task_id=task_id(session_id),
            task_name=clean_text(task, 200),
            key=body.key,
            plan=body.plan,
            inputs=body.inputs,
            resources=body.resources,
            trace=body.trace,
        )
    )
    enter(draft, plan.start, "start")
    _check_first_pack(draft, body)
    advance(draft)
    return draft.decision(Opened(session_id=session_id))


def _check_inputs(draft: Draft, body: cmd.Submit) -> None:
    check(body.inputs, what="inputs")
    size = len(encode(body.inputs))
    if size > PACK_BUDGET:
        sizes = {name: len(encode(value)) for name, value in body.inputs.items()}
        largest = dict(sorted(sizes.items(), key=lambda item: -item[1])[:3])
        raise BudgetExceeded("inputs", size, PACK_BUDGET, largest)
    schema = draft.given.stage(draft.given.plan.start).inputs
    if schema is not None:
        require(schema, body.inputs, what="inputs")


def _check_first_pack(draft: Draft, body: cmd.Submit) -> None:
    """What a sender brings over budget is refused there, and does not become a ticket later."""
    if draft.state.human:
        return
    tools = granted(draft.given, draft.state.stage)
    if build(draft.state, draft.given, "first", draft.at, tools) is None:
        size = len(encode(body.inputs)) + len(encode(body.resources))
        raise BudgetExceeded("first pack (inputs and resources)", size, PACK_BUDGET)


def cancel(draft: Draft, body: cmd.Cancel) -> Decision:
    """Call the session off. Raises Conflict where it has ended or moved on since it was seen."""
    _require_open(draft, "cancel")
    if draft.state.ending:
        return draft.decision()
    people.end(draft, "cancelled", clean_text(body.reason, 500) or "cancelled")
    advance(draft)
    return draft.decision()


def pause(draft: Draft, body: cmd.Pause) -> Decision:
    """Issue nothing new until resumed."""
    _require_open(draft, "pause")
    if draft.state.ending:
        raise Conflict("the session is ending", "", draft.state.ending)
    if draft.state.paused:
        return draft.decision()
    if body.for_ms is not None and body.for_ms < 1:
        raise ContractError("pause", f"expected a time above zero, got {body.for_ms} ms", pointer="/forMs")
    until = None if body.for_ms is None else draft.at + body.for_ms
    draft.add(ev.Paused(until=until, reason=clean_text(body.reason, 500)))
    return draft.decision()


def resume(draft: Draft, _body: cmd.Resume) -> Decision:
    """Go on after a pause."""
    _require_open(draft, "resume")
    return _resumed(draft)


def _resumed(draft: Draft) -> Decision:
    if draft.state.paused:
        draft.add(ev.Resumed())
        advance(draft)
    return draft.decision()


def retry(draft: Draft, _body: cmd.Retry) -> Decision:
    """Issue the present step again, its failures forgotten; reopens a failed session.

    Raises Conflict where the session runs, waits for something else, or ended otherwise.
    """
    state = draft.state
    waits_for_person = any(ticket.kind in ("failure", "budget", "escalation") for ticket in state.tickets)
    waits_for_time = state.owed is not None and state.owed.cause == "retry"
    if state.status != "failed" and (state.over or state.paused or not (waits_for_person or waits_for_time)):
        raise Conflict("there is nothing to retry", "", f"the session is {state.shown_status}")
    if state.human or state.unknown():
        raise Conflict("this step is with a person", "", "resolve its ticket")
    if state.deadline is not None and state.deadline <= draft.at:
        raise Conflict("the stage's deadline has passed", "", "submit the work anew")
    withdraw_tickets(draft, "retried by an operator")
    if not issue_again(draft):
        raise PlanError(
            str(state.plan), [f"stage {state.stage} grants tools that are not registered: retry later"]
        )
    return draft.decision()


def _require_open(draft: Draft, verb: str) -> None:
    state = draft.state
    if state.over:
        raise Conflict(f"cannot {verb}: the session has ended", "", state.status)


def due(draft: Draft, body: cmd.Due) -> Decision:
    """Act on a due entry, unless the state no longer waits for exactly that."""
    if body.kind == "lease":
        return claims.lease_lost(draft, body.subject)
    waited = DueAt(kind=body.kind, subject=body.subject, at=body.due_at)
    if waited not in dues(draft.state):
        return draft.decision()
    # The store lets durations pass: where its clock stepped back since, the time it names is still ahead.
    draft.at = max(draft.at, body.due_at)
    match body.kind:
        case "deadline":
            return _deadline(draft)
        case "resume-at":
            return _resumed(draft)
        case "retry-at":
            advance(draft)
            return draft.decision()
        case _:
            assert_never(body.kind)


def _deadline(draft: Draft) -> Decision:
    people.end(draft, "expired", f"the deadline of stage {draft.state.stage} passed")
    advance(draft)
    return draft.decision()


def dues(state: State) -> list[DueAt]:
    """Return what the state waits for and until when; leases and reservations stand beside the state."""
    if state.over:
        return []
    found: list[DueAt] = []
    if state.deadline is not None and not state.ending:
        found.append(DueAt(kind="deadline", subject=str(state.step), at=state.deadline))
    if state.paused and state.resume_at is not None:
        found.append(DueAt(kind="resume-at", subject="", at=state.resume_at))
    waiting = state.tickets or state.issued or state.claim or any(not one.answered for one in state.questions)
    if state.owed is not None and not state.paused and not waiting and not state.ending:
        found.append(DueAt(kind="retry-at", subject=str(state.attempt + 1), at=state.owed.at))
    return found
