"""The logs of a session and its branches: what became of each branch at its join, and all of the logs by time."""

import heapq
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import click
import msgspec

from passdown.broker.branches import Branches
from passdown.broker.cli import output
from passdown.broker.cli.screens import show_transition
from passdown.broker.cli.trees import branch_text, counts_text
from passdown.broker.cli.views.transitions import transition
from passdown.broker.cli.words import clean, cut
from passdown.broker.client import Broker, Session
from passdown.broker.core.state import State
from passdown.broker.joins.showing import Fan, branches, fan_of, places, said_of
from passdown.broker.logbook import events, read_logged
from passdown.contracts import events as ev
from passdown.contracts.codec import decode
from passdown.contracts.errors import PlanError

#: Branches of a join that have a line each; the others are counted.
LINES = 200
#: Sessions of a tree whose logs are shown: of each a page is in memory.
LOGS = 1000
#: Where lines of branches begin, and how wide their names are at most (columns).
_INDENT, _NAME = 5, 30
_WIDEST_PATH = 24


class JoinLines:
    """Prints a line for each branch of a session, once, when its join comes to its end or the log does."""

    def __init__(self, broker: Broker, session: Session) -> None:
        self._broker = broker
        self._session = session
        self._left: dict[str, None] = {}

    def after(self, event: ev.Event) -> None:
        """Print what is due after an event."""
        if isinstance(event, ev.FannedOut):
            self._left[event.join_id] = None
        elif isinstance(event, ev.Joined | ev.JoinDrained) and event.join_id in self._left:
            del self._left[event.join_id]
            self._show(event.join_id)

    def rest(self) -> None:
        """Print the branches of those joins that are still open."""
        for join_id in self._left:
            self._show(join_id)
        self._left.clear()

    def _show(self, join_id: str) -> None:
        store = self._broker.app.store
        try:
            fan = fan_of(self._broker.app.controller, self._session.id, join_id)
        except PlanError as error:
            output.say(f"its branches cannot be told: {error}", _INDENT)
            return
        now = store.load("").now
        shown = list(branches(store, fan, 0, LINES))
        widest = max((len(cut(clean(one.name), _NAME)) for one in shown), default=0)
        for one in shown:
            lead = output.status_text(one.status)
            lead.pad_left(_INDENT)
            lead.pad_right(_INDENT + 15 - lead.cell_len)
            lead.append(f"{cut(clean(one.name), _NAME):<{widest}}  ")
            output.say(branch_text(one, now), lead.cell_len, lead)
        if fan.join.branches > LINES:
            more = f"and {fan.join.branches - LINES:,} more: {counts_text(self._others(fan))}"
            output.say(more, _INDENT)

    def _others(self, fan: Fan) -> dict[str, int]:
        listed = places(self._broker.app.store, fan, LINES, fan.join.branches)
        return dict(Counter(said_of(fan, place, row) for place, row in listed))


class _Source(NamedTuple):
    """A session of a tree; ``path`` names it: ``fan/ann`` is branch ann of the root's stage fan."""

    path: str
    session_id: str
    version: int


class _Entry(NamedTuple):
    at: int
    number: int
    seq: int
    raw: bytes
    logged: ev.Logged


def show_tree_log(broker: Broker, session: Session, *, as_json: bool) -> None:
    """Print the events of a session and of all its branches in the order of their times."""
    found = list(islice(_sources(broker, session.id), LOGS + 1))
    sources = found[:LOGS]
    widest = min(max(len(one.path) for one in sources), _WIDEST_PATH)
    streams = [_entries(broker, number, source) for number, source in enumerate(sources)]
    for one in heapq.merge(*streams):
        source = sources[one.number]
        if as_json:
            output.print_line(
                {"sessionId": source.session_id, "branch": source.path, "event": msgspec.Raw(one.raw)}
            )
        else:
            show_transition(transition(one.logged), f"{_short(clean(source.path)):<{widest}}")
    if len(found) > LOGS:
        click.echo(f"these are the logs of the first {LOGS:,} sessions of the tree", err=True)


def _short(path: str) -> str:
    """Return the end of a path that is long: there it says which branch it is."""
    return path if len(path) <= _WIDEST_PATH else f"…{path[-_WIDEST_PATH + 1 :]}"


def _sources(broker: Broker, session_id: str) -> Iterator[_Source]:
    paths: dict[str, str] = {}
    for name, loaded in Branches(broker.app.store).tree(session_id):
        state = decode(loaded.state, State, what="state") if loaded.state else None
        parent = state.parent if state and name != session_id else None
        above = paths.get(parent.session_id, "") if parent else ""
        own = f"{parent.stage}/{parent.branch}" if parent else ""
        paths[name] = f"{above}/{own}" if above else own
        yield _Source(paths[name], name, loaded.version)


def _entries(broker: Broker, number: int, source: _Source) -> Iterator[_Entry]:
    for raw in events(broker.app.store, source.session_id, until=source.version):
        logged = read_logged(raw)
        yield _Entry(logged.at, number, logged.seq, raw, logged)
