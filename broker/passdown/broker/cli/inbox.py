"""`inbox`: the tickets of people, for those who work on them all day. The same rules and messages as `Broker.inbox`."""

import click

from passdown.broker.cli import output, ticket_screens
from passdown.broker.cli.deciding import inbox_resolve_command
from passdown.broker.cli.frame import Frame, Group, json_option
from passdown.broker.cli.inboxing import for_each, ref_of
from passdown.broker.cli.matters import JOINS
from passdown.broker.cli.opening import opened
from passdown.broker.cli.params import Duration, text_of
from passdown.broker.cli.ticket_screens import until
from passdown.broker.cli.views.tickets import draft_json, listed, shown
from passdown.broker.cli.words import clean
from passdown.broker.client import Broker
from passdown.broker.inbox import Ref, TicketView
from passdown.broker.joins.comparing import compare
from passdown.contracts.errors import NotFound

_LIMIT = click.IntRange(1, 1000)
_TICKETS = click.argument("tickets", metavar="TICKET...", nargs=-1, required=True)
_TICKET = click.argument("ticket")
_LEASE = click.option("--lease", type=Duration(), help="For how long; by default as the plan says.")
_REASON = click.option("--reason", default="", help="Why, for the record and for whoever goes on.")


@click.group("inbox", cls=Group)
def inbox_command() -> None:
    """Work on the tickets of people: find the next one, hold it, hand it on, decide it.

    A TICKET is SESSION/NUMBER, the session by its id or key. Looking at one claims nothing. A claim is a lease: it runs out
    where its holder neither extends it nor decides, and the ticket is back in its queue.
    """


@inbox_command.command("list")
@click.option("--queue", help="Only tickets in this queue.")
@click.option("--mine", is_flag=True, help="Those that you hold.")
@click.option("--all", "every", is_flag=True, help="Also those that are held or snoozed, oldest first.")
@click.option("--limit", type=_LIMIT, default=50, show_default=True, help="At most so many.")
@json_option
@click.pass_obj
@click.pass_context
def list_command(
    ctx: click.Context, frame: Frame, *, queue: str | None, mine: bool, every: bool, limit: int, as_json: bool
) -> None:
    """List the tickets that you may claim now, the next one first.

    They are sorted by priority, due date, skills (what few can do comes first) and age.
    """
    if mine and (every or queue is not None):
        raise click.UsageError("--mine goes without --queue and --all", ctx)
    with opened(frame, "ticket.read") as broker:
        if mine:
            rows = broker.inbox.mine(limit=limit)
        elif every:
            rows = broker.inbox.waiting(queue, limit=limit)
        else:
            rows = broker.inbox.offered(queue=queue, limit=limit)
        now, by = broker.app.store.load("").now, broker.by
        found = listed(broker, rows, now)
    more = len(rows) == limit
    if as_json:
        output.print_json({"tickets": found, "more": more, "now": now})
        return
    ticket_screens.show_list(found, now, by, _nothing(mine=mine, every=every))
    if more:
        output.hint("there may be more: --limit or --queue")


def _nothing(*, mine: bool, every: bool) -> str:
    if mine:
        return "you hold no ticket"
    return "no ticket is open" if every else "nothing waits for you; --all has what is held or snoozed, too"


@inbox_command.command("next")
@click.option("--queue", help="Of this queue; by default of any.")
@_LEASE
@json_option
@click.pass_obj
def next_command(frame: Frame, queue: str | None, lease: float | None, as_json: bool) -> None:
    """Claim the next ticket that you may take, and show its brief and what may be done.

    Exits with 3 where none is on offer.
    """
    with opened(frame, "ticket.claim") as broker:
        view = broker.inbox.next(queue=queue, lease_s=lease)
        if view is None:
            hint = "`passdown inbox list --all` has those that are held or snoozed"
            kind, name = (
                ("ticket on offer in queue", queue)
                if queue is not None
                else ("ticket on offer to", broker.by)
            )
            raise NotFound(kind, name, hint)
        _show(broker, frame, view, as_json=as_json)


