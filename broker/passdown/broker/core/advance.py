"""What follows of itself once a command's own events are recorded: the next pack, stage, ticket or end.

`advance` looks at the state and does what nothing stands in the way of; each rule is applied until none
applies. Every command ends with it, so that no path can leave a session waiting for nothing.
"""

from msgspec import UNSET

from passdown.broker.core import recovery
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import as_object
from passdown.broker.core.packing import build, granted, starts_from_top
from passdown.contracts import events as ev
from passdown.contracts.codec import encode
from passdown.contracts.pack import Cause
from passdown.contracts.plans import END, FAIL, OPERATORS, PRODUCER, Stage
from passdown.contracts.returns import DoneReturn, EscalateReturn, NeedsInputReturn, RefusedReturn
from passdown.contracts.schema import problems

_DECIDES: list[ev.Resolution] = ["complete", "send-back", "redirect", "cancel"]


def advance(draft: Draft) -> None:
    """Do all that follows; afterwards the session runs, waits for something that can happen, or has ended."""
    while _next_move(draft):
        pass


def _next_move(draft: Draft) -> bool:
    state = draft.state
    if state.over or state.claim is not None:
        return False
    if state.unknown():
        return _settle(draft)
    if state.ending and not state.unfinished():
        return _end(draft)
    if state.issued is not None or state.ending:
        return False
    if state.completed is not None:
        return _follow_output(draft, state.completed, None)
    if state.kept is not None:
        return _follow_return(draft)
    if state.owed is None or state.paused or state.tickets or _unanswered(draft):
        return False
    return _issue_owed(draft)


def _unanswered(draft: Draft) -> bool:
    return any(not question.answered for question in draft.state.questions)


def _settle(draft: Draft) -> bool:
    """Ask the tools what happened; where they cannot tell, ask a person, once for each effect."""
    state = draft.state
    if state.issued is not None or state.paused:
        return False
    asked = {ticket.about for ticket in state.tickets if ticket.kind == "effect"}
    open_ones = [effect for effect in state.unknown() if effect.effect_id not in asked]
    if not open_ones:
        return False
    if not recovery.settles_used_up(draft.stage, state) and _issue(draft, "settle"):
        return True
    for effect in open_ones:
        ask_about_effect(draft, effect.effect_id, f"nobody could find out whether {effect.tool} happened")
    return bool(open_ones)


def ask_about_effect(draft: Draft, effect_id: str, why: str) -> None:
    """Open a ticket on an effect of which a person must say whether it happened."""
    open_ticket(draft, "effect", draft.stage, why, ["done", "not-done"], about=effect_id)


def _end(draft: Draft) -> bool:
    state = draft.state
    withdraw_tickets(draft, "the session ends")
    reason = state.ending_reason
    draft.add(ev.Cancelled(reason=reason) if state.ending == "cancelled" else ev.Expired(reason=reason))
    return True


def _follow_return(draft: Draft) -> bool:
    """Draw the consequences of the accepted return, once no effect of the step is unknown."""
    body = draft.state.kept
    match body:
        case DoneReturn():
            return _follow_done(draft, body)
        case NeedsInputReturn():
            _request_input(draft, body)
        case RefusedReturn():
            _follow_refused(draft, body)
        case EscalateReturn():
            _escalate(draft, body)
        case None:
            return False
    return True


def _follow_refused(draft: Draft, body: RefusedReturn) -> None:
    target = draft.stage.on_refused
    if target is not None:
        move(draft, target, "refused")
        return
    withdraw_tickets(draft, "the session ends")
    draft.add(ev.Refused(reason=body.reason, policy=body.policy))


def _follow_done(draft: Draft, body: DoneReturn) -> bool:
    state = draft.state
    undone = [effect for effect in state.effects if effect.status == "not-done" and effect.step == state.step]
    if undone and any(effect.claims and effect.claims[-1] == body.claim_id for effect in undone):
        names = ", ".join(effect.tool for effect in undone)
        draft.add(
            ev.ReturnRejected(
                claim_id=body.claim_id,
                kind="unsettled",
                problem=f"the return says done, but {names} turned out not to have happened",
                retry_at=recovery.retry_at(draft.stage, state.failures + 1, draft.at),
            )
        )
        return True
    return _follow_output(draft, body.output, body.next_step)


def _follow_output(draft: Draft, output: object, suggestion: str | None) -> bool:
    move(draft, *next_stage(draft.stage, output, suggestion))
    return True


def next_stage(stage: Stage, output: object, suggestion: str | None) -> tuple[str, str]:
    """Return (stage, reason) that `done` with this output leads to; ("", value) where `next` does not map it."""
    following = stage.next
    if following.field is not None:
        value = as_object(output).get(following.field)
        name = value if isinstance(value, str) else encode(value).decode()
        return following.cases.get(name, ""), f"{following.field}={name}"
    if following.suggest:
        if suggestion in following.suggest:
            return suggestion, "suggested"
        return (following.to or "", "done")
    return following.to or END, "done"


def move(draft: Draft, target: str, reason: str) -> None:
    """Enter a stage, or ask a person where the plan's bounds on loops are reached."""
    state = draft.state
    plan = draft.given.plan
    if target == END:
        withdraw_tickets(draft, "the session ends")
        draft.add(ev.Completed())
        return
    stage = draft.given.stage(target)
    entries = state.entries.get(target, 0)
    if entries >= stage.max_entries or state.step >= plan.max_steps:
        bound = f"{stage.max_entries} entries" if entries >= stage.max_entries else f"{plan.max_steps} steps"
        open_ticket(
            draft, "failure", stage, f"the move to {target} would go beyond the bound of {bound}", _DECIDES
        )
        return
    withdraw_tickets(draft, f"the session moved on to {target}")
    enter(draft, target, reason)


