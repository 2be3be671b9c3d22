"""The ledger in a brief: what was written, what was not, who allowed it, and what became of it."""

from collections import Counter

from passdown.broker.core.brief_facts import EffectFacts, Facts
from passdown.broker.core.brief_text import laid_out, name, quoted, quoted_value
from passdown.broker.core.parts import Effect
from passdown.broker.core.state import State
from passdown.contracts.brief import BriefEffect, BriefEffects, Quoted

MOST_EFFECTS = 40
#: What is shown first where there are many: what somebody has to see to, then the newest.
_URGENT = ("unknown", "intended", "proposed", "failed")
#: A tool's specification has no word on that: nothing promises it.
UNDO = "nothing says that it can be undone"


def effects(state: State, facts: Facts) -> BriefEffects:
    """Return the ledger; of a long one what is open or failed, and the newest."""
    counts = Counter(effect.status for effect in state.effects)
    rows = sorted(state.effects, key=lambda row: (row.status not in _URGENT, -row.ordinal))[:MOST_EFFECTS]
    return BriefEffects(
        counts=dict(sorted(counts.items())),
        shown=[_effect(row, facts) for row in sorted(rows, key=lambda row: row.ordinal)],
        left_out=len(state.effects) - len(rows),
    )


def _effect(row: Effect, facts: Facts) -> BriefEffect:
    known = facts.effects.get(row.effect_id) or EffectFacts(row.tool, row.step)
    tool = name(row.tool)
    source = f"the call of tool {tool}"
    edited = known.edited is not None
    pending = row.status in ("proposed", "unknown", "intended")
    return BriefEffect(
        effect_id=row.effect_id,
        ordinal=row.ordinal,
        step=row.step,
        tool=tool,
        status=row.status,
        decision=_decision(row, known),
        outcome=_outcome(row, known),
        undo=UNDO if row.status in ("done", "unknown", "intended") else "",
        args=_args(source, known.edited if edited else known.args, known.args_event, whole=pending),
        proposed_args=_args(source, known.args, known.args_event, whole=False) if edited else None,
        result=_result(row, known, tool),
        error=_error(row, known, tool),
    )


def _args(source: str, args: object, event: int, *, whole: bool) -> Quoted:
    return laid_out(source, args, event) if whole else quoted_value(source, args, event)


def _result(row: Effect, known: EffectFacts, tool: str) -> Quoted | None:
    if row.status != "done" or known.result_event is None:
        return None
    return quoted_value(f"tool {tool}", known.result, known.result_event)


def _error(row: Effect, known: EffectFacts, tool: str) -> Quoted | None:
    if row.status in ("done", "proposed", "intended"):
        return None
    if row.status == "denied" and row.error:
        return quoted(f"whoever denied tool {tool}", row.error)
    return known.error


def _decision(row: Effect, known: EffectFacts) -> str:
    if known.decisions:
        return "; ".join(known.decisions)
    if known.proposed:
        return "none yet: a person is asked" if row.status == "proposed" else "a person was asked"
    return "none needed: the stage grants it"


def _outcome(row: Effect, known: EffectFacts) -> str:
    where = f", event {known.ended.event}" if known.ended else ""
    how = f" ({known.settled})" if known.settled else ""
    tries = f" after {row.attempts} attempts" if row.attempts > 1 else ""
    match row.status:
        case "proposed":
            return "has not run"
        case "denied":
            return "did not run"
        case "intended":
            return f"is under way{where}"
        case "unknown":
            return f"unknown: nobody knows whether it happened{where}"
        case _:
            return f"{row.status}{tries}{how}{where}"
