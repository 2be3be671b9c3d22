"""Judging what ends an attempt: a return, or the word that there is none. Fenced, rejected, kept, or followed."""

from typing import Literal

from msgspec import UNSET

from passdown.broker.core import recovery
from passdown.broker.core.advance import advance, next_stage
from passdown.broker.core.bounds import QUESTIONS_BYTES
from passdown.broker.core.claims import end_effects, fenced, holds, note_tools
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Decision, as_object
from passdown.broker.core.settling import unsure
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import clean_text, digest, digest_of, encode
from passdown.contracts.errors import BudgetExceeded, ContractError
from passdown.contracts.replies import Rejected
from passdown.contracts.returns import (
    DoneReturn,
    EscalateReturn,
    Fence,
    NeedsInputReturn,
    Return,
    read_return,
)
from passdown.contracts.schema import compile_schema, problems


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


def _reject(draft: Draft, kind: Literal["contract", "error"], problem: str, body_digest: str) -> Decision:
    """End the claim without a return that counts. In a settle attempt it leaves every answer open."""
    state = draft.state
    settling = state.settling()
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
    if settling:
        unsure(draft, "its settle attempt ended without verdicts")
    advance(draft)
    return draft.decision(Rejected(problem=text))


def _check_return(draft: Draft, fence: Fence, body: Return) -> None:
    """Raise ContractError unless the return is bound to this attempt and fits its contract (DESIGN §5)."""
    state, issued = draft.state, draft.state.issued
    expected = (state.session_id, fence, state.stage, issued.digest if issued else "")
    given = (body.session_id, body.fence, body.stage, body.pack_digest)
    for name, want, got in zip(("sessionId", "claimId", "stage", "packDigest"), expected, given, strict=True):
        if want != got:
            raise ContractError("return", f"expected {want!s}, got {got!s}", pointer=f"/{name}")
    if state.settling():
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
    size = len(encode(body.questions))
    if size > QUESTIONS_BYTES:
        raise BudgetExceeded("the questions of a return", size, QUESTIONS_BYTES)
    for number, question in enumerate(body.questions):
        try:
            compile_schema(question.schema, foreign=True)
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
