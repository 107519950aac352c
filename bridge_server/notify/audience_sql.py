"""The statements about the subscribers that a notification is for."""

EVERYBODY = """
SELECT account_id, account_key FROM subscriptions
WHERE project = ? AND account_id > ? ORDER BY account_id LIMIT ?
"""
# The end of the stretch of subscribers that is searched for subscribers of a type, which may be few.
END = """
SELECT account_id FROM subscriptions WHERE project = ? AND account_id > ? ORDER BY account_id LIMIT 1 OFFSET ?
"""
OF_TYPE = """
SELECT subscriptions.account_id, subscriptions.account_key
FROM subscriptions CROSS JOIN type_set_members
    ON type_set_members.type = ? AND type_set_members.type_set = subscriptions.type_set
WHERE subscriptions.project = ? AND subscriptions.account_id > ? AND subscriptions.account_id <= ?
ORDER BY subscriptions.account_id LIMIT ?
"""
