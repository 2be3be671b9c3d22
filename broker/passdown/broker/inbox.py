"""The tickets of people: find the next one, hold it, hand it on, decide it (DESIGN §9). The verbs of every surface.

::

    inbox = Broker.connect("sqlite:///passdown.db", by="user:ann").inbox
    ticket = inbox.next(queue="refund-approvers")
    inbox.resolve(
        ticket.session_id, ticket.ticket_no, "approve", version=ticket.version, note="within the limit"
    )

Looking at a ticket claims nothing. A claim is a lease: it runs out where its holder neither extends it nor decides,
and the ticket is back in its queue. Whoever comes second is told who was first, and what they decided.
"""

import secrets
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import asdict

from passdown.broker.access.acting import log_refused
from passdown.broker.access.policy import names_of
from passdown.broker.acts import is_away
from passdown.broker.core.holding import why_not
from passdown.broker.core.lanes import needs_of, why_not_in
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.broker.drafts import Drafts, told
from passdown.broker.stores.queries import TicketRow
from passdown.broker.ticket_reading import (
    MOST_AT_ONCE,
    Draft,
    KeptDraft,
    Outcome,
    Ref,
    TicketView,
    decided,
    is_theirs,
    passed_over,
    refs_of,
    require_ref,
)
from passdown.contracts import commands as cmd
from passdown.contracts.codec import check, convert, plain
from passdown.contracts.errors import (
    Conflict,
    ContractError,
    Denied,
    NotFound,
    PassdownError,
    PlanError,
    Unauthenticated,
    Unavailable,
)
from passdown.contracts.ticket_commands import MOST_LEASE_MS, MOST_SNOOZE_MS
from passdown.contracts.ticket_events import Resolution

__all__ = ["MOST_AT_ONCE", "Draft", "Inbox", "KeptDraft", "Outcome", "Ref", "TicketView", "refs_of"]

#: Tickets that are tried in one look for the next one; and how often all of them may go to others before it is given up.
_HEADS, _LOOKS = 20, 100
#: Resolutions that let an action run: they are said of the action as it was seen.
_RUNS: tuple[Resolution, ...] = ("approve", "edit")


