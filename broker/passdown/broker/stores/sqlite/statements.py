"""Every statement of the store, named and described.

``n`` is a session's number. Times are the store's milliseconds. A statement's parameters come in the order
of its question marks, or by name where one is used twice.
"""

# -- commits -----------------------------------------------------------------------------------------------

#: All that deciding on a commit needs, in one look. → n, version, status, task_id, task_name, plan, opened_at,
#: queued_role, queued_score, dues, command's digest, its reply, lease's role, its standing, is reserved, has tickets,
#: whether the state names the event that the commit follows on
LOOK_UP = """
SELECT s.n, s.version, s.status, s.task_id, s.task_name, s.plan, s.opened_at, s.queued_role, s.queued_score,
       s.dues, c.digest, c.reply, l.role, l.standing, r.n IS NOT NULL,
       EXISTS (SELECT 1 FROM tickets t WHERE t.n = s.n), instr(s.state, :prev) > 0
FROM sessions s
LEFT JOIN log c ON c.n = s.n AND c.command_id = :command_id
LEFT JOIN leases l ON l.n = s.n
LEFT JOIN reservations r ON r.n = s.n
WHERE s.session_id = :session_id
"""

#: The number of the session that was opened last.
LAST_NUMBER = "SELECT coalesce(max(n), 0) FROM sessions"

OPEN_SESSION = """
INSERT INTO sessions (session_id, task_id, task_name, key, plan, opened_at, parent,
                      stage, version, updated_at, queued_role, queued_score, dues, state, status, n)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

#: Most commits: no indexed column is named, so no index is written.
KEEP_STATUS = """
UPDATE sessions SET stage = ?, version = ?, updated_at = ?, queued_role = ?, queued_score = ?, dues = ?,
                    state = ?
WHERE n = ?
"""

MOVE_STATUS = """
UPDATE sessions SET stage = ?, version = ?, updated_at = ?, queued_role = ?, queued_score = ?, dues = ?,
                    state = ?, status = ?
WHERE n = ?
"""

#: A session that is found by something else from here on (another task, another plan).
REFILE = "UPDATE sessions SET task_id = ?, task_name = ?, plan = ?, opened_at = ? WHERE n = ?"

#: Kept for ever; the queue refers to the pack in it.
LOG = """
INSERT INTO log (n, version, command_id, digest, reply, events, step, attempt, pack_digest, pack)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

#: How many packs a role's queue holds, reserved and postponed ones too.
WAITING = "SELECT count(*) FROM queue WHERE role = ?"

UNQUEUE = "DELETE FROM queue WHERE role = ? AND score = ? AND n = ?"

ENQUEUE = """
INSERT INTO queue (role, score, n, step, attempt, command_id, task_id, solo, queued_at, free_at, wait_ms, why)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')
"""

FREE = "DELETE FROM reservations WHERE n = ?"

BEGIN_LEASE = """
INSERT OR REPLACE INTO leases (n, claim_id, role, task_id, standing, runs_out, length_ms, reserved_until)
VALUES (?, ?, ?, ?, 'held', ?, ?, 0)
"""

END_LEASE = "DELETE FROM leases WHERE n = ?"

TURN_LEASE = "UPDATE leases SET standing = ? WHERE n = ?"

PUT_DUE = (
    "INSERT INTO dues (due_at, n, kind, subject, at, length_ms, reserved_until) VALUES (?, ?, ?, ?, ?, ?, 0)"
)

DROP_DUE = "DELETE FROM dues WHERE due_at = ? AND n = ? AND kind = ? AND subject = ?"

#: Where something is to be told already, or somebody is telling it, it goes further from here on.
TELL = "INSERT INTO telling (n, due_at, upto) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET upto = excluded.upto"

# -- doorbells ---------------------------------------------------------------------------------------------

BELL = "SELECT rung_until, backoff_ms FROM bells WHERE role = ?"

PUT_BELL = "INSERT OR REPLACE INTO bells (role, rung_until, backoff_ms) VALUES (?, ?, ?)"

#: Does the role have a pack that may be taken now, limits aside?
READY = """
SELECT EXISTS (
    SELECT 1 FROM queue q LEFT JOIN reservations r ON r.n = q.n AND r.until > :now
    WHERE q.role = :role AND q.free_at <= :now AND r.n IS NULL
)
"""

