"""A worker's hold on an attempt: claim, checkpoint, give, fail, release, and losing it.

Whatever ends a claim goes through `end_effects` first: an effect that is intended when its claim ends is
unknown from that same commit on (rule 3).
"""

from typing import Any

from msgspec import UNSET

from passdown.broker.core import recovery
from passdown.broker.core.advance import advance, next_stage
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision, as_object
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import (
    INLINE_LIMIT,
    RETURN_BUDGET,
    STATE_BUDGET,
    clean_text,
    digest,
    digest_of,
    encode,
)
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Fenced
from passdown.contracts.replies import Held, Rejected, Reply, refusal
from passdown.contracts.returns import (
    DoneReturn,
    EscalateReturn,
    Fence,
    NeedsInputReturn,
    Return,
    read_return,
)
from passdown.contracts.schema import compile_schema, problems

#: Fenced returns that a session's log records; further ones are only counted beside the state (rule 2).
FENCED_RECORDED = 100


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


def note_tools(draft: Draft, notes: list[cmd.ToolNote]) -> None:
    """Record reading calls that ride in this commit; one that the stage does not grant is denied (rule 5)."""
    issued = draft.state.issued
    for note in notes:
        spec = draft.given.pinned.get(issued.tools.get(note.tool, "")) if issued else None
        if note.denied or spec is None:
            why = clean_text(note.denied) or f"stage {draft.state.stage} does not grant it"
            draft.add(ev.ToolDenied(tool=clean_text(note.tool, 200), why=why))
            continue
        fresh = spec.fresh_for_seconds
        keep = (
            note.kept and len(encode(note.result)) <= INLINE_LIMIT and len(encode(note.args)) <= INLINE_LIMIT
        )
        draft.add(
            ev.ToolCalled(
                tool=note.tool,
                args=note.args if len(encode(note.args)) <= INLINE_LIMIT else None,
                args_digest=digest_of(note.args),
                result_digest=note.result_digest,
                age_ms=note.age_ms,
                kept=keep,
                result=note.result if keep else None,
                fresh_for_ms=None if fresh is None else int(fresh * 1000),
            )
        )


def checkpoint(draft: Draft, body: cmd.Checkpoint) -> Decision:
    """Record intermediate state; not while an effect is intended, which the snapshot could not tell apart."""
    require_fence(draft, body.fence)
    open_effect = next((one for one in draft.state.effects if one.status == "intended"), None)
    if open_effect:
        raise Conflict(
            f"no checkpoint while {open_effect.tool} is under way", open_effect.effect_id, "await it first"
        )
    size = len(encode(body.data))
    if size > RETURN_BUDGET:
        raise BudgetExceeded("checkpoint", size, RETURN_BUDGET)
    note_tools(draft, body.notes)
    draft.add(ev.Checkpointed(claim_id=body.fence.claim_id, data=body.data, counters=body.counters))
    whole = len(encode(draft.state))
    if whole > STATE_BUDGET:
        raise BudgetExceeded("session state with this checkpoint", whole, STATE_BUDGET)
    return draft.decision()


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
    state = draft.state
    if state.claim is None or state.claim.claim_id != claim_id:
        return draft.decision()
    end_effects(draft, "its worker was lost")
    at = recovery.retry_at(draft.stage, state.failures + 1, draft.at)
    draft.add(ev.LeaseLost(claim_id=claim_id, retry_at=at))
    advance(draft)
    return draft.decision()


def fail(draft: Draft, body: cmd.Fail) -> Decision:
    """The agent ended without a return: a failed attempt, with its error as feedback."""
    if not holds(draft, body.fence):
        return fenced(draft, body.fence, digest_of(body))
    note_tools(draft, body.notes)
    return _reject(draft, body.kind, body.problem, "")


def give(draft: Draft, body: cmd.Give) -> Decision:
    """Judge a return: fenced, rejected, kept, or followed."""
    raw = body.body.encode("utf-8", "backslashreplace")
    if not holds(draft, body.fence) or draft.state.ending:
        return fenced(draft, body.fence, digest(raw))
    note_tools(draft, body.notes)
    try:
        parsed = read_return(raw)
        _check_return(draft, body.fence, parsed)
    except ContractError as error:
        return _reject(draft, "contract", str(error), digest(raw))
    end_effects(draft, "its claim returned while it was under way")
    state = draft.state
    held = state.claim
    draft.add(
        ev.Returned(
            body=parsed,
            kept=bool(state.unknown()),
            agent=held.agent if held else "",
            agent_version=held.agent_version if held else "",
            model=held.model if held else "",
        )
    )
    advance(draft)
    return draft.decision()


