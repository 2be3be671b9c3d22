"""The effect ledger: intend, report, settle (DESIGN §6, rule 3).

An intent is recorded before the write. What is recorded already is answered, not run. What needs a
person is proposed, and ends the claim.
"""

from passdown.broker.core.advance import advance, ask_about_effect, open_ticket
from passdown.broker.core.claims import end_effects, note_tools, require_fence
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision, grant_of
from passdown.broker.core.packing import in_scope
from passdown.broker.core.state import Effect
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import KIB, check, clean_text, digest_of, encode
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied, Fenced, NotFound
from passdown.contracts.ids import effect_id, identity_digest
from passdown.contracts.plans import OPERATORS, Grant
from passdown.contracts.replies import Recorded, Run, Suspended, refusal
from passdown.contracts.schema import problems
from passdown.contracts.tools import ToolSpec, action_digest, identity_of, narrow

#: Arguments of an effect stay in the state while it is open, so they are small; bulk goes by reference.
ARGS_BUDGET = 32 * KIB


def intend(draft: Draft, body: cmd.Intend) -> Decision:
    """Record the intent, or answer from the ledger, or propose the action to a person."""
    require_fence(draft, body.fence)
    if draft.state.issued and draft.state.issued.cause == "settle":
        raise Conflict("a settle attempt writes nothing", body.effect_id, "it gives the verdicts of `verify`")
    _require_settled(draft)
    check(body.args, what="effect arguments")
    size = len(encode(body.args))
    if size > ARGS_BUDGET:
        raise BudgetExceeded("effect arguments", size, ARGS_BUDGET)
    note_tools(draft, body.notes)
    try:
        spec, grant = _granted(draft, body)
    except Denied as error:
        draft.add(ev.ToolDenied(tool=clean_text(body.tool, 200), why=error.why))
        return draft.decision(refusal(error))
    known = draft.state.effect(body.effect_id)
    identity, n = _identity(draft, body, spec)
    if known is not None:
        return _known(draft, body, known, grant)
    earlier = _done_earlier(draft, body.tool, identity)
    if earlier is not None and not spec.repeatable:
        return draft.decision(recorded(earlier))
    return _new(draft, body, grant, identity, n)


def _require_settled(draft: Draft) -> None:
    unknown = draft.state.unknown()
    if unknown:
        raise Conflict("no new effect while one is unknown", unknown[0].effect_id, "it must be settled first")


def _granted(draft: Draft, body: cmd.Intend) -> tuple[ToolSpec, Grant]:
    """Return the pinned specification and the grant; raises Denied (rule 5: the broker checks)."""
    state = draft.state
    who = draft.command.by
    digest = state.issued.tools.get(body.tool) if state.issued else None
    grant = grant_of(draft.stage, body.tool)
    spec = draft.given.pinned.get(digest or "")
    if digest is None or grant is None or spec is None:
        raise Denied(who, f"call {body.tool}", f"stage {state.stage} does not grant it")
    if not spec.effect:
        raise Denied(who, f"write with {body.tool}", "it is registered as a reading tool")
    if not in_scope(draft.stage, spec):
        raise Denied(who, f"call {body.tool}", f"its scope {spec.scope!r} is not granted")
    misfit = problems(narrow(spec.params, grant.params), body.args)
    if misfit:
        raise Denied(who, f"call {body.tool} with these arguments", "; ".join(misfit))
    return spec, grant


def _identity(draft: Draft, body: cmd.Intend, spec: ToolSpec) -> tuple[str, int]:
    """Return the identity's digest and n; raises ContractError where the effectId is not theirs."""
    identity = identity_of(spec, body.args)
    short = identity_digest(identity)
    n = body.counters.get(f"{body.tool}:{short}", 0)
    expected = effect_id(draft.state.session_id, draft.state.step, body.tool, identity, n)
    if n < 1 or body.effect_id != expected:
        raise ContractError(
            "effect", f"expected effectId {expected} for call {n}, got {body.effect_id}", pointer="/effectId"
        )
    return short, n


def _known(draft: Draft, body: cmd.Intend, effect: Effect, grant: Grant) -> Decision:
    if effect.status in ("not-done", "failed", "proposed") and _contradicted(draft, effect):
        raise Conflict(
            f"{effect.tool} may have happened after all",
            effect.effect_id,
            "a person says so first, in a ticket",
        )
    match effect.status:
        case "done" | "denied":
            return draft.decision(recorded(effect))
        case "failed":
            if _recorded_after(draft, effect):
                return draft.decision(recorded(effect))
            return _intend_or_propose(draft, body, effect, grant)
        case "not-done":
            if not effect.repeat:
                return draft.decision(recorded(effect))
            return _intend_or_propose(draft, body, effect, grant)
        case "proposed":
            return _intend_or_propose(draft, body, effect, grant)
        case "intended" | "unknown":
            raise Conflict(
                f"effect {effect.effect_id} is {effect.status}", effect.claims[-1], "await it first"
            )


