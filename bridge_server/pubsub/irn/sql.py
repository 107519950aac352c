"""The statements of generation 2.x: SQL that SQLite 3.40 and PostgreSQL 14 both understand, but for the
reading of JSON arrays.
"""

NEWEST = "SELECT coalesce(max(number), 0) FROM irn_messages"
TAKE_ID_BLOCK = """
INSERT INTO irn_id_blocks (only_row, taken) VALUES (1, 1)
ON CONFLICT (only_row) DO UPDATE SET taken = irn_id_blocks.taken + 1 RETURNING taken
"""

CALLS = "SELECT call, expires_at_ms FROM irn_calls WHERE expires_at_ms > ? ORDER BY expires_at_ms"
REMEMBER_CALLS = """
INSERT INTO irn_calls (expires_at_ms, call) SELECT ?, value FROM json_each(?) WHERE true
ON CONFLICT (expires_at_ms, call) DO NOTHING
"""
FORGET_CALLS = """
DELETE FROM irn_calls WHERE (expires_at_ms, call) IN
    (SELECT expires_at_ms, call FROM irn_calls WHERE expires_at_ms > 0 ORDER BY expires_at_ms, call LIMIT ?)
"""

# Of several processes on one database: calls that another one has answered, and the numbers of messages.
REPEATED = """
SELECT call FROM irn_calls WHERE call IN (SELECT value FROM json_each(?)) AND expires_at_ms > ?
"""
NUMBERS = "SELECT value FROM json_each(?)"

SUBSCRIBERS = "SELECT client, expires_at_ms FROM irn_subscriptions WHERE topic = ? AND expires_at_ms > ?"
SUBSCRIPTIONS = "SELECT topic, expires_at_ms FROM irn_subscriptions WHERE client = ? AND expires_at_ms > ?"
SUBSCRIBED = """
SELECT topic FROM irn_subscriptions
WHERE client = ? AND topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ?
"""
COUNT_SUBSCRIPTIONS = "SELECT count(*) FROM irn_subscriptions WHERE client = ? AND expires_at_ms > ?"
SUBSCRIBE = """
INSERT INTO irn_subscriptions (client, topic, expires_at_ms) SELECT ?, value, ? FROM json_each(?) WHERE true
ON CONFLICT (client, topic) DO UPDATE SET expires_at_ms = excluded.expires_at_ms
"""
UNSUBSCRIBE = """
DELETE FROM irn_subscriptions WHERE client = ? AND topic IN (SELECT value FROM json_each(?))
"""
DELIVER_OPEN = """
INSERT INTO irn_deliveries (client, number)
SELECT ?, number FROM irn_messages
WHERE topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ? AND is_open = 1 AND sender <> ?
"""
CLOSE_OPEN = """
UPDATE irn_messages SET is_open = 0
WHERE topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ? AND is_open = 1 AND sender <> ?
"""
DROP_DELIVERIES = """
DELETE FROM irn_deliveries WHERE client = ? AND number IN
    (SELECT number FROM irn_messages WHERE topic IN (SELECT value FROM json_each(?)))
"""
DELETE_UNWANTED = """
DELETE FROM irn_messages WHERE topic IN (SELECT value FROM json_each(?)) AND is_open = 0
    AND NOT EXISTS (SELECT 1 FROM irn_deliveries WHERE irn_deliveries.number = irn_messages.number)
"""

SHARE_OF_TOPIC = """
SELECT count(*), coalesce(sum(size_bytes), 0) FROM irn_messages WHERE topic = ? AND expires_at_ms > ?
"""
SHARE_OF_CLIENT = """
SELECT count(*), coalesce(sum(size_bytes), 0) FROM irn_messages WHERE sender = ? AND expires_at_ms > ?
"""
SHARE_OF_ADDRESS = """
SELECT count(*), coalesce(sum(size_bytes), 0) FROM irn_messages WHERE address = ? AND expires_at_ms > ?
"""
INSERT_MESSAGE = """
INSERT INTO irn_messages (number, topic, data, size_bytes, sender, address, is_open, expires_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_DELIVERY = "INSERT INTO irn_deliveries (client, number) VALUES (?, ?)"

WAITING = """
SELECT irn_messages.number, topic, data FROM irn_deliveries
JOIN irn_messages ON irn_messages.number = irn_deliveries.number
WHERE client = ? AND irn_deliveries.number > ? AND topic IN (SELECT value FROM json_each(?))
    AND expires_at_ms > ?
ORDER BY irn_deliveries.number LIMIT ?
"""
FETCHABLE = """
SELECT number, size_bytes FROM irn_messages
WHERE topic IN (SELECT value FROM json_each(?3)) AND expires_at_ms > ?2 AND (
    EXISTS (SELECT 1 FROM irn_deliveries WHERE client = ?1 AND irn_deliveries.number = irn_messages.number)
    OR (is_open = 1 AND sender <> ?1))
ORDER BY number LIMIT ?4
"""
BY_NUMBERS = """
SELECT number, topic, data FROM irn_messages WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number
"""
ACKNOWLEDGE = """
DELETE FROM irn_deliveries WHERE client = ? AND number IN (SELECT value FROM json_each(?))
"""
DELETE_DELIVERED = """
DELETE FROM irn_messages WHERE number IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM irn_deliveries WHERE irn_deliveries.number = irn_messages.number)
"""

# Of several processes on one database: what a client has acknowledged stays for a while, for its sockets at
# other processes. SQLite, where it is deleted, has no column `is_received`.
WAITING_ANYWHERE = """
SELECT irn_messages.number, topic, data, 0 FROM json_each(?) AS asked
CROSS JOIN irn_messages ON topic = asked.key AND irn_messages.number > asked.value
CROSS JOIN irn_deliveries ON irn_deliveries.number = irn_messages.number
WHERE client = ? AND (expires_at_ms > ? OR expires_at_ms < 0) ORDER BY irn_messages.number LIMIT ?
"""
SETTLE_DELIVERED = """
UPDATE irn_messages SET expires_at_ms = ?
WHERE number IN (SELECT value FROM json_each(?)) AND expires_at_ms > 0
    AND NOT EXISTS (SELECT 1 FROM irn_deliveries WHERE irn_deliveries.number = irn_messages.number)
"""

SWEEP_MESSAGES = """
DELETE FROM irn_messages WHERE number IN
    (SELECT number FROM irn_messages WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""
SWEEP_SUBSCRIPTIONS = """
DELETE FROM irn_subscriptions WHERE (client, topic) IN
    (SELECT client, topic FROM irn_subscriptions WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""
SWEEP_CALLS = """
DELETE FROM irn_calls WHERE (expires_at_ms, call) IN
    (SELECT expires_at_ms, call FROM irn_calls WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""
