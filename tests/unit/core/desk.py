"""What people do with a ticket, on a session under test: each verb sends its command, of the newest open ticket."""

from typing import Any

from passdown.broker.core.given import Who
from passdown.broker.core.parts import Ticket
from passdown.contracts import commands as cmd
from tests.unit.core.spec import BOB, TICK, Session

LEASE = "lease-1"


def who(*groups: str, skills: tuple[str, ...] = ()) -> Who:
    return Who(frozenset(groups), frozenset(skills))


def ticket(session: Session) -> Ticket:
    """Return the newest open ticket."""
    return session.state.tickets[-1]


def claiming(session: Session, lease: str = LEASE, **more: Any) -> cmd.ClaimTicket:
    one = ticket(session)
    fields: dict[str, Any] = {"version": one.version, **more}
    return cmd.ClaimTicket(ticket_no=one.ticket_no, claim_id=lease, **fields)


def claim(session: Session, by: str = BOB, lease: str = LEASE, **more: Any) -> Session:
    session.do(claiming(session, lease, **more), by)
    return session


def taking_over(session: Session, lease: str, reason: str = "she is ill") -> cmd.ClaimTicket:
    return claiming(session, lease, take_over=True, reason=reason)


def extending(session: Session, lease: str = LEASE, **more: Any) -> cmd.ExtendTicket:
    holder = ticket(session).holder
    until = holder.until if holder else 0
    return cmd.ExtendTicket(ticket_no=ticket(session).ticket_no, lease=lease, seen_until=until, **more)


def releasing(session: Session, lease: str = LEASE, **more: Any) -> cmd.ReleaseTicket:
    return cmd.ReleaseTicket(ticket_no=ticket(session).ticket_no, lease=lease, **more)


def reassigning(session: Session, **more: Any) -> cmd.ReassignTicket:
    fields: dict[str, Any] = {"version": ticket(session).version, "claim_id": "lease-9", **more}
    return cmd.ReassignTicket(ticket_no=ticket(session).ticket_no, **fields)


def snoozing(session: Session, for_ms: int = 60_000, **more: Any) -> cmd.SnoozeTicket:
    fields: dict[str, Any] = {"version": ticket(session).version, **more}
    return cmd.SnoozeTicket(ticket_no=ticket(session).ticket_no, for_ms=for_ms, **fields)


def waking(session: Session) -> cmd.WakeTicket:
    return cmd.WakeTicket(ticket_no=ticket(session).ticket_no, version=ticket(session).version)


def saying(session: Session, text: str = "hm", number: int | None = None) -> cmd.CommentTicket:
    one = ticket(session).ticket_no if number is None else number
    return cmd.CommentTicket(ticket_no=one, comment_id="c-1", text=text)


def alerting(session: Session, why: str = "nobody has the skill", **more: Any) -> cmd.AlertTicket:
    fields: dict[str, Any] = {"version": ticket(session).version, **more}
    return cmd.AlertTicket(ticket_no=ticket(session).ticket_no, why=why, **fields)


def lapses(session: Session) -> Session:
    """Let the lease of the newest ticket run out, and the tick say so."""
    return session.due("ticket-lease")


def at(session: Session, kind: cmd.DueKind, when: int) -> Session:
    """Let a due entry come up at a time, whether or not the state waits for it."""
    session.at = max(session.at, when)
    session.do(cmd.Due(kind=kind, subject=str(ticket(session).ticket_no), due_at=when), TICK)
    return session
