"""Joins to try a store with: a parent that fans out, branches that mark their rows, and what stands in the record."""

from collections.abc import Sequence
from typing import cast

from passdown.broker.stores.base import Commit, Committed, Stale, Store
from passdown.broker.stores.joining import JoinClose, JoinPut, JoinRow, JoinSeen, Page, Wake
from passdown.broker.stores.queries import FindJoin, FindPage, FindRows, JoinRecord, RowOfJoin
from tests.conformance.building import ask, do, done, row, step

PARENT = "s0-p"
JOIN = f"{PARENT}.j-1"
ENDED = ["done", "refused", "failed", "cancelled"]


def wake(at: int, *outcomes: str) -> Wake:
    """Return when a join is looked at: so many rows ended, or have one of `outcomes`."""
    return Wake(outcomes=[*(outcomes or ENDED)], at=at)


def put(*wakes: Wake, close: JoinClose | None = None, join: str = JOIN) -> JoinPut:
    """Return what a parent says of its join."""
    return JoinPut(join_id=join, wakes=[*wakes], close=close)


def closing(upto: int, rewrites: int = 0) -> JoinClose:
    """Return the decision on the rows up to a version of the record."""
    return JoinClose(upto=upto, rewrites=rewrites)


def fan_out(store: Store, *wakes: Wake, parent: str = PARENT) -> Committed:
    """Open a parent and its join, `<parent>.j-1`."""
    return done(store, step(parent, join=put(*wakes, join=f"{parent}.j-1")))


def mark(place: int, outcome: str = "done", about: bytes = b"{}", join: str = JOIN) -> JoinRow:
    """Return the mark of the branch at `place`."""
    return JoinRow(
        join_id=join,
        place=place,
        branch=f"b{place}",
        session_id=f"s0-b{place}",
        outcome=outcome,
        about=about,
    )


def branch(
    place: int, outcome: str = "done", expected: int = 0, *, about: bytes = b"{}", join: str = JOIN
) -> Commit:
    """Return the step of the branch at `place` that marks its row; its session is a branch of the join's parent."""
    name = f"s0-b{place}"
    of_parent = row(name, expected + 1, status=outcome, parent=join.partition(".")[0])
    return step(name, expected, row=of_parent, join_row=mark(place, outcome, about, join))


def marked(store: Store, *places: int, outcome: str = "done", expected: int = 0) -> Committed:
    """Let the branches at `places` mark their rows in one call; return the last outcome."""
    return done(store, *(branch(place, outcome, expected) for place in places))


def record(store: Store, join: str = JOIN) -> JoinRecord:
    """Return the record, which must be there."""
    found = store.find(FindJoin(join_id=join))
    assert isinstance(found, JoinRecord), found
    return found


def standing(store: Store, join: str = JOIN) -> tuple[int, int, dict[str, int], int | None]:
    """Return version, rewrites, counts and what the join was closed on."""
    found = record(store, join)
    assert found.join_id == join
    return found.version, found.rewrites, found.counts, found.closed_at


def rows(store: Store, first: int = 0, places: int = 500, join: str = JOIN) -> list[RowOfJoin]:
    """Return the rows of some places."""
    return cast("list[RowOfJoin]", store.find(FindRows(join_id=join, first=first, places=places)))


def outcomes(store: Store, join: str = JOIN) -> list[tuple[int, str, int]]:
    """Return place, outcome and order of the rows."""
    return [(one.place, one.outcome, one.order) for one in rows(store, join=join)]


def close(store: Store, upto: int, rewrites: int, expected: int, *wakes: Wake) -> Committed | Stale:
    """Close the join with the parent's next step."""
    (outcome,) = do(store, step(PARENT, expected, join=put(*wakes, close=closing(upto, rewrites))))
    assert isinstance(outcome, Committed | Stale), outcome
    return outcome


def checks(store: Store, limit: int = 100) -> Sequence[tuple[str, str, int]]:
    """Return the joins that `due` hands out: the parent, the join, the record's version."""
    entries = store.due(ask(limit)).entries
    return [(one.session_id, one.subject, one.at) for one in entries if one.kind == "join"]


def seen(store: Store, version: int, join: str = JOIN) -> None:
    """Say that the join was looked at as of `version`."""
    store.put(JoinSeen(join_id=join, version=version))


def keep(store: Store, number: int, body: bytes, *, session: str = PARENT, name: str = "items") -> None:
    """Keep a page of a list."""
    store.put(Page(session_id=session, name=name, number=number, body=body))


def page(store: Store, number: int, *, session: str = PARENT, name: str = "items") -> bytes | None:
    """Return a page of a list."""
    found = store.find(FindPage(session_id=session, name=name, number=number))
    assert found is None or isinstance(found, bytes)
    return found
