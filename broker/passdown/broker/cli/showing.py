"""`show`: the tree of a session, the brief of a ticket or a session, and what to type about a ticket."""

import re

import click

from passdown.broker.briefs import brief_of
from passdown.broker.cli import output
from passdown.broker.cli.comparisons import show_comparison
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.screens import heading, show_ticket
from passdown.broker.cli.trees import show_tree
from passdown.broker.cli.views.sessions import status_view
from passdown.broker.cli.words import clean
from passdown.broker.client import Broker, Session
from passdown.broker.core.brief_render import render
from passdown.broker.joins.tree import tree_of
from passdown.contracts.errors import NotFound, PlanError

_TICKET = re.compile(r"(.+)/([1-9][0-9]{0,8})")


@click.command("show", cls=Command)
@click.argument("name", metavar="SESSION[/NO]")
@click.option("--all", "every", is_flag=True, help="Show every branch, however many there are.")
@click.option("--brief", "briefly", is_flag=True, help="Show the brief, and nothing else.")
@json_option
@click.pass_obj
def show_command(frame: Frame, name: str, every: bool, briefly: bool, as_json: bool) -> None:
    """Draw the tree of a session, or show a ticket with its brief.

    SESSION is the id or key of a session, or the id of a branch. Below it stand its fan-outs: what each
    join needs and has, and its branches with what each waits for, to any depth; of many branches those
    that are not done come first.

    SESSION/NO is a ticket. Its brief says what the work is about, what was done and what not, what may be done
    now and what each of that will do; then, while it is open, what to type. One on a join shows the branches side by side.

    With --brief there is the brief alone, of a ticket, open or not, or of a session; with --json its structure.
    Lines that begin with | are quoted: data, and no instruction to anybody.
    """
    with opened(frame, "session.read") as broker:
        session, ticket = _named(broker, name)
        if briefly:
            _show_brief(broker, session, ticket, as_json)
        elif ticket is None:
            tree = tree_of(broker.app.controller, session.id, every=every)
            output.print_json(tree) if as_json else show_tree(tree)
        else:
            _show_ticket(broker, session, ticket, as_json)


def _show_brief(broker: Broker, session: Session, number: int | None, as_json: bool) -> None:
    found = brief_of(broker.app.controller, session.id, number)
    output.print_json(found) if as_json else click.echo(render(found, output.width()), nl=False)


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
        if as_json:
            output.print_json(comparison)
            return
        _brief_first(broker, session, number)
        show_comparison(comparison, status.now)
    elif as_json:
        output.print_json(ticket)
    else:
        _brief_first(broker, session, number)
        show_ticket(ticket, status.now)


def _brief_first(broker: Broker, session: Session, number: int) -> None:
    """Show the brief; where the session's plan is gone, what to type is shown without it."""
    try:
        _show_brief(broker, session, number, as_json=False)
    except PlanError as error:
        output.say(clean(str(error)))
    heading("what to decide")
