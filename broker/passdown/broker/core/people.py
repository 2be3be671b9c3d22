"""What people decide: answers to questions and resolutions of tickets, as far as the plan allows (DESIGN §9)."""

from typing import Any

from passdown.broker.core.advance import advance, move, withdraw_tickets
from passdown.broker.core.claims import check_output
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision, as_object, grant_of
from passdown.broker.core.state import Asked, Effect, Ticket
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import RETURN_BUDGET, check, encode
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied, NotFound
from passdown.contracts.ids import identity_digest
from passdown.contracts.plans import END, moves
from passdown.contracts.schema import problems
from passdown.contracts.tools import ToolSpec, action_digest, identity_of, narrow


def answer(draft: Draft, body: cmd.Answer) -> Decision:
    """Answer one open question by its name (step, attempt, id); the last answer lets the step go on."""
    asked = draft.state.questions if body.step == draft.state.step else []
    question = next((one for one in asked if (one.attempt, one.id) == (body.attempt, body.id)), None)
    name = f"{body.attempt}/{body.id}"
    if question is None:
        known = ", ".join(f"{one.attempt}/{one.id}" for one in draft.state.questions if not one.answered)
        raise NotFound("open question", name, f"open are: {known or 'none'}")
    if question.answered:
        raise Conflict(f"question {name} is answered", question.by, encode(question.value).decode()[:200])
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


def _close_question_ticket(draft: Draft, attempt: int) -> None:
    if any(one.attempt == attempt and not one.answered for one in draft.state.questions):
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
    state = draft.state
    ticket = state.ticket(body.ticket_no)
    if ticket is None:
        known = body.ticket_no <= state.tickets_opened
        if not known:
            raise NotFound("ticket", f"{state.session_id}/{body.ticket_no}")
        raise Conflict(
            f"ticket {state.session_id}/{body.ticket_no} is no longer open", "", "see the log for who decided"
        )
    if ticket.version != body.version:
        raise Conflict(f"ticket {body.ticket_no} is at version {ticket.version}, not {body.version}")
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
            output = as_object(body.value)
            check_output(draft, body.value, None)
            draft.add(_resolved(body, value=output))
        case "send-back":
            if not (body.value or body.note):
                raise ContractError("resolution", "send-back says what to do better", pointer="/value")
            draft.add(_resolved(body))
        case "redirect":
            target = _allowed_target(draft, body.value)
            draft.add(_resolved(body))
            move(draft, target, "redirect")
        case "cancel":
            draft.add(_resolved(body))
            end(draft, "cancelled", body.note or "cancelled by a person")
        case "done" | "not-done":
            _settle_by_person(draft, body, ticket)


def _resolved(body: cmd.Resolve, **more: Any) -> ev.TicketResolved:
    fields: dict[str, Any] = {"value": body.value, **more}
    return ev.TicketResolved(ticket_no=body.ticket_no, resolution=body.resolution, note=body.note, **fields)


def _answer_all(draft: Draft, body: cmd.Resolve, ticket: Ticket) -> None:
    """Answer the questions of a ticket at once; each answer names its question."""
    given = as_object(body.value)
    mine = [one for one in draft.state.questions if str(one.attempt) == ticket.about and not one.answered]
    missing = [one.id for one in mine if one.id not in given]
    surplus = [name for name in given if name not in {one.id for one in mine}]
    if missing or surplus or given is not body.value:
        raise ContractError(
            "answer", f"expected an object with {', '.join(one.id for one in mine)}", pointer="/value"
        )
    for question in mine:
        _provide(draft, question, given[question.id])
    draft.add(_resolved(body))


def _four_eyes(draft: Draft, ticket: Ticket) -> Effect:
    """Return the proposed effect; no one approves what they proposed or initiated (DESIGN §6)."""
    effect = draft.state.effect(ticket.about)
    if effect is None or effect.status != "proposed":
        raise Conflict(f"the action of ticket {ticket.ticket_no} is no longer pending")
    by = draft.command.by
    if by in (effect.by, draft.state.by):
        what = "proposed" if by == effect.by else "initiated"
        raise Denied(by, f"decide on {effect.tool}", f"whoever {what} an action does not approve it")
    return effect


def _approve(draft: Draft, body: cmd.Resolve, ticket: Ticket) -> None:
    effect = _four_eyes(draft, ticket)
    grant = grant_of(draft.stage, effect.tool)
    seconds = grant.approval_seconds if grant else 86_400.0
    action, identity = ticket.action, None
    if body.resolution == "edit":
        action, identity = _edited(draft, effect, body.value)
    draft.add(_resolved(body, valid_until=draft.at + int(seconds * 1000), action=action, identity=identity))


def _edited(draft: Draft, effect: Effect, value: Any) -> tuple[str, dict[str, Any]]:
    """Check changed arguments; they may not turn the action into another effect that exists already."""
    args = as_object(value)
    if args is not value:
        raise ContractError("edit", "the changed arguments are a JSON object", pointer="/value")
    spec = _spec(draft, effect)
    grant = grant_of(draft.stage, effect.tool)
    found = problems(narrow(spec.params, grant.params if grant else {}), args)
    if found:
        raise ContractError("edit", "; ".join(found), pointer="/value")
    identity = identity_of(spec, args)
    short = identity_digest(identity)
    for other in draft.state.effects:
        if other.effect_id != effect.effect_id and other.tool == effect.tool and other.identity == short:
            raise Conflict("the edit would make it another effect", other.effect_id, other.status)
    return action_digest(effect.effect_id, effect.tool, args), identity


def _spec(draft: Draft, effect: Effect) -> ToolSpec:
    spec = draft.given.pinned.get(effect.tool_digest)
    if spec is None:
        raise NotFound("tool specification", effect.tool_digest[:12])
    return spec


def _allowed_target(draft: Draft, value: Any) -> str:
    """A redirect leads to where the plan's moves lead from here, to this stage, or back to one already seen."""
    state = draft.state
    allowed = {state.stage, *moves(draft.stage).values(), *state.entries} - {END}
    if not isinstance(value, str) or value not in allowed:
        raise Denied(
            draft.command.by, f"redirect to {value!r}", f"the plan allows {', '.join(sorted(allowed))}"
        )
    return value


def _settle_by_person(draft: Draft, body: cmd.Resolve, ticket: Ticket) -> None:
    done = body.resolution == "done"
    draft.add(_resolved(body))
    draft.add(
        ev.EffectSettled(
            effect_id=ticket.about,
            status="done" if done else "not-done",
            result=body.value if done else None,
            repeat=not done,
            how="person",
        )
    )
    for other in draft.state.tickets:
        if other.kind == "approval" and other.about == ticket.about:
            draft.add(ev.TicketWithdrawn(ticket_no=other.ticket_no, why="a person said what happened"))


def end(draft: Draft, status: ev.EndingStatus, reason: str) -> None:
    """End the session, or record that it will end once what is open outside is settled (DESIGN §6)."""
    if draft.state.unfinished():
        draft.add(ev.Ending(status=status, reason=reason))
        withdraw_tickets(draft, reason)
        return
    withdraw_tickets(draft, reason)
    draft.add(ev.Cancelled(reason=reason) if status == "cancelled" else ev.Expired(reason=reason))
