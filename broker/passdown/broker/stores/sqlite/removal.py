"""The statements of removal: what may go, what is kept of it for a while, and how that and unused pages are forgotten."""

from passdown.broker.stores.sqlite.statements import SESSION_ROW

#: A session that ended and of which nothing is open any more; a worker may still be told that its claim is over.
_AT_REST = """
s.status IN ('cancelled', 'done', 'expired', 'failed', 'refused')
AND s.queued_role IS NULL AND s.dues = CAST('[]' AS BLOB)
AND NOT EXISTS (SELECT 1 FROM telling o WHERE o.n = s.n)
AND NOT EXISTS (SELECT 1 FROM tickets o WHERE o.n = s.n)
AND NOT EXISTS (SELECT 1 FROM leases o WHERE o.n = s.n AND o.standing <> 'told')
"""

_NUMBER = "SELECT s.n FROM sessions s"

#: Sessions that may be removed, longest ago first. SQLite would rather look by status, and sort.
ENDED_SINCE = f"{SESSION_ROW} INDEXED BY sessions_by_end WHERE {_AT_REST} AND s.parent = '' AND s.updated_at <= ? ORDER BY s.updated_at, s.n LIMIT ?"

REMOVABLE = f"{_NUMBER} WHERE s.session_id = ? AND s.version = ? AND {_AT_REST}"

#: Keep the session's first command, which opened it.
KEEP_OPENING = """
INSERT INTO removed (session_id, status, command_id, digest, reply, until, length_ms)
SELECT ?, ?, command_id, digest, reply, ?, ? FROM log WHERE n = ? ORDER BY id LIMIT 1
"""

#: What lies beside a session, by its id.
REMOVE_BESIDE = (
    "DELETE FROM counts WHERE session_id = ?",
    "DELETE FROM pages WHERE session_id = ?",
    "DELETE FROM join_rows WHERE j IN (SELECT j FROM joins WHERE session_id = ?)",
    "DELETE FROM joins WHERE session_id = ?",
)

#: The rest, by its number.
REMOVE = (
    "DELETE FROM leases WHERE n = ?",
    "DELETE FROM reservations WHERE n = ?",
    "DELETE FROM drafts WHERE n = ?",
    "DELETE FROM log WHERE n = ?",
    "DELETE FROM sessions WHERE n = ?",
)

#: What is left of a session that was removed. → status, command_id, command's digest, its reply
LEFT_OF = "SELECT status, command_id, digest, reply FROM removed WHERE session_id = ?"

FORGET_REMOVED = """
DELETE FROM removed WHERE session_id IN (SELECT session_id FROM removed WHERE until <= ? ORDER BY until LIMIT ?)
"""

#: Of a session that is not there: its pages wait for it from now on.
NOTE_UNOPENED = """
INSERT OR REPLACE INTO unopened (session_id, put_at)
SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE session_id = ?1)
"""

#: Whose last page came before its session, and so long ago. → session_id
UNOPENED = "SELECT session_id FROM unopened WHERE put_at <= ? ORDER BY put_at LIMIT ?"

#: Pages of a session that was never opened, so many at most.
FORGET_PAGES = """
DELETE FROM pages WHERE rowid IN (
    SELECT rowid FROM pages
    WHERE session_id = ?1 AND NOT EXISTS (SELECT 1 FROM sessions WHERE session_id = ?1) LIMIT ?2
)
"""

FORGET_UNOPENED = "DELETE FROM unopened WHERE session_id = ?"
