"""The statements of the subscription store."""

TYPES = """
SELECT id, type_id FROM notification_types WHERE project = ? AND removed_at_ms IS NULL ORDER BY id
"""
TYPE_SET = "SELECT id FROM type_sets WHERE project = ? AND types = ? LIMIT 1"
INSERT_TYPE_SET = "INSERT INTO type_sets (project, types) VALUES (?, ?) RETURNING id"
INSERT_MEMBER = "INSERT INTO type_set_members (type, type_set) VALUES (?, ?)"

INSERT_ACCOUNT = "INSERT INTO accounts (account_key) VALUES (?) ON CONFLICT (account_key) DO NOTHING"
ACCOUNT = "SELECT id FROM accounts WHERE account_key = ?"

SUBSCRIPTION = """
SELECT subscriptions.account_id, type_sets.types, subscriptions.subscribed_at_ms
FROM subscriptions JOIN type_sets ON type_sets.id = subscriptions.type_set
WHERE subscriptions.project = ? AND subscriptions.account_key = ?
"""
INSERT_SUBSCRIPTION = """
INSERT INTO subscriptions (project, account_key, account, account_id, type_set, subscribed_at_ms)
VALUES (?, ?, ?, ?, ?, ?)
"""
UPDATE_SUBSCRIPTION = """
UPDATE subscriptions SET account_id = ?, type_set = ? WHERE project = ? AND account_key = ?
"""
DELETE_SUBSCRIPTION = "DELETE FROM subscriptions WHERE project = ? AND account_key = ?"

PAGE = """
SELECT subscriptions.account_id, type_sets.types, subscriptions.subscribed_at_ms
FROM subscriptions JOIN type_sets ON type_sets.id = subscriptions.type_set
WHERE subscriptions.project = ? AND subscriptions.account_id > ?
ORDER BY subscriptions.account_id LIMIT ?
"""