def enter(draft: Draft, target: str, reason: str) -> None:
    """Enter a stage without asking; a human stage opens its ticket at once."""
    stage = draft.given.stage(target)
    step = draft.state.step + 1
    deadline = None if stage.deadline_seconds is None else draft.at + int(stage.deadline_seconds * 1000)
    human = stage.queue is not None
    draft.add(ev.StageEntered(stage=target, step=step, reason=reason, human=human, deadline=deadline))
    misfit = [] if stage.inputs is None else problems(stage.inputs, draft.state.data)
    if misfit:
        open_ticket(
            draft, "failure", stage, f"the inputs do not fit the stage: {'; '.join(misfit)}", _DECIDES
        )
    elif human:
        open_ticket(
            draft, "stage", stage, stage.goal or f"stage {target}", ["complete", "redirect", "cancel"]
        )


def _request_input(draft: Draft, body: NeedsInputReturn) -> None:
    stage = draft.stage
    draft.add(ev.InputRequested(attempt=body.attempt, questions=body.questions, ask=stage.ask))
    if stage.ask != PRODUCER:
        text = "; ".join(question.text for question in body.questions)
        actions: list[ev.Resolution] = ["answer", "redirect", "cancel"]
        open_ticket(draft, "question", stage, text[:500], actions, about=str(body.attempt), queue=stage.ask)


def _escalate(draft: Draft, body: EscalateReturn) -> None:
    hand_over = None if body.hand_over is UNSET else body.hand_over
    draft.add(
        ev.Escalated(
            reason=body.reason,
            recommended=body.recommended,
            risks=body.risks,
            evidence=body.evidence,
            hand_over=hand_over,
        )
    )
    open_ticket(draft, "escalation", draft.stage, body.reason, _DECIDES)


def _issue_owed(draft: Draft) -> bool:
    state, stage = draft.state, draft.stage
    owed = state.owed
    if owed is None:
        return False
    if stage.on_denied is not None and owed.cause != "rework" and _denied(draft):
        move(draft, stage.on_denied, "denied")
        return True
    if owed.cause == "retry" and recovery.person_decides(stage, state):
        open_ticket(
            draft,
            "failure",
            stage,
            "the attempt was lost; the plan leaves what follows to a person",
            _DECIDES,
        )
        return True
    if owed.cause == "retry" and recovery.used_up(stage, state):
        return _give_up(draft)
    if owed.at > draft.at:
        return False
    return _issue(draft, owed.cause)


def _denied(draft: Draft) -> bool:
    """Whether a person denied an action of this step. Where that leads waits for what is unknown (DESIGN §6)."""
    state = draft.state
    return any(effect.status == "denied" and effect.step == state.step for effect in state.effects)


def _give_up(draft: Draft) -> bool:
    state, stage = draft.state, draft.stage
    last = state.feedback[-1].text if state.feedback else "no attempt counted"
    why = f"{state.failures} attempts did not count; the last: {last}"[:500]
    if stage.on_failed is None:
        open_ticket(draft, "failure", stage, why, _DECIDES)
    elif stage.on_failed == FAIL:
        withdraw_tickets(draft, "the session ends")
        draft.add(ev.Failed(reason=why))
    else:
        move(draft, stage.on_failed, "failed")
    return True


def _issue(draft: Draft, cause: Cause, *, fresh: bool = False) -> bool:
    """Put the next attempt on its queue. False where a tool was never registered (looked at again later)."""
    state, stage = draft.state, draft.stage
    tools = granted(draft.given, state.stage)
    if tools.missing and cause != "settle":
        return False
    built = build(state, draft.given, cause, draft.at, tools)
    if built is None:
        why = "the pack would be over its budget even without its oldest entries"
        if cause == "settle":
            return False
        open_ticket(draft, "budget", stage, why, _DECIDES)
        return True
    pack, raw = built
    draft.pack = raw
    draft.add(
        ev.PackIssued(
            step=state.step,
            attempt=pack.attempt,
            cause=cause,
            role=stage.role,
            digest=pack.digest,
            bytes=len(raw),
            lease_ms=int(stage.lease_seconds * 1000),
            solo=state.lost > 0 and not fresh,
            priority=stage.priority,
            fresh=fresh,
            from_top=starts_from_top(stage, cause),
            tools={name: entry[1] for name, entry in tools.tools.items()},
            changes=pack.changes,
            left_out=pack.left_out,
        )
    )
    return True


def issue_again(draft: Draft) -> bool:
    """Issue the present step anew with its failures forgotten (the verb `retry`)."""
    return _issue(draft, "retry", fresh=True)


def open_ticket(
    draft: Draft,
    kind: ev.TicketKind,
    stage: Stage,
    why: str,
    actions: list[ev.Resolution],
    *,
    about: str = "",
    action: str = "",
    queue: str | None = None,
) -> int:
    """Open a ticket on the plan's queue, else the first of the escalation path, else `operators`."""
    path = stage.escalation[0].queue if stage.escalation else OPERATORS
    number = draft.state.tickets_opened + 1
    draft.add(
        ev.TicketOpened(
            ticket_no=number,
            kind=kind,
            queue=queue or stage.queue or path,
            why=why,
            actions=actions,
            about=about,
            action=action,
        )
    )
    return number


def withdraw_tickets(draft: Draft, why: str) -> None:
    """Withdraw open tickets, but those on whether an effect happened: that is asked wherever the session goes."""
    for ticket in draft.state.tickets:
        if ticket.kind != "effect":
            draft.add(ev.TicketWithdrawn(ticket_no=ticket.ticket_no, why=why))
