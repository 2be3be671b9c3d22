"""The rules of the effect ledger, and of returns, as `MemoryGateway` keeps them (DESIGN §6). For tests."""

from typing import Any

from passdown.agents.memory_session import Effect, Session, identity_key, identity_of
from passdown.contracts import ids
from passdown.contracts.errors import Conflict, ContractError, Denied
from passdown.contracts.gateway import Claim
from passdown.contracts.pack import PackTool
from passdown.contracts.replies import Recorded, Run, Suspended
from passdown.contracts.returns import DoneReturn, Return
from passdown.contracts.schema import problems
from passdown.contracts.tools import action_digest


def admit(
    session: Session, effect_id: str, tool: str, args: dict[str, Any], counters: dict[str, int]
) -> tuple[str, int]:
    """Return the identity's digest and n of a call; raises Denied or ContractError (rule 5)."""
    granted = session.tool(tool)
    if granted is None or not granted.effect:
        raise Denied("worker", f"call {tool}", f"stage {session.pack.stage} does not grant it")
    misfit = problems(granted.params, args)
    if misfit and (granted.permit is None or problems(granted.permit, args)):
        raise Denied("worker", f"call {tool} with these arguments", "; ".join(misfit))
    identity = identity_of(granted, args)
    short, key = identity_key(tool, identity)
    n = counters.get(key, 0)
    if n < 1 or effect_id != ids.effect_id(session.name, session.pack.step, tool, identity, n):
        raise ContractError("effect", f"the effectId is not that of call {n}", pointer="/effectId")
    return short, n


def needs_person(granted: PackTool | None, args: dict[str, Any]) -> str:
    """Return why a person must see a call that was admitted first; empty where nobody need."""
    if granted is None:
        return ""
    if problems(granted.params, args):
        return "the stage denies it, and a person may permit it once"
    return "a person must see it first" if granted.needs_approval else ""


def answer_known(
    session: Session, effect: Effect, args: dict[str, Any], claim: Claim
) -> Run | Recorded | Suspended:
    """Answer a call of an effect that is in the ledger."""
    match effect.status:
        case "done" | "denied":
            return _recorded(effect)
        case "failed":
            later = any(other.touched > effect.touched for other in session.ledger.values())
            return _recorded(effect) if later else _again(session, effect, args, claim)
        case "not-done":
            return _again(session, effect, args, claim) if effect.repeat else _recorded(effect)
        case "proposed":
            return _again(session, effect, args, claim)
        case _:
            raise Conflict(f"effect {effect.effect_id} is {effect.status}", effect.claims[-1])


def _again(session: Session, effect: Effect, args: dict[str, Any], claim: Claim) -> Run | Suspended:
    why = needs_person(session.tool(effect.tool), args)
    needed = effect.status == "proposed" or bool(why)
    exact = args == effect.args and effect.approved == action_digest(
        effect.effect_id, effect.tool, effect.edited or args
    )
    spent = effect.status == "failed"
    if needed and (not exact or spent):
        effect.args, effect.edited, effect.approved = args, None, ""
        return propose(session, effect, why)
    effect.args = args
    return intend(session, effect, claim)


def intend(session: Session, effect: Effect, claim: Claim) -> Run:
    """Record the intent: the tool may run."""
    effect.status, effect.touched = "intended", session.tick()
    effect.claims.append(claim.fence.claim_id)
    session.writes.append(effect.tool)
    return Run(effect_id=effect.effect_id, args=effect.edited or effect.args)


def propose(session: Session, effect: Effect, why: str) -> Suspended:
    """End the claim and ask a person."""
    session.end_claim("its claim ended when another effect was proposed")
    effect.status, effect.touched = "proposed", session.tick()
    ticket = session.ask("approval", why or "a person must see it first", effect.effect_id)
    return Suspended(effect_id=effect.effect_id, ticket_no=ticket.number)


def other_identity(session: Session, effect: Effect, counters: dict[str, int], after: str | None) -> str:
    """Return why a call that an attempt before a lost one made otherwise needs a person (DESIGN §6)."""
    if not session.lost:
        return ""
    met = dict(session.pack.snapshot.counters) if session.pack.snapshot else {}
    met.update(counters)
    unmet = [
        one.effect_id
        for one in session.with_status("done", "failed", "not-done")
        if one.tool == effect.tool
        and one.identity != effect.identity
        and met.get(f"{one.tool}:{one.identity}", 0) < one.n
    ]
    return (
        ""
        if not unmet or after in unmet
        else f"an attempt was lost after {unmet[0]} ran with other arguments"
    )


def _recorded(effect: Effect) -> Recorded:
    status = effect.status if effect.status in ("done", "denied") else "failed"
    return Recorded(effect_id=effect.effect_id, status=status, result=effect.result, error=effect.error)


def settled(session: Session, effect: Effect, *, done: bool, result: Any = None) -> None:
    """Record what became of an unknown effect; *not done* allows one repeat."""
    effect.status, effect.result, effect.touched = ("done" if done else "not-done"), result, session.tick()
    effect.repeat = not done


def close_tickets(session: Session, about: str) -> bool:
    """Close the open tickets about something; return whether there were any."""
    found = [one for one in session.open_tickets() if one.about == about]
    for one in found:
        one.open = False
    return bool(found)


def check_return(session: Session, claim: Claim, given: Return) -> None:
    """Raise ContractError unless a return is bound to its claim and fits its contract."""
    pack = session.pack
    if (given.session_id, given.fence, given.stage, given.pack_digest) != (
        session.name,
        claim.fence,
        pack.stage,
        pack.digest,
    ):
        raise ContractError("return", "it is not bound to this claim and pack")
    result = str(type(given).__struct_config__.tag)
    if result not in pack.returns.results:
        raise ContractError("return", f"{result!r} is not one of {pack.returns.results}", pointer="/result")
    if not isinstance(given, DoneReturn):
        return
    found = problems(pack.returns.schema, given.output)
    if found:
        raise ContractError("return", "; ".join(found), pointer="/output")
    if pack.returns.evidence == "required" and not given.evidence:
        raise ContractError("return", "this stage requires evidence, none came", pointer="/evidence")
