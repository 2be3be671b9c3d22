"""Stores that released versions made: opened, upgraded, and gone on with. Each is a dump of such a file.

In it are a session that is done (key ``done``), one with a person (``with-a-person``), one that is queued
(``queued``), a message in quarantine and a count; from format 2 on also what is left of one that was removed
(``removed``), from format 3 on a branch that fans out itself (``s0-fan``) and a page.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from passdown.agents import Done, agent
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.client import Broker
from passdown.broker.core.evolve import fold
from passdown.broker.gateway import DirectGateway
from passdown.broker.stores.base import DueRequest, Quarantine, Remove, Told
from passdown.broker.stores.joining import PAGES_WAIT_MS
from passdown.broker.stores.queries import (
    Beside,
    FindBeside,
    FindEnded,
    FindLanes,
    FindQuarantine,
    FindTickets,
    QuarantineRow,
    SessionRow,
    TicketRow,
)
from passdown.broker.stores.sqlite import SqliteStore, removal, schema
from passdown.contracts.codec import encode
from passdown.contracts.ids import session_id
from tests.conformance.building import Clock, ask, done, step
from tests.conformance.joining import branch, fan_out, keep, page, put, rows, standing, wake
from tests.conformance.suite_drafts import draft, write
from tests.conformance.suite_records import names, rec
from tests.conformance.suite_records import write as write_records
from tests.conformance.suite_tickets import rows_of

RELEASED = sorted(Path(__file__).with_name("released").glob("sqlite-format-*.sql"))


def made_of(dump: Path, folder: Path) -> Path:
    """Return a store as it was when it was dumped."""
    made = folder / "passdown.db"
    with closing(sqlite3.connect(made)) as db:
        db.executescript(dump.read_text())
    return made


@pytest.fixture(params=RELEASED, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return made_of(request.param, tmp_path)


@pytest.fixture
def broker(path: Path) -> Iterator[Broker]:
    with Broker.connect(f"sqlite:///{path}", transport="memory://", by="user:ann") as made:
        yield made


def test_every_released_format_has_a_dump() -> None:
    assert len(RELEASED) == schema.VERSION - 1


def test_an_old_store_is_upgraded_to_the_tables_of_a_new_one(path: Path, tmp_path: Path) -> None:
    columns = "SELECT m.name, c.* FROM sqlite_schema m, pragma_table_info(m.name) c ORDER BY 1, 2"
    indexes = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY 1"
    found: list[Any] = []
    for file in (path, tmp_path / "new.db"):
        Broker.connect(f"sqlite:///{file}").close()
        with closing(sqlite3.connect(file)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("PRAGMA user_version").fetchall() == [(schema.VERSION,)]
            found.append(db.execute(columns).fetchall() + db.execute(indexes).fetchall())
    assert found[0] == found[1]


def test_rule_06_its_logs_still_give_its_states(broker: Broker) -> None:
    assert {row.key: row.status for row in broker.sessions()} == {
        "done": "done",
        "with-a-person": "waiting-human",
        "queued": "queued",
    }
    for row in broker.sessions():
        session = broker.session(row.session_id)
        assert encode(fold(session.events())) == encode(session.state())


def test_it_goes_on_where_it_stood(broker: Broker) -> None:
    @agent("clerk")
    def clerk(pack: Any, ctx: Any) -> Done:
        return Done({"text": "ok"})

    assert broker.submit("one", inputs={"n": 1}, key="done", task="Acme").status() == "done"
    runtime = Runtime(
        DirectGateway(broker.app.controller), agents=[clerk], options=Options(linger_seconds=0.0)
    )
    runtime.drain("clerk")
    runtime.stop(1.0)
    assert broker.session("queued").result(0).result == "done"
    (ticket,) = broker.tickets()
    broker.session("with-a-person").resolve(ticket.ticket_no, "cancel")
    assert broker.session("with-a-person").status() == "cancelled"


def test_what_is_new_works_on_what_is_old(broker: Broker) -> None:
    store = broker.app.store
    done = broker.session("done")
    assert store.due(DueRequest(limit=0, reserve_ms=1_000, tell=9)).tell == []
    store.put(Told(session_id=done.id, seq=3))
    assert store.find(FindBeside(session_id=done.id)) == Beside(counts={"fenced": 1})
    (row,) = cast("list[SessionRow]", store.find(FindEnded(older_ms=0)))
    assert row.session_id == done.id
    store.put(Remove(session_id=done.id, version=row.version, status=row.status, keep_ms=1_000))
    assert store.load(done.id).removed == "done"
    store.put(Quarantine(source="returns", reason="too deep", body=b"[["))
    kept = cast("list[QuarantineRow]", store.find(FindQuarantine()))
    assert [one.body for one in kept] == [b"[[", b"\xff"]


def test_a_session_that_is_old_may_fan_out(broker: Broker) -> None:
    store, parent = broker.app.store, broker.session("queued").id
    version = store.load(parent).version
    fan_out(store, wake(9), parent="s0-other")
    done(store, step(parent, version, join=put(wake(1), join=f"{parent}.j-1")))
    before = {row.session_id for row in broker.sessions()}
    assert done(store, branch(0, join=f"{parent}.j-1")).woke == [f"{parent}.j-1"]
    assert standing(store, f"{parent}.j-1") == (1, 0, {"done": 1}, None)
    assert {row.session_id for row in broker.sessions()} == before
    keep(store, 0, b"[1]", session=parent)
    assert page(store, 0, session=parent) == b"[1]"


def test_old_tickets_are_on_offer_once_their_session_says_so(broker: Broker) -> None:
    store = broker.app.store
    (old,) = cast("list[TicketRow]", store.find(FindTickets()))
    session = broker.session("with-a-person")
    assert old == TicketRow(
        session_id=session.id,
        ticket_no=1,
        version=1,
        kind="escalation",
        queue="operators",
        why="too hard",
        opened_at=old.opened_at,
    )
    assert store.find(FindTickets(session_id=session.id, queue="operators")) == [old]
    assert store.find(FindLanes()) == store.find(FindTickets(holder="user:ann")) == []
    offered = replace(old, version=2, lane="leads", order="1", excluded=["user:bob"])
    done(store, step(session.id, store.load(session.id).version, tickets=[offered]))
    assert rows_of(store, "leads") == store.find(FindTickets()) == [offered]


def test_drafts_and_records_lie_beside_what_is_old(broker: Broker) -> None:
    store, old = broker.app.store, broker.session("with-a-person").id
    write(store, b"so far", session=old, expected=0)
    write_records(store, rec("t1"))
    kept = draft(store, session=old)
    assert kept is not None
    assert (kept.version, kept.body, names(store)) == (1, b"so far", ["t1"])


def test_joins_and_pages_of_before_are_kept(tmp_path: Path) -> None:
    store = SqliteStore(made_of(RELEASED[2], tmp_path), clock=Clock())
    assert standing(store, "s0-fan.j-1") == (1, 0, {"done": 1}, None)
    assert [row.session_id for row in rows(store, join="s0-fan.j-1")] == ["s0-b7"]
    assert page(store, 0, session=session_id("queued")) == b"[1]"
    store.close()


def test_what_an_old_store_is_brought_and_never_opens_is_forgotten(path: Path) -> None:
    clock = Clock()
    clock.forward(10 * PAGES_WAIT_MS)
    store = SqliteStore(path, clock=clock)
    keep(store, 0, b"[1]")
    clock.forward(PAGES_WAIT_MS)
    store.due(ask())
    assert page(store, 0) is None
    store.close()


def test_what_was_removed_before_is_still_known(tmp_path: Path) -> None:
    path = made_of(RELEASED[1], tmp_path)
    with Broker.connect(f"sqlite:///{path}", transport="memory://", by="user:ann") as broker:
        removed = session_id("removed")
        assert broker.app.store.load(removed).removed == "done"
        assert broker.submit("one", inputs={"n": 0}, key="removed", task="Acme").id == removed
        assert broker.app.store.load(removed).state is None


def test_those_that_ended_are_found_by_their_index(path: Path) -> None:
    Broker.connect(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as db:
        plan = db.execute(f"EXPLAIN QUERY PLAN {removal.ENDED_SINCE}", (0, 1)).fetchall()
    assert "USING INDEX sessions_by_end (updated_at<?)" in plan[0][3]
    assert not any("TEMP B-TREE" in step[3] for step in plan)
