"""All sessions, each before its branches, as JSON lines (`passdown export`); see `passdown.broker.exports` for what the lines are.

Lines of other kinds may follow, from whoever calls `export_lines` with ``extra``.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from passdown.broker.branches import Branches, Member
from passdown.broker.client import Broker
from passdown.broker.core.state import State
from passdown.broker.exports import brief_line, json_line, session_lines
from passdown.broker.logbook import events
from passdown.broker.stores.queries import SessionRow
from passdown.contracts.codec import decode
from passdown.contracts.errors import PlanError

_PAGE = 200


def export_lines(broker: Broker, extra: Iterable[dict[str, Any]] = ()) -> Iterator[bytes]:
    """Yield every line of the export, then those of `extra`; one session at a time is in memory."""
    for session_id, loaded in all_members(broker):
        if loaded.state is not None:
            log = list(events(broker.app.store, session_id, until=loaded.version))
            yield from session_lines(loaded.state, log)
            yield from _brief_lines(broker, loaded.state, log)
    for line in extra:
        yield json_line(line)


def _brief_lines(broker: Broker, stored: bytes, log: list[bytes]) -> Iterator[bytes]:
    try:
        plan = broker.app.controller.catalog.document(decode(stored, State, what="state").plan)
    except PlanError:
        return
    yield brief_line(stored, log, plan)


def all_members(broker: Broker) -> Iterator[Member]:
    """Yield every session and branch: sessions newest first, each followed by its branches and theirs."""
    branches = Branches(broker.app.store)
    for row in all_sessions(broker):
        yield from branches.tree(row.session_id)


def all_sessions(broker: Broker) -> Iterator[SessionRow]:
    """Yield every session that is no branch, newest first."""
    before: str | None = None
    while rows := broker.sessions(limit=_PAGE, before=before):
        yield from rows
        before = rows[-1].session_id
