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

LIVE_SESSION = "SELECT id FROM sessions WHERE session_id = ? AND expires_at_ms > ?"
# An ended session is one that has expired; what is left of it is swept like all that has.
END_SESSION = """
UPDATE sessions
SET expires_at_ms = 0, payload = NULL, push_type = NULL, push_token = NULL, push_webhook = NULL
WHERE id = ?
"""
DELETE_PENDING_OF_SESSION = "DELETE FROM pending_calls WHERE session = ?"
CALL_IDS_OF_SESSION = "SELECT call_id FROM calls WHERE session = ?"
DELETE_TOPIC = "DELETE FROM topic_webhooks WHERE topic = ?"
SESSION_PAYLOAD = "SELECT payload, expires_at_ms FROM sessions WHERE session_id = ? AND expires_at_ms > ?"

SESSION_FOR_CALL = """
SELECT id,
       (SELECT count(*) FROM pending_calls WHERE session = sessions.id AND pending_calls.expires_at_ms > ?),
       EXISTS (SELECT 1 FROM topic_webhooks WHERE topic = session_id AND topic_webhooks.expires_at_ms > ?),
       push_type, push_token, push_webhook
FROM sessions WHERE session_id = ? AND expires_at_ms > ?
"""
FIRST_PENDING_EXPIRY = "SELECT min(expires_at_ms) FROM pending_calls WHERE session = ? AND expires_at_ms > ?"
INSERT_CALL = "INSERT INTO calls (call_id, session, payload, expires_at_ms) VALUES (?, ?, ?, ?)"
INSERT_PENDING = """
INSERT INTO pending_calls (session, call, expires_at_ms)
SELECT session, id, expires_at_ms FROM calls WHERE call_id = ?
"""
PROLONG_SESSION = "UPDATE sessions SET expires_at_ms = ? WHERE id = ?"
WEBHOOKS_OF_TOPIC = "SELECT webhook FROM topic_webhooks WHERE topic = ? AND expires_at_ms > ?"

PENDING_CALLS = """
SELECT sessions.expires_at_ms, calls.call_id, calls.payload, calls.expires_at_ms
FROM sessions
LEFT JOIN pending_calls ON pending_calls.session = sessions.id AND pending_calls.expires_at_ms > ?
LEFT JOIN calls ON calls.id = pending_calls.call
WHERE sessions.session_id = ? AND sessions.expires_at_ms > ?
ORDER BY pending_calls.call
"""

CALL = """
SELECT calls.call_id, calls.payload, calls.expires_at_ms
FROM calls JOIN sessions ON sessions.id = calls.session
WHERE calls.call_id = ? AND sessions.session_id = ? AND calls.expires_at_ms > ? AND sessions.expires_at_ms > ?
"""

CALL_FOR_STATUS = """
SELECT calls.id, calls.session, sessions.session_id
FROM calls JOIN sessions ON sessions.id = calls.session
WHERE calls.call_id = ? AND calls.expires_at_ms > ? AND sessions.expires_at_ms > ?
"""
UPSERT_STATUS = """
INSERT INTO call_statuses (call, payload, expires_at_ms) VALUES (?, ?, ?)
ON CONFLICT (call) DO UPDATE SET payload = excluded.payload, expires_at_ms = excluded.expires_at_ms
"""
DELETE_PENDING = "DELETE FROM pending_calls WHERE session = ? AND call = ?"

# A status outlives its call; without one, only a call that lives is known.
STATUS = """
SELECT call_statuses.payload, coalesce(call_statuses.expires_at_ms, calls.expires_at_ms)
FROM calls
JOIN sessions ON sessions.id = calls.session AND sessions.expires_at_ms > ?
LEFT JOIN call_statuses ON call_statuses.call = calls.id AND call_statuses.expires_at_ms > ?
WHERE calls.call_id = ? AND (calls.expires_at_ms > ? OR call_statuses.expires_at_ms > ?)
"""

COUNT_OTHER_WEBHOOKS = """
SELECT count(*) FROM topic_webhooks WHERE topic = ? AND webhook <> ? AND expires_at_ms > ?
"""
UPSERT_WEBHOOK = """
INSERT INTO topic_webhooks (topic, webhook, expires_at_ms) VALUES (?, ?, ?)
ON CONFLICT (topic, webhook) DO UPDATE SET expires_at_ms = excluded.expires_at_ms
"""
DELETE_WEBHOOK = "DELETE FROM topic_webhooks WHERE topic = ? AND webhook = ?"
REMOVE_PUSH_TO = """
UPDATE sessions SET push_type = NULL, push_token = NULL, push_webhook = NULL
WHERE session_id = ? AND push_webhook = ?
"""

# The same slice twice: what is pending first, because calls do not take it along.
SWEEP_PENDING = """
DELETE FROM pending_calls WHERE (session, call) IN
    (SELECT session, id FROM calls WHERE expires_at_ms <= ? ORDER BY expires_at_ms, id LIMIT ?)
"""
SWEEP_CALLS = """
DELETE FROM calls WHERE id IN
    (SELECT id FROM calls WHERE expires_at_ms <= ? ORDER BY expires_at_ms, id LIMIT ?)
"""
SWEEP_CALLS_OF_ENDED = """
DELETE FROM calls WHERE id IN
    (SELECT calls.id FROM sessions JOIN calls ON calls.session = sessions.id
     WHERE sessions.expires_at_ms <= ? LIMIT ?)
"""
SWEEP_SESSIONS = """
DELETE FROM sessions WHERE id IN
    (SELECT id FROM sessions WHERE expires_at_ms <= ?
     AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.session = sessions.id) LIMIT ?)
"""
SWEEP_WEBHOOKS = """
DELETE FROM topic_webhooks WHERE (topic, webhook) IN
    (SELECT topic, webhook FROM topic_webhooks WHERE expires_at_ms <= ? LIMIT ?)
"""
