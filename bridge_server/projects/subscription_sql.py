"""The statements of the subscription store."""

TYPE_SET = "SELECT id FROM type_sets WHERE project = ? AND types = ? AND follows_all = ? LIMIT 1"
INSERT_TYPE_SET = "INSERT INTO type_sets (project, types, follows_all) VALUES (?, ?, ?) RETURNING id"
COUNT_SUBSCRIBERS = "UPDATE type_sets SET subscribers = subscribers + ? WHERE id = ?"
DELETE_UNUSED_TYPE_SET = "DELETE FROM type_sets WHERE id = ? AND subscribers = 0"

INSERT_ACCOUNT = "INSERT INTO accounts (account_key) VALUES (?) ON CONFLICT (account_key) DO NOTHING"
ACCOUNT = "SELECT id FROM accounts WHERE account_key = ?"

SUBSCRIPTION = """
SELECT subscriptions.account_id, type_sets.types, subscriptions.subscribed_at_ms, type_sets.follows_all,
    type_sets.id
FROM subscriptions JOIN type_sets ON type_sets.id = subscriptions.type_set
WHERE subscriptions.project = ? AND subscriptions.account_key = ?
"""
PROJECTS_OF_ACCOUNT = """
SELECT projects.project_id
FROM accounts
CROSS JOIN subscriptions ON subscriptions.account = accounts.id
CROSS JOIN projects ON projects.id = subscriptions.project AND projects.project_id IS NOT NULL
WHERE accounts.account_key = ? ORDER BY projects.id LIMIT ?
"""
INSERT_SUBSCRIPTION = """
INSERT INTO subscriptions (project, account_key, account, account_id, type_set, subscribed_at_ms)
VALUES (?, ?, ?, ?, ?, ?)
"""
COUNT_EVENT = "UPDATE projects SET events = events + 1 WHERE id = ? RETURNING events"
UPDATE_SUBSCRIPTION = """
UPDATE subscriptions SET type_set = ? WHERE project = ? AND account_key = ?
"""
DELETE_SUBSCRIPTION = "DELETE FROM subscriptions WHERE project = ? AND account_key = ?"

PAGE = """
SELECT subscriptions.account_id, type_sets.types, subscriptions.subscribed_at_ms, type_sets.follows_all
FROM subscriptions JOIN type_sets ON type_sets.id = subscriptions.type_set
WHERE subscriptions.project = ? AND subscriptions.account_id > ?
    AND subscriptions.account_id < ?
ORDER BY subscriptions.account_id LIMIT ?
"""
