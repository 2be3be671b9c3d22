"""What may be done with a ticket and what each action will do, and the recommended next step.

Both are said from the ticket's kind, its actions, the plan and the ledger alone. Nothing that an agent, a tool or a
document wrote has a part in them: the arguments of a pending action stand beside them, quoted.
"""

from dataclasses import dataclass

from passdown.broker.core.brief_facts import Facts
from passdown.broker.core.brief_text import laid_out, many, name
from passdown.broker.core.parts import Effect, Ticket
from passdown.broker.core.state import State
from passdown.broker.core.tickets import redirects
from passdown.contracts.brief import BriefAction, Quoted, Recommended
from passdown.contracts.plans import END, FAIL, Plan, Stage
from passdown.contracts.ticket_events import Resolution, TicketKind

_JOINS: tuple[TicketKind, ...] = ("conflict", "short")
#: What is decided about by a yes or a no; of `unmet`, the call was not done after a first yes.
_YES_OR_NO: tuple[TicketKind, ...] = ("approval", "permission")
_ABOUT_A_CALL: tuple[TicketKind, ...] = (*_YES_OR_NO, "unmet")


@dataclass(frozen=True, slots=True)
class _Case:
    """A ticket with what it is about."""

    state: State
    plan: Plan
    ticket: Ticket
    stage: Stage
    name: str
    effect: Effect | None
    exactly: Quoted | None

    @property
    def tool(self) -> str:
        return name(self.effect.tool) if self.effect else "the call"


def actions(state: State, plan: Plan, ticket: Ticket, facts: Facts) -> list[BriefAction]:
    """Return each allowed action with what it will do."""
    case = _case(state, plan, ticket, facts)
    return [
        BriefAction(
            action=one,
            does=_does(case, one),
            exactly=case.exactly if one == "approve" else None,
        )
        for one in ticket.actions
    ]


def _case(state: State, plan: Plan, ticket: Ticket, facts: Facts) -> _Case:
    stage_name = ticket.stage or state.stage
    effect = state.effect(ticket.about)
    known = facts.effects.get(ticket.about)
    exactly = None
    if known is not None and ticket.kind in _ABOUT_A_CALL:
        args = known.args if known.edited is None else known.edited
        exactly = laid_out(f"the pending call of tool {name(known.tool)}", args, known.args_event)
    stage = plan.stages.get(stage_name) or Stage()
    return _Case(state, plan, ticket, stage, name(stage_name), effect, exactly)


def _does(case: _Case, action: Resolution) -> str:
    match action:
        case "approve":
            again = " more" if case.effect and case.effect.attempts else ""
            return f"{case.tool} runs once{again} with exactly these arguments{_more_needed(case)}"
        case "edit":
            void = "; approvals given before are void" if case.ticket.approved_by else ""
            return (
                f"{case.tool} runs once with the arguments that you give in their place{_more_needed(case)}{void}; "
                "both are kept"
            )
        case "deny":
            return f"{case.tool} does not run; {_after_denial(case)}"
        case "answer":
            return f"the questions are answered, and stage {case.name} goes on with the answers"
        case "done":
            return f"it is on record that {case.tool} did happen, with the result that you give; the session goes on from there"
        case "not-done":
            return f"it is on record that {case.tool} did not happen; it may be tried once more under the same key"
        case _:
            return _does_to_stage(case, action)


def _does_to_stage(case: _Case, action: Resolution) -> str:
    joins = case.ticket.kind in _JOINS
    match action:
        case "complete":
            return f"your output is taken as that of stage {case.name}, if it fits its contract; {_after_done(case.stage)}"
        case "send-back" if joins:
            return "the branches that you name go on with your feedback, and are joined again"
        case "send-back":
            return f"stage {case.name} is tried again by {_who(case.stage)} with your feedback; what was written stays written"
        case "redirect":
            return f"the session goes on in the stage that you name, one of: {', '.join(_targets(case))}"
        case "cancel":
            return "the session is called off; nothing that was done is undone, and what is under way is settled first"
        case "choose":
            return f"the output of the branch that you name is taken as that of the join; {_after_done(case.stage)}"
        case "merge":
            return f"the branches that count by now are merged; {_after_done(case.stage)}"
        case _:
            return "it is recorded"


def _more_needed(case: _Case) -> str:
    needed, given = case.ticket.approvals, len(case.ticket.approved_by)
    if needed <= 1:
        return ""
    left = needed - given - 1
    if left <= 0:
        return f", for yours is the last of {needed} approvals"
    return f", once {many(left, 'more person')} approved: yours is number {given + 1} of {needed}"


