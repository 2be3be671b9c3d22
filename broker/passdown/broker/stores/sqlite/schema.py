"""The tables, by numbered migrations, and the checks that a file is a Passdown store of a version we know.

``user_version`` counts the migrations that were applied, ``application_id`` says whose file it is. Each
migration is one transaction which looks again at the version it starts from, so that any number of
processes may open a store at once.

What a commit costs is the pages that it writes, so:

* Sessions are numbered in the order in which they were opened, and the other tables go by that number:
  sessions that move at one time lie side by side.
* ``log`` has one row for each commit: its command, its reply, its events (one to a line) and the pack that
  it issued. It grows at its end, and one index finds all of that.
* A session's row says where the session stands in ``queue`` and in ``dues``, so that these need no second
  index; ``leases`` and ``reservations`` are as small as what runs at this moment, and are read whole.
* ``telling`` has a row for each session of which something is still to be told; up to where it was told
  stands in the session's own row.
* Branches, of which one fan-out may open a hundred thousand, are in none of the indexes by which people look for
  sessions.
* ``joins`` has a small row for each join, with its rows in ``join_rows`` counted by outcome.
* Of the ``tickets`` only those on offer are in the index by lane, and only those that are held in the one by holder.
"""

import sqlite3

from passdown.contracts.errors import ContractError

#: "PdSt" in ASCII; see `file`'s magic for SQLite databases.
APPLICATION_ID = 0x50645374
#: Bytes. Half a page holds a usual state; larger pages make the log longer, smaller ones spill over.
PAGE_SIZE = 4096

