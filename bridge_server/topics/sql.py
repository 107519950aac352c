"""The statements about webhooks of topics: SQL that SQLite 3.40 and PostgreSQL 14 both understand."""

WEBHOOKS = "SELECT webhook FROM topic_webhooks WHERE topic = ? AND expires_at_ms > ?"
COUNT_OTHERS = "SELECT count(*) FROM topic_webhooks WHERE topic = ? AND webhook <> ? AND expires_at_ms > ?"
UPSERT = """
INSERT INTO topic_webhooks (topic, webhook, expires_at_ms) VALUES (?, ?, ?)
ON CONFLICT (topic, webhook) DO UPDATE SET expires_at_ms = excluded.expires_at_ms
"""
DELETE = "DELETE FROM topic_webhooks WHERE topic = ? AND webhook = ?"
DELETE_ALL = "DELETE FROM topic_webhooks WHERE topic = ?"
SWEEP = """
DELETE FROM topic_webhooks WHERE (topic, webhook) IN
    (SELECT topic, webhook FROM topic_webhooks WHERE expires_at_ms <= ? LIMIT ?)
"""
