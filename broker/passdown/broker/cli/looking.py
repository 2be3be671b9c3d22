"""`status`, `list`, `tickets`: where things stand."""

from typing import Any

import click

from passdown.broker.cli import output, tables, trees
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.screens import show_status
from passdown.broker.cli.views.sessions import status_view
from passdown.broker.cli.words import many
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
    with opened(frame, "session.read") as broker:
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
@click.option(
    "--branches-of", metavar="SESSION", help="The branches of this session's last fan-out, in their order."
)
@click.option("--join", metavar="JOIN", help="With --branches-of: those of this join.")
@click.option("--from", "first", metavar="PLACE", type=click.IntRange(0), help="Branches from this place on.")
@json_option
@click.pass_obj
@click.pass_context
def list_command(ctx: click.Context, frame: Frame, *, limit: int, as_json: bool, **only: Any) -> None:
    """List sessions, newest first.

    Branches are listed with --branches-of only.
    """
    name, join, first = only.pop("branches_of"), only.pop("join"), only.pop("first")
    if name is not None:
        if any(one is not None for one in only.values()):
            raise click.UsageError("with --branches-of go --join, --from and --limit only", ctx)
        _list_branches(frame, name, join, first or 0, limit, as_json=as_json)
    elif join is not None or first is not None:
        raise click.UsageError("--join and --from go with --branches-of", ctx)
    else:
        _list_sessions(frame, limit, as_json=as_json, **only)


def _list_sessions(
    frame: Frame,
    limit: int,
    *,
    as_json: bool,
    status: str | None,
    plan: str | None,
    task: str | None,
    before: str | None,
) -> None:
    if plan is not None and "@" not in plan:
        raise click.BadParameter(f"expected NAME@VERSION, such as {plan}@1", param_hint="--plan")
    with opened(frame, "session.read") as broker:
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


def _list_branches(frame: Frame, name: str, join: str | None, first: int, limit: int, as_json: bool) -> None:
    with opened(frame, "session.read") as broker:
        session = broker.session(name)
        rows = session.branches(join, first=first, limit=limit)
        now = broker.app.store.load("").now
    more = rows[-1].place + 1 if len(rows) == limit else None
    if as_json:
        output.print_json({"branches": rows, "from": more})
        return
    trees.show_branches(rows, now)
    if more:
        output.hint(f"there may be more: passdown list --branches-of {session.id} --from {more}")


@click.command("tickets", cls=Command)
@click.option("--queue", help="Only tickets in this human queue.")
@click.option("--session", help="Only tickets of this session, by its id or key.")
@click.option("--limit", type=_LIMIT, default=50, show_default=True, help="At most so many.")
@json_option
@click.pass_obj
def tickets_command(frame: Frame, queue: str | None, session: str | None, limit: int, as_json: bool) -> None:
    """List what waits for people, oldest first.

    A ticket of a branch says which, and of which session. With --session those of its branches are listed, too.
    """
    with opened(frame, "ticket.read") as broker:
        session_id = broker.session(session).id if session is not None else None
        rows, more = broker.ticket_page(queue=queue, session_id=session_id, limit=limit)
        now = broker.app.store.load("").now
    if as_json:
        output.print_json({"tickets": rows, "more": more})
        return
    tables.show_tickets(rows, now, session_id)
    joined = next((row for row in rows if row.kind in ("conflict", "short")), None)
    if joined:
        output.hint(f"branches side by side: passdown show {joined.session_id}/{joined.ticket_no}")
    if more:
        output.hint(f"{many(more, 'branch')} more may have tickets: --limit, --queue or --session BRANCH")
    elif len(rows) == limit:
        output.hint("there may be more: --limit, --queue or --session")
