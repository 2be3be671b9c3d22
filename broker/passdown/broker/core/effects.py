"""Asking to write outside: intended, answered from the ledger, or proposed to a person (DESIGN §6, rule 3).

An intent is recorded before the write. What is recorded already is answered, not run. What needs a
person is proposed, and ends the claim.
"""

from typing import Any, Literal

from passdown.broker.core.advance import advance
from passdown.broker.core.bounds import ARGS_BUDGET, require_room
from passdown.broker.core.claims import (
    end_effects,
    granted_tool,
    note_tools,
    permitted_tool,
    require_agent,
    require_fence,
    require_fit,
)
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision
from passdown.broker.core.packing import in_scope
from passdown.broker.core.parts import Approval, Effect
from passdown.broker.core.tickets import first_queue, open_ticket
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import check, clean_text, digest_of, encode
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied
from passdown.contracts.ids import effect_id, identity_digest
from passdown.contracts.plans import Grant
from passdown.contracts.replies import Recorded, Run, Suspended, refusal
from passdown.contracts.schema import problems
from passdown.contracts.tools import ToolSpec, action_digest, identity_of, narrow

#: What a person is asked about a call: to approve one that the stage grants, or to permit one that it denies.
Asking = Literal["approval", "permission"]
_WHY: dict[Asking, str] = {
    "approval": "a person must see it first",
    "permission": "the stage denies it, and a person may permit it once",
}


def intend(draft: Draft, body: cmd.Intend) -> Decision:
    """Record the intent, or answer from the ledger, or propose the action to a person."""
    require_fence(draft, body.fence)
    require_agent(draft)
    _require_settled(draft)
    check([body.tool, body.args], what="effect arguments")
    size = len(encode(body.args))
    if size > ARGS_BUDGET:
        raise BudgetExceeded("effect arguments", size, ARGS_BUDGET)
    note_tools(draft, body.notes)
    try:
        spec, grant, kind = _granted(draft, body)
    except Denied as error:
        draft.add(ev.ToolDenied(tool=clean_text(body.tool, 200), why=clean_text(error.why)))
        return draft.decision(refusal(error))
    identity, n = _identity(draft, body, spec)
    known = draft.state.effect(body.effect_id)
    if known is not None:
        return _known(draft, body, known, grant, kind)
    earlier = _done_earlier(draft, body.tool, identity)
    if earlier is not None and not spec.repeatable:
        return draft.decision(recorded(earlier))
    edit = _edit_into(draft, body.tool, identity)
    if edit is not None:
        return draft.decision(refusal(_stands_for(draft, edit, body)))
    return _new(draft, body, grant, identity, n, kind)


def _require_settled(draft: Draft) -> None:
    unknown = draft.state.unknown()
    if unknown:
        raise Conflict("no new effect while one is unknown", unknown[0].effect_id, "it must be settled first")


def _granted(draft: Draft, body: cmd.Intend) -> tuple[ToolSpec, Grant, Asking]:
    """Return the pinned specification, the grant, and what a person would be asked for; raises Denied (rule 5)."""
    try:
        spec, grant = granted_tool(draft, body.tool)
        _require_grant(draft, body, spec, grant)
    except Denied:
        permitted = permitted_tool(draft, body.tool)
        if permitted is None:
            raise
        _require_grant(draft, body, *permitted)
        return *permitted, "permission"
    return spec, grant, "approval"


def _require_grant(draft: Draft, body: cmd.Intend, spec: ToolSpec, grant: Grant) -> None:
    who = draft.command.by
    if not spec.effect:
        raise Denied(who, f"write with {body.tool}", "it is registered as a reading tool")
    if not in_scope(draft.given, draft.state.stage, spec):
        raise Denied(who, f"call {body.tool}", f"its scope {spec.scope!r} is not granted")
    require_fit(draft, spec, grant, body.args)


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


def _known(draft: Draft, body: cmd.Intend, effect: Effect, grant: Grant, kind: Asking) -> Decision:
    match effect.status:
        case "done" | "denied":
            return draft.decision(recorded(effect))
        case "failed" if _recorded_after(draft, effect) and not _approved_anew(effect):
            return draft.decision(recorded(effect))
        case "not-done" if not effect.repeat:
            return draft.decision(recorded(effect))
        case "failed" | "not-done" | "proposed":
            return _intend_or_propose(draft, body, effect, grant, kind)
        case "intended" | "unknown":
            raise Conflict(
                f"effect {effect.effect_id} is {effect.status}", effect.claims[-1], "await it first"
            )


def _recorded_after(draft: Draft, effect: Effect) -> bool:
    return any(other.touched > effect.touched for other in draft.state.effects)


def _approved_anew(effect: Effect) -> bool:
    """Whether a person said once more that it may run, knowing that it had failed."""
    return effect.approval is not None and not effect.approval.spent


def _intend_or_propose(
    draft: Draft, body: cmd.Intend, effect: Effect, grant: Grant, kind: Asking
) -> Decision:
    """Run where no approval is needed, or a good one is there for exactly this action; else propose it."""
    asked = effect.approval is not None or effect.void or effect.status == "proposed"
    needed = asked or grant.approve is not None
    if needed and not _approved(draft, body, effect, grant, kind):
        return _propose(draft, body, effect.identity, effect.n, grant, kind)
    edited = effect.edited if needed else None
    approval = effect.approval.ticket_no if effect.approval else None
    return _intend(draft, body, effect.identity, effect.n, edited, approval)


