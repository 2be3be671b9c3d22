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
    """Call a session off, and its branches.

    Where an effect is under way or unknown, the session ends once that is settled; where a branch is
    still at work, once that has ended.
    """
    with opened(frame, "session.steer", ring=True) as broker:
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
    with opened(frame, "session.steer", ring=True) as broker:
        handle = broker.session(session)
        handle.pause(for_s=for_s, reason=reason)
        _show(handle)


@click.command("resume", cls=Command)
@click.argument("session")
@click.pass_obj
def resume_command(frame: Frame, session: str) -> None:
    """Let a paused session go on."""
    with opened(frame, "session.steer", ring=True) as broker:
        handle = broker.session(session)
        handle.resume()
        _show(handle)


@click.command("retry", cls=Command)
@click.argument("session")
@click.pass_obj
def retry_command(frame: Frame, session: str) -> None:
    """Issue the present step of a session again, its failures forgotten.

    Reopens a session that failed, but no branch: it is sent back by the ticket of its join.
    """
    with opened(frame, "session.steer", ring=True) as broker:
        handle = broker.session(session)
        handle.retry()
        _show(handle)


def _show(session: Session) -> None:
    state = session.state()
    if not state.ending:
        output.say(f"{session.id} is {state.shown_status}")
        return
    first: list[str] = []
    if state.unfinished() or not state.undrained():
        first.append(f"{many(len(state.unfinished()), 'effect')} of unknown outcome is settled")
    if state.undrained():
        first.append("its branches have ended, which are called off")
    output.say(f"{session.id} will be {state.ending} once {' and '.join(first)}")
