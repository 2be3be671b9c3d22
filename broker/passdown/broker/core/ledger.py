"""How events change the effect ledger and the reading calls of a step; a part of `evolve`."""

from typing import Any

from msgspec.structs import replace

from passdown.broker.core.bounds import LEDGER_BYTES, READS_BYTES, READS_KEPT, newest
from passdown.broker.core.parts import Approval, Effect, Owed, Read, Ticket
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.codec import INLINE_LIMIT, clean_text, digest_of, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.ids import identity_digest

_ENDED = ("done", "failed", "denied", "not-done")
#: Characters of an error that a row holds, and that an old row does; the event has it whole.
_ERROR_KEPT, _OLD_ERROR_KEPT = 1_000, 120


def claim_over(state: State) -> State:
    """Return the state without a claim and without a pack."""
    return replace(state, claim=None, issued=None)


def tool_called(state: State, event: ev.ToolCalled, logged: ev.Logged) -> State:
    """Fold a reading call; the same call again takes the place of the old one."""
    read = Read(
        tool=event.tool,
        args=event.args,
        args_digest=event.args_digest,
        result_digest=event.result_digest,
        at=logged.at - event.age_ms,
        kept=event.kept,
        result=event.result,
        fresh_for_ms=event.fresh_for_ms,
    )
    same = (event.tool, event.args_digest)
    reads = [*(old for old in state.reads if (old.tool, old.args_digest) != same), read]
    kept = newest(reads, READS_KEPT, READS_BYTES)
    return replace(state, reads=kept, left_out=state.left_out + len(reads) - len(kept))


def effect_proposed(state: State, event: ev.EffectProposed, logged: ev.Logged) -> State:
    """Fold a proposal, which ends the claim."""
    effect = replace(
        _with_args(_row(state, event, logged), event.args, logged.seq),
        status="proposed",
        by=logged.by,
        tool_digest=event.tool_digest,
        approval=None,
        edited=None,
        edited_identity="",
        touched=logged.seq,
    )
    return replace(claim_over(state), effects=put_row(state, effect), unreturned=state.unreturned + 1)


def effect_intended(state: State, event: ev.EffectIntended, logged: ev.Logged) -> State:
    """Fold an intent; it spends the approval."""
    effect = _row(state, event, logged)
    if effect.edited is None:
        effect = _with_args(effect, event.args, logged.seq)
    again = event.claim_id in effect.claims[-1:]
    effect = replace(
        effect,
        status="intended",
        tool_digest=event.tool_digest,
        claims=effect.claims if again else [*effect.claims, event.claim_id],
        attempts=effect.attempts + 1,
        approval=replace(effect.approval, spent=True) if effect.approval else None,
        repeat=False,
        error="",
        touched=logged.seq,
    )
    return replace(state, effects=put_row(state, effect))


def _row(state: State, event: ev.EffectProposed | ev.EffectIntended, logged: ev.Logged) -> Effect:
    """Return the row of an effect; the first proposal or intent makes it."""
    return state.effect(event.effect_id) or Effect(
        effect_id=event.effect_id,
        ordinal=len(state.effects) + 1,
        step=state.step,
        tool=event.tool,
        tool_digest=event.tool_digest,
        identity=event.identity,
        n=event.n,
        status="proposed",
        by=logged.by,
        args=None,
        args_digest="",
        args_seq=logged.seq,
    )


def _with_args(effect: Effect, args: dict[str, Any], seq: int) -> Effect:
    # An open effect keeps its arguments whatever their size: settling needs them.
    return replace(effect, args=args, args_digest=digest_of(args), args_seq=seq)


def effect_ended(
    state: State,
    event: ev.EffectDone | ev.EffectFailed | ev.EffectUnknown | ev.EffectSettled,
    logged: ev.Logged,
) -> State:
    """Fold how an effect ended; a settle pack that waits in vain is withdrawn."""
    before = state.effect(event.effect_id)
    if before is None:
        raise ContractError("log", f"effect {event.effect_id} ends but was never intended")
    after = replace(_ended(before, event, logged.seq), touched=logged.seq)
    changed = replace(state, effects=put_row(state, after))
    if changed.settling() and changed.claim is None and not changed.unknown():
        changed = replace(changed, issued=None)
    if _waits_for_a_yes(state, before) and not (changed.issued or changed.owed):
        # Nobody needs to approve any more what did happen: the step goes on.
        changed = replace(changed, owed=Owed(cause="retry", at=logged.at))
    return changed


def _waits_for_a_yes(state: State, effect: Effect) -> bool:
    """Whether the step waits for an approval of this effect; one that was given already holds nothing up."""
    about = (state.ticket_about(kind, effect.effect_id) for kind in ("approval", "permission"))
    return effect.status == "proposed" and any(about)


def _ended(
    effect: Effect, event: ev.EffectDone | ev.EffectFailed | ev.EffectUnknown | ev.EffectSettled, seq: int
) -> Effect:
    match event:
        case ev.EffectDone() | ev.EffectSettled(status="done"):
            small = len(encode(event.result)) <= INLINE_LIMIT
            return replace(
                effect,
                status="done",
                error="",
                repeat=False,
                result=event.result if small else None,
                result_seq=seq,
                result_out=not small,
            )
        case ev.EffectFailed() if effect.status == "done":
            return effect  # a contradiction: a person is asked, and the row stays on the safe side
        case ev.EffectFailed():
            # Late, it settles what was unknown, and a repeat is safe: nothing was written (DESIGN §6).
            late = effect.status == "unknown"
            error = clean_text(event.error, _ERROR_KEPT)
            return replace(effect, status="not-done" if late else "failed", error=error, repeat=late)
        case ev.EffectUnknown():
            return replace(effect, status="unknown", error=clean_text(event.why, _ERROR_KEPT))
        case ev.EffectSettled():
            gone = {"result": None, "result_seq": None, "result_out": False}
            return replace(effect, status="not-done", repeat=event.repeat, **gone)


