"""`cancel`, `pause`, `resume`, `retry`: what operators do with a session."""

import click

from passdown.broker.cli import output
from passdown.broker.cli.frame import Command, Frame
from passdown.broker.cli.opening import opened
from passdown.broker.cli.params import Duration
from passdown.broker.cli.words import many
from passdown.broker.client import Session


@click.command("cancel", cls=Command)
@click.argument("session")
@click.option("--reason", default="", help="Why, for the record.")
@click.pass_obj
def cancel_command(frame: Frame, session: str, reason: str) -> None:
    """Call a session off.

    Where an effect is under way or unknown, the session ends once that is settled.
    """
    with opened(frame, ring=True) as broker:
        handle = broker.session(session)
        handle.cancel(reason)
        _show(handle)


@click.command("pause", cls=Command)
@click.argument("session")
@click.option("--for", "for_s", type=Duration(), help="Go on by itself after so long.")
@click.option("--reason", default="", help="Why, for the record.")
@click.pass_obj
def pause_command(frame: Frame, session: str, for_s: float | None, reason: str) -> None:
    """Issue nothing new in a session until it is resumed.

    What runs goes on to its end.
    """
    if for_s == 0:
        raise click.BadParameter(
            "a pause of no length; leave it out to pause until `resume`", param_hint="--for"
        )
    with opened(frame, ring=True) as broker:
        handle = broker.session(session)
        handle.pause(for_s=for_s, reason=reason)
        _show(handle)


@click.command("resume", cls=Command)
@click.argument("session")
@click.pass_obj
def resume_command(frame: Frame, session: str) -> None:
    """Let a paused session go on."""
    with opened(frame, ring=True) as broker:
        handle = broker.session(session)
        handle.resume()
        _show(handle)


@click.command("retry", cls=Command)
@click.argument("session")
@click.pass_obj
def retry_command(frame: Frame, session: str) -> None:
    """Issue the present step of a session again, its failures forgotten.

    Reopens a session that failed.
    """
    with opened(frame, ring=True) as broker:
        handle = broker.session(session)
        handle.retry()
        _show(handle)


def _show(session: Session) -> None:
    state = session.state()
    if state.ending:
        count = many(len(state.unfinished()), "effect")
        output.say(f"{session.id} will be {state.ending} once {count} of unknown outcome is settled")
    else:
        output.say(f"{session.id} is {state.shown_status}")
