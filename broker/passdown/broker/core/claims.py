"""A worker's hold on an attempt: claim, checkpoint, notes, release, losing it, and coming too late.

Whatever ends a claim goes through `end_effects` first: an effect that is intended when its claim ends is
unknown from that same commit on (rule 3).
"""

from passdown.broker.core import recovery
from passdown.broker.core.advance import advance
from passdown.broker.core.bounds import require_room
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision, grant_of, permit_of
from passdown.broker.core.packing import build, grant_now, granted, permit_now
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import (
    INLINE_LIMIT,
    KIB,
    PACK_BUDGET,
    RETURN_BUDGET,
    check,
    clean_text,
    digest_of,
    encode,
)
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied, Fenced
from passdown.contracts.plans import Grant
from passdown.contracts.replies import Held, refusal
from passdown.contracts.returns import Fence
from passdown.contracts.schema import problems
from passdown.contracts.tools import ToolSpec, narrow

#: Fenced returns that a session's log records; further ones are only counted beside the state (rule 2).
FENCED_RECORDED = 100
#: A snapshot from this size on is tried in a pack at once (bytes): later nobody would be there to shorten it.
_TRIED_FROM = 16 * KIB
#: Characters of what a reading call raised that its event holds.
_ERROR_KEPT = 1_000


def claim(draft: Draft, body: cmd.Claim) -> Decision:
    """One claim holds an attempt; whoever comes second is told (rule 2)."""
    state, fence = draft.state, body.fence
    issued = state.issued
    if state.over or issued is None or (fence.step, fence.attempt) != (state.step, issued.attempt):
        raise Fenced(str(fence), current_fence(draft), "that attempt is over")
    if state.claim is not None:
        raise Fenced(str(fence), current_fence(draft), f"{state.claim.by} holds it")
    if body.pack_digest != issued.digest:
        raise ContractError(
            "pack", f"its digest is not that of attempt {fence.step}/{fence.attempt}", pointer="/digest"
        )
    draft.add(
        ev.Claimed(
            attempt=issued.attempt,
            claim_id=fence.claim_id,
            agent=body.agent,
            agent_version=body.agent_version,
            model=body.model,
        )
    )
    return draft.decision(Held(lease_ms=issued.lease_ms))


def current_fence(draft: Draft) -> str:
    """Return the current fence in words."""
    state = draft.state
    if state.over:
        return f"none (the session is {state.status})"
    held = state.claim
    return (
        f"{state.step}/{state.attempt}/{held.claim_id[:8]}"
        if held
        else f"{state.step}/{state.attempt}/unclaimed"
    )


def holds(draft: Draft, fence: Fence) -> bool:
    """Whether `fence` is the current one."""
    state = draft.state
    held = state.claim
    return held is not None and (fence.step, fence.attempt, fence.claim_id) == (
        state.step,
        held.attempt,
        held.claim_id,
    )


def require_fence(draft: Draft, fence: Fence) -> None:
    """Raise Fenced unless `fence` is the current one and the session is not being ended."""
    if not holds(draft, fence):
        raise Fenced(str(fence), current_fence(draft))
    if draft.state.ending:
        raise Fenced(str(fence), current_fence(draft), f"the session is being {draft.state.ending}")


def end_effects(draft: Draft, why: str) -> None:
    """Record as unknown what is still intended, because its claim ends now."""
    for effect in draft.state.effects:
        if effect.status == "intended":
            draft.add(ev.EffectUnknown(effect_id=effect.effect_id, why=why))


def granted_tool(draft: Draft, name: str) -> tuple[ToolSpec, Grant]:
    """Return what the present pack grants of a tool; raises Denied (rule 5: the broker checks, not only the worker)."""
    state, given = draft.state, draft.given
    pinned = state.issued.tools.get(name) if state.issued else None
    spec = given.pinned.get(pinned or "")
    grant = grant_of(draft.stage, name)
    if spec is None or grant is None:
        raise Denied(draft.command.by, f"call {name}", f"stage {state.stage} does not grant it")
    now = grant_now(given, state.stage, grant)[0]
    if now is None and permit_of(draft.stage, name) is not None:
        # The pack carries the tool for what a person may permit of it, which says nothing of the grant.
        raise Denied(draft.command.by, f"call {name}", "it is no longer granted")
    # What was withdrawn since the pack was issued stays granted until the next one (DESIGN §7).
    return spec, now or grant


def permitted_tool(draft: Draft, name: str) -> tuple[ToolSpec, Grant] | None:
    """Return what a person may permit of a tool that the stage denies, if the present pack carries it."""
    pinned = draft.state.issued.tools.get(name) if draft.state.issued else None
    spec, permit = draft.given.pinned.get(pinned or ""), permit_now(draft.given, draft.state.stage, name)
    return None if spec is None or permit is None else (spec, permit)


def require_fit(draft: Draft, spec: ToolSpec, grant: Grant, args: object) -> None:
    """Raise Denied unless the arguments fit the tool's parameters, as the stage narrows them."""
    misfit = problems(narrow(spec.params, grant.params), args)
    if misfit:
        raise Denied(draft.command.by, f"call {spec.name} with these arguments", "; ".join(misfit))


def note_tools(draft: Draft, notes: list[cmd.ToolNote]) -> None:
    """Record reading calls that ride in this commit; one that the stage does not grant is denied (rule 5)."""
    for note in notes:
        check([note.tool, note.args, note.result], what="tool note")
        try:
            draft.add(_called(draft, note))
        except Denied as error:
            draft.add(ev.ToolDenied(tool=clean_text(note.tool, 200), why=clean_text(error.why)))


