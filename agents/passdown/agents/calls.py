"""`ctx.call`: a reading call runs and is noted; an effect is put on record before it runs (DESIGN §6, rule 3)."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, assert_never, cast

from passdown.agents.claim import ActiveClaim, read_note
from passdown.agents.errors import EffectUncertain, NotDone, Suspended
from passdown.agents.flows import Blocking, Flow, RunTool, Step
from passdown.agents.jsonable import as_json
from passdown.agents.outcomes import Outcome, Raised, Value, describe, summary
from passdown.agents.tools import AnyTool
from passdown.contracts import replies
from passdown.contracts.codec import clean_text
from passdown.contracts.commands import ToolNote
from passdown.contracts.errors import ContractError, Denied, Fenced, NotFound, PassdownError, Unavailable
from passdown.contracts.pack import PackTool
from passdown.contracts.replies import Recorded, Run
from passdown.contracts.schema import problems, require

#: Stands in for the result of an effect that happened and whose result is not JSON data.
UNREADABLE = "$passdown.unreadable"


@dataclass(frozen=True, slots=True)
class _Effect:
    """One call of an effect tool: which effect it is, and the counters of the run with it counted in."""

    claim: ActiveClaim
    tool: AnyTool
    args: dict[str, Any]
    identity: dict[str, Any]
    effect_id: str
    n: int
    counters: dict[str, int]
    after: str | None


def call(claim: ActiveClaim, name: str, args: dict[str, Any], after: str | None) -> Flow:
    """Return the flow of a call. What makes it this effect and no other is fixed now, in the order of calls."""
    try:
        claim.require_held()
        tool, granted, checked = _admit(claim, name, args)
    except PassdownError as error:
        return _refused(claim, error)
    if not granted.effect:
        return _read(claim, tool, checked)
    identity = {one: checked.get(one) for one in granted.identity} if granted.identity else checked
    effect_id, n, counters = claim.count(name, identity)
    return _effect(_Effect(claim, tool, checked, identity, effect_id, n, counters, after))


def checkpoint(claim: ActiveClaim, data: object) -> Flow:
    """Return the flow that records `data` as the last valid state of this step."""
    claim.require_held()
    plain = as_json(data, what="checkpoint")
    number, counters = claim.next_number(), claim.counters()
    port, gateway = claim.port, claim.port.gateway

    def commit() -> None:
        claim.commit(
            lambda notes: port.commit(
                "checkpoint",
                claim.pack,
                lambda: gateway.checkpoint(claim.claim, number, plain, counters, notes),
            )
        )

    yield Blocking(commit)
    claim.snapshot = plain


def _admit(claim: ActiveClaim, name: str, args: dict[str, Any]) -> tuple[AnyTool, PackTool, dict[str, Any]]:
    """Return the tool, its grant and the checked arguments; notes what it refuses (rule 5)."""
    granted = claim.granted.get(name)
    tool = claim.tools.get(name)
    if granted is None or tool is None:
        shown = ", ".join(claim.granted) or "none"
        why = f"stage {claim.pack.stage} does not grant it; it grants {shown}"
        claim.deny(name, why)
        raise Denied(f"stage {claim.pack.stage}", f"call {clean_text(name, 200)}", why)
    what = f"arguments of {name}"
    try:
        checked: dict[str, Any] = as_json(tool.fill(args), what=what)
        if not _may_be_permitted(granted, checked):
            require(granted.params, checked, what=what)
        if not granted.effect:
            tool.keywords(checked, None)
    except ContractError as error:
        claim.deny(name, str(error))
        raise
    return tool, granted, checked


def _may_be_permitted(granted: PackTool, args: dict[str, Any]) -> bool:
    """Whether a person may permit a write that goes beyond the grant: the broker asks one (`Stage.permits`)."""
    return granted.effect and granted.permit is not None and not problems(granted.permit, args)


def _refused(claim: ActiveClaim, error: PassdownError) -> Flow:
    if claim.crowded:
        yield Blocking(claim.flush)
    raise error


def _read(claim: ActiveClaim, tool: AnyTool, args: dict[str, Any]) -> Flow:
    outcome: Outcome = yield RunTool(tool, tool.keywords(args, None))
    if isinstance(outcome, Raised):
        claim.note(ToolNote(tool=tool.name, args=args, error=describe(outcome.error)))
    else:
        claim.note(read_note(tool.name, args, outcome.value))
    if claim.crowded:
        yield Blocking(claim.flush)
    if isinstance(outcome, Raised):
        raise outcome.error
    return outcome.value


def _effect(effect: _Effect) -> Flow:
    reply = yield from _intend(effect)
    match reply:
        case Run():
            return (yield from _run(effect, reply))
        case Recorded():
            return _recorded(effect, reply)
        case replies.Suspended():
            effect.claim.suspended = True
            effect.claim.end(f"{effect.tool.name} waits for a person, in ticket {reply.ticket_no}")
            raise Suspended(effect.tool.name, reply.effect_id, reply.ticket_no)
        case _:
            assert_never(reply)


def _intend(effect: _Effect) -> Generator[Step, Any, Run | Recorded | replies.Suspended]:
    """Put the intent on record. Cancelled meanwhile, say that nothing was written: the tool will not run."""
    claim = effect.claim
    said: list[Run | Recorded | replies.Suspended] = []
    try:
        yield Blocking(lambda: said.append(_record(effect)))
    except Exception:
        claim.uncount(effect.tool.name, effect.identity, effect.n)
        raise
    except BaseException:
        if said and isinstance(said[0], Run):
            yield from _report_quietly(effect, "failed", "not run: its agent was cancelled before the write")
        raise
    return said[0]


def _record(effect: _Effect) -> Run | Recorded | replies.Suspended:
    claim, gateway = effect.claim, effect.claim.port.gateway
    return claim.commit(
        lambda notes: claim.port.commit(
            "intent",
            claim.pack,
            lambda: gateway.effect(
                claim.claim,
                effect.effect_id,
                effect.tool.name,
                effect.args,
                effect.counters,
                effect.after,
                notes,
            ),
        )
    )


def _recorded(effect: _Effect, reply: Recorded) -> Any:
    name = effect.tool.name
    match reply.status:
        case "done":
            _require_readable(name, reply.result)
            return reply.result
        case "denied":
            raise Denied(
                f"stage {effect.claim.pack.stage}", f"call {name}", reply.error or "a person denied it"
            )
        case "failed":
            raise NotDone(reply.error, tool=name, effect_id=reply.effect_id)
        case _:
            raise EffectUncertain(name, reply.effect_id, f"it is on record as {reply.status}")


def _run(effect: _Effect, reply: Run) -> Flow:
    """Write. From the first line of the tool on, only NotDone means that nothing was written."""
    claim, name = effect.claim, effect.tool.name
    try:
        keywords = effect.tool.keywords(reply.args, effect.effect_id)
        claim.require_held()
    except ContractError as error:
        yield from _report_quietly(effect, "failed", f"not run: {error}")
        raise NotDone(str(error), tool=name, effect_id=effect.effect_id) from error
    except (Fenced, Unavailable):
        yield from _report_quietly(effect, "failed", "not run: the claim was over before the write")
        raise
    claim.port.hook("before_write", claim.pack)
    try:
        outcome: Outcome = yield RunTool(
            effect.tool, keywords, late=lambda ended: _report_late(effect, ended)
        )
    except BaseException:
        yield from _report_quietly(effect, "unknown", "its agent was cancelled while it ran")
        raise
    claim.port.hook("after_write", claim.pack)
    return (yield from _conclude(effect, outcome))


def _conclude(effect: _Effect, outcome: Outcome) -> Flow:
    name = effect.tool.name
    match outcome:
        case Value():
            result = readable(outcome.value)
            yield Blocking(lambda: _report(effect, "done", result=result))
            _require_readable(name, result)
            return result
        case Raised(error=NotDone() as error):
            error.tool, error.effect_id = name, effect.effect_id
            yield Blocking(lambda: _report(effect, "failed", error=_why(error)))
            raise error
        case Raised(error=error):
            yield from _report_quietly(effect, "unknown", describe(error))
            raise EffectUncertain(name, effect.effect_id, summary(error)) from error
        case _:
            assert_never(outcome)


def readable(result: object) -> Any:
    """Return the result of an effect as JSON data, or a marker that says why it is none.

    The effect happened whatever it returned, so its outcome is recorded either way.
    """
    try:
        return as_json(result, what="result")
    except ContractError as error:
        return {
            UNREADABLE: clean_text(f"{type(result).__name__}: {error.problem} {error.pointer}".strip(), 500)
        }


def _require_readable(name: str, result: object) -> None:
    if isinstance(result, dict) and UNREADABLE in result:
        why = cast(dict[str, Any], result)[UNREADABLE]
        raise ContractError(f"the result of {name}", f"{why}; the effect is done and will not run again")


def _why(error: NotDone) -> str:
    try:
        return clean_text(error.why or str(error), 16_000)
    except Exception:  # noqa: BLE001  (an author's subclass may raise)
        return type(error).__name__


_Phase = Literal["done", "failed", "unknown"]


def _report(effect: _Effect, phase: _Phase, *, result: Any = None, error: str = "") -> None:
    """Say how a write ended; where the store lost the intent with its last moments, record that again first.

    Raises what `Gateway.report` does; Fenced where the claim was lost as well.
    """
    try:
        _say(effect, phase, result, error)
    except NotFound:
        effect.claim.log.warning(
            "the store has lost an intent: it is recorded again",
            action="intent-lost",
            effect=effect.effect_id,
        )
        _record(effect)
        _say(effect, phase, result, error)


def _say(effect: _Effect, phase: _Phase, result: Any, error: str) -> None:
    claim, gateway = effect.claim, effect.claim.port.gateway
    claim.watched(
        lambda: claim.port.commit(
            "report",
            claim.pack,
            lambda: gateway.report(claim.claim, effect.effect_id, phase, result=result, error=error),
        )
    )


def _report_quietly(effect: _Effect, phase: _Phase, error: str) -> Flow:
    """Report as well as it goes: what cannot be said is unknown from the end of the claim on, and settled."""

    def act() -> None:
        try:
            _report(effect, phase, error=clean_text(error))
        except PassdownError as refused:
            effect.claim.log.warning(
                "a report was not taken",
                action="report-refused",
                effect=effect.effect_id,
                phase=phase,
                error=str(refused),
            )

    yield Blocking(act)


def _report_late(effect: _Effect, outcome: Outcome) -> None:
    """Say how a plain tool ended that went on after its agent was cancelled: the truth is accepted late."""
    try:
        match outcome:
            case Value():
                _report(effect, "done", result=readable(outcome.value))
            case Raised(error=NotDone() as error):
                _report(effect, "failed", error=_why(error))
            case Raised():
                pass
    except PassdownError as refused:
        effect.claim.log.warning(
            "a late report was not taken",
            action="report-refused",
            effect=effect.effect_id,
            error=str(refused),
        )