@inbox_command.command("show")
@_TICKET
@json_option
@click.pass_obj
def show_command(frame: Frame, ticket: str, as_json: bool) -> None:
    """Show a ticket: its brief, who holds it, your draft, and what to type. Claims nothing."""
    with opened(frame, "ticket.read") as broker:
        view = broker.inbox.show(*ref_of(broker, ticket))
        _show(broker, frame, view, as_json=as_json)


def _show(broker: Broker, frame: Frame, view: TicketView, *, as_json: bool) -> None:
    found = shown(broker, frame, view)
    if as_json:
        output.print_json(found)
        return
    joins = view.kind in JOINS
    sides = compare(broker.app.controller, view.session_id, view.ticket_no) if joins else None
    ticket_screens.show_ticket(found, broker.by, sides)


@inbox_command.command("claim")
@_TICKETS
@_LEASE
@json_option
@click.pass_obj
@click.pass_context
def claim_command(
    ctx: click.Context, frame: Frame, tickets: tuple[str, ...], lease: float | None, as_json: bool
) -> None:
    """Hold tickets that nobody holds; - reads their names from standard input."""
    with opened(frame, "ticket.claim") as broker:

        def claim(ref: Ref) -> TicketView:
            return broker.inbox.claim(*ref, lease_s=lease)

        for_each(ctx, broker, tickets, claim, _Held(broker), as_json=as_json)


@inbox_command.command("release")
@_TICKETS
@_REASON
@json_option
@click.pass_obj
@click.pass_context
def release_command(
    ctx: click.Context, frame: Frame, tickets: tuple[str, ...], reason: str, as_json: bool
) -> None:
    """Give tickets back to their queues. What you wrote stays yours, as a draft."""
    with opened(frame, "ticket.claim") as broker:

        def release(ref: Ref) -> TicketView:
            return broker.inbox.release(*ref, reason)

        for_each(ctx, broker, tickets, release, _back, as_json=as_json)


def _back(_: Ref, view: TicketView | None) -> str:
    return f"released to {clean(view.queue)}" if view else "released"


@inbox_command.command("extend")
@_TICKET
@_LEASE
@json_option
@click.pass_obj
@click.pass_context
def extend_command(ctx: click.Context, frame: Frame, ticket: str, lease: float | None, as_json: bool) -> None:
    """Hold on to a ticket that you hold."""
    with opened(frame, "ticket.claim") as broker:

        def extend(ref: Ref) -> TicketView:
            return broker.inbox.extend(*ref, lease_s=lease)

        for_each(ctx, broker, [ticket], extend, _Held(broker), as_json=as_json)


@inbox_command.command("take-over")
@_TICKET
@click.option("--reason", required=True, help="Why; whoever holds it is told.")
@_LEASE
@json_option
@click.pass_obj
@click.pass_context
def take_over_command(
    ctx: click.Context, frame: Frame, *, ticket: str, reason: str, lease: float | None, as_json: bool
) -> None:
    """Hold a ticket in place of whoever holds it."""
    with opened(frame, "ticket.claim") as broker:

        def take_over(ref: Ref) -> TicketView:
            return broker.inbox.take_over(*ref, reason, lease_s=lease)

        for_each(ctx, broker, [ticket], take_over, _Held(broker), as_json=as_json)