def _called(draft: Draft, note: cmd.ToolNote) -> ev.ToolCalled:
    who = draft.command.by
    if note.denied:
        raise Denied(who, f"call {note.tool}", note.denied)
    spec, grant = granted_tool(draft, note.tool)
    if spec.effect:
        raise Denied(who, f"read with {note.tool}", "it writes: its calls are effects, not notes")
    require_fit(draft, spec, grant, note.args)
    small = len(encode(note.args)) <= INLINE_LIMIT
    keep = small and note.kept and len(encode(note.result)) <= INLINE_LIMIT
    fresh = spec.fresh_for_seconds
    return ev.ToolCalled(
        tool=note.tool,
        args=note.args if small else None,
        args_digest=digest_of(note.args),
        result_digest=note.result_digest,
        age_ms=max(0, note.age_ms),
        kept=keep,
        result=note.result if keep else None,
        error=clean_text(note.error, _ERROR_KEPT),
        fresh_for_ms=None if fresh is None else int(fresh * 1000),
    )


def checkpoint(draft: Draft, body: cmd.Checkpoint) -> Decision:
    """Record intermediate state. Raises Conflict while an effect is intended, and BudgetExceeded.

    A snapshot could not tell a write that is under way from one that has happened (DESIGN §6).
    """
    require_fence(draft, body.fence)
    require_agent(draft)
    open_effect = next((one for one in draft.state.effects if one.status == "intended"), None)
    if open_effect:
        raise Conflict(
            f"no checkpoint while {open_effect.tool} is under way", open_effect.effect_id, "await it first"
        )
    check(body.data, what="checkpoint")
    size = len(encode([body.data, body.counters]))
    if size > RETURN_BUDGET:
        raise BudgetExceeded("checkpoint", size, RETURN_BUDGET)
    note_tools(draft, body.notes)
    draft.add(ev.Checkpointed(claim_id=body.fence.claim_id, data=body.data, counters=body.counters))
    require_room(draft.state, "checkpoint")
    if size >= _TRIED_FROM:
        _require_pack(draft)
    return draft.decision()


def _require_pack(draft: Draft) -> None:
    """Raise BudgetExceeded where an attempt could not be given this snapshot."""
    state, given = draft.state, draft.given
    if build(state, given, "resume", draft.at, granted(given, state.stage)) is None:
        parts = {"snapshot": len(encode(state.snapshot)), "inputs": len(encode(state.data))}
        raise BudgetExceeded(
            "the pack that would carry this checkpoint", sum(parts.values()), PACK_BUDGET, parts
        )


def require_agent(draft: Draft) -> None:
    """Raise Conflict in a settle attempt, which only asks what happened."""
    if draft.state.settling():
        raise Conflict(
            "this attempt only settles: it writes and checkpoints nothing", "", "give its verdicts"
        )


def note(draft: Draft, body: cmd.NoteTools) -> Decision:
    """Record reading and denied calls by themselves."""
    require_fence(draft, body.fence)
    note_tools(draft, body.notes)
    return draft.decision()


def release(draft: Draft, body: cmd.Release) -> Decision:
    """The worker hands the attempt back; nothing counts as failed."""
    if not holds(draft, body.fence):
        raise Fenced(str(body.fence), current_fence(draft))
    note_tools(draft, body.notes)
    end_effects(draft, "its worker let go of the claim")
    draft.add(ev.ClaimReleased(claim_id=body.fence.claim_id, reason=clean_text(body.reason, 200)))
    advance(draft)
    return draft.decision()


def lease_lost(draft: Draft, claim_id: str) -> Decision:
    """The lease ran out and nobody renewed it: the attempt is lost."""
    if _claimed_by(draft, claim_id):
        _lose(draft, claim_id, "its worker was lost")
    return draft.decision()


def store_restarted(draft: Draft, claim_id: str) -> Decision:
    """The store was restarted and may have lost its last moments: what is under way is unknown (DESIGN §6).

    The record of how the write ended may be among what was lost, so its worker cannot be asked to go on. The
    attempt counts as lost, as if the worker had been: what follows is the stage's `recovery`, and a plan that
    leaves that to a person must not be passed by because it was the server that failed. A claim with nothing
    under way goes on.
    """
    under_way = any(effect.status == "intended" for effect in draft.state.effects)
    if under_way and _claimed_by(draft, claim_id):
        _lose(draft, claim_id, "the store was restarted while it was under way")
    return draft.decision()


def _claimed_by(draft: Draft, claim_id: str) -> bool:
    held = draft.state.claim
    return held is not None and held.claim_id == claim_id


def _lose(draft: Draft, claim_id: str, why: str) -> None:
    end_effects(draft, why)
    at = recovery.retry_at(draft.stage, draft.state.failures + 1, draft.at)
    draft.add(ev.LeaseLost(claim_id=claim_id, retry_at=at))
    advance(draft)


def fenced(draft: Draft, fence: Fence, body_digest: str) -> Decision:
    """Record a return that does not count, as long as the session's log has room for such; always refuse it."""
    error = Fenced(str(fence), current_fence(draft))
    if draft.state.fenced < FENCED_RECORDED:
        draft.add(ev.ReturnFenced(fence=fence, digest=body_digest, why=str(error)))
    return draft.decision(refusal(error))
