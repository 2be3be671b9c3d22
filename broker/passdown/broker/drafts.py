"""What a person has written about a ticket and not sent, or sent too late. It is their own, whatever becomes of the ticket."""

from typing import Any

import structlog

from passdown.broker.access.policy import names_of
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.broker.stores.queries import DraftRow, FindDraft
from passdown.broker.stores.records import Draft as DraftPut
from passdown.broker.ticket_past import Stood, past_of
from passdown.broker.ticket_reading import Draft, KeptDraft, TicketReader, is_theirs, require_ref
from passdown.contracts.codec import check, convert, decode, encode, plain
from passdown.contracts.errors import Conflict, ContractError, Denied, NotFound, PassdownError

_KEPT = "what you typed is kept as your draft"
_OTHER = "another draft of yours stands, and what you typed is not kept"

_log = structlog.get_logger("passdown.inbox")


class Drafts(TicketReader):
    """The drafts of one principal. A token must be good for the session, or for a queue on which the ticket is or was."""

    def draft(self, session_id: str, ticket_no: int) -> KeptDraft | None:
        """Return what this person has written about a ticket; nobody else gets it, whoever holds the ticket."""
        self._own(session_id, ticket_no)
        return self._kept(session_id, ticket_no)

    def keep_draft(
        self, session_id: str, ticket_no: int, draft: Draft, *, expected: int | None = None
    ) -> None:
        """Keep what this person has written about a ticket that is, or was, theirs to take.

        `expected`: the version that they saw last (0: none). Raises Conflict where they have written another one since,
        on another device.
        """
        state, ticket = self._own(session_id, ticket_no)
        body = _body(draft)
        if not self._were_theirs(state, ticket, ticket_no):
            name = f"{session_id}/{ticket_no}"
            raise self._acting.refused(
                "ticket.read", f"write about ticket {name}", "it never was theirs to take"
            )
        self._put(session_id, ticket_no, body, expected)

    def forget_draft(self, session_id: str, ticket_no: int) -> None:
        """Forget what this person has written."""
        self._own(session_id, ticket_no)
        self._put(session_id, ticket_no, None, None)

    def _own(self, session_id: str, ticket_no: int) -> tuple[State, Ticket | None]:
        """Return the session of a ticket, and the ticket where it is open; raises Denied and NotFound."""
        acting = self._acting
        acting.require("ticket.read")
        require_ref(session_id, ticket_no)
        state = self._load(session_id)
        ticket = state.ticket(ticket_no)
        if not 0 < ticket_no <= state.tickets_opened:
            raise NotFound("ticket", f"{session_id}/{ticket_no}")
        names = [*names_of(state), *([f"queue:{ticket.queue}"] if ticket else [])]
        if not acting.covers("ticket.read", *names):
            names += sorted({f"queue:{one.ticket.queue}" for one in self._past(session_id, ticket_no)})
        acting.require("ticket.read", *names)
        return state, ticket

    def _past(self, session_id: str, ticket_no: int) -> list[Stood]:
        """Return how a ticket stood; nothing where the log cannot be read, for then that is not what is asked about."""
        try:
            return past_of(self._controller.store, session_id, ticket_no)
        except ContractError as error:
            _log.warning("inbox.past_unreadable", session=session_id, ticket=ticket_no, error=str(error))
            return []

    def _were_theirs(self, state: State, ticket: Ticket | None, ticket_no: int) -> bool:
        acting = self._acting
        if ticket is not None and is_theirs(acting, ticket):
            return True
        return any(is_theirs(acting, one.ticket) for one in self._past(state.session_id, ticket_no))

    def _kept(self, session_id: str, ticket_no: int) -> KeptDraft | None:
        query = FindDraft(session_id=session_id, ticket_no=ticket_no, by=self._acting.by)
        found = self._controller.store.find(query)
        if not isinstance(found, DraftRow):
            return None
        return KeptDraft(decode(found.body, Draft, what="draft"), found.version, found.at)

    def _put(self, session_id: str, ticket_no: int, body: bytes | None, expected: int | None) -> None:
        if expected is not None:
            convert(expected, int, what="draft")
        by = self._acting.by
        self._controller.store.put(
            DraftPut(session_id=session_id, ticket_no=ticket_no, by=by, body=body, expected=expected)
        )

    # -- what was sent --------------------------------------------------------------------------------------

    def _keep_late(
        self, state: State, ticket_no: int, late: Draft, *, version: int | None, seen: int | None
    ) -> str:
        """Keep what was sent too late, as a decision on the ticket at `version`; returns what is said of that.

        It replaces the draft that they saw (version `seen`), or, where that is not known, one from before the ticket
        moved on; never a newer one. Nothing is kept for whom the ticket never was, nor by a token for other things.
        Whatever goes wrong here hides nothing: it is said and logged.
        """
        session_id = state.session_id
        if late.value is None and not late.note:
            return ""  # they wrote nothing, and a bare yes is no beginning of the next decision
        try:
            past = self._past(session_id, ticket_no)
            if not self._decided_once(state, past):
                return ""
            kept = self._kept(session_id, ticket_no)
            body = _body(late)
            if kept is not None and encode(kept.draft) == body:
                return _KEPT
            known = kept.version if kept else 0
            if seen is None:
                seen = 0 if kept is None or kept.at >= self._moved_on(past, version) else kept.version
            if seen != known:
                return _OTHER
            self._put(session_id, ticket_no, body, seen)
        except PassdownError as error:
            _log.warning("inbox.draft_not_kept", session=session_id, ticket=ticket_no, error=str(error))
            return f"what you typed could not be kept as your draft ({error})"
        return _KEPT

    def _decided_once(self, state: State, past: list[Stood]) -> bool:
        """Whether a ticket is, or was, theirs to decide, as far as their token goes."""
        acting = self._acting
        names = [*names_of(state), *(f"queue:{one.ticket.queue}" for one in past)]
        return acting.covers("ticket.resolve", *names) and any(is_theirs(acting, one.ticket) for one in past)

    def _moved_on(self, past: list[Stood], version: int | None) -> int:
        """Return when a ticket ceased to be as they saw it: at this version, or else held by them, or else open."""
        by = self._acting.by
        seen = [
            one
            for one in past
            if (
                one.ticket.version == version
                if version is not None
                else one.ticket.holder is not None and one.ticket.holder.by == by
            )
        ]
        return (seen or past)[-1].until or 0

    def _forget_sent(self, session_id: str, ticket_no: int, seen: int | None) -> None:
        """Forget the draft that became a decision (its version `seen`, None: not known); a newer one stands.

        The decision stands, also where the draft cannot be forgotten.
        """
        try:
            self._put(session_id, ticket_no, None, seen)
        except Conflict:
            return  # what they wrote on another device is not what they sent
        except PassdownError as error:
            _log.warning("inbox.draft_not_forgotten", session=session_id, ticket=ticket_no, error=str(error))


def told(error: Conflict | Denied, said: str) -> Conflict | Denied:
    """Return an error that also says what became of what was typed."""
    if not said:
        return error
    if isinstance(error, Conflict):
        return Conflict(f"{error.what}; {said}", error.winner, error.decided)
    return Denied(error.who, error.what, f"{error.why}; {said}")


def _body(draft: Any) -> bytes:
    if isinstance(draft, Draft):
        check([draft.resolution, draft.note], what="draft")  # `plain` would make text of bytes
    return encode(convert(plain(draft, what="draft"), Draft, what="draft"))