def put_row(state: State, changed: Effect) -> list[Effect]:
    """Put a row back; ended rows beyond their share of the state leave their bulk in the log, oldest first."""
    changed = _weighed(changed) if _is_over(changed, state.step) else replace(changed, weight=0)
    # What was kept whole because its step might have run it again is over with that step.
    rows = [
        _weighed(row) if row.args is not None and not row.weight and _is_over(row, state.step) else row
        for row in state.effects
    ]
    if changed.ordinal > len(rows):
        rows.append(changed)
    else:
        rows[changed.ordinal - 1] = changed
    size = 0
    for index in range(len(rows) - 1, -1, -1):
        if rows[index].weight:
            size += rows[index].weight
            if size > LEDGER_BYTES:
                rows[index] = _slim(rows[index])
    return rows


def _is_over(effect: Effect, step: int) -> bool:
    """Whether an effect cannot run again, nor is to be settled; one that failed after its approval may, within its step."""
    if effect.step != step:
        return effect.status not in ("intended", "unknown")
    again = effect.status == "failed" and effect.approval is not None
    return effect.status in _ENDED and not (effect.repeat or again)


def _weighed(effect: Effect) -> Effect:
    if len(encode([effect.args, effect.edited])) > INLINE_LIMIT:
        effect = replace(effect, args=None, edited=None)
    weight = len(encode([effect.args, effect.edited, effect.result, effect.error]))
    return replace(effect, weight=weight)


def _slim(effect: Effect) -> Effect:
    return replace(
        effect,
        args=None,
        edited=None,
        result=None,
        result_out=effect.result_seq is not None,
        error=clean_text(effect.error, _OLD_ERROR_KEPT),
        weight=0,
    )


def approved(state: State, event: ev.TicketResolved, ticket: Ticket, logged: ev.Logged) -> State:
    """Fold a person's yes to one exact action, or to changed arguments."""
    effect = state.effect(ticket.about)
    if effect is None:
        raise ContractError("log", f"ticket {ticket.ticket_no} approves an effect that was never proposed")
    approval = Approval(
        ticket_no=event.ticket_no,
        by=logged.by,
        action=event.action,
        valid_until=event.valid_until or logged.at,
        also=ticket.approved_by,
        asked=asked if (asked := _asked(effect, ticket)) != ticket.queue else "",
        queue=ticket.queue,
        permitted=ticket.kind == "permission" or (effect.approval is not None and effect.approval.permitted),
    )
    effect = replace(_as_approved(effect, event, ticket), approval=approval, touched=logged.seq)
    # A return that was kept because the effect had failed is overtaken: the step goes on.
    owed = Owed(cause="human", at=logged.at)
    return replace(state, effects=put_row(state, effect), owed=owed, kept=None)


def _asked(effect: Effect, ticket: Ticket) -> str:
    """Return the queue that the plan named; what failed goes to where its first approval was given."""
    if ticket.kind == "unmet" and effect.approval is not None:
        return effect.approval.asked or effect.approval.queue
    return ticket.first_queue


def _as_approved(effect: Effect, event: ev.TicketResolved, ticket: Ticket) -> Effect:
    """Return the effect with the arguments that were approved; what failed is approved again as it ran."""
    if event.resolution == "edit":
        return replace(effect, edited=event.value, edited_identity=identity_digest(event.identity))
    return effect if ticket.kind == "unmet" else replace(effect, edited=None, edited_identity="")


def denied(state: State, event: ev.TicketResolved, ticket: Ticket, logged: ev.Logged) -> State:
    """Fold a person's no: the next attempt is told, or `on_denied` follows."""
    effect = state.effect(ticket.about)
    if effect is None:
        raise ContractError("log", f"ticket {ticket.ticket_no} denies an effect that was never proposed")
    if ticket.kind == "unmet":
        # It failed, and is left at that: what the agent returned is followed.
        return replace(state, effects=put_row(state, _voided(effect, logged.seq)))
    row = replace(
        effect,
        status="denied",
        error=clean_text(event.note, _ERROR_KEPT) or "a person denied it",
        touched=logged.seq,
    )
    owed = Owed(cause="human", at=logged.at, denied=True)
    return replace(state, effects=put_row(state, row), owed=owed)


def _voided(effect: Effect, seq: int) -> Effect:
    """Return an effect whose yes is void: should its step go on all the same, it runs with a new one only."""
    return replace(effect, approval=None, void=True, touched=seq)


def nobody_approved(state: State, effect_id: str, seq: int) -> State:
    """Fold that nobody approved an effect in time; what follows is the plan's overdue rule.

    What was approved before and not done is left at that, as by a no: that yes is void.
    """
    effect = state.effect(effect_id)
    if effect is not None and effect.approval is not None:
        return replace(state, effects=put_row(state, _voided(effect, seq)))
    if effect is None or effect.status != "proposed":
        return state
    row = replace(effect, status="denied", error="nobody approved it in time", touched=seq)
    return replace(state, effects=put_row(state, row))
