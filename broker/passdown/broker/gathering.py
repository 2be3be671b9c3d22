"""One session, read whole from its store and written into a file of the archive."""

from collections.abc import Iterator

import msgspec

from passdown.broker.archive import Writing, archived_lines, own_line
from passdown.broker.branches import Fan, fans_of
from passdown.broker.core.evolve import fold
from passdown.broker.core.state import State
from passdown.broker.joins.lists import kept_as
from passdown.broker.logbook import events, read_logged
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import FindJoin, FindPack, FindPage, FindRows, JoinRecord, RowOfJoin
from passdown.contracts.codec import decode, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.events import PackIssued
from passdown.contracts.pack import PAGE_ITEMS

#: Rows of a join that are read at once.
_ROWS = 500


def write_session(store: Store, writing: Writing, session_id: str, version: int) -> bool:
    """Write a session at this version; returns whether it is in the file whole: another process may remove it meanwhile.

    Raises ContractError, before anything of it is written, where its log does not give its state (rule 6).
    """
    loaded = store.load(session_id)
    if loaded.state is None or loaded.version != version:
        return False
    log = list(events(store, session_id, until=version))
    asked = [FindPack(session_id=session_id, step=step, attempt=attempt) for step, attempt in _issued(log)]
    packs = [found for query in asked if isinstance(found := store.find(query), bytes)]
    if store.load(session_id).state is None:
        return False
    state = decode(loaded.state, State, what="state")
    if encode(fold(map(read_logged, log))) != encode(state):
        raise ContractError("log", "folding it does not give the stored state")
    fans = fans_of(log)
    writing.lines(archived_lines(session_id, version, loaded.state, log, packs))
    if fans or state.lists:
        writing.lines(_beside(store, state, fans))
        if store.load(session_id).state is None:
            return False
    writing.lines([own_line(session_id, "end")])
    return True


def _issued(log: list[bytes]) -> list[tuple[int, int]]:
    """Return step and attempt of every pack that a log says was issued, each once."""
    issued = [event for event in (read_logged(raw).event for raw in log) if isinstance(event, PackIssued)]
    return list(dict.fromkeys((event.step, event.attempt) for event in issued))


def _beside(store: Store, state: State, fans: list[Fan]) -> Iterator[bytes]:
    """Yield the lines of what lies beside a session: its lists, and its joins with the rows of their branches."""
    for name, listed in state.lists.items():
        for number in range(-(-listed.items // PAGE_ITEMS)):
            page = FindPage(session_id=state.session_id, name=kept_as(name, listed), number=number)
            body = store.find(page)
            if isinstance(body, bytes):
                yield own_line(state.session_id, "page", name=name, number=number, body=msgspec.Raw(body))
    for fan in fans:
        record = store.find(FindJoin(join_id=fan.join_id))
        if isinstance(record, JoinRecord):
            yield own_line(state.session_id, "join", **msgspec.to_builtins(record))
        for first in range(0, fan.places, _ROWS):
            found = store.find(FindRows(join_id=fan.join_id, first=first, places=_ROWS))
            rows = found if isinstance(found, list) else []
            yield from (
                _row(state.session_id, fan.join_id, row) for row in rows if isinstance(row, RowOfJoin)
            )


def _row(session_id: str, join_id: str, row: RowOfJoin) -> bytes:
    return own_line(
        session_id,
        "row",
        joinId=join_id,
        place=row.place,
        branch=row.branch,
        branchSessionId=row.session_id,
        outcome=row.outcome,
        order=row.order,
        about=msgspec.Raw(row.about),
    )