def _approved(draft: Draft, body: cmd.Intend, effect: Effect, grant: Grant, kind: Asking) -> bool:
    """Whether a good approval covers exactly what would run; a repeat after `not-done` may use a spent one.

    It covers the tool as it was then, what the grant allows now, and no less than the grant asks for now. Who approves
    what the stage grants has not permitted what it denies by now.
    """
    approval = effect.approval
    if approval is None or digest_of(body.args) != effect.args_digest:
        return False
    if kind == "permission" and not approval.permitted:
        return False
    if _asks_for_more(grant, approval) or effect.tool_digest != _tool_digest(draft, body.tool):
        return False
    unspent = not approval.spent or effect.status == "not-done"
    runs = body.args if effect.edited is None else effect.edited
    exact = approval.action == action_digest(effect.effect_id, effect.tool, runs)
    spec = draft.given.pinned[effect.tool_digest]
    fits = not problems(narrow(spec.params, grant.params), runs)
    return exact and unspent and fits and approval.valid_until >= draft.at


def _asks_for_more(grant: Grant, approval: Approval) -> bool:
    """Whether a grant asks other people, or more of them, than those who approved."""
    if grant.approve is None:
        return False
    return grant.approve != (approval.asked or approval.queue) or grant.approvals > 1 + len(approval.also)


def _new(draft: Draft, body: cmd.Intend, grant: Grant, identity: str, n: int, kind: Asking) -> Decision:
    if grant.approve is not None:
        return _propose(draft, body, identity, n, grant, kind)
    unmet = _unmet(draft, body)
    if unmet and body.after not in {effect.effect_id for effect in unmet}:
        why = f"an attempt ended after {unmet[0].tool} ran with other arguments ({unmet[0].effect_id})"
        return _propose(draft, body, identity, n, grant, "approval", why)
    return _intend(draft, body, identity, n, None, None)


def _unmet(draft: Draft, body: cmd.Intend) -> list[Effect]:
    """Return what an attempt before this one did with the tool, and this run knows nothing of (DESIGN §6).

    After an attempt that ended without an accepted return (lost, rejected, released, suspended) a model may
    have changed its mind about an argument; then a second write would stand beside the first. So it would
    where the tool is registered anew with another identity.
    """
    state = draft.state
    met = dict(state.snapshot.counters) if state.snapshot else {}
    for name, count in body.counters.items():
        met[name] = max(met.get(name, 0), count)
    digest = _tool_digest(draft, body.tool)
    return [
        effect
        for effect in state.effects
        if effect.step == state.step
        and effect.tool == body.tool
        and (state.unreturned > 0 or effect.tool_digest != digest)
        and effect.status in ("done", "failed", "not-done")
        and body.fence.claim_id not in effect.claims[-1:]
        and met.get(f"{effect.tool}:{effect.identity}", 0) < effect.n
    ]


def _done_earlier(draft: Draft, tool: str, identity: str) -> Effect | None:
    """Return the effect that did this already: in an earlier step, or as a person's edit of another call."""
    state = draft.state
    for effect in state.effects:
        if effect.tool != tool or effect.status != "done":
            continue
        if (effect.step < state.step and effect.identity == identity) or _is_edit_into(effect, identity):
            return effect
    return None


def _edit_into(draft: Draft, tool: str, identity: str) -> Effect | None:
    """Return the call of this step that a person's edit made into this very write, and that may still run or runs."""
    for effect in draft.state.effects:
        here = effect.tool == tool and effect.step == draft.state.step
        if here and effect.status != "denied" and _is_edit_into(effect, identity):
            return effect
    return None


def _is_edit_into(effect: Effect, identity: str) -> bool:
    return effect.edited_identity == identity != effect.identity


def _stands_for(draft: Draft, edit: Effect, body: cmd.Intend) -> Denied:
    """Record and return why a call does not run beside the one that a person changed into it: one yes, one write."""
    why = f"a person changed {edit.effect_id} into it: call {edit.tool} with the arguments first proposed"
    draft.add(ev.ToolDenied(tool=clean_text(body.tool, 200), why=why))
    return Denied(draft.command.by, f"call {edit.tool} with these arguments", why)


def _intend(
    draft: Draft,
    body: cmd.Intend,
    identity: str,
    n: int,
    edited: dict[str, Any] | None,
    approval: int | None,
) -> Decision:
    args = body.args if edited is None else edited
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
            approval=approval,
        )
    )
    require_room(draft.state, "effect")
    return draft.decision(Run(effect_id=body.effect_id, args=args))


def _tool_digest(draft: Draft, tool: str) -> str:
    issued = draft.state.issued
    return issued.tools.get(tool, "") if issued else ""


def _propose(
    draft: Draft, body: cmd.Intend, identity: str, n: int, grant: Grant, kind: Asking, why: str = ""
) -> Decision:
    """Propose the action to a person, which ends the claim; where the grant names no queue, to the escalation path."""
    why = why or _WHY[kind]
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
        kind,
        f"{body.tool}: {why}",
        ["approve", "deny", "edit", "cancel"],
        about=body.effect_id,
        action=action,
        queue=grant.approve or first_queue(draft.stage),
        approvals=grant.approvals,
    )
    require_room(draft.state, "effect")
    advance(draft)
    return draft.decision(Suspended(effect_id=body.effect_id, ticket_no=number))


def recorded(effect: Effect) -> Recorded:
    """Return what the ledger answers for an effect that is decided already."""
    if effect.status == "done":
        seq = effect.result_seq if effect.result_out else None
        return Recorded(effect_id=effect.effect_id, status="done", result=effect.result, seq=seq)
    status = "denied" if effect.status == "denied" else "failed"
    return Recorded(effect_id=effect.effect_id, status=status, error=effect.error)
