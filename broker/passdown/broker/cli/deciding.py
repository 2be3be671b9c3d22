"""`answer` and `resolve`: what people decide."""

from typing import Any, cast, get_args

import click

from passdown.broker.cli import output
from passdown.broker.cli.frame import Command, Frame
from passdown.broker.cli.opening import opened
from passdown.broker.cli.params import ticket_of, value_of
from passdown.broker.client import Session
from passdown.broker.core.parts import Asked
from passdown.contracts.events import InputRequested, Resolution
from passdown.contracts.returns import Question
from passdown.contracts.schema import Schema

_RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)
#: Resolutions whose value is text, and those that take none.
_TEXT = ("send-back", "redirect", "choose")
_BARE = ("approve", "deny", "cancel", "not-done", "merge")


@click.command("answer", cls=Command)
@click.argument("session")
@click.argument("question")
@click.argument("value")
@click.option(
    "--attempt", type=click.IntRange(1), help="The attempt that asked, where several asked under this id."
)
@click.pass_obj
def answer_command(frame: Frame, session: str, question: str, value: str, attempt: int | None) -> None:
    """Answer an open question.

    A VALUE that is JSON counts as JSON, unless the question wants a string; - reads standard input. A
    VALUE that begins with - comes after --.
    """
    with opened(frame, ring=True) as broker:
        handle = broker.session(session)
        given = value_of(value, _wanted(handle, question, attempt), what="answer")
        handle.answer(question, given, attempt=attempt)
        output.say(f"{question} is answered; {handle.id} is {handle.status()}")


def _wanted(session: Session, question: str, attempt: int | None) -> Schema:
    """Return what an answer must fit, also where the session has moved on: the same words are the same answer."""
    asked: list[Asked | Question] = [
        one for one in session.state().questions if one.id == question and attempt in (None, one.attempt)
    ]
    if not asked:
        rounds = [one.event for one in session.events() if isinstance(one.event, InputRequested)]
        asked = [
            one
            for event in rounds
            for one in event.questions
            if one.id == question and attempt in (None, event.attempt)
        ]
    return asked[-1].schema if asked else True


@click.command("resolve", cls=Command)
@click.argument("ticket")
@click.argument("resolution", type=click.Choice(_RESOLUTIONS))
@click.argument("value", required=False)
@click.option(
    "--branch", "branches", metavar="NAME", multiple=True, help="For send-back: a branch; may be repeated."
)
@click.option("--note", default="", help="Why, for the record and for whoever goes on.")
@click.pass_obj
@click.pass_context
def resolve_command(
    ctx: click.Context,
    frame: Frame,
    ticket: str,
    resolution: str,
    value: str | None,
    branches: tuple[str, ...],
    note: str,
) -> None:
    """Decide a ticket.

    TICKET is SESSION/NUMBER, as `tickets` and `status` show it; which resolutions it allows stands there.

    VALUE is for answer an object of answers by question, for edit the changed arguments, for complete the
    stage's output, for done the effect's result (all JSON, - reads standard input), for send-back what to
    do better, for redirect a stage, for choose a branch.

    Of a ticket on a join, send-back names its branches: --branch ann --branch bob --note "count again".
    """
    if value is not None and resolution in _BARE:
        raise click.UsageError(f"{resolution} takes no VALUE; say why with --note", ctx)
    if branches and resolution != "send-back":
        raise click.UsageError("--branch goes with send-back; choose takes its branch as VALUE", ctx)
    given: Any = value if value is None or resolution in _TEXT else value_of(value, what="resolution")
    if branches:
        given = {"branches": list(branches), "feedback": note if value is None else value}
    with opened(frame, ring=True) as broker:
        session, number = ticket_of(broker, ticket)
        if resolution == "send-back" and not branches:
            given = _by_branch(session, number, given)
        session.resolve(number, cast("Resolution", resolution), given, note=note)
        output.say(f"ticket {session.id}/{number}: {resolution}; the session is {session.status()}")


def _by_branch(session: Session, number: int, value: Any) -> Any:
    """Return what is sent back: to branches of a join an object, which names them; else text."""
    ticket = session.state().ticket(number)
    if ticket is None or ticket.kind not in ("conflict", "short"):
        return value
    if value is None or not value.lstrip().startswith("{"):
        raise click.UsageError("say which branches it goes back to: --branch NAME, once for each")
    return value_of(value, what="resolution")
