"""The truth about effects: from the claim that intended them, from `verify`, at any time (DESIGN §6, rule 3).

What a person says about an effect is in `people`.
"""

from passdown.broker.core.advance import advance
from passdown.broker.core.claims import current_fence, holds
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision
from passdown.broker.core.parts import Effect
from passdown.broker.core.tickets import ask_about_effect, withdraw_about
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import check, clean_text
from passdown.contracts.errors import ContractError, Fenced, NotFound


def report(draft: Draft, body: cmd.Report) -> Decision:
    """Record how a write ended. The truth is accepted late, from a claim that recorded the intent (rule 2).

    Raises NotFound where the ledger has no such intent, Fenced where another claim recorded it. A store that
    lost its last moments may have lost an intent: the claim that is still held records it again, then this.
    """
    state = draft.state
    effect = state.effect(body.effect_id)
    runs = state.claim is not None and state.claim.claim_id == body.claim_id and not state.settling()
    if effect is None or (runs and body.claim_id not in effect.claims):
        hint = "this claim recorded no intent for it" if runs else ""
        raise NotFound("effect", clean_text(body.effect_id, 200), hint)
    if body.claim_id not in effect.claims:
        newest = effect.claims[-1][:8] if effect.claims else "none"
        raise Fenced(clean_text(body.claim_id, 8), newest, "it recorded no intent")
    check(body.result, what="effect result")
    match body.phase:
        case "unknown":
            if effect.status == "intended" and effect.claims[-1] == body.claim_id:
                draft.add(ev.EffectUnknown(effect_id=effect.effect_id, why=clean_text(body.error)))
        case "done":
            _report_done(draft, effect, body)
        case "failed":
            _report_failed(draft, effect, body)
    advance(draft)
    return draft.decision()


def _report_done(draft: Draft, effect: Effect, body: cmd.Report) -> None:
    if effect.status == "done":
        return
    draft.add(ev.EffectDone(effect_id=effect.effect_id, result=body.result))
    withdraw_about(draft, effect.effect_id, "the truth arrived")
    if not _foreseen(draft, effect, body.claim_id):
        why = f"{effect.tool} was held for {_held_for(effect)}, and did happen after all"
        ask_about_effect(draft, effect.effect_id, why)


def _foreseen(draft: Draft, effect: Effect, claim_id: str) -> bool:
    """Whether *done* contradicts nothing that was settled."""
    if effect.status not in ("intended", "unknown"):
        return False
    if effect.claims[-1] == claim_id:
        return True
    # An earlier claim woke up while its effect is being repeated: harmless where the repeat is absorbed.
    spec = draft.given.pinned.get(effect.tool_digest)
    return spec is not None and spec.dedupes


def _held_for(effect: Effect) -> str:
    repeated = effect.status in ("intended", "unknown")
    return "not done, is being repeated" if repeated else effect.status


def _report_failed(draft: Draft, effect: Effect, body: cmd.Report) -> None:
    # What an earlier claim says of its own try says nothing of a later one.
    if effect.claims[-1] != body.claim_id:
        return
    failed = ev.EffectFailed(effect_id=effect.effect_id, error=clean_text(body.error, 16_000))
    if effect.status in ("intended", "unknown"):
        draft.add(failed)
        withdraw_about(draft, effect.effect_id, "the truth arrived")
    elif effect.status == "done":
        draft.add(failed)
        why = f"{effect.tool} was held for done, and did not happen after all"
        ask_about_effect(draft, effect.effect_id, why)


def settle(draft: Draft, body: cmd.Settle) -> Decision:
    """Apply the verdicts of `verify`, which end the settle attempt."""
    state = draft.state
    if not state.settling() or not holds(draft, body.fence):
        raise Fenced(str(body.fence), current_fence(draft), "it holds no settle attempt")
    verdicts = {verdict.effect_id: verdict for verdict in body.verdicts}
    doubts: dict[str, str] = {}
    for effect in state.unknown():
        verdict = verdicts.get(effect.effect_id)
        doubt = _settle_one(draft, effect, verdict) if verdict else f"verify of {effect.tool} gave no verdict"
        if doubt:
            doubts[effect.effect_id] = doubt
    draft.add(ev.ClaimReleased(claim_id=body.fence.claim_id, reason="settled"))
    for effect_id, doubt in doubts.items():
        ask_about_effect(draft, effect_id, doubt)
    advance(draft)
    return draft.decision()


def _settle_one(draft: Draft, effect: Effect, verdict: cmd.Verdict) -> str:
    """Record what is certain; return why a person must be asked where it is not."""
    match verdict.found:
        case "found":
            try:
                check(verdict.result, what="verdict")
            except ContractError as error:
                return f"{effect.tool} was found, but its result cannot be kept: {error.problem}"
            settled = ev.EffectSettled(effect_id=effect.effect_id, status="done", result=verdict.result)
        case "absent":
            # Only a system that absorbs a repeated key makes a repeat safe: the frozen first worker may
            # still wake up and write.
            spec = draft.given.pinned.get(effect.tool_digest)
            if spec is None or not spec.dedupes:
                return f"{effect.tool} was not found outside, but its first try may still arrive"
            settled = ev.EffectSettled(effect_id=effect.effect_id, status="not-done", repeat=True)
        case "unsure":
            note = f": {clean_text(verdict.note, 300)}" if verdict.note else ""
            return f"verify of {effect.tool} could not tell{note}"
    draft.add(settled)
    withdraw_about(draft, effect.effect_id, "verify found out")
    return ""


def unsure(draft: Draft, why: str) -> None:
    """Ask a person about every unknown effect."""
    for effect in draft.state.unknown():
        ask_about_effect(draft, effect.effect_id, f"nobody knows whether {effect.tool} happened: {why}")