def fenced(draft: Draft, fence: Fence, body_digest: str) -> Decision:
    """Record a return that does not count, as long as the session's log has room for such; always refuse it."""
    error = Fenced(str(fence), current_fence(draft))
    if draft.state.fenced < FENCED_RECORDED:
        draft.add(ev.ReturnFenced(fence=fence, digest=body_digest, why=str(error)))
    return draft.decision(refusal(error))


def _reject(draft: Draft, kind: Any, problem: str, body_digest: str) -> Decision:
    state = draft.state
    end_effects(draft, "its claim ended without a return that counts")
    text = clean_text(problem)
    draft.add(
        ev.ReturnRejected(
            claim_id=state.claim.claim_id if state.claim else "",
            kind=kind,
            problem=text,
            digest=body_digest,
            retry_at=recovery.retry_at(draft.stage, state.failures + 1, draft.at),
        )
    )
    advance(draft)
    reply: Reply = Rejected(problem=text)
    return draft.decision(reply)


def _check_return(draft: Draft, fence: Fence, body: Return) -> None:
    """Raise ContractError unless the return is bound to this attempt and fits its contract (DESIGN §5)."""
    state, issued = draft.state, draft.state.issued
    expected = (state.session_id, str(fence), state.stage, issued.digest if issued else "")
    given = (body.session_id, str(body.fence), body.stage, body.pack_digest)
    for name, want, got in zip(("sessionId", "fence", "stage", "packDigest"), expected, given, strict=True):
        if want != got:
            raise ContractError("return", f"expected {want!r}, got {got!r}", pointer=f"/{name}")
    if issued and issued.cause == "settle":
        raise ContractError("return", "a settle attempt gives verdicts, not a return", pointer="/result")
    result = type(body).__struct_config__.tag
    contract = draft.stage.returns
    if result not in contract.results:
        raise ContractError(
            "return", f"expected one of {', '.join(contract.results)}, got {result!r}", pointer="/result"
        )
    if isinstance(body, DoneReturn):
        _check_done(draft, body)
    elif isinstance(body, NeedsInputReturn):
        _check_questions(body)
    elif isinstance(body, EscalateReturn):
        _check_hand_over(draft, body)


def _check_done(draft: Draft, body: DoneReturn) -> None:
    contract = draft.stage.returns
    check_output(draft, body.output, body.next_step)
    if contract.evidence == "required" and not body.evidence:
        raise ContractError("return", "this stage requires evidence, none came", pointer="/evidence")
    if contract.evidence == "none" and body.evidence:
        raise ContractError("return", "this stage takes no evidence", pointer="/evidence")


def check_output(draft: Draft, output: object, suggestion: str | None) -> None:
    """Raise ContractError unless `output` fits the stage's schema and its `next` knows where to go."""
    known = as_object(output)
    if known is not output:
        raise ContractError("return", "the output of a stage is a JSON object", pointer="/output")
    found = problems(draft.stage.returns.schema, known)
    if found:
        raise ContractError("return", "; ".join(found), pointer="/output")
    target, reason = next_stage(draft.stage, known, suggestion)
    if not target:
        mapped = ", ".join([*draft.stage.next.cases, *draft.stage.next.suggest])
        raise ContractError("return", f"`next` does not map {reason}; it knows {mapped}", pointer="/output")


def _check_questions(body: NeedsInputReturn) -> None:
    ids = [question.id for question in body.questions]
    if len(set(ids)) != len(ids):
        raise ContractError("return", "two questions have the same id", pointer="/questions")
    for number, question in enumerate(body.questions):
        try:
            compile_schema(question.schema)
        except ContractError as error:
            raise ContractError("return", error.problem, pointer=f"/questions/{number}/schema") from error


def _check_hand_over(draft: Draft, body: EscalateReturn) -> None:
    path = draft.stage.escalation
    schema = path[0].hand_over if path else None
    if schema is None:
        return
    found = problems(schema, None if body.hand_over is UNSET else body.hand_over)
    if found:
        raise ContractError("return", "; ".join(found), pointer="/handOver")
