"""What people decide: answers to questions and resolutions of tickets, as far as the plan allows (DESIGN §9)."""

from typing import Any, assert_never

from msgspec.structs import replace

from passdown.broker.core import branching, holding
from passdown.broker.core.advance import advance, move
from passdown.broker.core.bounds import (
    ARGS_BUDGET,
    DATA_LIMIT,
    SMALL_ANSWER,
    require_room,
)
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision, as_object, grant_of, permit_of
from passdown.broker.core.packing import grant_now, permit_now
from passdown.broker.core.parts import Asked, Effect, Ticket
from passdown.broker.core.returning import check_output
from passdown.broker.core.tickets import end, redirects
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import RETURN_BUDGET, STATE_BUDGET, check, clean_text, convert, encode
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied, NotFound
from passdown.contracts.ids import identity_digest
from passdown.contracts.plans import Grant
from passdown.contracts.schema import problems
from passdown.contracts.ticket_events import Resolution
from passdown.contracts.tools import ToolSpec, action_digest, identity_of, narrow

#: What the state may grow to with an answer or an output; the return that follows still fits.
_ANSWERED_LIMIT = STATE_BUDGET - RETURN_BUDGET


def answer(draft: Draft, body: cmd.Answer) -> Decision:
    """Answer one open question by its name (step, attempt, id); the last answer lets the step go on."""
    state = draft.state
    name = f"{body.attempt}/{clean_text(body.id, 100)}"
    if body.step != state.step:
        name += f" of step {body.step}"
    if state.over or state.ending:
        raise Conflict(
            f"question {name} is no longer open", "", f"the session is {state.ending or state.status}"
        )
    asked = state.questions if body.step == state.step else []
    question = next((one for one in asked if (one.attempt, one.id) == (body.attempt, body.id)), None)
    if question is None:
        known = ", ".join(f"{one.attempt}/{one.id}" for one in state.questions if not one.answered)
        raise NotFound("open question", name, f"open are: {known or 'none'}")
    if question.answered:
        raise Conflict(f"question {name} is answered", question.by, encode(question.value).decode()[:200])
    ticket = state.ticket_about("question", str(body.attempt))
    if ticket is not None:
        holding.require_may_take(draft, ticket, "answer")
        holding.require_not_of_another(draft, ticket)
    _provide(draft, question, body.value)
    _close_question_ticket(draft, body.attempt)
    advance(draft)
    return draft.decision()


def _provide(draft: Draft, question: Asked, value: Any) -> None:
    _check_value(value, what="answer")
    found = problems(question.schema, value)
    if found:
        raise ContractError("answer", "; ".join(found), pointer=f"/{question.id}")
    draft.add(ev.InputProvided(attempt=question.attempt, id=question.id, value=value))
    if len(encode(value)) > SMALL_ANSWER:
        require_room(draft.state, "answer", _ANSWERED_LIMIT)


def _close_question_ticket(draft: Draft, attempt: int) -> None:
    if draft.state.unanswered():
        return
    for ticket in draft.state.tickets:
        if ticket.kind == "question" and ticket.about == str(attempt):
            draft.add(ev.TicketResolved(ticket_no=ticket.ticket_no, resolution="answer"))


def _check_value(value: Any, *, what: str) -> None:
    check(value, what=what)
    size = len(encode(value))
    if size > RETURN_BUDGET:
        raise BudgetExceeded(what, size, RETURN_BUDGET)


def resolve(draft: Draft, body: cmd.Resolve) -> Decision:
    """Decide a ticket. Raises Conflict where it is not open at that version, Denied where it may not be."""
    ticket = holding.require_decides(draft, body)
    if body.resolution not in ticket.actions:
        allowed = ", ".join(ticket.actions)
        raise Denied(draft.command.by, f"{body.resolution} this {ticket.kind} ticket", f"it allows {allowed}")
    _check_value(body.value, what="resolution")
    _decide(draft, body, ticket)
    advance(draft)
    return draft.decision()


def _decide(draft: Draft, body: cmd.Resolve, ticket: Ticket) -> None:
    match body.resolution:
        case "answer":
            _answer_all(draft, body, ticket)
        case "approve" | "edit":
            _approve(draft, body, ticket)
        case "deny":
            _four_eyes(draft, ticket)
            draft.add(_resolved(body))
        case "complete":
            _complete(draft, body)
            _leave_join(draft, ticket, "a person gave the output")
        case "choose" | "merge":
            _join_by_person(draft, body, ticket)
        case "send-back":
            _send_back(draft, body, ticket)
        case "redirect":
            target = _allowed_target(draft, body.value)
            draft.add(_resolved(body))
            _leave_join(draft, ticket, f"a person went on with stage {target}")
            move(draft, target, "redirect")
        case "cancel":
            draft.add(_resolved(body))
            end(draft, "cancelled", clean_text(body.note, 500) or "cancelled by a person")
        case "done" | "not-done":
            _settle_by_person(draft, body, ticket)
        case _:
            assert_never(body.resolution)


