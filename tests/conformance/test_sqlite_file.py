"""The file of a `SqliteStore`: whose it is, how it is upgraded, and what happens where it cannot be written."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from passdown.broker.stores.base import Committed, Store
from passdown.broker.stores.queries import FindSessions
from passdown.broker.stores.sqlite import SqliteStore, connections, schema, writer
from passdown.contracts.errors import ContractError, Unavailable
from tests.conformance.building import (
    Clock,
    ask,
    claim,
    do,
    done,
    entry,
    names,
    opened,
    pack,
    renew,
    request,
    step,
    take,
)
from tests.conformance.together import together

FULL = 2  # PRAGMA synchronous


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "passdown.db"


@pytest.fixture
def connect(path: Path, clock: Clock) -> Iterator[Callable[[], SqliteStore]]:
    stores: list[SqliteStore] = []

    def connect() -> SqliteStore:
        stores.append(SqliteStore(path, clock=clock))
        return stores[-1]

    yield connect
    for store in stores:
        store.close()


@pytest.fixture
def store(connect: Callable[[], SqliteStore]) -> SqliteStore:
    return connect()


def connection(store: SqliteStore) -> sqlite3.Connection:
    """Return the writing connection of the store, which it opens when it first writes."""
    store.commit([])
    return cast(sqlite3.Connection, vars(vars(store)["_writer"])["_db"])


def run(path: Path, *statements: str) -> list[Any]:
    """Run statements on the file past the store; return what the last one gives."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        return [db.execute(statement).fetchall() for statement in statements][-1]
    finally:
        db.close()


class TestWhoseFileItIs:
    def test_a_new_file_is_marked_as_ours(self, store: SqliteStore, path: Path) -> None:
        assert run(path, "PRAGMA application_id") == [(schema.APPLICATION_ID,)]
        assert run(path, "PRAGMA user_version") == [(schema.VERSION,)]

    def test_an_empty_file_will_do(self, connect: Callable[[], Store], path: Path) -> None:
        path.touch()
        done(connect(), step("s0-a"))

    def test_what_is_no_database_is_refused_and_left_alone(self, path: Path) -> None:
        junk = b"dear diary, " * 1000
        path.write_bytes(junk)
        with pytest.raises(ContractError, match=r"passdown\.db .* it is not a database; name another file"):
            SqliteStore(path)
        assert path.read_bytes() == junk

    @pytest.mark.parametrize(
        "statements", [["CREATE TABLE mine (x)"], ["PRAGMA application_id = 7"], ["PRAGMA user_version = 3"]]
    )
    def test_another_applications_database_is_refused_and_left_alone(
        self, path: Path, statements: list[str]
    ) -> None:
        run(path, *statements)
        before = path.read_bytes()
        with pytest.raises(ContractError, match="another application; name another file"):
            SqliteStore(path)
        assert path.read_bytes() == before

    def test_a_newer_database_is_refused(self, store: SqliteStore, path: Path) -> None:
        store.close()
        run(path, "PRAGMA user_version = 99")
        with pytest.raises(ContractError, match=r"its format is 99, .* reads up to \d+; upgrade Passdown"):
            SqliteStore(path)

    def test_a_folder_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(
            Unavailable, match=r"no/such/passdown\.db is unavailable: the file cannot be opened"
        ):
            SqliteStore(tmp_path / "no" / "such" / "passdown.db")

    def test_every_connection_makes_commits_durable(self, store: SqliteStore) -> None:
        for pragma, value in (("journal_mode", "wal"), ("synchronous", FULL), ("wal_autocheckpoint", 0)):
            assert connection(store).execute(f"PRAGMA {pragma}").fetchone() == (value,)


