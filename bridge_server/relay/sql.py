"""The relay's statements: SQL that SQLite 3.40 and PostgreSQL 14 both understand, parameters as `?`."""

INSERT_SESSION = "INSERT INTO sessions (session_id, expires_at_ms) VALUES (?, ?)"

UPDATE_SESSION = """
UPDATE sessions SET payload = ?, expires_at_ms = ?
WHERE session_id = ? AND expires_at_ms > ?
"""

UPDATE_SESSION_AND_PUSH = """
UPDATE sessions SET payload = ?, expires_at_ms = ?, push_type = ?, push_token = ?, push_webhook = ?
WHERE session_id = ? AND expires_at_ms > ?
"""

# An ended session has expired, and its rows are swept as for any expired session.
END_SESSION = """
UPDATE sessions
SET expires_at_ms = 0, payload = NULL, push_type = NULL, push_token = NULL, push_webhook = NULL
WHERE session_id = ? AND expires_at_ms > ?
RETURNING id
"""
LISTED_CALL_IDS = "SELECT call_id FROM calls WHERE session = ? AND listed = 1"
SESSION_PAYLOAD = "SELECT payload, expires_at_ms FROM sessions WHERE session_id = ? AND expires_at_ms > ?"

SESSION_FOR_CALL = """
SELECT id, expires_at_ms,
       (SELECT count(*) FROM calls WHERE session = sessions.id AND listed = 1 AND calls.expires_at_ms > ?),
       EXISTS (SELECT 1 FROM topic_webhooks WHERE topic = session_id AND topic_webhooks.expires_at_ms > ?),
       push_type, push_token, push_webhook
FROM sessions WHERE session_id = ? AND expires_at_ms > ?
"""
PENDING = """
SELECT count(*), min(expires_at_ms) FROM calls WHERE session = ? AND listed = 1 AND expires_at_ms > ?
    AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id)
"""
UNLIST_ANSWERED = """
UPDATE calls SET listed = 0 WHERE session = ? AND listed = 1
    AND EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id)
"""
INSERT_CALL = "INSERT INTO calls (call_id, session, expires_at_ms, listed, payload) VALUES (?, ?, ?, 1, ?)"
PROLONG_SESSION = "UPDATE sessions SET expires_at_ms = ? WHERE id = ?"

PENDING_CALLS = """
SELECT sessions.expires_at_ms, calls.call_id, calls.payload, calls.expires_at_ms
FROM sessions
LEFT JOIN calls ON calls.session = sessions.id AND calls.listed = 1 AND calls.expires_at_ms > ?
    AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id)
WHERE sessions.session_id = ? AND sessions.expires_at_ms > ?
ORDER BY calls.id
"""

CALL = """
SELECT calls.call_id, calls.payload, calls.expires_at_ms
FROM calls JOIN sessions ON sessions.id = calls.session
WHERE calls.call_id = ? AND sessions.session_id = ? AND calls.expires_at_ms > ? AND sessions.expires_at_ms > ?
"""

# A status may be replaced while it can be read, which may be after its call has expired.
CALL_FOR_STATUS = """
SELECT calls.id, sessions.session_id
FROM calls JOIN sessions ON sessions.id = calls.session
WHERE calls.call_id = ? AND sessions.expires_at_ms > ? AND (calls.expires_at_ms > ? OR EXISTS
    (SELECT 1 FROM call_statuses WHERE call = calls.id AND call_statuses.expires_at_ms > ?))
"""
UPSERT_STATUS = """
INSERT INTO call_statuses (call, expires_at_ms, payload) VALUES (?, ?, ?)
ON CONFLICT (call) DO UPDATE SET expires_at_ms = excluded.expires_at_ms, payload = excluded.payload
"""

# A status outlives its call; without one, only a call that lives is known.
STATUS = """
SELECT call_statuses.payload, coalesce(call_statuses.expires_at_ms, calls.expires_at_ms),
       sessions.session_id, sessions.expires_at_ms
FROM calls
JOIN sessions ON sessions.id = calls.session AND sessions.expires_at_ms > ?
LEFT JOIN call_statuses ON call_statuses.call = calls.id AND call_statuses.expires_at_ms > ?
WHERE calls.call_id = ? AND (calls.expires_at_ms > ? OR call_statuses.expires_at_ms > ?)
"""

REMOVE_PUSH_TO = """
UPDATE sessions SET push_type = NULL, push_token = NULL, push_webhook = NULL
WHERE session_id = ? AND push_webhook = ?
"""

# Rows are looked at in the order of their numbers. Living rows are passed over, and the deletion checks the
# expiry again.
EXPIRED_CALLS = "SELECT id FROM calls WHERE id > ? AND id <= ? AND expires_at_ms <= ? ORDER BY id LIMIT ?"
NEXT_CALL = "SELECT min(id) FROM calls WHERE id > ?"
SWEEP_CALL = """
DELETE FROM calls WHERE id = ? AND expires_at_ms <= ?
    AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id AND call_statuses.expires_at_ms > ?)
"""
EXPIRED_SESSIONS = (
    "SELECT id FROM sessions WHERE id > ? AND id <= ? AND expires_at_ms <= ? ORDER BY id LIMIT ?"
)
NEXT_SESSION = "SELECT min(id) FROM sessions WHERE id > ?"
# The highest number is given again once its row is gone: no call may be left then that refers to it.
SWEEP_SESSION = """
DELETE FROM sessions WHERE id = ? AND expires_at_ms <= ?
    AND (id < (SELECT max(id) FROM sessions) OR (SELECT max(id) FROM calls) IS NULL)
"""