def _resolved(body: cmd.Resolve, **more: Any) -> ev.TicketResolved:
    fields: dict[str, Any] = {"value": body.value, **more}
    return ev.TicketResolved(
        ticket_no=body.ticket_no, resolution=body.resolution, note=clean_text(body.note), **fields
    )


def _answer_all(draft: Draft, body: cmd.Resolve, ticket: Ticket) -> None:
    """Answer the questions of a ticket at once; each answer names its question."""
    given = as_object(body.value)
    mine = [one for one in draft.state.questions if str(one.attempt) == ticket.about and not one.answered]
    if given is not body.value or set(given) != {one.id for one in mine}:
        names = ", ".join(one.id for one in mine)
        raise ContractError("answer", f"expected an object with {names}", pointer="/value")
    for question in mine:
        _provide(draft, question, given[question.id])
    draft.add(_resolved(body, value=None))


def _complete(draft: Draft, body: cmd.Resolve) -> None:
    """Take a person's output for the stage."""
    output = as_object(body.value)
    check_output(draft, body.value, None)
    size = len(encode({**draft.state.data, **output}))
    if size > DATA_LIMIT:
        raise BudgetExceeded("session inputs with this output", size, DATA_LIMIT)
    draft.add(_resolved(body, value=output))


def _join_by_person(draft: Draft, body: cmd.Resolve, ticket: Ticket) -> None:
    """Take one branch, or merge those that count by now."""
    name = body.value if body.resolution == "choose" else ""
    if body.resolution == "choose":
        if not isinstance(name, str):
            raise ContractError("resolution", "choose names a branch", pointer="/value")
        outcome = branching.ended_branches(draft, ticket.about, [name])[name]
        if outcome != "done":
            problem = f"branch {name!r} has no output: it is {outcome}"
            raise ContractError("resolution", problem, pointer="/value")
    else:
        branching.require_mergeable(draft, ticket.about)
    draft.add(_resolved(body))
    if name:
        branching.close_by_person(draft, ticket.about, "chosen", branch=name)
    else:
        branching.close_by_person(draft, ticket.about, "partial", why="a person merged what is there")


def _send_back(draft: Draft, body: cmd.Resolve, ticket: Ticket) -> None:
    """Send the step back; of a join's ticket, the branches that the value names: {branches, feedback}."""
    if ticket.kind not in ("conflict", "short"):
        if not (body.value or body.note):
            raise ContractError("resolution", "send-back says what to do better", pointer="/value")
        draft.add(_resolved(body))
        return
    told = _sent_back(body)
    branching.ended_branches(draft, ticket.about, told.branches)
    draft.add(_resolved(body, value={"branches": told.branches, "feedback": clean_text(told.feedback)}))


def _sent_back(body: cmd.Resolve) -> cmd.SendBack:
    """Return the branches of a join that are sent back to, and what they are to do better; raises ContractError."""
    given = {"feedback": body.note, **as_object(body.value)}
    if given.get("branches") in (None, []):
        raise ContractError(
            "resolution", "send-back names the branches that it goes back to", pointer="/value/branches"
        )
    if given["feedback"] == "":
        problem = "send-back says what to do better, as feedback or as the note"
        raise ContractError("resolution", problem, pointer="/value/feedback")
    try:
        told = convert(given, cmd.SendBack, what="resolution")
    except ContractError as error:
        problem = error.problem.replace("`str`", "text").replace("`array`", "a list")
        raise ContractError("resolution", problem, pointer=f"/value{error.pointer}") from error
    twice = next((name for n, name in enumerate(told.branches) if name in told.branches[:n]), None)
    if twice is not None:
        problem = f"send-back names each branch once, and {twice!r} is there twice"
        raise ContractError("resolution", problem, pointer="/value/branches")
    return told


def _leave_join(draft: Draft, ticket: Ticket, why: str) -> None:
    if ticket.kind in ("conflict", "short"):
        branching.close_by_person(draft, ticket.about, "left", why=why)


def _four_eyes(draft: Draft, ticket: Ticket) -> Effect:
    """Return the effect that is proposed, or was not done after its approval; no one approves what they initiated (DESIGN §6)."""
    state, by = draft.state, draft.command.by
    effect = state.effect(ticket.about)
    wanted = ("proposed", "failed", "not-done") if ticket.kind == "unmet" else ("proposed",)
    if effect is None or effect.status not in wanted or effect.step != state.step:
        raise Conflict(f"the action of ticket {ticket.ticket_no} is no longer pending")
    if by in (effect.by, state.by):
        what = "proposed" if by == effect.by else "initiated"
        raise Denied(by, f"decide on {effect.tool}", f"whoever {what} an action does not approve it")
    return effect


