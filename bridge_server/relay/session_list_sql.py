"""An operator's reads of sessions and calls. Each statement reads a bounded number of rows by an index."""

PAGE = """
SELECT id, session_id, expires_at_ms, approved, push_type, push_webhook,
       (SELECT count(*) FROM calls WHERE session = slice.id AND listed = 1 AND calls.expires_at_ms > ?1
            AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id))
FROM (SELECT id, session_id, expires_at_ms, payload IS NOT NULL AS approved, push_type, push_webhook
      FROM sessions WHERE id < ?2 ORDER BY id DESC LIMIT ?4) AS slice
WHERE expires_at_ms > ?1 ORDER BY id DESC LIMIT ?3
"""
# The last row of a slice, if others may follow.
SLICE_END = "SELECT id FROM sessions WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?"
ONE = """
SELECT id, session_id, expires_at_ms, payload IS NOT NULL, push_type, push_webhook,
       (SELECT count(*) FROM calls WHERE session = sessions.id AND listed = 1 AND calls.expires_at_ms > ?1
            AND NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id))
FROM sessions WHERE session_id = ?2 AND expires_at_ms > ?1
"""

# Calls that were answered long ago are not listed any more, and no index leads to them.
CALLS = """
SELECT calls.call_id, calls.expires_at_ms, call_statuses.expires_at_ms
FROM calls LEFT JOIN call_statuses ON call_statuses.call = calls.id
WHERE calls.session = ? AND calls.listed = 1 ORDER BY calls.id DESC LIMIT ?
"""
CALL = """
SELECT calls.call_id, calls.expires_at_ms, call_statuses.expires_at_ms, sessions.session_id,
       sessions.push_webhook
FROM calls JOIN sessions ON sessions.id = calls.session AND sessions.expires_at_ms > ?1
LEFT JOIN call_statuses ON call_statuses.call = calls.id
WHERE calls.call_id = ?2 AND (calls.expires_at_ms > ?1 OR call_statuses.expires_at_ms > ?1)
"""
COUNT_SLICE = """
SELECT count(*), max(id), count(CASE WHEN expires_at_ms > ?2 THEN 1 END)
FROM (SELECT id, expires_at_ms FROM sessions WHERE id > ?1 ORDER BY id LIMIT ?3) AS slice
"""
