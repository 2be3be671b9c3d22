"""What follows of itself once a command's own events are recorded: the next pack, stage, ticket or end.

`advance` looks at the state and does what nothing stands in the way of; each rule is applied until none
applies. Every command ends with it, so that no path can leave a session waiting for nothing.
"""

from typing import Literal

from msgspec import UNSET

from passdown.broker.core import branching, recovery
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import as_object
from passdown.broker.core.packing import build, granted, starts_from_top, to_verify
from passdown.broker.core.parts import Join, Owed
from passdown.broker.core.tickets import DECIDES, WHY_LIMIT, ask_about_effect, ended, open_ticket
from passdown.broker.core.unmet import ask_about_unmet
from passdown.contracts import events as ev
from passdown.contracts.codec import clean_text, encode
from passdown.contracts.pack import Cause
from passdown.contracts.plans import END, FAIL, PRODUCER, FanOut, Stage
from passdown.contracts.returns import DoneReturn, EscalateReturn, NeedsInputReturn, RefusedReturn, Return
from passdown.contracts.schema import problems
from passdown.contracts.ticket_events import Resolution

#: What became of a try to issue a pack: a tool was never registered, or the pack is too large for its budget.
Issue = Literal["issued", "missing", "too-large"]


def advance(draft: Draft) -> None:
    """Do all that follows; afterwards the session runs, waits for something that can happen, or has ended."""
    while _next_move(draft):
        pass


def _next_move(draft: Draft) -> bool:
    state = draft.state
    if state.over:
        return False
    if state.ending and not (state.unfinished() or state.undrained()):
        return finish(draft, state.ending, state.ending_reason)
    if state.unknown():
        return _settle(draft)
    if state.issued is not None or state.ending or state.ticket_about("unmet"):
        return False
    left = state.joining
    if left is not None and left.closed and (left.to or left.how == "vetoed") and state.owed is None:
        return _follow_left(draft, left)
    if state.completed is not None:
        return _follow_output(draft, state.completed, None)
    if state.kept is not None:
        return _follow_return(draft, state.kept)
    return state.owed is not None and _follow_owed(draft, state.owed)


def finish(draft: Draft, status: ev.EndingStatus, reason: str = "") -> bool:
    """End the session, or record how it will end: a parent ends after its branches, and what is decided by then stays."""
    kept = draft.state.kept
    if draft.state.undrained():
        draft.add(ev.Ending(status=status, reason=reason))
    else:
        draft.add(ended(status, reason, kept.policy if isinstance(kept, RefusedReturn) else ""))
    return True


def _follow_left(draft: Draft, join: Join) -> bool:
    """Go on where the plan says for a join of which nothing is merged."""
    if join.how == "vetoed":
        target = draft.stage.on_refused
        if target is None:
            return finish(draft, "refused", join.why)
        return move(draft, target, "vetoed")
    if join.to == FAIL:
        return finish(draft, "failed", join.why)
    return move(draft, join.to, "joined otherwise")


def _settle(draft: Draft) -> bool:
    """Ask the tools what happened; where they cannot tell, ask a person, once for each effect."""
    state = draft.state
    if state.issued is not None or state.paused:
        return False
    asked = {ticket.about for ticket in state.tickets if ticket.kind == "effect"}
    open_ones = [effect for effect in state.unknown() if effect.effect_id not in asked]
    if not open_ones:
        return False
    if not recovery.settles_used_up(draft.stage, state) and issue(draft, "settle") == "issued":
        return True
    for effect in open_ones:
        ask_about_effect(draft, effect.effect_id, f"nobody could find out whether {effect.tool} happened")
    return True


def _follow_return(draft: Draft, body: Return) -> bool:
    """Draw the consequences of the accepted return, once no effect of the step is unknown."""
    if isinstance(body, DoneReturn) and _undone(draft, body):
        return True
    if isinstance(body, DoneReturn | RefusedReturn) and ask_about_unmet(draft):
        return True
    match body:
        case DoneReturn():
            return _follow_output(draft, body.output, body.next_step)
        case NeedsInputReturn():
            _request_input(draft, body)
        case RefusedReturn():
            return _follow_refused(draft, body)
        case EscalateReturn():
            _escalate(draft, body)
    return True


def _follow_refused(draft: Draft, body: RefusedReturn) -> bool:
    target = draft.stage.on_refused
    if target is not None:
        return move(draft, target, "refused")
    return finish(draft, "refused", body.reason)


def _undone(draft: Draft, body: DoneReturn) -> bool:
    """Reject `done` where an effect of its claim turned out not to have happened meanwhile (DESIGN §6)."""
    state = draft.state
    undone = [
        effect.tool
        for effect in state.effects
        if effect.status == "not-done" and effect.step == state.step and body.claim_id in effect.claims[-1:]
    ]
    if not undone:
        return False
    draft.add(
        ev.ReturnRejected(
            claim_id=body.claim_id,
            kind="unsettled",
            problem=f"the return says done, but {', '.join(undone)} turned out not to have happened",
            retry_at=recovery.retry_at(draft.stage, state.failures + 1, draft.at),
        )
    )
    return True


def _follow_output(draft: Draft, output: object, suggestion: str | None) -> bool:
    return move(draft, *next_stage(draft.stage, output, suggestion))