def _contradicted(draft: Draft, effect: Effect) -> bool:
    """Whether a late report says that the effect did happen, and no person has decided on that yet."""
    return any(ticket.kind == "effect" and ticket.about == effect.effect_id for ticket in draft.state.tickets)


def _recorded_after(draft: Draft, effect: Effect) -> bool:
    return any(other.touched > effect.touched for other in draft.state.effects)


def _intend_or_propose(draft: Draft, body: cmd.Intend, effect: Effect, grant: Grant) -> Decision:
    """Run where no approval is needed, or a good one is there for exactly this action; else propose it."""
    needed = grant.approve is not None or effect.approval is not None or effect.status == "proposed"
    if not needed or _approved(effect, body, draft.at):
        return _intend(draft, body, effect)
    return _propose(
        draft, body, effect.identity, effect.n, _approvers(draft, grant), "a person must see it first"
    )


def _approved(effect: Effect, body: cmd.Intend, at: int) -> bool:
    """Whether a good approval covers exactly what would run; a repeat after `not-done` may use a spent one."""
    approval = effect.approval
    if approval is None or digest_of(body.args) != effect.args_digest:
        return False
    unspent = not approval.spent or effect.status == "not-done"
    runs = effect.edited or body.args
    exact = approval.action == action_digest(effect.effect_id, effect.tool, runs)
    return exact and unspent and approval.valid_until >= at


def _intend(draft: Draft, body: cmd.Intend, effect: Effect | None) -> Decision:
    args = (effect.edited if effect else None) or body.args
    identity, n = (effect.identity, effect.n) if effect else _fresh_identity(draft, body)
    approval = effect.approval if effect else None
    draft.add(
        ev.EffectIntended(
            effect_id=body.effect_id,
            tool=body.tool,
            tool_digest=_tool_digest(draft, body.tool),
            args=args,
            identity=identity,
            n=n,
            claim_id=body.fence.claim_id,
            counters=body.counters,
            approval=approval.ticket_no if approval else None,
        )
    )
    return draft.decision(Run(effect_id=body.effect_id, args=args))


def _fresh_identity(draft: Draft, body: cmd.Intend) -> tuple[str, int]:
    spec = draft.given.pinned[_tool_digest(draft, body.tool)]
    short = identity_digest(identity_of(spec, body.args))
    return short, body.counters[f"{body.tool}:{short}"]


def _tool_digest(draft: Draft, tool: str) -> str:
    issued = draft.state.issued
    return issued.tools[tool] if issued else ""


def _new(draft: Draft, body: cmd.Intend, grant: Grant, identity: str, n: int) -> Decision:
    if grant.approve is not None:
        return _propose(draft, body, identity, n, grant.approve, "a person must see it first")
    unmet = _unmet(draft, body, identity)
    if unmet and body.after not in {effect.effect_id for effect in unmet}:
        path = draft.stage.escalation
        why = f"an attempt was lost after {unmet[0].tool} ran with other arguments ({unmet[0].effect_id})"
        return _propose(draft, body, identity, n, path[0].queue if path else OPERATORS, why)
    return _intend(draft, body, None)


def _unmet(draft: Draft, body: cmd.Intend, identity: str) -> list[Effect]:
    """Return what an attempt before this one did with the tool, and this run knows nothing of (DESIGN §6).

    After a lost attempt a model may have changed its mind about an argument; then a second write would
    stand beside the first.
    """
    state = draft.state
    if not state.lost:
        return []
    met = dict(state.snapshot.counters) if state.snapshot else {}
    for name, count in body.counters.items():
        met[name] = max(met.get(name, 0), count)
    return [
        effect
        for effect in state.effects
        if effect.step == state.step
        and effect.tool == body.tool
        and effect.identity != identity
        and effect.status in ("done", "failed", "not-done")
        and met.get(f"{effect.tool}:{effect.identity}", 0) < effect.n
    ]


def _done_earlier(draft: Draft, tool: str, identity: str) -> Effect | None:
    """Return the effect that did this already: in an earlier step, or as a person's edit of another call."""
    state = draft.state
    for effect in state.effects:
        if effect.tool != tool or effect.status != "done":
            continue
        if (effect.step < state.step and effect.identity == identity) or effect.edited_identity == identity:
            return effect
    return None


def _approvers(draft: Draft, grant: Grant) -> str:
    path = draft.stage.escalation
    return grant.approve or (path[0].queue if path else OPERATORS)