#: When does the role's next pack become takeable, where none is now?
READY_AT = """
SELECT min(max(q.free_at, coalesce(r.until, 0))) FROM queue q LEFT JOIN reservations r ON r.n = q.n
WHERE q.role = ?
"""

#: The roles that have packs, by hopping from one to the next: a long queue costs no more than a short one.
QUEUED_ROLES = """
WITH RECURSIVE found (role) AS (
    SELECT min(role) FROM queue
    UNION ALL
    SELECT (SELECT min(q.role) FROM queue q WHERE q.role > found.role) FROM found WHERE found.role IS NOT NULL
)
SELECT role FROM found WHERE role IS NOT NULL
"""

# -- taking ------------------------------------------------------------------------------------------------

#: What may be taken of a role, by score: read as far as needed. → n, step, attempt, command_id, task_id, solo
TAKEABLE = """
SELECT q.n, q.step, q.attempt, q.command_id, q.task_id, q.solo
FROM queue q LEFT JOIN reservations r ON r.n = q.n AND r.until > :now
WHERE q.role = :role AND q.free_at <= :now AND r.n IS NULL
ORDER BY q.score, q.n
"""

#: → session_id, state, version, pack
PACK_AND_STATE = """
SELECT s.session_id, s.state, s.version, c.pack FROM sessions s JOIN log c ON c.n = s.n AND c.command_id = ?
WHERE s.n = ?
"""

RESERVE = "INSERT OR REPLACE INTO reservations (n, role, task_id, until, length_ms) VALUES (?, ?, ?, ?, ?)"

#: How many packs of a role run: claims that stand, and reservations that have not run out.
RUNNING_IN_ROLE = """
SELECT (SELECT count(*) FROM leases WHERE role = :role AND standing <> 'told')
     + (SELECT count(*) FROM reservations WHERE role = :role AND until > :now)
"""

#: The same by task, over all roles.
RUNNING_BY_TASK = """
SELECT task_id, count(*) FROM (
    SELECT task_id FROM leases WHERE standing <> 'told'
    UNION ALL
    SELECT task_id FROM reservations WHERE until > ?
) GROUP BY task_id
"""

CATALOG_VERSION = "SELECT value FROM meta WHERE name = 'catalog'"

#: Where this attempt's pack stands in the queue. → n, role, score
QUEUED = """
SELECT q.n, q.role, q.score FROM sessions s
JOIN queue q ON q.role = s.queued_role AND q.score = s.queued_score AND q.n = s.n
WHERE s.session_id = ? AND q.step = ? AND q.attempt = ?
"""

POSTPONE = "UPDATE queue SET free_at = ?1, wait_ms = ?2, why = ?3 WHERE n = ?4 AND role = ?5 AND score = ?6"

# -- leases and dues ---------------------------------------------------------------------------------------

#: → n, claim_id, standing, runs_out
LEASE_OF = """
SELECT l.n, l.claim_id, l.standing, l.runs_out FROM sessions s JOIN leases l ON l.n = s.n WHERE s.session_id = ?
"""

RENEW = "UPDATE leases SET runs_out = ?, length_ms = ?, reserved_until = 0 WHERE n = ?"

#: Claims that were over, and whose workers have had their time to hear of it.
FORGET_TOLD = "DELETE FROM leases WHERE standing = 'told' AND runs_out <= ?"

ANY_TOLD = "SELECT EXISTS (SELECT 1 FROM leases WHERE standing = 'told' AND runs_out <= ?)"

#: → n, session_id, kind, subject, at, due_at
DUE_NOW = """
SELECT d.n, s.session_id, d.kind, d.subject, d.at, d.due_at FROM dues d JOIN sessions s ON s.n = d.n
WHERE d.due_at <= :now AND d.reserved_until <= :now ORDER BY d.due_at LIMIT :limit
"""

#: The same of leases; ``at`` is 0, since a lease moves.
RAN_OUT = """
SELECT l.n, s.session_id, 'lease', l.claim_id, 0, l.runs_out FROM leases l JOIN sessions s ON s.n = l.n
WHERE l.runs_out <= :now AND l.reserved_until <= :now AND l.standing <> 'told' ORDER BY l.runs_out LIMIT :limit
"""

RESERVE_DUE = "UPDATE dues SET reserved_until = ? WHERE due_at = ? AND n = ? AND kind = ? AND subject = ?"

RESERVE_LEASE = "UPDATE leases SET reserved_until = ? WHERE n = ?"

