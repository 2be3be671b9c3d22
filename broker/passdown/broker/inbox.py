"""The tickets of people: find the next one, hold it, hand it on, decide it (DESIGN §9). The verbs of every surface.

::

    inbox = Broker.connect("sqlite:///passdown.db", by="user:ann").inbox
    ticket = inbox.next(queue="refund-approvers")
    inbox.resolve(ticket.session_id, ticket.ticket_no, "approve", note="within the limit")

Looking at a ticket claims nothing. A claim is a lease: it runs out where its holder neither extends it nor decides,
and the ticket is back in its queue. Whoever comes second is told who was first, and what they decided.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from passdown.broker.access.acting import log_refused
from passdown.broker.core.lanes import needs_of, why_not_in
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.broker.stores.queries import DraftRow, FindDraft
from passdown.broker.stores.records import Draft as DraftPut
from passdown.broker.ticket_reading import (
    MOST_AT_ONCE,
    Draft,
    KeptDraft,
    Outcome,
    Ref,
    TicketReader,
    TicketView,
    names_of_queue,
    refs_of,
)
from passdown.contracts import commands as cmd
from passdown.contracts.codec import convert, decode, encode, plain
from passdown.contracts.errors import Conflict, ContractError, Denied, NotFound, PassdownError
from passdown.contracts.ticket_commands import MOST_LEASE_MS, MOST_SNOOZE_MS
from passdown.contracts.ticket_events import Resolution

__all__ = ["MOST_AT_ONCE", "Draft", "Inbox", "KeptDraft", "Outcome", "Ref", "TicketView", "refs_of"]

#: Tickets that are tried in one look for the next one; and how often all of them may go to others before it is given up.
_HEADS, _LOOKS = 20, 100


class Inbox(TicketReader):
    """The tickets that one principal may see and take. Thread-safe.

    Every method raises Denied where they may not (rule 10), NotFound where there is no such session or ticket, and
    Conflict, which names who was first and what they decided. Unavailable: a retry is safe.
    """

    # -- holding --------------------------------------------------------------------------------------------

    def next(self, *, queue: str | None = None, lease_s: float | None = None) -> TicketView | None:
        """Claim the next ticket that this person may take, of one queue or of any; None where there is none.

        Where another person is faster, the one after it. `lease_s`: for how long (seconds), by default as the plan says.
        """
        self._acting.require("ticket.claim", *names_of_queue(queue))
        for _ in range(_LOOKS):
            rows = [row for _, row in zip(range(_HEADS), self._offers(queue), strict=False)]
            for row in rows:
                try:
                    return self.claim(row.session_id, row.ticket_no, version=row.version, lease_s=lease_s)
                except (Conflict, Denied, NotFound):
                    continue  # somebody was faster, or it was withdrawn since
            if len(rows) < _HEADS:
                return None
        raise Conflict("no ticket could be claimed", "", f"others were faster {_LOOKS * _HEADS} times")

    def claim(
        self, session_id: str, ticket_no: int, *, version: int | None = None, lease_s: float | None = None
    ) -> TicketView:
        """Hold a ticket that nobody holds; `version` as it was seen, by default the one that it has now."""
        return self._claim(session_id, ticket_no, version, lease_s)

    def take_over(
        self, session_id: str, ticket_no: int, reason: str, *, lease_s: float | None = None
    ) -> TicketView:
        """Hold a ticket in place of whoever holds it, who is told the `reason` when they go on."""
        return self._claim(session_id, ticket_no, None, lease_s, take_over=True, reason=reason)

    def _claim(
        self,
        session_id: str,
        ticket_no: int,
        version: int | None,
        lease_s: float | None,
        *,
        take_over: bool = False,
        reason: str = "",
    ) -> TicketView:
        _, ticket = self._open("ticket.claim", session_id, ticket_no)
        body = cmd.ClaimTicket(
            ticket_no=ticket_no,
            version=ticket.version if version is None else version,
            claim_id=secrets.token_urlsafe(18),
            lease_ms=_milliseconds(lease_s, MOST_LEASE_MS, "lease"),
            take_over=take_over,
            reason=reason,
        )
        return self._done(session_id, body)

    def extend(
        self, session_id: str, ticket_no: int, *, lease: str = "", lease_s: float | None = None
    ) -> TicketView:
        """Hold on to a ticket; raises Conflict where it is held no more, which says what became of it."""
        _, ticket = self._open("ticket.claim", session_id, ticket_no)
        holder = ticket.holder
        body = cmd.ExtendTicket(
            ticket_no=ticket_no,
            lease=lease or self._lease(ticket),
            seen_until=holder.until if holder else 0,
            lease_ms=_milliseconds(lease_s, MOST_LEASE_MS, "lease"),
        )
        return self._done(session_id, body)

    def release(self, session_id: str, ticket_no: int, reason: str = "", *, lease: str = "") -> TicketView:
        """Give a ticket back to its queue; what was written stays as this person's draft."""
        _, ticket = self._open("ticket.claim", session_id, ticket_no)
        lease = lease or self._lease(ticket)
        return self._done(session_id, cmd.ReleaseTicket(ticket_no=ticket_no, lease=lease, reason=reason))

    def reassign(
        self, session_id: str, ticket_no: int, *, to: str = "", to_queue: str = "", reason: str = ""
    ) -> TicketView:
        """Hand a ticket on: `to` a person, who holds it from then on, or `to_queue`. Raises Denied where they may not."""
        _, ticket = self._open("ticket.reassign", session_id, ticket_no)
        if to:
            why = why_not_in(needs_of(ticket), to, self._acting.who_of(to))
            if why:
                raise Denied(to, f"be given ticket {session_id}/{ticket_no}", why)
        body = cmd.ReassignTicket(
            ticket_no=ticket_no,
            version=ticket.version,
            to=to,
            to_queue=to_queue,
            claim_id=secrets.token_urlsafe(18) if to else "",
            reason=reason,
        )
        return self._done(session_id, body)

    def snooze(self, session_id: str, ticket_no: int, for_s: float, reason: str = "") -> TicketView:
        """Have a ticket offered to nobody for `for_s` seconds."""
        _, ticket = self._open("ticket.claim", session_id, ticket_no)
        for_ms = _milliseconds(for_s, MOST_SNOOZE_MS, "snooze")
        body = cmd.SnoozeTicket(ticket_no=ticket_no, version=ticket.version, for_ms=for_ms, reason=reason)
        return self._done(session_id, body)

    def wake(self, session_id: str, ticket_no: int) -> TicketView:
        """Have a snoozed ticket offered again."""
        _, ticket = self._open("ticket.claim", session_id, ticket_no)
        return self._done(session_id, cmd.WakeTicket(ticket_no=ticket_no, version=ticket.version))

    def comment(self, session_id: str, ticket_no: int, text: str, *, comment_id: str = "") -> TicketView:
        """Say something about a ticket, for whoever works on it. The same `comment_id` again is the same comment."""
        self._open("ticket.comment", session_id, ticket_no)
        comment_id = comment_id or secrets.token_urlsafe(12)
        return self._done(
            session_id, cmd.CommentTicket(ticket_no=ticket_no, comment_id=comment_id, text=text)
        )

    def _lease(self, ticket: Ticket) -> str:
        """Return the token of this person's own claim; empty where somebody else holds the ticket, or nobody."""
        holder = ticket.holder
        return holder.claim_id if holder is not None and holder.by == self._acting.by else ""

    # -- deciding -------------------------------------------------------------------------------------------

    def resolve(
        self,
        session_id: str,
        ticket_no: int,
        resolution: Resolution,
        value: Any = None,
        *,
        note: str = "",
        version: int | None = None,
        lease: str | None = None,
    ) -> None:
        """Decide a ticket that this person holds, or that nobody does; `Session.resolve` says what `value` is.

        `version` and `lease` as they were seen when the ticket was claimed, by default what they are now. Where it
        is no longer theirs to decide, what they decided is kept as their draft.
        """
        self._acting.require("ticket.resolve")
        state = self._load(session_id)
        ticket = state.ticket(ticket_no)
        if ticket is not None:
            self._acting.require_ticket("ticket.resolve", state, ticket)
            version = ticket.version if version is None else version
            lease = self._lease(ticket) if lease is None else lease
        body = cmd.Resolve(
            ticket_no=ticket_no,
            version=1 if version is None else version,
            lease=lease or "",
            resolution=resolution,
            value=plain(value, what="resolution"),
            note=note,
        )
        try:
            self._run(session_id, body)
        except Conflict:
            self._keep_what_was_decided(session_id, body)
            raise
        self.forget_draft(session_id, ticket_no)

    def _keep_what_was_decided(self, session_id: str, body: cmd.Resolve) -> None:
        if self._load(session_id).ticket(body.ticket_no) is not None:
            draft = Draft(resolution=body.resolution, value=body.value, note=body.note)
            self.keep_draft(session_id, body.ticket_no, draft)

    def draft(self, session_id: str, ticket_no: int) -> KeptDraft | None:
        """Return what this person has written about a ticket; nobody else gets it, whoever holds the ticket."""
        self._acting.require("ticket.read")
        found = self._controller.store.find(
            FindDraft(session_id=session_id, ticket_no=ticket_no, by=self._acting.by)
        )
        if not isinstance(found, DraftRow):
            return None
        return KeptDraft(decode(found.body, Draft, what="draft"), found.version, found.at)

    def keep_draft(
        self, session_id: str, ticket_no: int, draft: Draft, *, expected: int | None = None
    ) -> None:
        """Keep what this person has written. `expected`: the version that they saw last (0: none).

        Raises Conflict where they have written another one since, on another device.
        """
        self._open("ticket.read", session_id, ticket_no)
        body = encode(convert(plain(draft, what="draft"), Draft, what="draft"))
        self._put_draft(session_id, ticket_no, body, expected)

    def forget_draft(self, session_id: str, ticket_no: int) -> None:
        """Forget what this person has written."""
        self._put_draft(session_id, ticket_no, None, None)

    def _put_draft(self, session_id: str, ticket_no: int, body: bytes | None, expected: int | None) -> None:
        put = DraftPut(
            session_id=session_id, ticket_no=ticket_no, by=self._acting.by, body=body, expected=expected
        )
        self._controller.store.put(put)

    def each(self, refs: Sequence[Ref], act: Callable[[Ref], object]) -> list[Outcome]:
        """Do `act` for each of at most `MOST_AT_ONCE` tickets; each stands or falls alone. Returns what came of each, in order."""
        if len(refs) > MOST_AT_ONCE:
            raise ContractError("tickets", f"at most {MOST_AT_ONCE} at once, got {len(refs)}")
        return [self._one_of(ref, act) for ref in refs]

    def _one_of(self, ref: Ref, act: Callable[[Ref], object]) -> Outcome:
        try:
            found = act(ref)
        except PassdownError as error:
            return Outcome(ref, error=error)
        return Outcome(ref, view=found if isinstance(found, TicketView) else None)

    def _run(self, session_id: str, body: cmd.Body) -> State:
        """Carry out a command that was checked for the types and limits of its fields; returns the state after it."""
        checked = convert(plain(body, what="command"), type(body), what=type(body).__name__.lower())
        try:
            done = self._controller.run(session_id, checked, self._acting.by, who=self._acting.who)
        except Denied as error:
            log_refused(error, type(body).__name__, self._acting.by)
            raise
        state = done.held.state if done.held else None
        return state or self._load(session_id)

    def _done(self, session_id: str, body: cmd.TicketCommand) -> TicketView:
        state = self._run(session_id, body)
        ticket = state.ticket(body.ticket_no)
        if ticket is None:
            # Decided by somebody else before it could be looked at.
            return self.show(session_id, body.ticket_no)
        return self._view(state, ticket)


def _milliseconds(seconds: float | None, most: int, what: str) -> int:
    if seconds is None:
        return 0
    if not 0 < seconds * 1000 <= most:
        raise ContractError(what, f"expected more than 0 and at most {most // 1000} seconds, got {seconds!r}")
    return max(1, int(seconds * 1000))