class Inbox(Drafts):
    """The tickets that one principal may see and take. Thread-safe.

    Every method raises Denied where they may not (rule 10), NotFound where there is no such session or ticket, and
    Conflict, which names who was first and what they decided. Unavailable: a retry is safe.
    """

    # -- holding --------------------------------------------------------------------------------------------

    def next(self, *, queue: str | None = None, lease_s: float | None = None) -> TicketView | None:
        """Claim the next ticket that this person may take, of one queue or of any; None where there is none.

        Where another person is faster, the one after it. `lease_s`: for how long (seconds), by default as the plan says.
        """
        self._require_in("ticket.claim", queue)
        _milliseconds(lease_s, MOST_LEASE_MS, "lease")
        unreadable: set[Ref] = set()
        for _ in range(_LOOKS):
            offers = (row for row in self._offers(queue, "ticket.claim") if _ref(row) not in unreadable)
            rows = list(islice(offers, _HEADS))
            for row in rows:
                try:
                    return self.claim(row.session_id, row.ticket_no, version=row.version, lease_s=lease_s)
                except (Conflict, Denied, NotFound):
                    continue  # somebody was faster, or it was withdrawn since
                except (ContractError, PlanError, Unavailable) as error:
                    if is_away(error, row.session_id):
                        raise
                    passed_over(row, error)
                    unreadable.add(_ref(row))
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
            lease=convert(lease, str, what="lease") or self._lease(ticket),
            seen_until=holder.until if holder else 0,
            lease_ms=_milliseconds(lease_s, MOST_LEASE_MS, "lease"),
        )
        return self._done(session_id, body)

    def release(self, session_id: str, ticket_no: int, reason: str = "", *, lease: str = "") -> TicketView:
        """Give a ticket back to its queue; what was written stays as this person's draft."""
        _, ticket = self._open("ticket.claim", session_id, ticket_no)
        lease = convert(lease, str, what="lease") or self._lease(ticket)
        return self._done(session_id, cmd.ReleaseTicket(ticket_no=ticket_no, lease=lease, reason=reason))

    def reassign(
        self, session_id: str, ticket_no: int, *, to: str = "", to_queue: str = "", reason: str = ""
    ) -> TicketView:
        """Hand a ticket on: `to` a person, who holds it from then on, or `to_queue`. Raises Denied where they may not."""
        _, ticket = self._open("ticket.reassign", session_id, ticket_no)
        if to:
            self._require_able(ticket, convert(to, str, what="person"), f"{session_id}/{ticket_no}")
        body = cmd.ReassignTicket(
            ticket_no=ticket_no,
            version=ticket.version,
            to=to,
            to_queue=to_queue,
            claim_id=secrets.token_urlsafe(18) if to else "",
            reason=reason,
        )
        return self._done(session_id, body)

    def _require_able(self, ticket: Ticket, to: str, name: str) -> None:
        """Raise Denied where somebody to whom a ticket is to be given may not take it."""
        try:
            who = self._acting.who_of(to)
        except Denied as error:
            log_refused(error, "ticket.reassign", self._acting.by)
            raise
        why = why_not_in(needs_of(ticket), to, who)
        if why:
            error = Denied(to, f"be given ticket {name}", why)
            log_refused(error, "ticket.reassign", self._acting.by)
            raise error

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
        comment_id = convert(comment_id, str, what="comment") or secrets.token_urlsafe(12)
        return self._done(
            session_id, cmd.CommentTicket(ticket_no=ticket_no, comment_id=comment_id, text=text)
        )

    def _lease(self, ticket: Ticket | None) -> str:
        """Return the token of this person's own claim; empty where somebody else holds the ticket, or nobody."""
        holder = ticket.holder if ticket else None
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
        draft: int | None = None,
    ) -> None:
        """Decide a ticket that this person holds, or that nobody does; `Session.resolve` says what `value` is.

        `version` and `lease` as they were seen, by default what they are now; what lets an action run (approve, edit)
        needs the `version`, so that it is said of what was seen. The same decision sent again is the same decision.

        Where it is no longer theirs to decide, what they wrote is kept as their draft, in place of the one that it was
        made from (its version `draft`), never of a newer one. Where it is decided, that one is forgotten, never a newer one.
        """
        self._acting.require("ticket.resolve")
        require_ref(session_id, ticket_no)
        draft = draft if draft is None else convert(draft, int, what="draft")
        state = self._load(session_id)
        ticket = state.ticket(ticket_no)
        seen = self._as_seen(session_id, ticket_no, ticket, version)
        body = cmd.Resolve(
            ticket_no=ticket_no,
            version=version if version is not None else seen.version if seen else 1,
            lease=self._lease(seen) if lease is None else lease,
            resolution=resolution,
            value=plain(value, what="resolution"),
            note=note,
        )
        try:
            if ticket is not None:
                self._require_decides(state, ticket)
                self._require_seen(ticket, resolution, version)
            self._run(session_id, body)
        except Unauthenticated:
            raise
        except (Conflict, Denied) as error:
            late = Draft(resolution=resolution, value=body.value, note=note)
            said = self._keep_late(state, ticket_no, late, version=version, seen=draft)
            raise told(self._first(session_id, ticket_no, error), said) from None
        self._forget_sent(session_id, ticket_no, draft)

    def _first(self, session_id: str, ticket_no: int, error: Conflict | Denied) -> Conflict | Denied:
        """Return who was first, also where they themselves decided it, and otherwise: that error names nobody."""
        if isinstance(error, Denied) or error.winner or error.decided:
            return error
        state = self._load(session_id)
        return error if state.ticket(ticket_no) else decided(state, ticket_no)

    def _as_seen(
        self, session_id: str, ticket_no: int, ticket: Ticket | None, version: int | None
    ) -> Ticket | None:
        """Return a ticket as it was at a version; without one as it is, or was when it was decided."""
        if ticket is not None and version in (None, ticket.version):
            return ticket
        past = (one.ticket for one in reversed(self._past(session_id, ticket_no)))
        return next((one for one in past if version in (None, one.version)), None)

    def _require_decides(self, state: State, ticket: Ticket) -> None:
        """Raise Denied where a ticket is not theirs to decide, and Conflict where it was and has moved on since."""
        acting = self._acting
        try:
            acting.require_ticket("ticket.resolve", state, ticket)
        except Denied as error:
            past = [one.ticket for one in self._past(state.session_id, ticket.ticket_no)]
            before = [one for one in past if one.queue != ticket.queue and is_theirs(acting, one)]
            names = [f"queue:{one.queue}" for one in before]
            if not before or not acting.covers("ticket.resolve", *names, *names_of(state)):
                raise
            holder = ticket.holder.by if ticket.holder else ""
            what = f"ticket {state.session_id}/{ticket.ticket_no} is no longer yours to decide"
            raise Conflict(what, holder, f"it is in queue {ticket.queue} now") from error

    def _require_seen(self, ticket: Ticket, resolution: Resolution, version: int | None) -> None:
        """Raise ContractError for a yes that does not say what it is a yes to, from somebody who may say it.

        A claim does not say it: somebody else may have changed the action between the look and the claim.
        """
        if version is not None or resolution not in _RUNS or resolution not in ticket.actions:
            return
        if why_not(ticket, self._acting.by, self._acting.who):
            return  # they are told so
        problem = (
            f"{resolution} says at which version the action was seen: --version N, in Python version=N;"
            " `passdown inbox show` shows both"
        )
        raise ContractError("resolution", problem, pointer="/version")

    def each(self, refs: Sequence[Ref], act: Callable[[Ref], object]) -> list[Outcome]:
        """Do `act` for each of at most `MOST_AT_ONCE` tickets; each stands or falls alone. Returns what came of each, in order."""
        if not isinstance(refs, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ContractError("tickets", f"expected a list, got {type(refs).__name__}")
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
        check(list(asdict(body).values()), what="command")  # `plain` would make text of bytes
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


def _ref(row: TicketRow) -> Ref:
    return Ref(row.session_id, row.ticket_no)


def _milliseconds(seconds: float | None, most: int, what: str) -> int:
    if seconds is None:
        return 0
    if not 0 < convert(seconds, float, what=what) * 1000 <= most:
        raise ContractError(what, f"expected more than 0 and at most {most // 1000} seconds, got {seconds!r}")
    return max(1, int(seconds * 1000))
