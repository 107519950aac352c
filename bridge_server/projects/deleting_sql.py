"""The statements that delete sendings, notifications and projects.

The sendings or notifications to delete are a JSON array. A sending that becomes empty is deleted in the same
slice, so that the next slice need not read it again.
"""

DELETE_DELIVERIES = """
DELETE FROM deliveries WHERE (account, sending) IN
    (SELECT deliveries.account, deliveries.sending
     FROM json_each(?) AS old CROSS JOIN deliveries ON deliveries.sending = old.value LIMIT ?)
RETURNING sending, read_at_ms
"""
# Counts deliveries that were deleted unread. Bulk-marked deliveries do not count as lapsed.
COUNT_LAPSED = """
INSERT INTO daily_figures (project, type, day, lapsed)
SELECT sendings.project, sendings.type, sendings.sent_at_ms / 86400000, count(*)
FROM json_each(?) AS unread CROSS JOIN sendings ON sendings.id = unread.value
CROSS JOIN projects ON projects.id = sendings.project AND sendings.id > projects.read_through WHERE true
GROUP BY 1, 2, 3
ON CONFLICT (project, type, day) DO UPDATE SET lapsed = daily_figures.lapsed + excluded.lapsed
"""
COUNT_LAPSED_OF_NOTIFICATIONS = """
UPDATE notifications SET lapsed = notifications.lapsed + counted.deliveries
FROM (SELECT sendings.notification, count(*) AS deliveries
      FROM json_each(?) AS unread CROSS JOIN sendings ON sendings.id = unread.value
      CROSS JOIN projects ON projects.id = sendings.project AND sendings.id > projects.read_through
      GROUP BY sendings.notification) AS counted
WHERE notifications.id = counted.notification
"""
DELETE_SENDINGS = """
DELETE FROM sendings WHERE id IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM deliveries WHERE deliveries.sending = sendings.id)
RETURNING notification
"""
DELETE_UNSENT_NOTIFICATIONS = """
DELETE FROM notifications WHERE id IN (SELECT value FROM json_each(?)) AND idempotency_key IS NULL
    AND NOT EXISTS (SELECT 1 FROM sendings WHERE sendings.notification = notifications.id)
    AND NOT EXISTS (SELECT 1 FROM missed_accounts AS missed
        WHERE missed.project = notifications.project AND missed.notification = notifications.id)
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

# Rows of a deleted project, in slices: its sendings and notifications, then the rest. A row is deleted before
# the rows that it references.
SENDINGS = "SELECT json_group_array(id) FROM (SELECT id FROM sendings WHERE project = ? LIMIT ?) AS slice"
DELETE_MISSED = """
DELETE FROM missed_accounts WHERE (project, notification, account) IN
    (SELECT project, notification, account FROM missed_accounts WHERE project = ? LIMIT ?)
"""
NOTIFICATIONS = (
    "SELECT json_group_array(id) FROM (SELECT id FROM notifications WHERE project = ? LIMIT ?) AS slice"
)
SWEEP_DELETED = (
    """
    DELETE FROM account_buckets WHERE (project, account) IN
        (SELECT project, account FROM account_buckets WHERE project = ? LIMIT ?)
    """,
    # With a list of pairs SQLite would scan all rows of the project; two lists let it use the primary key.
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