#: When the next due entry, join or lease comes up that is not due yet.
NEXT_DUE = """
SELECT min(at) FROM (
    SELECT min(due_at) AS at FROM dues WHERE due_at > :now
    UNION ALL
    SELECT min(check_at) FROM joins WHERE check_at > :now
    UNION ALL
    SELECT min(runs_out) FROM leases WHERE runs_out > :now AND standing <> 'told'
)
"""

# -- telling -----------------------------------------------------------------------------------------------

#: → n, session_id, told, upto
TO_TELL = """
SELECT t.n, s.session_id, s.told, t.upto FROM telling t JOIN sessions s ON s.n = t.n
WHERE t.due_at <= ? ORDER BY t.due_at, t.n LIMIT ?
"""

RESERVE_TELLING = "UPDATE telling SET due_at = ? WHERE n = ?"

#: A store that was put back to an older copy may be told of events that it does not hold: others take their places.
TOLD = """
UPDATE sessions SET told = min(:seq, version) WHERE session_id = :session AND told < min(:seq, version)
"""

#: All of it was told.
DROP_TELLING = """
DELETE FROM telling WHERE n = (SELECT n FROM sessions WHERE session_id = :session AND told >= upto)
"""

TELL_ON = """
UPDATE telling SET due_at = :now
WHERE due_at > :now AND n = (SELECT n FROM sessions WHERE session_id = :session)
"""

# -- the clock ---------------------------------------------------------------------------------------------

#: → asked_at (None: no tick has asked yet), postponed
MARKS = """
SELECT (SELECT value FROM meta WHERE name = 'asked_at'), (SELECT value FROM meta WHERE name = 'postponed')
"""

#: What a store tells of itself → journal, synchronous, format, bytes, when any tick asked last (None: never), since
#: when the oldest entry that no tick has dealt with is due (None: nothing waits), how many sessions are to be told of.
FACTS = """
SELECT
    (SELECT journal_mode FROM pragma_journal_mode),
    (SELECT synchronous FROM pragma_synchronous),
    (SELECT user_version FROM pragma_user_version),
    (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size),
    (SELECT value FROM meta WHERE name = 'asked_at'),
    (SELECT min(at) FROM (
        SELECT min(due_at) AS at FROM dues
        UNION ALL
        SELECT min(check_at) FROM joins WHERE check_at IS NOT NULL
        UNION ALL
        SELECT min(runs_out) FROM leases WHERE standing <> 'told'
    )),
    (SELECT count(*) FROM telling)
"""

PUT_MARK = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)"

#: → which start of which machine was noted (None: none yet), what the wall showed then
HOST_CLOCK = """
SELECT (SELECT value FROM meta WHERE name = 'boot'), (SELECT value FROM meta WHERE name = 'clock')
"""

#: After a jump forward: leases that were set before it, told by when they were set.
POSTPONE_LEASES = "UPDATE leases SET runs_out = runs_out + :jump WHERE runs_out - length_ms <= :now - :jump"

#: After a step backward nothing lasts longer from now than it was given.
STEPPED_BACK = (
    "UPDATE leases SET runs_out = :now + length_ms WHERE runs_out > :now + length_ms",
    "UPDATE leases SET reserved_until = 0 WHERE reserved_until > :now",
    "UPDATE dues SET reserved_until = 0 WHERE reserved_until > :now",
    "UPDATE reservations SET until = :now + length_ms WHERE until > :now + length_ms",
    "UPDATE queue SET free_at = :now + wait_ms WHERE free_at > :now + wait_ms",
    "UPDATE bells SET rung_until = 0 WHERE rung_until > :now",
    "UPDATE telling SET due_at = :now WHERE due_at > :now",
    "UPDATE joins SET check_at = :now WHERE check_at > :now",
    "UPDATE joins SET reserved_until = 0 WHERE check_at IS NOT NULL AND reserved_until > :now",
    "UPDATE removed SET until = :now + length_ms WHERE until > :now + length_ms",
    "UPDATE unopened SET put_at = :now WHERE put_at > :now",
    # What was queued before the step stays before what is queued after it.
    """
    UPDATE sessions SET queued_score = queued_score - :back WHERE n IN (SELECT n FROM queue WHERE queued_at > :now)
    """,
    "UPDATE queue SET score = score - :back, queued_at = queued_at - :back WHERE queued_at > :now",
)

