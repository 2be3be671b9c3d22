"""How events change the effect ledger and the reading calls of a step; a part of `evolve`."""

from typing import Any

from msgspec.structs import replace

from passdown.broker.core.state import Approval, Effect, Owed, Read, State, Ticket
from passdown.contracts import events as ev
from passdown.contracts.codec import INLINE_LIMIT, digest_of, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.ids import identity_digest

#: How many reading calls of a step, and whole rows of the ledger, the state keeps (rule 12).
READS_KEPT = 32
LEDGER_INLINE = 16


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
    dropped = max(0, len(reads) - READS_KEPT)
    return replace(state, reads=reads[dropped:], reads_left_out=state.reads_left_out + dropped)


def effect_asked(state: State, event: ev.EffectProposed | ev.EffectIntended, logged: ev.Logged) -> State:
    """Fold a proposal or an intent; the first of them makes the row."""
    known = state.effect(event.effect_id)
    effect = known or Effect(
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
    if isinstance(event, ev.EffectProposed):
        effect = replace(
            _with_args(effect, event.args, logged.seq),
            status="proposed",
            by=logged.by,
            tool_digest=event.tool_digest,
            approval=None,
            edited=None,
            edited_identity="",
            touched=logged.seq,
        )
        return replace(claim_over(state), effects=put_row(state, effect))
    approval = replace(effect.approval, spent=True) if effect.approval else None
    if not effect.edited:
        effect = _with_args(effect, event.args, logged.seq)
    effect = replace(
        effect,
        status="intended",
        tool_digest=event.tool_digest,
        claims=[*effect.claims, event.claim_id],
        attempts=effect.attempts + 1,
        approval=approval,
        repeat=False,
        error="",
        touched=logged.seq,
    )
    return replace(state, effects=put_row(state, effect))


def _with_args(effect: Effect, args: dict[str, Any], seq: int) -> Effect:
    # An open effect keeps its arguments whatever their size: settling needs them.
    return replace(effect, args=args, args_digest=digest_of(args), args_seq=seq)


def _slim(effect: Effect) -> Effect:
    small = len(encode(effect.args)) <= INLINE_LIMIT
    return effect if small else replace(effect, args=None)


def effect_ended(
    state: State,
    event: ev.EffectDone | ev.EffectFailed | ev.EffectUnknown | ev.EffectSettled,
    logged: ev.Logged,
) -> State:
    """Fold how an effect ended; a settle pack that waits in vain is withdrawn."""
    effect = state.effect(event.effect_id)
    if effect is None:
        raise ContractError("log", f"effect {event.effect_id} ends but was never intended")
    if any(ticket.kind == "approval" and ticket.about == event.effect_id for ticket in state.tickets):
        # What a person was asked to approve once more is known now: the next attempt is told, and asks again.
        state = replace(state, owed=Owed(cause="human", at=logged.at))
    match event:
        case ev.EffectDone():
            effect = _with_result(effect, event.result, logged.seq)
        case ev.EffectFailed():
            effect = _slim(replace(effect, status="failed", error=event.error, repeat=False))
        case ev.EffectUnknown():
            effect = replace(effect, status="unknown", error=event.why)
        case ev.EffectSettled(status="done"):
            effect = _with_result(effect, event.result, logged.seq)
        case ev.EffectSettled():
            effect = replace(effect, status="not-done", repeat=event.repeat)
    changed = replace(state, effects=put_row(state, replace(effect, touched=logged.seq)))
    waits = changed.issued is not None and changed.issued.cause == "settle" and changed.claim is None
    return replace(changed, issued=None) if waits and not changed.unknown() else changed


def _with_result(effect: Effect, result: Any, seq: int) -> Effect:
    small = len(encode(result)) <= INLINE_LIMIT
    done = replace(effect, status="done", error="", result=result if small else None, result_seq=seq)
    return _slim(done)


def put_row(state: State, changed: Effect) -> list[Effect]:
    """Put a row back; rows that are neither open nor among the latest leave their bulk in the log."""
    rows = [changed if row.effect_id == changed.effect_id else row for row in state.effects]
    if len(rows) == len(state.effects) and changed.ordinal > len(rows):
        rows.append(changed)
    for index in range(len(rows) - LEDGER_INLINE):
        row = rows[index]
        if row.status in ("done", "failed", "denied", "not-done") and (row.args or row.result or row.edited):
            rows[index] = replace(row, args=None, result=None)
    return rows


def approved(state: State, event: ev.TicketResolved, ticket: Ticket, logged: ev.Logged) -> State:
    """Fold a person's yes to one exact action, or to changed arguments."""
    effect = state.effect(ticket.about)
    if effect is None:
        return state
    approval = Approval(
        ticket_no=event.ticket_no,
        by=logged.by,
        action=event.action,
        valid_until=event.valid_until or logged.at,
    )
    edited: dict[str, Any] | None = event.value if event.resolution == "edit" else None
    effect = replace(
        effect,
        approval=approval,
        edited=edited,
        edited_identity=identity_digest(event.identity) if edited else "",
        touched=logged.seq,
    )
    return replace(state, effects=put_row(state, effect), owed=Owed(cause="human", at=logged.at))


def denied(state: State, event: ev.TicketResolved, ticket: Ticket, logged: ev.Logged) -> State:
    """Fold a person's no: the next attempt is told."""
    effect = state.effect(ticket.about)
    if effect is None:
        return state
    row = replace(effect, status="denied", error=event.note or "a person denied it", touched=logged.seq)
    return replace(state, effects=put_row(state, row), owed=Owed(cause="human", at=logged.at))
