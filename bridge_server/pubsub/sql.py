"""The statements for messages on topics: SQL that SQLite 3.40 and PostgreSQL 14 both understand, but for
the reading of a JSON array.
"""

NEWEST = "SELECT coalesce(max(number), 0) FROM topic_messages"
WAITING = """
SELECT number, topic, text, sender, address, expires_at_ms
FROM topic_messages WHERE topic = ? AND expires_at_ms > ? ORDER BY number
"""
SHARE_OF_TOPIC = """
SELECT count(*), coalesce(sum(size_bytes), 0) FROM topic_messages WHERE topic = ? AND expires_at_ms > ?
"""
SHARE_OF_ADDRESS = """
SELECT count(*), coalesce(sum(size_bytes), 0) FROM topic_messages WHERE address = ? AND expires_at_ms > ?
"""
INSERT = """
INSERT INTO topic_messages (number, topic, text, size_bytes, sender, address, expires_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
DELETE = "DELETE FROM topic_messages WHERE number IN (SELECT value FROM json_each(?))"

# Of several processes on one database.
AFTER = """
SELECT number, topic, text, sender, address, expires_at_ms FROM topic_messages
WHERE topic = ? AND number > ? AND (expires_at_ms > ? OR expires_at_ms < 0) ORDER BY number LIMIT ?
"""
SETTLE = """
UPDATE topic_messages SET expires_at_ms = ?
WHERE number IN (SELECT value FROM json_each(?)) AND expires_at_ms > 0
"""

SWEEP = """
DELETE FROM topic_messages WHERE number IN
    (SELECT number FROM topic_messages WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""
