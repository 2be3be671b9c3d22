"""`show`: the tree of a session, and what a ticket asks."""

import re

import click

from passdown.broker.cli import output
from passdown.broker.cli.comparisons import show_comparison
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.screens import show_ticket
from passdown.broker.cli.trees import show_tree
from passdown.broker.cli.views.sessions import status_view
from passdown.broker.client import Broker, Session
from passdown.broker.joins.tree import tree_of
from passdown.contracts.errors import NotFound

_TICKET = re.compile(r"(.+)/([1-9][0-9]{0,8})")


@click.command("show", cls=Command)
@click.argument("name", metavar="SESSION[/NO]")
@click.option("--all", "every", is_flag=True, help="Show every branch, however many there are.")
@json_option
@click.pass_obj
def show_command(frame: Frame, name: str, every: bool, as_json: bool) -> None:
    """Draw the tree of a session, or show what a ticket asks.

    SESSION is the id or key of a session, or the id of a branch. Below it stand its fan-outs: what each
    join needs and has, and its branches with what each waits for, to any depth; of many branches those
    that are not done come first.

    SESSION/NO is an open ticket. One on a join shows the branches side by side, and what to type.
    """
    with opened(frame) as broker:
        session, ticket = _named(broker, name)
        if ticket is None:
            tree = tree_of(broker.app.controller, session.id, every=every)
            output.print_json(tree) if as_json else show_tree(tree)
        else:
            _show_ticket(broker, session, ticket, as_json)


def _named(broker: Broker, name: str) -> tuple[Session, int | None]:
    """Return the session, and the ticket's number where one is named. A key may have the look of a ticket, too."""
    try:
        return broker.session(name), None
    except NotFound:
        found = _TICKET.fullmatch(name)
        if found is None:
            raise
    try:
        return broker.session(found[1]), int(found[2])
    except NotFound as error:
        raise NotFound("ticket", name, f"there is no session {found[1]!r}") from error


def _show_ticket(broker: Broker, session: Session, number: int, as_json: bool) -> None:
    status = status_view(broker, session)
    ticket = next((one for one in status.tickets if one.ticket == f"{session.id}/{number}"), None)
    if ticket is None or ticket.kind in ("conflict", "short"):
        comparison = session.comparison(number)
        output.print_json(comparison) if as_json else show_comparison(comparison, status.now)
    elif as_json:
        output.print_json(ticket)
    else:
        show_ticket(ticket, status.now)
