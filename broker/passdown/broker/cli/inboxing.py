"""One verb for several tickets: which ones, what came of each, and how that is told."""

import sys
from collections.abc import Callable, Sequence

import click

from passdown.broker.cli import output
from passdown.broker.cli.params import ticket_of
from passdown.broker.cli.views.tickets import OutcomeJson, outcome_json
from passdown.broker.cli.words import clean, line
from passdown.broker.client import Broker
from passdown.broker.inbox import MOST_AT_ONCE, Outcome, Ref, TicketView
from passdown.contracts.errors import ContractError, PassdownError, Unavailable

Act = Callable[[Ref], TicketView | None]
#: Says what came of a ticket that was dealt with, in a few words.
Told = Callable[[Ref, TicketView | None], str]

_STDIN = "-"


def names_in(tickets: Sequence[str]) -> list[str]:
    """Return the tickets that are named; ``-`` stands for those on standard input, one a line."""
    found: list[str] = []
    for name in tickets:
        found += _lines() if name == _STDIN else [name]
    if len(found) > MOST_AT_ONCE:
        raise ContractError("tickets", f"at most {MOST_AT_ONCE} at once, got {len(found)}")
    return found


def _lines() -> list[str]:
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ContractError("tickets", f"standard input is not UTF-8: {error}") from error
    return [name for one in text.splitlines() if (name := one.strip())]


def ref_of(broker: Broker, name: str) -> Ref:
    """Return the ticket of a name; raises BadParameter, NotFound."""
    return Ref(*ticket_of(broker, name))


def for_each(
    ctx: click.Context, broker: Broker, tickets: Sequence[str], act: Act, told: Told, *, as_json: bool
) -> None:
    """Do `act` for one ticket, whose error is raised, or for each of several, and tell what came of it.

    Each of several stands or falls alone, and has a line of its own; the exit code is that of the worst.
    """
    if len(tickets) == 1 and tickets[0] != _STDIN:
        ref = ref_of(broker, tickets[0])
        view = act(ref)
        _tell(broker, Outcome(ref, view), told(ref, view), as_json=as_json)
        return
    worst, away = 0, None
    for name in names_in(tickets):
        outcome = _unavailable(broker, name, away) if away else _one(broker, name, act)
        error = outcome.error
        if error is not None:
            worst = max(worst, error.exit_code)
            away = error if isinstance(error, Unavailable) else None
        text = told(outcome.ref, outcome.view) if error is None else f"{error.code}: {line(str(error), 500)}"
        _tell(broker, outcome, text, as_json=as_json, name=name)
    if worst:
        ctx.exit(worst)


def _one(broker: Broker, name: str, act: Act) -> Outcome:
    ref = Ref(*_split(name))
    try:
        ref = ref_of(broker, name)
        return Outcome(ref, view=act(ref))
    except click.UsageError as error:
        return Outcome(ref, error=ContractError("ticket", error.format_message().rstrip(".")))
    except PassdownError as error:
        return Outcome(ref, error=error)


def _unavailable(_: Broker, name: str, away: PassdownError) -> Outcome:
    """Say of a ticket after one for which the store was away that it was not tried: each would wait as long."""
    return Outcome(Ref(*_split(name)), error=away)


def _split(name: str) -> tuple[str, int]:
    session, _, number = name.rpartition("/")
    return session, int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0


def _tell(broker: Broker, outcome: Outcome, text: str, *, as_json: bool, name: str | None = None) -> None:
    if as_json:
        found = outcome_json(outcome, _status(broker, outcome))
        output.print_line(found if name is None or outcome.error is None else _named(found, name))
    else:
        failed = outcome.error is not None
        shown = name if failed and name is not None else f"{outcome.ref.session_id}/{outcome.ref.ticket_no}"
        output.say(f"{clean(shown or '')}  {text}")
    sys.stdout.flush()


def _named(found: OutcomeJson, name: str) -> OutcomeJson:
    """Name a ticket of which nothing came as it was typed."""
    return OutcomeJson(ticket=name, done=False, view=None, status=None, error=found.error)


def _status(broker: Broker, outcome: Outcome) -> str | None:
    if outcome.error is not None:
        return None
    state = broker.app.controller.load(outcome.ref.session_id).state
    return state.shown_status if state is not None and broker.acting.may_read(state) else None