class TestMigrations:
    def test_an_older_store_is_upgraded_and_keeps_what_it_has(
        self, connect: Callable[[], SqliteStore], path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = connect()
        done(first, step("s0-a"))
        first.close()
        more = (("CREATE TABLE later (x INTEGER) STRICT",), ("INSERT INTO later VALUES (1)",))
        monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS + more)
        monkeypatch.setattr(schema, "VERSION", schema.VERSION + 2)
        stores = together(6, lambda _: connect())
        assert run(path, "SELECT count(*) FROM later") == [(1,)]
        assert all(store.load("s0-a").version == 1 for store in stores)

    def test_a_migration_that_fails_leaves_the_version_before(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.close()
        monkeypatch.setattr(
            schema, "MIGRATIONS", (*schema.MIGRATIONS, ("CREATE TABLE later (x)", "nonsense"))
        )
        monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
        with pytest.raises(sqlite3.OperationalError, match="nonsense"):
            SqliteStore(path)
        assert run(path, "PRAGMA user_version") == [(schema.VERSION - 1,)]
        assert run(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'later'") == [(0,)]


class TestWhereItCannotBeWritten:
    def fill(self, store: SqliteStore) -> None:
        db = connection(store)
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")

    def make_room(self, store: SqliteStore) -> None:
        connection(store).execute("PRAGMA max_page_count = 1000000")

    def test_a_full_disk_refuses_the_commit_whole_and_the_next_one_works(self, store: SqliteStore) -> None:
        done(store, step("s0-a"))
        self.fill(store)
        large = step("s0-a", 1, state=b"x" * 100_000, queue=pack(), dues=[entry(after_ms=0)])
        with pytest.raises(Unavailable, match=r"the disk or its quota is full; make room \[SQLITE_FULL\]"):
            do(store, large)
        assert store.load("s0-a", large.command_id).version == 1
        assert store.due(ask()).entries == []
        self.make_room(store)
        assert done(store, large).version == 2
        assert names(take(store)) == ["s0-a"]

    def test_a_full_disk_fails_every_caller_of_the_group_and_writes_nothing(self, store: SqliteStore) -> None:
        self.fill(store)

        def attempt(n: int) -> str:
            try:
                done(store, step(f"s0-{n}", state=b"x" * 50_000))
            except Unavailable as error:
                return error.why
            return "written"

        assert {why.split(";")[0] for why in together(8, attempt)} == {"the disk or its quota is full"}
        assert store.find(FindSessions()) == []
        self.make_room(store)
        assert set(together(8, attempt)) == {"written"}

    def test_a_lock_that_is_held_for_too_long_is_told_and_goes_by(
        self, connect: Callable[[], SqliteStore], path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "BUSY_SECONDS", 0.02)
        store = connect()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match=r"database is locked\) \[SQLITE_BUSY\]; a retry is safe"):
            do(store, step("s0-a"))
        assert store.load("s0-a").state is None
        other.execute("ROLLBACK")
        other.close()
        done(store, step("s0-a"))

    def test_a_closed_store_says_so(self, store: SqliteStore) -> None:
        store.close()
        store.close()
        for call in (lambda: store.load("s0-a"), lambda: do(store, step("s0-a")), lambda: take(store)):
            with pytest.raises(Unavailable, match="it was closed here; connect again"):
                call()


class TestWhatIsWritten:
    def test_what_changes_nothing_writes_nothing(self, store: SqliteStore, path: Path) -> None:
        opened(store, "s0-a")
        claim(store, "s0-a")
        take(store)
        store.due(ask())
        other = sqlite3.connect(path)
        # data_version of a connection changes when another one commits a write.
        before = other.execute("PRAGMA data_version").fetchone()
        assert names(take(store)) == []
        assert store.due(ask()).entries == []
        assert renew(store, "s0-a", "another claim") == "lost"
        do(store, step("s0-a", 9))
        do(store, step("s0-a"))
        store.commit([], None)
        assert other.execute("PRAGMA data_version").fetchone() == before
        other.close()

    def test_a_commit_that_takes_from_the_role_it_fills_needs_no_ring(self, store: SqliteStore) -> None:
        outcomes, taken = store.commit(
            [step("s0-a", queue=pack()), step("s0-b", queue=pack())], request(slots=1)
        )
        assert [outcome.ring for outcome in outcomes if isinstance(outcome, Committed)] == [[], []]
        assert taken is not None
        assert taken.more

    def test_the_log_is_copied_into_the_database_again_and_again(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer, "CHECKPOINT_ROWS", 50)
        for n in range(200):
            done(store, step(f"s0-{n}", state=b"x" * 3000, queue=pack()))
            store.load(f"s0-{n}")
        assert path.with_name("passdown.db-wal").stat().st_size < 2_000_000
        store.close()
        assert run(path, "PRAGMA integrity_check") == [("ok",)]

    def test_a_jump_between_two_asks_of_a_tick_that_asks_seldom_is_not_missed(
        self, connect: Callable[[], SqliteStore], clock: Clock
    ) -> None:
        often, seldom = connect(), connect()
        opened(often, "s0-a")
        often.due(ask())
        seldom.due(ask())
        for _ in range(59):
            clock.forward(1_000)
            often.due(ask(elapsed_ms=1_000))
        claim(often, "s0-a")
        clock.forward(1_000 + 90_000)  # less than what went by since it asked, but for its own books
        assert seldom.due(ask(elapsed_ms=60_000)).postponed_ms == 90_000
        assert often.due(ask(elapsed_ms=1_000)).postponed_ms == 0
        assert renew(often, "s0-a") == "held"

    def test_an_ask_that_got_no_answer_is_no_jump_at_the_next_one(
        self,
        connect: Callable[[], SqliteStore],
        path: Path,
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        store = connect()
        opened(store, "s0-a")
        claim(store, "s0-a")
        store.due(ask())
        monkeypatch.setattr(connections, "BUSY_SECONDS", 0.002)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(6):
            clock.forward(10_000)
            with pytest.raises(Unavailable):
                store.due(ask(elapsed_ms=10_000))
        other.execute("ROLLBACK")
        other.close()
        found = store.due(ask(elapsed_ms=0))
        assert ([one.kind for one in found.entries], found.postponed_ms) == (["lease"], 0)
