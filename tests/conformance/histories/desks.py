"""What people do with a ticket beside deciding it at once: they hold it, hand it on, put it off, let it lapse (rule 8)."""

from typing import Literal, NamedTuple

from msgspec.structs import replace

from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import PassdownError
from tests.conformance.histories import deeds
from tests.conformance.histories.watch import Followed
from tests.conformance.histories.world import PEOPLE, World, pick

Move = Literal[
    "claim",
    "take over",
    "extend",
    "release",
    "give",
    "move",
    "snooze",
    "wake",
    "comment",
    "decide",
    "decide late",
]
#: How long a claim lasts, and a snooze (milliseconds): some waits of a history are shorter, some are longer.
LEASE_MS, SNOOZE_MS = 60_000, 5_000


class Deed(NamedTuple):
    """What one of them does about a ticket, how long after the one before (milliseconds), and whether a tick came first."""

    move: Move
    by: str
    wait_ms: int = 0
    ticks: bool = True


def at_desk(world: World, which: int, ticket: int, done: list[Deed]) -> None:
    """Let people do one thing after the other about one ticket, for as long as it is open."""
    state = pick([one for one in world.states() if one.tickets], which)
    number = pick(state.tickets, ticket).ticket_no
    for one in done:
        world.clock.elapse(one.wait_ms)
        if one.wait_ms and one.ticks:
            world.tick(0)
        state = deeds.after(world, state.session_id)
        found = state.ticket(number)
        if found is None:
            return
        _do(world, state, found, one)


def _do(world: World, state: State, ticket: Ticket, deed: Deed) -> None:
    body = _body(world, state, ticket, deed)
    outcome = world.act(state.session_id, body, deed.by)
    after = deeds.after(world, state.session_id)
    # What was done before under the same lease is answered as then, and changes nothing (rule 1).
    if isinstance(outcome, PassdownError) or after.seq == state.seq:
        return
    now = after.ticket(ticket.ticket_no)
    match deed.move:
        case "claim" | "take over" | "extend":
            assert now, "rule 8: a ticket was claimed, and is gone"
            assert now.holder, "rule 8: a ticket was claimed, and nobody holds it"
            assert now.holder.by == deed.by, f"rule 8: {deed.by} may {deed.move}, and {now.holder} holds it"
        case "release":
            assert now, "rule 8: a ticket was given back, and is gone"
            assert now.holder is None, "rule 8: a ticket was given back, and is held"
        case "decide":
            assert now is None, "rule 8: a ticket was resolved, and stays open"
        case "decide late":
            raise AssertionError("rule 8: somebody decided on what they saw before it changed")
        case _:
            assert now, f"rule 8: {deed.move} closed a ticket"


def _body(world: World, state: State, ticket: Ticket, deed: Deed) -> cmd.Body:
    """Return the command. Who does not hold the ticket shows the lease that they held last, as from a tab left open."""
    no, version = ticket.ticket_no, ticket.version
    lease = _lease(world.watch.sessions[state.session_id], ticket, deed.by)
    match deed.move:
        case "claim" | "take over":
            return _claim(world, ticket, over=deed.move == "take over")
        case "extend":
            until = ticket.holder.until if ticket.holder else 0
            return cmd.ExtendTicket(ticket_no=no, lease=lease, seen_until=until, lease_ms=2 * LEASE_MS)
        case "release":
            return cmd.ReleaseTicket(ticket_no=no, lease=lease)
        case "give" | "move":
            return _hand_on(world, ticket, deed)
        case "snooze":
            return cmd.SnoozeTicket(ticket_no=no, version=version, for_ms=SNOOZE_MS)
        case "wake":
            return cmd.WakeTicket(ticket_no=no, version=version)
        case "comment":
            return cmd.CommentTicket(ticket_no=no, comment_id=world.claim_id(), text="I look at it")
        case "decide":
            return deeds.decision(world, state, ticket, lease=lease)
        case "decide late":
            return replace(deeds.decision(world, state, ticket, lease=lease), version=version - 1)


def _claim(world: World, ticket: Ticket, *, over: bool) -> cmd.ClaimTicket:
    return cmd.ClaimTicket(
        ticket_no=ticket.ticket_no,
        version=ticket.version,
        claim_id=world.claim_id(),
        lease_ms=LEASE_MS,
        take_over=over,
        reason="it takes long" if over else "",
    )


def _hand_on(world: World, ticket: Ticket, deed: Deed) -> cmd.ReassignTicket:
    to = next(one for one in PEOPLE if one != deed.by)
    whom = {"to": to, "claim_id": world.claim_id()} if deed.move == "give" else {"to_queue": "operators"}
    return cmd.ReassignTicket(ticket_no=ticket.ticket_no, version=ticket.version, **whom)


def _lease(followed: Followed, ticket: Ticket, by: str) -> str:
    """Return the lease that somebody holds a ticket under, or held it under last; empty where they never did."""
    if ticket.holder is not None and ticket.holder.by == by:
        return ticket.holder.claim_id
    held = [
        one.event.claim_id
        for one in followed.steps
        if isinstance(one.event, ev.TicketClaimed)
        and (one.event.ticket_no, one.logged.by) == (ticket.ticket_no, by)
    ]
    return held[-1] if held else ""