class _Held:
    """Says until when a ticket is held."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __call__(self, _: Ref, view: TicketView | None) -> str:
        if view is None or not view.holder:
            return "no longer open"
        who = "you hold it" if view.holder == self._broker.by else f"{clean(view.holder)} holds it"
        return f"{who} {until(view.until, self._broker.app.store.load('').now)}"


@inbox_command.command("reassign")
@_TICKET
@click.option("--to", default="", metavar="PRINCIPAL", help="A person, who holds it from then on.")
@click.option("--queue", default="", help="Another queue of the plan.")
@_REASON
@json_option
@click.pass_obj
@click.pass_context
def reassign_command(
    ctx: click.Context, frame: Frame, *, ticket: str, to: str, queue: str, reason: str, as_json: bool
) -> None:
    """Hand a ticket on, to a person or to a queue."""
    if bool(to) == bool(queue):
        raise click.UsageError("say to whom: --to PRINCIPAL or --queue QUEUE, one of both", ctx)
    with opened(frame, "ticket.reassign") as broker:
        held = _Held(broker)

        def reassign(ref: Ref) -> TicketView:
            return broker.inbox.reassign(*ref, to=to, to_queue=queue, reason=reason)

        def told(ref: Ref, view: TicketView | None) -> str:
            return f"handed to queue {clean(queue)}" if queue else held(ref, view)

        for_each(ctx, broker, [ticket], reassign, told, as_json=as_json)


@inbox_command.command("snooze")
@click.argument("args", metavar="TICKET... DURATION", nargs=-1, required=True)
@_REASON
@json_option
@click.pass_obj
@click.pass_context
def snooze_command(
    ctx: click.Context, frame: Frame, args: tuple[str, ...], reason: str, as_json: bool
) -> None:
    """Have tickets offered to nobody for a while, such as 2h. You hold them no more; their escalation goes on."""
    if len(args) < 2:
        raise click.UsageError("say for how long, such as 2h", ctx)
    tickets, seconds = args[:-1], Duration().convert(args[-1], None, ctx)
    with opened(frame, "ticket.claim") as broker:

        def snooze(ref: Ref) -> TicketView:
            return broker.inbox.snooze(*ref, seconds, reason)

        def told(_: Ref, view: TicketView | None) -> str:
            return (
                f"snoozed {until(view.snoozed_until, broker.app.store.load('').now)}" if view else "decided"
            )

        for_each(ctx, broker, tickets, snooze, told, as_json=as_json)


@inbox_command.command("wake")
@_TICKET
@json_option
@click.pass_obj
@click.pass_context
def wake_command(ctx: click.Context, frame: Frame, ticket: str, as_json: bool) -> None:
    """Have a snoozed ticket offered again."""
    with opened(frame, "ticket.claim") as broker:

        def told(_: Ref, view: TicketView | None) -> str:
            return f"on offer in {clean(view.queue)}" if view and not view.holder else "not snoozed"

        for_each(ctx, broker, [ticket], lambda ref: broker.inbox.wake(*ref), told, as_json=as_json)


@inbox_command.command("comment")
@_TICKET
@click.argument("text")
@json_option
@click.pass_obj
@click.pass_context
def comment_command(ctx: click.Context, frame: Frame, ticket: str, text: str, as_json: bool) -> None:
    """Say something about a ticket, for whoever works on it; - reads standard input."""
    said = text_of(text, what="comment")
    with opened(frame, "ticket.comment") as broker:

        def comment(ref: Ref) -> TicketView:
            return broker.inbox.comment(*ref, said)

        def told(_: Ref, view: TicketView | None) -> str:
            return f"comment {view.comments} is kept" if view else "the comment is kept"

        for_each(ctx, broker, [ticket], comment, told, as_json=as_json)


@inbox_command.command("draft")
@_TICKET
@click.option("--forget", is_flag=True, help="Forget it.")
@json_option
@click.pass_obj
def draft_command(frame: Frame, ticket: str, forget: bool, as_json: bool) -> None:
    """Show what you have written about a ticket and not sent; nobody else sees it. Exits with 3 where there is nothing."""
    with opened(frame, "ticket.read") as broker:
        ref = ref_of(broker, ticket)
        found = draft_json(ref, broker.inbox.draft(*ref))
        if found is None:
            raise NotFound("draft of yours about ticket", f"{ref.session_id}/{ref.ticket_no}")
        if forget:
            broker.inbox.forget_draft(*ref)
        now = broker.app.store.load("").now
    if as_json:
        output.print_json(found)
    elif forget:
        output.say(f"{found.ticket}  your draft is forgotten")
    else:
        ticket_screens.show_draft(found, now)


inbox_command.add_command(inbox_resolve_command)
