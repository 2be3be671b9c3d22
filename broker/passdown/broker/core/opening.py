"""Submitting: what a session is opened with, and what of it is refused at once."""

from passdown.broker.core.advance import advance, enter
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision
from passdown.broker.core.items import branches_of
from passdown.broker.core.packing import build, granted
from passdown.broker.core.tickets import end, ended, open_ticket
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import PACK_BUDGET, check, clean_text, encode
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError
from passdown.contracts.ids import task_id
from passdown.contracts.outgoing import check_name
from passdown.contracts.replies import Opened
from passdown.contracts.schema import require
from passdown.contracts.ticket_events import Resolution

_KEY_LIMIT = 200
_TRACE_LIMIT = 512


def submit(draft: Draft, body: cmd.Submit) -> Decision:
    """Open a session and issue its first pack; where it exists it is the same session.

    Raises ContractError where key or inputs do not fit, BudgetExceeded where they are too large, Conflict
    where the session runs a plan of another name.
    """
    session_id = draft.command.session_id
    if draft.opened:
        if draft.state.plan.name != body.plan.name:
            raise Conflict(f"session {session_id} exists", draft.state.by, f"it runs {draft.state.plan}")
        return draft.decision(Opened(session_id=session_id))
    _check(draft, body)
    plan = draft.given.plan
    draft.add(
        ev.SessionOpened(
            session_id=session_id,
            task_id=task_id(session_id),
            task_name=clean_text(body.task_name or f"{plan.name} {body.key}", 200),
            key=body.key,
            plan=body.plan,
            inputs=body.inputs,
            resources=body.resources,
            lists=body.lists,
            trace=body.trace,
            reply_to=body.reply_to,
            events_to=draft.command.events_to,
        )
    )
    enter(draft, plan.start, "start")
    advance(draft)
    _check_first_pack(draft, body)
    return draft.decision(Opened(session_id=session_id))


def open_branch(draft: Draft, body: cmd.OpenBranch) -> Decision:
    """Open a branch, or call it off; where it exists it is the same session.

    Whatever its item is, it is opened: what does not fit the stage becomes its ticket, and is no other's.
    """
    session_id = draft.command.session_id
    opened = Opened(session_id=session_id)
    if not draft.opened:
        draft.add(
            ev.SessionOpened(
                session_id=session_id,
                task_id=body.task_id,
                task_name=body.task_name,
                key=f"{body.parent.join_id}/{body.parent.place}",
                plan=body.plan,
                inputs={} if body.cancel else body.inputs,
                resources=body.resources,
                parent=body.parent,
                trace=body.trace,
                events_to=body.events_to,
            )
        )
        if body.cancel:
            draft.add(ended("cancelled", body.cancel))
        else:
            enter(draft, body.stage, "branch", body.feedback)
    elif body.cancel and not (draft.state.over or draft.state.ending):
        end(draft, "cancelled", body.cancel)
    else:
        return draft.decision(opened)
    advance(draft)
    return draft.decision(opened)


def rework(draft: Draft, body: cmd.Rework) -> Decision:
    """Reopen a branch that has ended, with a person's feedback; one that is at work goes on as it is."""
    state = draft.state
    mine = state.parent is not None and state.parent.join_id == body.join_id
    if not (mine and state.over and state.stage):
        return draft.decision()
    seconds = draft.stage.deadline_seconds
    deadline = None if seconds is None else draft.at + int(seconds * 1000)
    draft.add(ev.Reopened(feedback=body.feedback, deadline=deadline))
    if state.human:
        actions: list[Resolution] = ["complete", "redirect", "cancel"]
        open_ticket(draft, "stage", body.feedback, actions)
    join, contract = draft.state.joining, draft.stage.fan_out
    if join is not None and contract is not None and not (join.merges and contract.merged_by_role):
        # Nothing can be merged again, or it would come to the same: its branches are opened anew.
        enter(draft, state.stage, "rework", body.feedback)
    advance(draft)
    return draft.decision()


def _check(draft: Draft, body: cmd.Submit) -> None:
    check([body.key, body.trace], what="submit")
    if not 0 < len(body.key) <= _KEY_LIMIT or len(body.trace) > _TRACE_LIMIT:
        problem = f"the key has 1 to {_KEY_LIMIT} characters, the trace at most {_TRACE_LIMIT}"
        raise ContractError("submit", problem, pointer="/key")
    if body.reply_to:
        check_name(body.reply_to, what="submit", pointer="/replyTo")
    check(body.inputs, what="inputs")
    inputs, resources = len(encode(body.inputs)), len(encode(body.resources))
    if inputs + resources > PACK_BUDGET:
        what = "inputs" if resources <= 2 else "inputs and resources"
        raise BudgetExceeded(what, inputs + resources, PACK_BUDGET, _largest(body))
    schema = draft.given.stage(draft.given.plan.start).inputs
    if schema is not None:
        require(schema, body.inputs, what="inputs")
    contract = draft.given.stage(draft.given.plan.start).fan_out
    if contract is not None:
        branches_of(contract, body.inputs, body.lists)


def _check_first_pack(draft: Draft, body: cmd.Submit) -> None:
    """What a sender brings over budget is refused there, and does not become a ticket."""
    state, given = draft.state, draft.given
    if state.human or state.issued is not None or state.joins:
        return
    # A tool is not registered yet, or the pack is too large; whatever it is, the size is known now.
    if build(state, given, "first", draft.at, granted(given, state.stage)) is None:
        size = len(encode(body.inputs)) + len(encode(body.resources))
        raise BudgetExceeded("the first pack's inputs and resources", size, PACK_BUDGET, _largest(body))


def _largest(body: cmd.Submit) -> dict[str, int]:
    sizes = {f"inputs.{name}": len(encode(value)) for name, value in body.inputs.items()}
    sizes["resources"] = len(encode(body.resources))
    return dict(sorted(sizes.items(), key=lambda item: -item[1])[:3])