def _after_denial(case: _Case) -> str:
    if case.ticket.kind == "unmet":
        return "it is left at that, and the session goes on as the agent's return or the plan says"
    target = case.stage.on_denied
    if target == FAIL:
        return "the session fails"
    if target:
        return f"the plan's on_denied leads to stage {name(target)}"
    return f"stage {case.name} goes on, and its agent is told that it was denied"


def _after_done(stage: Stage) -> str:
    following = stage.next
    if following.to:
        return "then the session ends" if following.to == END else f"then stage {name(following.to)} follows"
    if following.cases:
        cases = ", ".join(f"{name(one)} leads to {name(to)}" for one, to in following.cases.items())
        return f"then its field {name(following.field or '')} decides: {cases}"
    if following.suggest:
        return f"then one of {', '.join(name(one) for one in following.suggest)} follows, or the session ends"
    return "then the session ends"


def _who(stage: Stage) -> str:
    return f"role {name(stage.role)}" if stage.role else "its agent"


def _targets(case: _Case) -> list[str]:
    return [name(one) for one in redirects(case.plan, case.state)]


def recommended(state: State, ticket: Ticket | None) -> Recommended:
    """Return the next step, by rule."""
    unknown = state.unknown()
    if ticket is None:
        return _without_ticket(state)
    if ticket.kind == "effect":
        return Recommended(
            rule="effect-unknown",
            step="Look outside whether the write happened, by its key above; then answer done with its result, or not-done.",
        )
    if unknown:
        return Recommended(
            rule="settle-first",
            step=f"Of {many(len(unknown), 'effect')} nobody knows whether it happened: have that settled before you decide.",
        )
    if ticket.kind in _YES_OR_NO:
        return _yes_or_no(state, ticket)
    return _by_kind(state, ticket)


def _yes_or_no(state: State, ticket: Ticket) -> Recommended:
    effect = state.effect(ticket.about)
    same = [
        one
        for one in state.effects
        if effect is not None
        and one.effect_id != effect.effect_id
        and (one.tool, one.args_digest, one.status) == (effect.tool, effect.args_digest, "done")
    ]
    if same:
        return Recommended(
            rule="done-before",
            step=f"The ledger shows the same call as done already (effect {same[-1].ordinal}): deny, unless it is meant twice.",
        )
    return Recommended(
        rule="compare-then-decide",
        step="Compare the exact arguments with the subjects, the constraints and the ledger; approve what fits, edit or deny what does not.",
    )


def _by_kind(state: State, ticket: Ticket) -> Recommended:
    match ticket.kind:
        case "question":
            return Recommended(
                rule="answer", step="Answer every open question; the stage then goes on by itself."
            )
        case "conflict" | "short":
            return Recommended(
                rule="compare-branches",
                step="Compare the branches, then choose one, merge those that count, or send some back.",
            )
        case "stage":
            return Recommended(rule="do-the-stage", step="Do the stage, and complete it with its output.")
        case "unmet":
            return Recommended(
                rule="approved-but-not-done",
                step="An approved write failed, or never ran: see the reason, the last error and the ledger; approve it once more or send back where it is still wanted, else deny it.",
            )
        case _:
            return _go_on(state)


def _go_on(state: State) -> Recommended:
    """Escalations and failures: what the ledger says decides what comes first."""
    failed = [one for one in state.effects if one.status == "failed" and one.step == state.step]
    done = [one for one in state.effects if one.status == "done" and one.step == state.step]
    how = "complete the stage, send it back with feedback, or redirect it"
    if failed:
        return Recommended(
            rule="failed-writes",
            step=f"See why {many(len(failed), 'write')} of this step failed (last: effect {failed[-1].ordinal}); then {how}.",
        )
    if done:
        return Recommended(
            rule="after-writes",
            step=f"This step did {many(len(done), 'write')}, which stay: check them against the goal; then {how}.",
        )
    return Recommended(
        rule="nothing-written", step=f"Nothing was written in this step: decide freely; {how}."
    )


def _without_ticket(state: State) -> Recommended:
    if state.over:
        return Recommended(rule="over", step="Nothing: the session has ended.")
    if state.tickets:
        numbers = ", ".join(str(one.ticket_no) for one in state.tickets)
        return Recommended(rule="open-tickets", step=f"Decide what is open: ticket {numbers}.")
    if state.paused:
        return Recommended(rule="paused", step="Resume the session once it may go on.")
    if state.unanswered():
        return Recommended(rule="answer", step="Whoever submitted the session answers its open questions.")
    return Recommended(rule="wait", step="Nothing: the session goes on by itself.")
