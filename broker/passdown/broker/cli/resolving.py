"""Deciding tickets: what was typed becomes a decision. The one way in which the command line decides."""

from typing import Any, NamedTuple, get_args

import click

from passdown.broker.cli.params import value_of
from passdown.broker.client import Broker
from passdown.broker.inbox import Ref
from passdown.broker.ticket_reading import is_theirs
from passdown.contracts.ticket_events import Resolution

RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)
#: Resolutions whose value is text, those that take none, and what the others need.
TEXT: tuple[Resolution, ...] = ("send-back", "redirect", "choose")
BARE: tuple[Resolution, ...] = ("approve", "deny", "cancel", "not-done", "merge")
NEEDS: dict[Resolution, str] = {
    "answer": "an object of answers by question, as JSON",
    "edit": "the changed arguments are a JSON object",
    "complete": "the stage's output, as JSON",
    "redirect": "a stage",
    "choose": "a branch",
}


class Typed(NamedTuple):
    """A decision as it was typed. ``version`` and ``lease`` are those of the ticket as it was seen."""

    resolution: Resolution
    value: str | None = None
    branches: tuple[str, ...] = ()
    note: str = ""
    version: int | None = None
    lease: str | None = None


class Decision(NamedTuple):
    """What is sent: a value that is read, but for branches to which only a ticket on a join is sent back.

    ``draft`` is the version of the draft that it was made from (0: none; None: not known).
    """

    resolution: Resolution
    value: Any
    note: str = ""
    version: int | None = None
    lease: str | None = None
    draft: int | None = None


def lacks_value(typed: Typed) -> bool:
    """Whether a decision needs a value that was not typed."""
    return typed.value is None and typed.resolution in NEEDS


def read(ctx: click.Context, typed: Typed) -> Decision:
    """Return what was typed as what is sent; raises UsageError for what does not go together, ContractError."""
    resolution, value = typed.resolution, typed.value
    if value is not None and resolution in BARE:
        raise click.UsageError(f"{resolution} takes no VALUE; say why with --note", ctx)
    if typed.branches and resolution != "send-back":
        raise click.UsageError("--branch goes with send-back; choose takes its branch as VALUE", ctx)
    if lacks_value(typed):
        raise click.UsageError(f"{resolution} needs a VALUE: {NEEDS[resolution]}", ctx)
    given: Any = value if value is None or resolution in TEXT else value_of(value, what="resolution")
    if typed.branches:
        given = {"branches": list(typed.branches), "feedback": typed.note if value is None else value}
    return Decision(resolution, given, typed.note, typed.version, typed.lease)


def decide(broker: Broker, ref: Ref, what: Decision) -> None:
    """Decide a ticket. Raises what `Inbox.resolve` does, UsageError where it is not said to which branches it goes back."""
    value = what.value
    if what.resolution == "send-back" and not isinstance(value, dict):
        value = _by_branch(broker, ref, value)
    broker.inbox.resolve(
        *ref,
        what.resolution,
        value,
        note=what.note,
        version=what.version,
        lease=what.lease,
        draft=what.draft,
    )


def _by_branch(broker: Broker, ref: Ref, value: str | None) -> Any:
    """Return what is sent back: to branches of a join an object, which names them; else text."""
    state = broker.app.controller.load(ref.session_id).state
    ticket = state.ticket(ref.ticket_no) if state else None
    if ticket is None or not is_theirs(broker.acting, ticket):
        return value  # what became of the ticket is said when it is to be decided
    if ticket.kind not in ("conflict", "short"):
        return value
    if value is None or not value.lstrip().startswith("{"):
        raise click.UsageError("say which branches it goes back to: --branch NAME, once for each")
    return value_of(value, what="resolution")


def stands(broker: Broker, ref: Ref) -> str:
    """Say where the session stands, to those who may read it also now that its ticket is decided."""
    state = broker.app.controller.load(ref.session_id).state
    if state is None:
        return ""
    ticket = state.ticket(ref.ticket_no)
    # Of several approvals each but the last leaves the ticket open.
    more = f"; approvals {len(ticket.approved_by)} of {ticket.approvals}" if ticket else ""
    shown = f"; the session is {state.shown_status}" if broker.acting.may_read(state) else ""
    return more + shown


def as_resolution(word: str) -> Resolution | None:
    """Return the resolution of this name."""
    return next((one for one in RESOLUTIONS if one == word), None)
