"""`answer` and `resolve`: what people decide."""

import click

from passdown.broker.cli import output
from passdown.broker.cli.deciding_forms import resolve_by_form
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.inboxing import for_each, ref_of
from passdown.broker.cli.opening import opened
from passdown.broker.cli.params import value_of
from passdown.broker.cli.prompts import at_terminal
from passdown.broker.cli.resolving import RESOLUTIONS, Typed, as_resolution, decide, lacks_value, read, stands
from passdown.broker.cli.words import clean, cut
from passdown.broker.client import Session
from passdown.broker.core.parts import Asked
from passdown.broker.inbox import Ref, TicketView
from passdown.contracts.events import InputRequested
from passdown.contracts.returns import Question
from passdown.contracts.schema import Schema
from passdown.contracts.ticket_events import Resolution


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
    with opened(frame, "session.answer", ring=True) as broker:
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


_BRANCHES = click.option(
    "--branch", "branches", metavar="NAME", multiple=True, help="For send-back: a branch; may be repeated."
)
_NOTE = click.option("--note", default="", help="Why, for the record and for whoever goes on.")
_VERSION = click.option(
    "--version",
    type=click.IntRange(1),
    help="The ticket's version as you saw it; approve and edit need it. By default that of now.",
)


@click.command("resolve", cls=Command)
@click.argument("ticket")
@click.argument("resolution", type=click.Choice(RESOLUTIONS))
@click.argument("value", required=False)
@_BRANCHES
@_NOTE
@_VERSION
@click.pass_obj
@click.pass_context
def resolve_command(
    ctx: click.Context,
    frame: Frame,
    *,
    ticket: str,
    resolution: Resolution,
    value: str | None,
    branches: tuple[str, ...],
    note: str,
    version: int | None,
) -> None:
    """Decide a ticket.

    TICKET is SESSION/NUMBER, as `tickets` and `status` show it; which resolutions it allows stands there.

    VALUE is for answer an object of answers by question, for edit the changed arguments, for complete the
    stage's output, for done the effect's result (all JSON, - reads standard input), for send-back what to
    do better, for redirect a stage, for choose a branch.

    approve and edit let an action run: --version says of which ticket that is said, as `inbox show` has it.

    Of a ticket on a join, send-back names its branches: --branch ann --branch bob --note "count again".

    It asks nothing; `passdown inbox resolve` does, at a terminal, and takes several tickets.
    """
    decision = read(ctx, Typed(resolution, value, branches, note, version))
    with opened(frame, "ticket.resolve", ring=True) as broker:
        ref = ref_of(broker, ticket)
        decide(broker, ref, decision)
        output.say(f"ticket {ref.session_id}/{ref.ticket_no}: {resolution}{stands(broker, ref)}")


@click.command("resolve", cls=Command)
@click.argument("words", metavar="TICKET... [RESOLUTION [VALUE]]", nargs=-1, required=True)
@_BRANCHES
@_NOTE
@click.option(
    "--lease", metavar="TOKEN", help="The token of your claim, as it was given; by default the one of now."
)
@_VERSION
@json_option
@click.pass_obj
@click.pass_context
def inbox_resolve_command(
    ctx: click.Context,
    frame: Frame,
    *,
    words: tuple[str, ...],
    branches: tuple[str, ...],
    note: str,
    lease: str | None,
    version: int | None,
    as_json: bool,
) -> None:
    """Decide tickets that you hold, or that nobody does; - reads their names from standard input.

    RESOLUTION and VALUE are those of `passdown resolve`. At a terminal what is left out is asked for, field by field,
    and shown before it is sent; what was typed is kept as your draft where it is not. Elsewhere nothing is ever asked.
    """
    tickets, resolution, value = _split(ctx, words)
    asks = at_terminal() and not as_json
    typed = None if resolution is None else Typed(resolution, value, branches, note, version, lease)
    if len(tickets) > 1 or tickets[0] == "-":
        if lease is not None or version is not None:
            raise click.UsageError("--lease and --version go with one ticket", ctx)
        asks = False
    if typed is None and not asks:
        raise click.UsageError(f"say the RESOLUTION: one of {', '.join(RESOLUTIONS)}", ctx)
    if typed is None or (asks and not branches and _is_open(typed)):
        if lease is not None or version is not None or branches:
            raise click.UsageError("--lease, --version and --branch go with a RESOLUTION and its VALUE", ctx)
        _by_form(ctx, frame, tickets[0], resolution, note)
        return
    decision = read(ctx, typed)
    with opened(frame, "ticket.resolve", ring=True) as broker:

        def told(ref: Ref, _: TicketView | None) -> str:
            return f"{decision.resolution}{stands(broker, ref)}"

        for_each(ctx, broker, tickets, lambda ref: decide(broker, ref, decision), told, as_json=as_json)


def _is_open(typed: Typed) -> bool:
    """Whether something is left to be asked for. A yes without a version is one to nothing that was seen yet."""
    if typed.resolution == "approve" and typed.version is None and typed.lease is None:
        return True
    needs_words = typed.resolution == "send-back" and not typed.note
    return lacks_value(typed) or (typed.value is None and (needs_words or typed.resolution == "done"))


def _split(ctx: click.Context, words: tuple[str, ...]) -> tuple[list[str], Resolution | None, str | None]:
    """Return the tickets, the resolution and its value: the first word that is a resolution ends the tickets."""
    at = next((n for n, word in enumerate(words) if as_resolution(word)), len(words))
    tickets, rest = list(words[:at]), words[at:]
    if not tickets:
        raise click.UsageError("name a TICKET, as SESSION/NUMBER, before the RESOLUTION", ctx)
    wrong = next((word for word in tickets if word != "-" and "/" not in word), None)
    if wrong is not None:
        raise click.UsageError(f"{wrong!r} is neither a TICKET nor a RESOLUTION", ctx)
    if len(rest) > 2:
        raise click.UsageError(f"there is one VALUE; {cut(clean(rest[2]), 60)!r} is too much", ctx)
    if "-" in tickets and rest[1:] == ("-",):
        raise click.UsageError("standard input can be the tickets or the VALUE, not both", ctx)
    return tickets, as_resolution(rest[0]) if rest else None, rest[1] if len(rest) > 1 else None


def _by_form(ctx: click.Context, frame: Frame, name: str, resolution: Resolution | None, note: str) -> None:
    with opened(frame, "ticket.resolve", ring=True) as broker:
        ref = ref_of(broker, name)
        resolve_by_form(ctx, broker, ref, resolution, note)
        output.say(f"{ref.session_id}/{ref.ticket_no}  decided{stands(broker, ref)}")
