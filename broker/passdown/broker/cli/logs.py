"""`log` and `why`: what happened in a session, and what lies behind an effect."""

import time
from collections.abc import Iterator

import click
from msgspec.structs import replace

from passdown.broker.cli import output
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.screens import show_transition, show_why
from passdown.broker.cli.treelogs import JoinLines, show_tree_log
from passdown.broker.cli.views.effects import find_effect, why_view
from passdown.broker.cli.views.transitions import transition
from passdown.broker.client import Broker, Session
from passdown.broker.joins.tree import path_of
from passdown.broker.logbook import events, read_logged
from passdown.contracts.errors import NotFound
from passdown.contracts.ids import session_of

#: How often a log that is followed is looked at (seconds).
_FOLLOW_S = 0.25


@click.command("log", cls=Command)
@click.argument("session")
@click.option(
    "--after", metavar="SEQ", type=click.IntRange(0), default=0, help="Only events after this number."
)
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens, until the session ends.")
@click.option("--tree", is_flag=True, help="The logs of its branches as well, all by time.")
@json_option
@click.pass_obj
@click.pass_context
def log_command(
    ctx: click.Context, frame: Frame, session: str, *, after: int, follow: bool, tree: bool, as_json: bool
) -> None:
    """Show every transition of a session.

    SESSION is its id or key. Where it fanned out, each branch has a line at its join, as it stands now.
    With --json each line is an event as it is stored; with --tree, too, it says of which branch.
    """
    if tree and (after or follow):
        raise click.UsageError("--tree shows whole logs: leave out --after and --follow", ctx)
    with opened(frame, "session.read") as broker:
        handle = broker.session(session)
        if tree:
            show_tree_log(broker, handle, as_json=as_json)
        elif as_json:
            for raw in _events(broker, handle, after, follow):
                click.echo(raw)
        else:
            _show(broker, handle, _events(broker, handle, after, follow))


def _show(broker: Broker, session: Session, log: Iterator[bytes]) -> None:
    lines = JoinLines(broker, session)
    for raw in log:
        logged = read_logged(raw)
        show_transition(transition(logged))
        lines.after(logged.event)
    lines.rest()


def _events(broker: Broker, session: Session, after: int, follow: bool) -> Iterator[bytes]:
    """Yield events; with `follow` until the session has ended and all are out."""
    while True:
        over = not follow or session.state().over
        for raw in events(broker.app.store, session.id, after=after):
            yield raw
            after += 1
        if over:
            return
        time.sleep(_FOLLOW_S)


@click.command("why", cls=Command)
@click.argument("effect")
@json_option
@click.pass_obj
def why_command(frame: Frame, effect: str, as_json: bool) -> None:
    """Show what lies behind an effect: delegation, attempts, decisions, outcome.

    EFFECT is an effectId, its idempotency key, or so much of its beginning that no other effect of the
    session fits. All is taken from the session's log.
    """
    with opened(frame, "session.read") as broker:
        session = _session_of(broker, effect)
        log = list(session.events())
        above = path_of(broker.app.controller, session.state())
    view = replace(why_view(log, find_effect(log, effect)), above=above)
    if as_json:
        output.print_json(view)
    else:
        show_why(view)


def _session_of(broker: Broker, effect: str) -> Session:
    session_id = session_of(effect)
    if session_id != effect:
        try:
            return broker.session(session_id)
        except NotFound as error:
            raise NotFound("effect", effect, f"there is no session {session_id}") from error
    raise NotFound(
        "effect", effect, "an effectId is SESSION.e-…; `passdown status SESSION` lists a session's effects"
    )
