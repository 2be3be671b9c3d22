"""`status`, `list`, `tickets`: where things stand."""

import click

from passdown.broker.cli import output, tables
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.screens import show_status
from passdown.broker.cli.views.sessions import status_view
from passdown.broker.core.state import A2A_STATE

_STATUSES = click.Choice(list(A2A_STATE))
_LIMIT = click.IntRange(1, 1000)


@click.command("status", cls=Command)
@click.argument("session")
@json_option
@click.pass_obj
def status_command(frame: Frame, session: str, as_json: bool) -> None:
    """Show where a session stands and what it waits for.

    SESSION is its id or the key that it was submitted with.
    """
    with opened(frame) as broker:
        view = status_view(broker, broker.session(session))
    if as_json:
        output.print_json(view)
    else:
        show_status(view)


@click.command("list", cls=Command)
@click.option(
    "--status", type=_STATUSES, metavar="STATUS", help=f"Only sessions that are {', '.join(A2A_STATE)}."
)
@click.option("--plan", metavar="NAME@VERSION", help="Only sessions of this plan.")
@click.option("--task", help="Only sessions of this task, by its name or id.")
@click.option("--limit", type=_LIMIT, default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="SESSION", help="Go on after this session, the last of the page before.")
@json_option
@click.pass_obj
def list_command(
    frame: Frame,
    status: str | None,
    plan: str | None,
    task: str | None,
    limit: int,
    before: str | None,
    as_json: bool,
) -> None:
    """List sessions, newest first."""
    if plan is not None and "@" not in plan:
        raise click.BadParameter(f"expected NAME@VERSION, such as {plan}@1", param_hint="--plan")
    with opened(frame) as broker:
        if before is not None:
            before = broker.session(before).id
        rows = broker.sessions(status=status, plan=plan, task=task, limit=limit, before=before)
        now = broker.app.store.load("").now
    more = rows[-1].session_id if len(rows) == limit else None
    if as_json:
        output.print_json({"sessions": rows, "before": more})
        return
    tables.show_sessions(rows, now)
    if more:
        output.hint(f"there may be more: passdown list --before {more}")


@click.command("tickets", cls=Command)
@click.option("--queue", help="Only tickets in this human queue.")
@click.option("--session", help="Only tickets of this session, by its id or key.")
@click.option("--limit", type=_LIMIT, default=50, show_default=True, help="At most so many.")
@json_option
@click.pass_obj
def tickets_command(frame: Frame, queue: str | None, session: str | None, limit: int, as_json: bool) -> None:
    """List what waits for people, oldest first."""
    with opened(frame) as broker:
        session_id = broker.session(session).id if session is not None else None
        rows = broker.tickets(queue=queue, session_id=session_id, limit=limit)
        now = broker.app.store.load("").now
    if as_json:
        output.print_json({"tickets": rows})
        return
    tables.show_tickets(rows, now)
    if len(rows) == limit:
        output.hint("there may be more: --limit, --queue or --session")