def _follow_owed(draft: Draft, owed: Owed) -> bool:
    state, stage = draft.state, draft.stage
    if (owed.to or (owed.denied and stage.on_denied is not None)) and ask_about_unmet(draft):
        return True
    if owed.to:
        return move(draft, owed.to, "overdue")
    if owed.denied and stage.on_denied is not None:
        return move(draft, stage.on_denied, "denied")
    if state.paused or state.tickets:
        return False
    if owed.cause == "retry" and recovery.person_decides(stage, state):
        why = "the attempt was lost, and the plan leaves what follows to a person"
        open_ticket(draft, "failure", why, DECIDES)
        return True
    if owed.cause == "retry" and recovery.used_up(stage, state):
        return _give_up(draft)
    if owed.at > draft.at:
        return False
    if stage.fan_out is not None and state.joining is None:
        return _fan_out(draft, stage.fan_out)
    return _issue_or_ask(draft, owed.cause)


def _fan_out(draft: Draft, contract: FanOut) -> bool:
    # Of two joins only one may change in one commit; `retry-at` comes back to this at once.
    if draft.changed_join is not None:
        return False
    branching.fan_out(draft, contract)
    return True


def _issue_or_ask(draft: Draft, cause: Cause) -> bool:
    found = issue(draft, cause)
    if found == "too-large":
        why = "the pack would be over its budget even without its oldest entries"
        open_ticket(draft, "budget", why, DECIDES)
    return found != "missing"


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


def move(draft: Draft, target: str, reason: str) -> bool:
    """Enter a stage, or ask a person where the plan's bounds on loops are reached; an end may have to wait (`finish`).

    Where nobody decided in time the session fails at a bound: another ticket would be overdue in its turn, for ever.
    """
    state, plan = draft.state, draft.given.plan
    if target == END:
        return finish(draft, "done")
    most = draft.given.stage(target).max_entries
    bound = ""
    if state.entries.get(target, 0) >= most:
        bound = f"{most} entries"
    elif state.step >= plan.max_steps:
        bound = f"{plan.max_steps} steps"
    if not bound:
        enter(draft, target, reason)
        return True
    why = f"the move to {target} would go beyond the bound of {bound}"
    if reason == "overdue":
        return finish(draft, "failed", f"nobody decided in time, and {why}")
    open_ticket(draft, "failure", why, DECIDES)
    return True


def enter(draft: Draft, target: str, reason: str, feedback: str = "") -> None:
    """Enter a stage without asking; a human stage opens its ticket at once."""
    stage = draft.given.stage(target)
    step = draft.state.step + 1
    deadline = None if stage.deadline_seconds is None else draft.at + int(stage.deadline_seconds * 1000)
    human = stage.queue is not None
    draft.add(
        ev.StageEntered(
            stage=target, step=step, reason=reason, human=human, deadline=deadline, feedback=feedback
        )
    )
    found = misfit(stage, draft.state.data)
    if found:
        open_ticket(
            draft, "failure", f"the inputs do not fit the stage: {found}", ["redirect", "complete", "cancel"]
        )
    elif human:
        why = feedback or stage.goal or f"stage {target}"
        open_ticket(draft, "stage", why, ["complete", "redirect", "cancel"])


def misfit(stage: Stage, data: dict[str, object]) -> str:
    """Return why the inputs do not fit the stage's schema; empty where they do."""
    return "" if stage.inputs is None else "; ".join(problems(stage.inputs, data))


def _request_input(draft: Draft, body: NeedsInputReturn) -> None:
    ask = draft.stage.ask
    draft.add(ev.InputRequested(attempt=body.attempt, questions=body.questions, ask=ask))
    if ask != PRODUCER:
        text = "; ".join(question.text for question in body.questions)
        actions: list[Resolution] = ["answer", "redirect", "cancel"]
        open_ticket(draft, "question", text, actions, about=str(body.attempt), queue=ask)


def _escalate(draft: Draft, body: EscalateReturn) -> None:
    draft.add(
        ev.Escalated(
            reason=body.reason,
            recommended=body.recommended,
            risks=body.risks,
            evidence=body.evidence,
            hand_over=None if body.hand_over is UNSET else body.hand_over,
        )
    )
    open_ticket(draft, "escalation", body.reason, DECIDES)


def _give_up(draft: Draft) -> bool:
    state, stage = draft.state, draft.stage
    if stage.on_failed is not None and ask_about_unmet(draft):
        return True
    last = state.feedback[-1].text if state.feedback else "no attempt counted"
    why = f"{state.failures} attempts did not count; the last: {last}"
    if stage.on_failed is None:
        open_ticket(draft, "failure", why, DECIDES)
    elif stage.on_failed == FAIL:
        return finish(draft, "failed", clean_text(why, WHY_LIMIT))
    else:
        return move(draft, stage.on_failed, "failed")
    return True


def issue(draft: Draft, cause: Cause, *, fresh: bool = False) -> Issue:
    """Put the next attempt on its queue, if it can be built. `fresh` forgets the failures."""
    state, stage = draft.state, draft.stage
    if cause == "settle":
        tools = to_verify(draft.given, state)
        if not tools.tools:
            return "missing"
    else:
        tools = granted(draft.given, state.stage)
        if tools.missing:
            return "missing"
    built = build(state, draft.given, cause, draft.at, tools)
    if built is None:
        return "too-large"
    pack, draft.pack = built
    draft.add(
        ev.PackIssued(
            step=state.step,
            attempt=pack.attempt,
            cause=cause,
            role=stage.fan_out.merge_role() if stage.fan_out else stage.role,
            delivery=stage.delivery,
            digest=pack.digest,
            bytes=len(draft.pack),
            lease_ms=int(stage.lease_seconds * 1000),
            # What was asked of somebody and came back is new work, not the pack that was lost. Of a pack that is
            # pushed nobody here knows what runs beside it.
            solo=state.lost > 0 and cause not in ("input", "human") and stage.delivery == "pull",
            priority=stage.priority,
            fresh=fresh,
            from_top=starts_from_top(stage, cause),
            tools=tools.digests(),
            changes=pack.changes,
            left_out=pack.left_out,
        )
    )
    return "issued"
