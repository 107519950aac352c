"""The statements that delete sendings, notifications and projects.

Which sendings or notifications is a JSON array, in the order to go in. One that has been emptied goes in the
same slice: the next would walk past it again.
"""

DELETE_DELIVERIES = """
DELETE FROM deliveries WHERE (account, sending) IN
    (SELECT deliveries.account, deliveries.sending
     FROM json_each(?) AS old CROSS JOIN deliveries ON deliveries.sending = old.value LIMIT ?)
RETURNING sending, read_at_ms
"""
# The sending of each delivery that went without having been read. What was bulk-marked does not lapse.
COUNT_LAPSED = """
INSERT INTO daily_figures (project, type, day, lapsed)
SELECT sendings.project, sendings.type, sendings.sent_at_ms / 86400000, count(*)
FROM json_each(?) AS unread CROSS JOIN sendings ON sendings.id = unread.value
CROSS JOIN projects ON projects.id = sendings.project AND sendings.id > projects.read_through WHERE true
GROUP BY 1, 2, 3
ON CONFLICT (project, type, day) DO UPDATE SET lapsed = daily_figures.lapsed + excluded.lapsed
"""
DELETE_SENDINGS = """
DELETE FROM sendings WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM deliveries WHERE deliveries.sending = sendings.id)
RETURNING notification
"""
DELETE_UNSENT_NOTIFICATIONS = """
DELETE FROM notifications WHERE id IN (SELECT value FROM json_each(?)) AND idempotency_key IS NULL
    AND NOT EXISTS (SELECT 1 FROM sendings WHERE sendings.notification = notifications.id)
"""
DELETE_COVERED = """
DELETE FROM covered_accounts WHERE (notification, account) IN
    (SELECT covered_accounts.notification, covered_accounts.account FROM json_each(?) AS gone
     CROSS JOIN covered_accounts ON covered_accounts.notification = gone.value LIMIT ?)
"""
DELETE_UNCOVERED_NOTIFICATIONS = """
DELETE FROM notifications WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM covered_accounts WHERE covered_accounts.notification = notifications.id)
"""

# What a deleted project leaves behind, in slices: what it sent, then the rest; a row goes before what it
# refers to.
SENDINGS = "SELECT json_group_array(id) FROM (SELECT id FROM sendings WHERE project = ? LIMIT ?)"
NOTIFICATIONS = "SELECT json_group_array(id) FROM (SELECT id FROM notifications WHERE project = ? LIMIT ?)"
SWEEP_DELETED = (
    """
    DELETE FROM account_buckets WHERE (project, account) IN
        (SELECT project, account FROM account_buckets WHERE project = ? LIMIT ?)
    """,
    # SQLite would walk through all that the project has for a list of pairs; two lists find each by its key.
    """
    DELETE FROM subscriptions WHERE project IN (SELECT id FROM projects WHERE project_id IS NULL)
        AND account_key IN (SELECT account_key FROM subscriptions WHERE project = ? LIMIT ?)
    """,
    """
    DELETE FROM daily_figures WHERE (project, type, day) IN
        (SELECT project, type, day FROM daily_figures WHERE project = ? LIMIT ?)
    """,
    """
    DELETE FROM type_set_members WHERE (type, type_set) IN
        (SELECT type_set_members.type, type_set_members.type_set FROM notification_types
         CROSS JOIN type_set_members ON type_set_members.type = notification_types.id
         WHERE notification_types.project = ? LIMIT ?)
    """,
    "DELETE FROM type_sets WHERE id IN (SELECT id FROM type_sets WHERE project = ? LIMIT ?)",
    "DELETE FROM projects WHERE id IN (SELECT id FROM projects WHERE id = ? LIMIT ?)",
)
