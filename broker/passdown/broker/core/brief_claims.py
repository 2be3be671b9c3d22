"""What the agent claims beside what the ledger shows, and where they differ, by three rules.

1. Its reason, its evidence or its output names a tool of the plan or of the ledger that was not called, or of which
   no write is done.
2. They name an effect by its id, and the ledger does not show it as done.
3. Its output holds an identifier (a subject's, or in a field named like an id), or its reason or evidence one
   that a subject's pattern finds, that is in no input, answer or result, nor in what was written.

What it recommends and the risks it sees are of what may come: no rule looks at them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import UNSET

from passdown.broker.core.brief_facts import Facts, Said
from passdown.broker.core.brief_subjects import Finder
from passdown.broker.core.brief_text import name, quoted, quoted_value, written
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.brief import BriefClaims, Quoted
from passdown.contracts.plans import Plan
from passdown.contracts.returns import DoneReturn, EscalateReturn, NeedsInputReturn, RefusedReturn, Return

MOST_DIFFERENCES = 20
#: Of how much of what the agent says the rules look at (characters).
_READ = 65_536
_WORDS = re.compile(r"[A-Za-z0-9_./-]+")
_RESULTS = {
    DoneReturn: "done",
    NeedsInputReturn: "needs-input",
    RefusedReturn: "refused",
    EscalateReturn: "escalate",
}


def claims(state: State, log: Sequence[ev.Logged], plan: Plan, facts: Facts) -> BriefClaims | None:
    """Return what the agent's last return claims beside the ledger; None where nothing was returned."""
    if facts.returned is None:
        return None
    said, event = facts.returned
    body = event.body
    text = _text(body)[:_READ]
    found = [*_undone(text, plan, state, facts), *_unfounded(body, text, log, plan)]
    return BriefClaims(
        result=_RESULTS[type(body)],
        place=f"step {body.step}, stage {name(body.stage)}, event {said.event}, by {name(said.by)}",
        said=_said(body, said),
        ledger=ledger_line(state),
        differences=found[:MOST_DIFFERENCES],
    )


def ledger_line(state: State) -> str:
    """Return how many effects the ledger has, by status."""
    counts = Counter(effect.status for effect in state.effects)
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "no effects"


def _said(body: Return, said: Said) -> list[Quoted]:
    who = name(said.by)

    def part(what: str, value: Any) -> Quoted:
        return quoted_value(f"what {who} gave as {what}", value, said.event)

    match body:
        case DoneReturn():
            return [part("output", body.output)]
        case RefusedReturn():
            policy = f"\npolicy: {body.policy}" if body.policy else ""
            return [part("reason", f"{body.reason}{policy}")]
        case EscalateReturn():
            recommended = [part("recommendation", body.recommended)] if body.recommended else []
            handed = [] if body.hand_over is UNSET else [part("hand-over", body.hand_over)]
            return [part("reason", body.reason), *recommended, *handed]
        case NeedsInputReturn():
            return []


def risks_said(facts: Facts) -> list[Quoted]:
    """Return the risks and the doubts that the agent named in its last return."""
    if facts.returned is None:
        return []
    said, event = facts.returned
    risks = event.body.risks if isinstance(event.body, EscalateReturn) else []
    source = f"the risks that {name(said.by)} named"
    return [quoted(source, one, said.event) for one in (*risks, *event.body.uncertainty.notes)]


def _text(body: Return) -> str:
    """Return what the agent says has happened."""
    parts = [part for one in body.evidence for part in (one.claim, one.source)]
    match body:
        case DoneReturn():
            parts.append(written(body.output))
        case RefusedReturn():
            parts.append(body.reason)
        case EscalateReturn():
            parts += [body.reason, "" if body.hand_over is UNSET else written(body.hand_over)]
        case NeedsInputReturn():
            pass
    return "\n".join(parts)


def _undone(text: str, plan: Plan, state: State, facts: Facts) -> Iterator[str]:
    """Rules 1 and 2."""
    words = {word.strip("./-") for word in _WORDS.findall(text)}
    statuses: dict[str, set[str]] = {}
    for effect in state.effects:
        statuses.setdefault(effect.tool, set()).add(effect.status)
        if effect.effect_id in words and effect.status != "done":
            yield f"it names effect {effect.ordinal} ({name(effect.tool)}); the ledger shows it as {effect.status}"
    known = {grant.tool for stage in plan.stages.values() for grant in stage.tools} | set(statuses)
    for tool in sorted(known & words):
        shown = statuses.get(tool)
        if shown is not None and "done" not in shown:
            yield f"it names {name(tool)}; the ledger shows no such write as done, but {', '.join(sorted(shown))}"
        elif shown is None and tool not in facts.read:
            yield f"it names {name(tool)}; the log shows no call of it"


def _unfounded(body: Return, text: str, log: Sequence[ev.Logged], plan: Plan) -> Iterator[str]:
    """Rule 3."""
    left: dict[str, str] = {}
    if isinstance(body, DoneReturn):
        for finder in (Finder(plan.subjects), Finder({})):
            for label, value in finder.named(body.output):
                left.setdefault(value, f"its output has {name(label)} {value}")
    if plan.subjects:
        for label, value in Finder(plan.subjects).named([text]):
            left.setdefault(value, f"it names {name(label)} {value}")
    left = dict(list(left.items())[:MOST_DIFFERENCES])
    for value in _grounds(log):
        if not left:
            return
        ground = written(value)
        for one in [one for one in left if one in ground and _stands_in(one, ground)]:
            del left[one]
    for words in left.values():
        yield f"{words}, which is in no input, answer or result that the log keeps"


def _stands_in(one: str, ground: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![A-Za-z0-9])", ground) is not None


def _grounds(log: Sequence[ev.Logged]) -> Iterator[Any]:
    """Yield what did not come from an agent's head: inputs, answers, results, and what was written."""
    intended: dict[str, Any] = {}
    for logged in log:
        match logged.event:
            case (
                ev.SessionOpened(inputs=value)
                | ev.InputProvided(value=value)
                | ev.TicketResolved(value=value)
            ):
                yield value
            case ev.ToolCalled(kept=True, result=value):
                yield value
            case ev.EffectIntended(effect_id=effect_id, args=value):
                intended[effect_id] = value
            case ev.EffectDone(effect_id=effect_id, result=value):
                yield value
                yield intended.get(effect_id)
            case ev.EffectSettled(status="done", effect_id=effect_id, result=value):
                yield value
                yield intended.get(effect_id)
            case _:
                pass