def _approve(draft: Draft, body: cmd.Resolve, ticket: Ticket) -> None:
    """Approve the action, as it is or changed; where more people are needed, the ticket goes back to its queue."""
    effect = _four_eyes(draft, ticket)
    grant = _grant(draft, effect, ticket)
    action, args, identity = ticket.action, ticket.edited, ticket.edited_identity
    if body.resolution == "edit":
        action, identity = _edited(draft, effect, grant, body.value)
        args = as_object(body.value)
    else:
        _require_runs(draft, effect, grant, ticket)
    before = [] if body.resolution == "edit" else ticket.approved_by
    if len(before) + 1 < ticket.approvals:
        changed = {"args": args, "identity": identity} if body.resolution == "edit" else {}
        note = clean_text(body.note)
        draft.add(ev.TicketApproved(ticket_no=ticket.ticket_no, action=action, note=note, **changed))
    else:
        until = draft.at + int(grant.approval_seconds * 1000)
        resolution: Resolution = "approve" if args is None else "edit"
        decided = replace(body, resolution=resolution)
        draft.add(_resolved(decided, value=args, valid_until=until, action=action, identity=identity))
    if body.resolution == "edit":
        require_room(draft.state, "edit", _ANSWERED_LIMIT)


def _grant(draft: Draft, effect: Effect, ticket: Ticket) -> Grant:
    """Return what the stage grants of the effect's tool, or lets a person permit.

    One that was withdrawn meanwhile is denied at its call.
    """
    if ticket.kind == "permission" or (effect.approval is not None and effect.approval.permitted):
        permit = permit_of(draft.stage, effect.tool)
        if permit is not None:
            return permit_now(draft.given, draft.state.stage, effect.tool) or permit
    pinned = grant_of(draft.stage, effect.tool)
    if pinned is None:
        raise Denied(
            draft.command.by, f"approve {effect.tool}", f"stage {draft.state.stage} does not grant it"
        )
    return grant_now(draft.given, draft.state.stage, pinned)[0] or pinned


def _edited(draft: Draft, effect: Effect, grant: Grant, value: Any) -> tuple[str, dict[str, Any]]:
    """Check changed arguments; they may not turn the action into another effect that exists already."""
    args = as_object(value)
    if args is not value:
        raise ContractError("edit", "the changed arguments are a JSON object", pointer="/value")
    size = len(encode(args))
    if size > ARGS_BUDGET:
        raise BudgetExceeded("effect arguments", size, ARGS_BUDGET)
    spec = _spec(draft, effect)
    found = problems(narrow(spec.params, grant.params), args)
    if found:
        raise ContractError("edit", "; ".join(found), pointer="/value")
    identity = identity_of(spec, args)
    _require_alone(draft, effect, identity_digest(identity))
    return action_digest(effect.effect_id, effect.tool, args), identity


def _require_alone(draft: Draft, effect: Effect, runs_as: str) -> None:
    """Raise Conflict where the identity that an edit gives an effect is that of another one: one yes, one write."""
    for other in draft.state.effects:
        same = other.effect_id != effect.effect_id and other.tool == effect.tool
        if same and runs_as != effect.identity and runs_as in (other.identity, other.edited_identity):
            raise Conflict("the edit would make it another effect", other.effect_id, other.status)


def _require_runs(draft: Draft, effect: Effect, grant: Grant, ticket: Ticket) -> None:
    """Raise Denied for a yes to arguments that today's grant refuses, and Conflict where another effect has come first."""
    args, runs_as = effect.args if effect.edited is None else effect.edited, effect.edited_identity
    if ticket.edited is not None:
        args, runs_as = ticket.edited, identity_digest(ticket.edited_identity)
    found = problems(narrow(_spec(draft, effect).params, grant.params), args)
    if found:
        raise Denied(draft.command.by, f"approve {effect.tool} with these arguments", "; ".join(found))
    _require_alone(draft, effect, runs_as or effect.identity)


def _spec(draft: Draft, effect: Effect) -> ToolSpec:
    spec = draft.given.pinned.get(effect.tool_digest)
    if spec is None:
        raise NotFound("tool specification", effect.tool_digest[:12])
    return spec


def _allowed_target(draft: Draft, value: Any) -> str:
    allowed = redirects(draft.given.plan, draft.state)
    if not isinstance(value, str) or value not in allowed:
        names = ", ".join(allowed)
        raise Denied(draft.command.by, f"redirect to {value!r}", f"the plan allows {names}")
    return value


def _settle_by_person(draft: Draft, body: cmd.Resolve, ticket: Ticket) -> None:
    """Record what a person says about an effect; nothing more where the ledger says the same by now."""
    draft.add(_resolved(body))
    effect = draft.state.effect(ticket.about)
    done = body.resolution == "done"
    if effect is None or (effect.status != "unknown" and (effect.status == "done") == done):
        return
    draft.add(
        ev.EffectSettled(
            effect_id=ticket.about,
            status="done" if done else "not-done",
            result=body.value if done else None,
            repeat=not done,
            how="person",
        )
    )