_FIRST = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID
    """,
    "INSERT INTO meta VALUES ('catalog', 0), ('postponed', 0)",
    # `queued_role`, `queued_score` and `dues` ([[kind, subject, at, due_at], …]) are the keys of the session's
    # rows in `queue` and `dues`.
    """
    CREATE TABLE sessions (
        n INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL UNIQUE,
        task_id TEXT NOT NULL,
        task_name TEXT NOT NULL,
        key TEXT NOT NULL,
        plan TEXT NOT NULL,
        stage TEXT NOT NULL,
        status TEXT NOT NULL,
        version INTEGER NOT NULL,
        opened_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        queued_role TEXT,
        queued_score INTEGER,
        dues BLOB NOT NULL,
        state BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX sessions_by_age ON sessions (opened_at)",
    "CREATE INDEX sessions_by_status ON sessions (status, opened_at)",
    "CREATE INDEX sessions_by_plan ON sessions (plan, opened_at)",
    "CREATE INDEX sessions_by_task ON sessions (task_id, opened_at)",
    "CREATE INDEX sessions_by_task_name ON sessions (task_name, opened_at)",
    """
    CREATE TABLE log (
        id INTEGER PRIMARY KEY,
        n INTEGER NOT NULL,
        version INTEGER NOT NULL,
        command_id TEXT NOT NULL,
        digest TEXT NOT NULL,
        reply BLOB NOT NULL,
        events BLOB NOT NULL,
        step INTEGER,
        attempt INTEGER,
        pack_digest TEXT,
        pack BLOB
    ) STRICT
    """,
    "CREATE UNIQUE INDEX log_by_command ON log (n, command_id, version)",
    # `free_at` is later than `queued_at` after a hand-back; `wait_ms` is how long that was meant to last.
    """
    CREATE TABLE queue (
        role TEXT NOT NULL,
        score INTEGER NOT NULL,
        n INTEGER NOT NULL,
        step INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        command_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        solo INTEGER NOT NULL,
        queued_at INTEGER NOT NULL,
        free_at INTEGER NOT NULL,
        wait_ms INTEGER NOT NULL,
        why TEXT NOT NULL,
        PRIMARY KEY (role, score, n)
    ) STRICT, WITHOUT ROWID
    """,
    # Beside the queue, so that a take writes one small page, and counting what runs reads little.
    """
    CREATE TABLE reservations (
        n INTEGER PRIMARY KEY,
        role TEXT NOT NULL,
        task_id TEXT NOT NULL,
        until INTEGER NOT NULL,
        length_ms INTEGER NOT NULL
    ) STRICT
    """,
    # As many rows as claims at this moment: read whole where they are counted or sought by time.
    """
    CREATE TABLE leases (
        n INTEGER PRIMARY KEY,
        claim_id TEXT NOT NULL,
        role TEXT NOT NULL,
        task_id TEXT NOT NULL,
        standing TEXT NOT NULL CHECK (standing IN ('held', 'cancelled', 'told')),
        runs_out INTEGER NOT NULL,
        length_ms INTEGER NOT NULL,
        reserved_until INTEGER NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE dues (
        due_at INTEGER NOT NULL,
        n INTEGER NOT NULL,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        at INTEGER NOT NULL,
        length_ms INTEGER NOT NULL,
        reserved_until INTEGER NOT NULL,
        PRIMARY KEY (due_at, n, kind, subject)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE tickets (
        n INTEGER NOT NULL,
        ticket_no INTEGER NOT NULL,
        version INTEGER NOT NULL,
        kind TEXT NOT NULL,
        queue TEXT NOT NULL,
        why TEXT NOT NULL,
        about TEXT NOT NULL,
        opened_at INTEGER NOT NULL,
        PRIMARY KEY (n, ticket_no)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX tickets_by_age ON tickets (opened_at)",
    "CREATE INDEX tickets_by_queue ON tickets (queue, opened_at)",
    """
    CREATE TABLE bells (
        role TEXT PRIMARY KEY,
        rung_until INTEGER NOT NULL,
        backoff_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE TABLE documents (digest TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT",
    """
    CREATE TABLE current (
        kind TEXT NOT NULL CHECK (kind IN ('plan', 'tool')),
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        PRIMARY KEY (kind, name)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE counts (
        session_id TEXT NOT NULL,
        name TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (session_id, name)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE quarantine (
        id INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        source TEXT NOT NULL,
        reason TEXT NOT NULL,
        body BLOB NOT NULL
    ) STRICT
    """,
)

_SECOND = (
    # Up to which seq the session's log was told outside.
    "ALTER TABLE sessions ADD COLUMN told INTEGER NOT NULL DEFAULT 0",
    # Only of those that ended, so that a commit before the end writes no index.
    """
    CREATE INDEX sessions_by_end ON sessions (updated_at)
    WHERE status IN ('cancelled', 'done', 'expired', 'failed', 'refused')
    """,
    # `due_at` is also when a reservation runs out.
    """
    CREATE TABLE telling (
        n INTEGER PRIMARY KEY,
        due_at INTEGER NOT NULL,
        upto INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX telling_by_time ON telling (due_at)",
    # What is left of a session that was removed: how it ended, and the command that opened it.
    """
    CREATE TABLE removed (
        session_id TEXT PRIMARY KEY,
        status TEXT NOT NULL,
        command_id TEXT NOT NULL,
        digest TEXT NOT NULL,
        reply BLOB NOT NULL,
        until INTEGER NOT NULL,
        length_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX removed_by_time ON removed (until)",
    # The last number that a quarantined message got: none is given twice, though the last may be dropped.
    "INSERT INTO meta SELECT 'quarantined', coalesce(max(id), 0) FROM quarantine",
)

_THIRD = (
    # The session whose fan-out opened this one; the branches are left out of what people look for.
    "ALTER TABLE sessions ADD COLUMN parent TEXT NOT NULL DEFAULT ''",
    "DROP INDEX sessions_by_age",
    "DROP INDEX sessions_by_status",
    "DROP INDEX sessions_by_plan",
    "DROP INDEX sessions_by_task",
    "DROP INDEX sessions_by_task_name",
    "DROP INDEX sessions_by_end",
    "CREATE INDEX sessions_by_age ON sessions (opened_at) WHERE parent = ''",
    "CREATE INDEX sessions_by_status ON sessions (status, opened_at) WHERE parent = ''",
    "CREATE INDEX sessions_by_plan ON sessions (plan, opened_at) WHERE parent = ''",
    "CREATE INDEX sessions_by_task ON sessions (task_id, opened_at) WHERE parent = ''",
    "CREATE INDEX sessions_by_task_name ON sessions (task_name, opened_at) WHERE parent = ''",
    """
    CREATE INDEX sessions_by_end ON sessions (updated_at)
    WHERE status IN ('cancelled', 'done', 'expired', 'failed', 'refused') AND parent = ''
    """,
    # `counts` ({outcome: number}) is of the rows in `join_rows`, of which `version` were written so far. `check_at` is
    # when a join that was woken is handed out (NULL: it was not, or somebody looked).
    """
    CREATE TABLE joins (
        j INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL,
        join_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        rewrites INTEGER NOT NULL,
        closed_at INTEGER,
        check_at INTEGER,
        reserved_until INTEGER NOT NULL,
        counts BLOB NOT NULL,
        wakes BLOB NOT NULL,
        UNIQUE (session_id, join_id)
    ) STRICT
    """,
    "CREATE INDEX joins_by_check ON joins (check_at) WHERE check_at IS NOT NULL",
    # `written` is the version of the join that the row made.
    """
    CREATE TABLE join_rows (
        j INTEGER NOT NULL,
        place INTEGER NOT NULL,
        branch TEXT NOT NULL,
        session_id TEXT NOT NULL,
        outcome TEXT NOT NULL,
        written INTEGER NOT NULL,
        about BLOB NOT NULL,
        PRIMARY KEY (j, place)
    ) STRICT, WITHOUT ROWID
    """,
    # Of lists that are too long for a session's inputs. They may come before their session.
    """
    CREATE TABLE pages (
        session_id TEXT NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (session_id, name, number)
    ) STRICT
    """,
    # Sessions of which pages came before they were opened, by when the last one did: of those that are still not
    # there a day later the pages are forgotten.
    "CREATE TABLE unopened (session_id TEXT PRIMARY KEY, put_at INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE INDEX unopened_by_time ON unopened (put_at)",
)

_FOURTH = (
    # What stood here before is on offer with the next commit that changes the tickets of its session.
    "ALTER TABLE tickets ADD COLUMN session_id TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE tickets ADD COLUMN priority INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE tickets ADD COLUMN due_at INTEGER",
    "ALTER TABLE tickets ADD COLUMN holder TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE tickets ADD COLUMN until INTEGER",
    "ALTER TABLE tickets ADD COLUMN level INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE tickets ADD COLUMN lapses INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE tickets ADD COLUMN excluded BLOB NOT NULL DEFAULT X'5B5D'",
    "ALTER TABLE tickets ADD COLUMN lane TEXT NOT NULL DEFAULT ''",
    """ALTER TABLE tickets ADD COLUMN "order" TEXT NOT NULL DEFAULT ''""",
    "UPDATE tickets SET session_id = (SELECT s.session_id FROM sessions s WHERE s.n = tickets.n)",
    """
    CREATE INDEX tickets_on_offer ON tickets (lane, "order", session_id, ticket_no) WHERE lane <> ''
    """,
    "CREATE INDEX tickets_by_holder ON tickets (holder, opened_at) WHERE holder <> ''",
    """
    CREATE TABLE drafts (
        n INTEGER NOT NULL,
        ticket_no INTEGER NOT NULL,
        "by" TEXT NOT NULL,
        version INTEGER NOT NULL,
        at INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (n, ticket_no, "by")
    ) STRICT
    """,
    """
    CREATE TABLE records (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (kind, name)
    ) STRICT
    """,
)

#: Migration i leads from version i to i + 1. A released one is never changed; a new one is added.
MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND, _THIRD, _FOURTH)
VERSION = len(MIGRATIONS)

_IDENTITY = """
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
       (SELECT count(*) FROM sqlite_schema)
"""


def identify(db: sqlite3.Connection, what: str) -> int:
    """Return the version of the store in `db` (0: an empty file); writes nothing.

    Raises ContractError for a database of another application, and for one of a newer version.
    """
    # In one statement, so that another process which makes the store meanwhile is seen whole or not at all.
    application, version, tables = db.execute(_IDENTITY).fetchone()
    if application == APPLICATION_ID:
        if version > VERSION:
            raise ContractError(
                what,
                f"its format is {version}, and this version of Passdown reads up to {VERSION};"
                " upgrade Passdown, or name another file",
            )
        return version
    if application or version or tables:
        raise ContractError(what, "it is a database of another application; name another file")
    return 0


def migrate(db: sqlite3.Connection, what: str) -> None:
    """Bring `db` to the newest version, one transaction for each step, and mark it as ours."""
    while identify(db, what) < VERSION:
        db.execute("BEGIN IMMEDIATE")
        try:
            # Somebody else may have done this step while we waited for the lock.
            version = identify(db, what)
            if version < VERSION:
                for statement in MIGRATIONS[version]:
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
