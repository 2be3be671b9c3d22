"""State and log → the brief of a session, or of one of its tickets (DESIGN §9). Completeness is computed, not hoped.

Pure and deterministic: no clock (ages are relative to the state's ``at``), linear in the events. It is built from
the ledger and the log; what an agent *claims* stands beside what the ledger *shows*.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from passdown.broker.core.brief_actions import actions, recommended
from passdown.broker.core.brief_claims import claims, risks_said
from passdown.broker.core.brief_effects import effects
from passdown.broker.core.brief_facts import Facts, TicketFacts
from passdown.broker.core.brief_text import STATE_TEXT, line, many, name, quoted, quoted_value, span
from passdown.broker.core.packing import fill
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.brief import (
    Brief,
    BriefClaims,
    BriefEffects,
    BriefQuestion,
    BriefRisks,
    BriefTicket,
    Completeness,
    EarlierTicket,
    Quoted,
    Standing,
    ValidState,
)
from passdown.contracts.plans import Plan, Stage
from passdown.contracts.ticket_events import TicketKind

MOST_LINES = 10
_MOST_EVIDENCE, _MOST_QUESTIONS, _MOST_COMMENTS, _MOST_EARLIER, _MOST_RISKS = 20, 20, 20, 10, 10

#: Part → its share of a complete brief. What does not apply (the actions of a session without a ticket) is not missing.
WEIGHTS: dict[str, int] = {
    "goal": 10,
    "constraints": 10,
    "done_when": 10,
    "why it stopped": 10,
    "subjects": 15,
    "latest valid state": 10,
    "effects": 15,
    "evidence": 10,
    "allowed actions": 10,
}

#: Why a person is asked, by the ticket's kind.
_WHY: dict[TicketKind, str] = {
    "escalation": "The agent handed over to people.",
    "question": "The agent asks, and people answer.",
    "approval": "A write needs a person's yes before it runs.",
    "permission": "The stage denies a call, which a person may permit once.",
    "conflict": "The branches of a join disagree.",
    "short": "A join has fewer branches than it needs.",
    "effect": "Nobody knows whether a write happened.",
    "unmet": "What was approved was not done, and the session is about to go on without it.",
    "stage": "The stage is a person's.",
    "failure": "The step cannot go on by itself.",
    "budget": "The next attempt needs more than a pack may hold.",
}
_STATUS: dict[str, str] = {
    "queued": "It waits for a worker, or for its next attempt.",
    "running": "A worker is at it.",
    "waiting-input": "It waits for answers of whoever submitted it.",
    "waiting-human": "It waits for people.",
    "waiting-join": "It waits for its branches.",
    "paused": "It was paused.",
}


def brief(
    state: State, log: Sequence[ev.Logged], plan: Plan, ticket_no: int | None, newest: Plan | None = None
) -> Brief:
    """Return the brief of ticket `ticket_no` (None: of the session), as of `state`; `log` reaches at least to there.

    Constraints that the `newest` version of the plan added hold as well, as they do in packs (DESIGN §7).
    """
    facts = Facts(plan)
    log = log[: state.seq]
    for logged in log:
        facts.add(logged)
    ticket = None if ticket_no is None else state.ticket(ticket_no)
    stage = plan.stages.get(_stage_name(state, ticket)) or Stage()
    ledger = effects(state, facts)
    claimed = claims(state, log, plan, facts)
    subjects = facts.finder.subjects(facts.unkept)
    standing = _standing(state, facts, ticket, ticket_no)
    found = Brief(
        session_id=state.session_id,
        plan=name(str(state.plan)),
        seq=state.seq,
        at=state.at,
        ticket=None if ticket_no is None else _ticket(state, facts, ticket_no),
        task=quoted("whoever submitted it", state.task_name),
        goal=line(stage.goal),
        goal_filled=_filled(stage, state),
        constraints=[line(one) for one in (*stage.constraints, *_added(stage, newest, standing.stage))],
        done_when=[line(one) for one in stage.done_when],
        standing=standing,
        subjects=subjects,
        state=_valid_state(state, facts),
        effects=ledger,
        evidence=facts.evidence[-_MOST_EVIDENCE:],
        claims=claimed,
        last_error=facts.error,
        risks=BriefRisks(
            known=_risks(state, facts, stage, ledger, claimed), said=risks_said(facts)[:_MOST_RISKS]
        ),
        actions=actions(state, plan, ticket, facts) if ticket else [],
        recommended=recommended(state, ticket),
        history=_history(facts),
        questions=_questions(facts),
        comments=_comments(facts, ticket_no)[-_MOST_COMMENTS:],
        earlier=_earlier(facts, ticket_no)[-_MOST_EARLIER:],
        left_out=_left_out(facts, ticket_no),
        completeness=Completeness(score=0, missing=[]),
    )
    return _complete(found, state, stage)


def _added(stage: Stage, newest: Plan | None, name: str) -> list[str]:
    now = newest.stages.get(name) if newest else None
    return [one for one in now.constraints if one not in stage.constraints] if now else []


def _stage_name(state: State, ticket: Ticket | None) -> str:
    return (ticket.stage if ticket else "") or state.stage


def _filled(stage: Stage, state: State) -> Quoted | None:
    text = fill(stage.goal, state.data)
    return None if text == stage.goal else quoted("the plan's goal with the session's data in it", text)


def _ticket(state: State, facts: Facts, ticket_no: int) -> BriefTicket | None:
    known = facts.tickets.get(ticket_no)
    if known is None:
        return None
    held = state.ticket(ticket_no)
    return BriefTicket(
        ticket_no=ticket_no,
        kind=known.opened.kind,
        queue=name(held.queue if held else known.opened.queue),
        version=held.version if held else 0,
        approvals=known.opened.approvals,
        approved_by=known.approved,
        age_ms=max(0, state.at - known.at),
        closed="" if held else known.how or "it is no longer open",
    )


def _standing(state: State, facts: Facts, ticket: Ticket | None, ticket_no: int | None) -> Standing:
    said: list[Quoted] = []
    known = facts.tickets.get(ticket_no) if ticket_no is not None else None
    if known is not None:
        why = _WHY[known.opened.kind]
        said.append(quoted(f"ticket {ticket_no}", ticket.why if ticket else known.opened.why, known.event))
    elif state.outcome is not None:
        why = f"It has ended: {state.outcome.result}."
        said += [quoted("its outcome", one) for one in (state.outcome.reason, state.outcome.policy) if one]
    else:
        why = _STATUS.get(state.shown_status, "")
        open_ones = [
            (one, facts.tickets[one.ticket_no]) for one in state.tickets if one.ticket_no in facts.tickets
        ]
        said += [quoted(f"ticket {one.ticket_no}", one.why, known.event) for one, known in open_ones]
    return Standing(
        status=state.shown_status,
        stage=name(state.stage),
        step=state.step,
        attempt=state.attempt,
        age_ms=max(0, state.at - facts.moved_at),
        why=why,
        said=said[:_MOST_RISKS],
    )


def _valid_state(state: State, facts: Facts) -> ValidState:
    if state.snapshot is not None:
        source = f"the checkpoint of attempt {state.snapshot.attempt}"
        content = quoted_value(source, state.snapshot.data, facts.checkpoint, STATE_TEXT)
        return ValidState(kind="snapshot", content=content)
    source = "the session's inputs and the outputs of finished stages"
    return ValidState(kind="data", content=quoted_value(source, state.data, None, STATE_TEXT))


def _risks(
    state: State, facts: Facts, stage: Stage, ledger: BriefEffects, claimed: BriefClaims | None
) -> list[str]:
    """Return what is open by the ledger, the log and the plan."""
    steps = facts.steps[-1].counts if facts.steps else {}
    differ = len(claimed.differences) if claimed else 0
    left = None if state.deadline is None else state.deadline - state.at
    found = [
        (ledger.counts.get("unknown", 0), "effect", "unknown: it may have happened"),
        (ledger.counts.get("intended", 0), "effect", "under way"),
        (ledger.counts.get("proposed", 0), "effect", "proposed and not decided"),
        (ledger.counts.get("failed", 0), "effect", "failed"),
        (steps.get("LeaseLost", 0), "attempt", "of this step lost with its worker"),
        (steps.get("ReturnRejected", 0), "attempt", "of this step rejected"),
        (differ, "difference", "between what the agent claims and what the ledger shows"),
    ]
    return [
        *(f"{many(count, noun)} {what}" for count, noun, what in found if count),
        *(["stage of high risk"] if stage.risk == "high" else []),
        *([f"the deadline of the stage is in {span(left)}"] if left is not None and left > 0 else []),
        *(["the deadline of the stage has passed"] if left is not None and left <= 0 else []),
    ]


def _history(facts: Facts) -> list[str]:
    """Return how it got here in at most ten lines; older ones are summed up."""
    entries = [(one.event, _entry(one.step, one.stage, one.human, one.counts)) for one in facts.steps]
    found = sorted([*entries, *facts.decisions])
    lines = [f"event {event}: {text}" for event, text in found]
    if len(lines) <= MOST_LINES:
        return lines
    old = found[: len(found) - MOST_LINES + 1]
    last = old[-1][0]
    steps = [one for one in facts.steps if one.event <= last]
    totals: Counter[str] = Counter()
    for one in steps:
        totals.update(one.counts)
    decided = len(old) - len(steps)
    summed = (
        f"up to event {last}: {many(len(steps), 'stage entry')}{_counts(totals)}, {many(decided, 'decision')}"
    )
    return [summed, *lines[len(old) :]]


def _entry(step: int, stage: str, human: bool, counts: dict[str, int]) -> str:
    who = ", a person's" if human else ""
    return f"step {step}, stage {name(stage)}{who}{_counts(counts)}"


def _counts(counts: dict[str, int]) -> str:
    words = [
        ("PackIssued", "attempt", ""),
        ("LeaseLost", "worker", " lost"),
        ("ReturnRejected", "return", " rejected"),
    ]
    words.append(("ClaimReleased", "attempt", " handed back"))
    return "".join(f", {many(counts[key], noun)}{what}" for key, noun, what in words if counts.get(key))


def _questions(facts: Facts) -> list[BriefQuestion]:
    """Return the latest questions, open ones also where they are older."""
    every = list(facts.questions.values())
    first = len(every) - _MOST_QUESTIONS
    kept = [one for n, one in enumerate(every) if n >= first or one.answer is None]
    return [BriefQuestion(asked=one.asked, answer=one.answer) for one in kept[: _MOST_QUESTIONS * 2]]


def _comments(facts: Facts, ticket_no: int | None) -> list[Quoted]:
    known = facts.tickets.get(ticket_no) if ticket_no is not None else None
    return known.comments if known else []


def _earlier(facts: Facts, ticket_no: int | None) -> list[EarlierTicket]:
    return [
        EarlierTicket(ticket_no=number, kind=one.opened.kind, how=_how(one), note=one.note)
        for number, one in facts.tickets.items()
        if number != ticket_no and one.how
    ]


def _how(ticket: TicketFacts) -> str:
    return f"{ticket.how}, in {name(ticket.opened.queue)}"


def _left_out(facts: Facts, ticket_no: int | None) -> dict[str, int]:
    counts = {
        "evidence": len(facts.evidence) - _MOST_EVIDENCE,
        "questions": len(facts.questions) - len(_questions(facts)),
        "comments": len(_comments(facts, ticket_no)) - _MOST_COMMENTS,
        "earlier tickets": len(_earlier(facts, ticket_no)) - _MOST_EARLIER,
        "risks": len(risks_said(facts)) - _MOST_RISKS,
    }
    return {part: count for part, count in counts.items() if count > 0}


def _complete(found: Brief, state: State, stage: Stage) -> Brief:
    """Return the brief with its score: the weights of the parts that are there."""
    missing = [part for part, there in _parts(found, state, stage).items() if not there]
    score = sum(WEIGHTS.values()) - sum(WEIGHTS[part] for part in missing)
    return replace(found, completeness=Completeness(score=score, missing=missing))


def _parts(found: Brief, state: State, stage: Stage) -> dict[str, bool]:
    """Say of each part whether it is there."""
    open_ticket = found.ticket is not None and not found.ticket.closed
    whole = [
        one.status != "unknown" and not one.args.cut and not (one.result and one.result.cut)
        for one in found.effects.shown
    ]
    labels = found.subjects.labels
    return {
        "goal": bool(found.goal),
        "constraints": bool(found.constraints),
        "done_when": bool(found.done_when),
        "why it stopped": bool(found.standing.why),
        "subjects": bool(labels) and all(one.values for one in labels) and not found.subjects.unsearched,
        "latest valid state": not found.state.content.cut and bool(state.snapshot or state.data),
        "effects": all(whole) and not found.effects.left_out,
        "evidence": bool(found.evidence) or stage.returns.evidence == "none",
        "allowed actions": bool(found.actions) or not open_ticket,
    }