def _propose(draft: Draft, body: cmd.Intend, identity: str, n: int, queue: str, why: str) -> Decision:
    end_effects(draft, "its claim ended when another effect was proposed")
    action = action_digest(body.effect_id, body.tool, body.args)
    draft.add(
        ev.EffectProposed(
            effect_id=body.effect_id,
            tool=body.tool,
            tool_digest=_tool_digest(draft, body.tool),
            args=body.args,
            identity=identity,
            n=n,
            action=action,
            why=why,
            claim_id=body.fence.claim_id,
        )
    )
    number = open_ticket(
        draft,
        "approval",
        draft.stage,
        f"{body.tool}: {why}",
        ["approve", "deny", "edit", "cancel"],
        about=body.effect_id,
        action=action,
        queue=queue,
    )
    advance(draft)
    return draft.decision(Suspended(effect_id=body.effect_id, ticket_no=number))


def recorded(effect: Effect) -> Recorded:
    """Return what the ledger answers for an effect that is decided already."""
    if effect.status == "done":
        at = effect.result_seq if effect.result is None else None
        return Recorded(effect_id=effect.effect_id, status="done", result=effect.result, seq=at)
    status = "denied" if effect.status == "denied" else "failed"
    return Recorded(effect_id=effect.effect_id, status=status, error=effect.error)


def report(draft: Draft, body: cmd.Report) -> Decision:
    """Record how a write ended. The truth is accepted late, from a claim that recorded the intent (rule 2)."""
    effect = draft.state.effect(body.effect_id)
    if effect is None:
        raise NotFound("effect", body.effect_id)
    if body.claim_id not in effect.claims:
        raise Fenced(
            body.claim_id[:8], effect.claims[-1][:8] if effect.claims else "none", "it recorded no intent"
        )
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
    if effect.status in ("intended", "unknown"):
        draft.add(ev.EffectDone(effect_id=effect.effect_id, result=body.result))
        _withdraw_question(draft, effect.effect_id)
    elif effect.status != "done":
        ask_about_effect(
            draft, effect.effect_id, f"{effect.tool} was held for {effect.status}, and did happen after all"
        )


def _report_failed(draft: Draft, effect: Effect, body: cmd.Report) -> None:
    # What an older claim did not write says nothing about what the newest may have written.
    newest = effect.claims[-1] == body.claim_id
    if newest and effect.status in ("intended", "unknown"):
        draft.add(ev.EffectFailed(effect_id=effect.effect_id, error=clean_text(body.error)))
        _withdraw_question(draft, effect.effect_id)
    elif effect.status == "done":
        ask_about_effect(
            draft, effect.effect_id, f"{effect.tool} was held for done, and did not happen after all"
        )


def _withdraw_question(draft: Draft, about: str) -> None:
    for ticket in draft.state.tickets:
        if ticket.kind == "effect" and ticket.about == about:
            draft.add(ev.TicketWithdrawn(ticket_no=ticket.ticket_no, why="the truth arrived"))


def settle(draft: Draft, body: cmd.Settle) -> Decision:
    """Apply the verdicts of `verify`, which end the settle attempt."""
    state = draft.state
    if not state.issued or state.issued.cause != "settle" or not state.claim:
        raise Fenced(str(body.fence), f"{state.step}/{state.attempt}", "no settle attempt is under way")
    if (state.step, state.attempt, state.claim.claim_id) != (
        body.fence.step,
        body.fence.attempt,
        body.fence.claim_id,
    ):
        raise Fenced(str(body.fence), f"{state.step}/{state.attempt}/{state.claim.claim_id[:8]}")
    asked: list[tuple[str, str]] = []
    verdicts = {verdict.effect_id: verdict for verdict in body.verdicts}
    for effect in state.unknown():
        verdict = verdicts.get(effect.effect_id) or cmd.Verdict(effect_id=effect.effect_id, found="unsure")
        why = _settle_one(draft, effect, verdict)
        if why:
            asked.append((effect.effect_id, why))
    draft.add(ev.ClaimReleased(claim_id=body.fence.claim_id, reason="settled"))
    for about, why in asked:
        ask_about_effect(draft, about, why)
    advance(draft)
    return draft.decision()


def _settle_one(draft: Draft, effect: Effect, verdict: cmd.Verdict) -> str:
    """Record what is certain; return why a person must be asked where it is not."""
    spec = draft.given.pinned.get(effect.tool_digest)
    match verdict.found:
        case "found":
            check(verdict.result, what="verdict")
            draft.add(ev.EffectSettled(effect_id=effect.effect_id, status="done", result=verdict.result))
            return ""
        case "absent":
            # Only a system that absorbs a repeated key makes a repeat safe: the frozen first worker may
            # still wake up and write.
            if spec is not None and spec.dedupes:
                draft.add(ev.EffectSettled(effect_id=effect.effect_id, status="not-done", repeat=True))
                return ""
            return f"{effect.tool} was not found outside, but its first try may still arrive"
        case "unsure":
            note = f": {clean_text(verdict.note, 300)}" if verdict.note else ""
            return f"verify of {effect.tool} could not tell{note}"
