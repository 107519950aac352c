"""The statements of an operator's work on stored messages.

A list looks at a bounded number of rows, whatever it is filtered by.
"""

# ruff: noqa: S608  only constants of this module are put in

_LISTED = """
id, message_id, destination, queue, purpose, subject, device_id, client, attempts, created_at_ms,
next_attempt_at_ms, died_at_ms, last_error
"""
_STATE = """
CASE WHEN died_at_ms IS NOT NULL THEN 'dead' WHEN next_attempt_at_ms <= ?1 THEN 'due' ELSE 'waiting' END
"""
_KIND = "CASE WHEN purpose IN (SELECT value FROM json_each(?5)) THEN 'push' ELSE 'webhook' END"
_WANTED = """
WHERE state = coalesce(?2, state) AND purpose = coalesce(?3, purpose)
    AND destination = coalesce(?4, destination) AND kind = coalesce(?6, kind)
"""

PAGE = f"""
SELECT {_LISTED} FROM (
    SELECT {_LISTED}, {_STATE} AS state, {_KIND} AS kind FROM outbox
    WHERE id < ?7 ORDER BY id DESC LIMIT ?8
) AS seen {_WANTED} ORDER BY id DESC LIMIT ?9
"""
PAGE_REST = "SELECT id, 0 FROM outbox WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?"
DEAD_PAGE = f"""
SELECT {_LISTED} FROM (
    SELECT {_LISTED}, {_STATE} AS state, {_KIND} AS kind FROM outbox
    WHERE died_at_ms IS NOT NULL AND (died_at_ms, id) < (?7, ?8) ORDER BY died_at_ms DESC, id DESC LIMIT ?9
) AS seen {_WANTED} ORDER BY died_at_ms DESC, id DESC LIMIT ?10
"""
DEAD_PAGE_REST = """
SELECT id, died_at_ms FROM outbox WHERE died_at_ms IS NOT NULL AND (died_at_ms, id) < (?, ?)
ORDER BY died_at_ms DESC, id DESC LIMIT 1 OFFSET ?
"""

GET = f"SELECT {_LISTED} FROM outbox WHERE id = ? AND message_id = ?"
CONTENT = "SELECT url, body, signing_secret FROM outbox WHERE id = ? AND message_id = ?"

# A dead letter begins anew, as after its first attempt: it waits for its place among the retries.
RETRY = """
UPDATE outbox SET
    attempts = CASE WHEN died_at_ms IS NULL THEN attempts ELSE 1 END,
    next_attempt_at_ms = ?, died_at_ms = NULL
WHERE id = ? AND message_id = ?
"""
DROP = "DELETE FROM outbox WHERE id = ? AND message_id = ?"

DEAD_SLICE = """
SELECT id, died_at_ms, destination, queue, client FROM outbox
WHERE died_at_ms IS NOT NULL AND (died_at_ms, id) > (?, ?) AND died_at_ms <= ?
ORDER BY died_at_ms, id LIMIT ?
"""
RETRY_DEAD = """
UPDATE outbox SET attempts = 1, next_attempt_at_ms = ?, died_at_ms = NULL
WHERE id IN (SELECT value FROM json_each(?)) AND died_at_ms IS NOT NULL
"""
DROP_DEAD = "DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?)) AND died_at_ms IS NOT NULL"