#: Due entries that now seem further away than they were given. → due_at, n, kind, subject, at, length_ms
DUES_TOO_FAR = (
    "SELECT due_at, n, kind, subject, at, length_ms FROM dues WHERE due_at > ?1 AND due_at > ?1 + length_ms"
)

DUES_OF = "SELECT dues FROM sessions WHERE n = ?"

PUT_DUES_OF = "UPDATE sessions SET dues = ? WHERE n = ?"

# -- what is put -------------------------------------------------------------------------------------------

ADD_DOCUMENT = "INSERT OR IGNORE INTO documents (digest, body) VALUES (?, ?)"

#: Changes one row where the name now stands for something else, none where it does not.
MAKE_CURRENT = """
INSERT INTO current (kind, name, digest) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET digest = excluded.digest WHERE digest <> excluded.digest
"""

RAISE_CATALOG = "UPDATE meta SET value = value + 1 WHERE name = 'catalog'"

ADD_QUARANTINE = """
INSERT INTO quarantine (id, at, source, reason, body) SELECT value, ?, ?, ?, ? FROM meta WHERE name = 'quarantined'
"""

NEXT_QUARANTINE = "UPDATE meta SET value = value + 1 WHERE name = 'quarantined'"

#: The oldest go first.
BOUND_QUARANTINE = """
DELETE FROM quarantine WHERE id <= (SELECT value FROM meta WHERE name = 'quarantined') - ?
"""

DROP_QUARANTINE = "DELETE FROM quarantine WHERE id = ?"

COUNT = """
INSERT INTO counts (session_id, name, count) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1
"""

PUT_PAGE = "INSERT OR REPLACE INTO pages (session_id, name, number, body) VALUES (?, ?, ?, ?)"

# -- what is read ------------------------------------------------------------------------------------------

#: One row always. → catalog, state, version, command digest, reply
LOAD = """
SELECT m.value, s.state, s.version, c.digest, c.reply FROM meta m
LEFT JOIN sessions s ON s.session_id = ?
LEFT JOIN log c ON c.n = s.n AND c.command_id = ?
WHERE m.name = 'catalog'
"""

#: One row for each commit, its last event being `version`. → version, events
EVENTS = """
SELECT c.version, c.events FROM sessions s JOIN log c ON c.n = s.n
WHERE s.session_id = ? AND c.version > ? AND c.events <> x'' ORDER BY c.version LIMIT ?
"""

#: The columns of a SessionRow, in its order, but the last: whoever is found by these has no parent.
SESSION_ROW = """
SELECT s.session_id, s.task_id, s.task_name, s.key, s.plan, s.stage, s.status, s.version, s.opened_at, s.updated_at
FROM sessions s
"""

#: Where the last session of the page before stands in the order.
SESSION_PLACE = "SELECT opened_at, n FROM sessions WHERE session_id = ?"

#: → role, ready, reserved, when the oldest was queued
QUEUES = """
SELECT q.role, sum(r.n IS NULL AND q.free_at <= :now), count(r.n), min(q.queued_at)
FROM queue q LEFT JOIN reservations r ON r.n = q.n AND r.until > :now GROUP BY q.role
"""

RUNNING = "SELECT role, count(*) FROM leases WHERE standing <> 'told' GROUP BY role"

CURRENT = "SELECT kind, name, digest FROM current"

DOCUMENT = "SELECT body FROM documents WHERE digest = ?"

PAGE = "SELECT body FROM pages WHERE session_id = ? AND name = ? AND number = ?"

PACK = """
SELECT c.pack FROM sessions s JOIN log c ON c.n = s.n
WHERE s.session_id = ? AND c.step = ? AND c.attempt = ? ORDER BY c.id DESC LIMIT 1
"""

#: → runs_out of the lease of the claim that stands (None: none), why the pack was handed back (None: it was not)
BESIDE = """
SELECT l.runs_out, q.why FROM sessions s
LEFT JOIN leases l ON l.n = s.n AND l.standing <> 'told'
LEFT JOIN queue q ON q.role = s.queued_role AND q.score = s.queued_score AND q.n = s.n
WHERE s.session_id = ?
"""

COUNTS = "SELECT name, count FROM counts WHERE session_id = ?"

#: With a number only that one.
QUARANTINED = """
SELECT id, at, source, reason, body FROM quarantine WHERE ?1 IS NULL OR id = ?1 ORDER BY id DESC LIMIT ?2
"""
