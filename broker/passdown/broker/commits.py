"""What a decision writes: the atomic step that leads from the state before to the state after."""

from typing import Literal

from passdown.broker.core.decide import dues
from passdown.broker.core.given import Decision, DueAt
from passdown.broker.core.join import Mark, Waking
from passdown.broker.core.lanes import lane_of, order_of
from passdown.broker.core.parts import Issued
from passdown.broker.core.state import TERMINAL, State
from passdown.broker.core.telling import to_tell
from passdown.broker.stores.base import Commit, DueEntry, Enqueue, Lease
from passdown.broker.stores.joining import JoinClose, JoinPut, JoinRow, Wake
from passdown.broker.stores.queries import SessionRow, TicketRow
from passdown.contracts.codec import encode
from passdown.contracts.push import pushed

#: Ends at which the worker that holds the claim is told by `renew`; at the others it gave the return itself.
_CALLED_OFF = TERMINAL - {"done", "refused", "failed"}


def commit_of(
    command_id: str,
    command_digest: str,
    before: State | None,
    decision: Decision,
    catalog: int,
    *,
    room: int = 0,
    left_ms: int = 0,
) -> Commit:
    """Return the atomic step that records a decision on the state `before`: what differs from it afterwards.

    `catalog` counts the registrations that the decision knew of; `room` is how many packs may wait for a role
    before no new session may add one (0: no limit); `left_ms` how long what is due about branches is left to whoever
    commits (milliseconds).
    """
    after = decision.state
    if after is None:
        raise AssertionError("a decision with events leads to a state")
    return Commit(
        session_id=after.session_id,
        command_id=command_id,
        command_digest=command_digest,
        expected=before.seq if before else 0,
        prev=before.head if before else "",
        events=decision.events,
        state=encode(after),
        row=_row(after),
        reply=encode(decision.reply),
        queue=_queue(before, after, decision.pack),
        dues=_due_entries(before, after, left_ms),
        tickets=_ticket_rows(after) if after.tickets != (before.tickets if before else []) else None,
        lease=_lease(before, after),
        # A session is opened with the plan that is the newest by then, also where it begins with a person.
        catalog=catalog if decision.pack is not None or before is None else None,
        tell=to_tell(before, after),
        join=_join(decision.waking),
        join_row=_join_row(after, decision.mark),
        room=0 if before else room,
    )


def _row(state: State) -> SessionRow:
    return SessionRow(
        session_id=state.session_id,
        task_id=state.task_id,
        task_name=state.task_name,
        key=state.key,
        plan=str(state.plan),
        stage=state.stage,
        status=state.shown_status,
        version=state.seq,
        opened_at=state.opened_at,
        updated_at=state.at,
        parent=state.parent.session_id if state.parent else "",
    )


def _join(waking: Waking | None) -> JoinPut | None:
    if waking is None:
        return None
    wakes = [Wake(outcomes=outcomes, at=at) for outcomes, at in waking.wakes]
    close = None
    if waking.rewrites is not None:
        close = JoinClose(upto=waking.join.upto, rewrites=waking.rewrites)
    return JoinPut(join_id=waking.join.join_id, wakes=wakes, close=close)


def _join_row(state: State, mark: Mark | None) -> JoinRow | None:
    if mark is None:
        return None
    return JoinRow(
        join_id=mark.join_id,
        place=mark.place,
        branch=mark.branch,
        session_id=state.session_id,
        outcome=mark.outcome,
        about=mark.about,
    )


def _queue(before: State | None, after: State, pack: bytes | None) -> Enqueue | Literal["withdraw"] | None:
    issued = after.issued
    was_queued = before is not None and before.issued is not None and before.claim is None
    if issued is None or after.claim is not None:
        return "withdraw" if was_queued else None
    if was_queued and before is not None and before.issued == issued:
        return None
    if pack is None:
        raise AssertionError("a pack that was issued comes with its bytes")
    return Enqueue(
        role=queue_of(issued),
        step=after.step,
        attempt=issued.attempt,
        digest=issued.digest,
        pack=pack,
        priority=issued.priority,
        solo=issued.solo,
    )


def queue_of(issued: Issued) -> str:
    """Return the role queue that an issued pack stands on: what is to be pushed is on one that no worker takes from."""
    return pushed(issued.role) if issued.delivery == "push" else issued.role


def _due_entries(before: State | None, after: State, left_ms: int) -> list[DueEntry] | None:
    entries: list[DueAt] = dues(after)
    if entries == (dues(before) if before else []):
        return None
    return [
        DueEntry(
            kind=entry.kind,
            subject=entry.subject,
            at=entry.at,
            after_ms=max(left_ms if entry.kind == "branches" else 0, entry.at - after.at),
        )
        for entry in entries
    ]


def _ticket_rows(state: State) -> list[TicketRow]:
    return [
        TicketRow(
            session_id=state.session_id,
            ticket_no=ticket.ticket_no,
            version=ticket.version,
            kind=ticket.kind,
            queue=ticket.queue,
            why=ticket.why,
            about=ticket.about,
            opened_at=ticket.opened_at,
            priority=ticket.priority,
            due_at=ticket.due_at,
            holder=ticket.holder.by if ticket.holder else "",
            until=ticket.holder.until if ticket.holder else ticket.snoozed_until,
            level=ticket.level,
            lapses=ticket.lapses,
            excluded=[*ticket.needs.excluded, *ticket.approved_by],
            lane=lane_of(ticket),
            order=order_of(state.session_id, ticket),
        )
        for ticket in state.tickets
    ]


def _lease(before: State | None, after: State) -> Lease | Literal["end", "cancel", "tell"] | None:
    had = before.claim if before else None
    has = after.claim
    if has is not None and had is None:
        issued = after.issued
        if issued is None:
            raise AssertionError("a claim holds a pack")
        return Lease(claim_id=has.claim_id, role=queue_of(issued), lease_ms=issued.lease_ms)
    if had is None:
        return None
    ending = after.ending in _CALLED_OFF or after.status in _CALLED_OFF
    if has is not None:
        return "cancel" if ending and not (before and before.ending) else None
    return "tell" if ending else "end"
