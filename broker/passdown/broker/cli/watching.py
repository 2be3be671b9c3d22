"""Wait until a session ends, and show on the way what happens."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.text import Text

from passdown.broker.cli import output
from passdown.broker.cli.views.transitions import transition
from passdown.broker.cli.words import brief, clean, span
from passdown.broker.client import Session
from passdown.broker.core.state import State
from passdown.broker.logbook import events, read_logged
from passdown.broker.stores.base import Store
from passdown.contracts.errors import Unavailable

_POLL_FIRST_S, _POLL_MOST_S = 0.02, 0.25

Tell = Callable[[State], None]


def wait_for(store: Store, session: Session, timeout_s: float | None, *, show: bool) -> State:
    """Return the session once it has ended; raises Unavailable where `timeout_s` runs out first."""
    began = time.monotonic()
    pause = _POLL_FIRST_S
    with _telling(store, show) as tell:
        while True:
            state = session.state()
            tell(state)
            if state.over:
                return state
            left = None if timeout_s is None else began + timeout_s - time.monotonic()
            if left is not None and left <= 0:
                raise Unavailable(f"the outcome of {session.id}", _still(state, timeout_s or 0))
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.5, _POLL_MOST_S)


def _still(state: State, waited_s: float) -> str:
    tickets = ", ".join(f"{one.ticket_no} ({one.kind}) in {one.queue}" for one in state.tickets)
    questions = ", ".join(one.id for one in state.questions if not one.answered)
    waits = f" for ticket {tickets}" if tickets else f" for an answer to {questions}" if questions else ""
    return f"after {span(int(waited_s * 1000))} it is {state.shown_status}{clean(waits)}"


@contextmanager
def _telling(store: Store, show: bool) -> Generator[Tell]:
    """Yield what is told of each look at the session: new events on stderr, and on a terminal where it stands."""
    if not show:
        yield lambda _: None
        return
    console = output.err()
    told = _Told(store, console)
    if not console.is_terminal:
        yield told.events
        return
    with console.status("") as status:

        def tell(state: State) -> None:
            told.events(state)
            status.update(Text(f"{clean(state.stage)}, attempt {state.attempt}: {state.shown_status}"))

        yield tell


class _Told:
    """Prints each event of a session once."""

    def __init__(self, store: Store, console: Console) -> None:
        self._store = store
        self._console = console
        self._seq = 0

    def events(self, state: State) -> None:
        """Print what happened since the last time."""
        if state.seq <= self._seq:
            return
        for raw in events(self._store, state.session_id, after=self._seq):
            one = transition(read_logged(raw))
            self._console.print(Text(f"{one.event}  {one.text}"), soft_wrap=True)
            self._seq = one.seq


def report(ctx: click.Context, state: State, as_json: bool) -> None:
    """Print how a session ended; exits with 1 unless it is done."""
    outcome = state.outcome
    if as_json:
        output.print_json(
            {"sessionId": state.session_id, "key": state.key, "status": state.status, "outcome": outcome}
        )
    elif outcome is not None:
        said = clean(outcome.reason) if outcome.output is None else brief(outcome.output, 4000)
        line = Text(f"{state.session_id} is ") + output.status_text(state.status)
        output.say(line + Text(f": {said}" if said else ""))
    if state.status != "done":
        ctx.exit(1)
