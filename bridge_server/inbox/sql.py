"""The statements of the inbox store. Each of them reads only rows of the given accounts."""

_CONTENT_COLUMNS = """
    sendings.id, projects.project_id, projects.name, notification_types.type_id,
    notifications.title, notifications.body, notifications.url, sendings.sent_at_ms
"""
_COLUMNS = f"""
    {_CONTENT_COLUMNS}, sendings.id <= projects.read_through OR deliveries.read_at_ms < 0 AS is_bulk_marked,
    CASE WHEN deliveries.read_at_ms > 0 THEN deliveries.read_at_ms END
"""
_CONTENT = """
    JOIN projects ON projects.id = sendings.project AND projects.project_id IS NOT NULL
    JOIN notifications ON notifications.id = sendings.notification
    JOIN notification_types ON notification_types.id = sendings.type
"""

SUBSCRIPTIONS = """
SELECT projects.id, projects.project_id, projects.name, type_sets.types, subscriptions.subscribed_at_ms,
    (SELECT json_group_array(json_array(type_id, name)) FROM (
        SELECT type_id, name FROM notification_types
        WHERE notification_types.project = projects.id AND removed_at_ms IS NULL ORDER BY id
    ) AS available)
FROM subscriptions
JOIN projects ON projects.id = subscriptions.project AND projects.project_id IS NOT NULL
JOIN type_sets ON type_sets.id = subscriptions.type_set
WHERE subscriptions.account = ? ORDER BY subscriptions.subscribed_at_ms, projects.id
"""
UNREAD = """
SELECT projects.id, projects.project_id, projects.name, count(*)
FROM deliveries
JOIN sendings ON sendings.id = deliveries.sending
JOIN projects ON projects.id = sendings.project
WHERE deliveries.account = ? AND deliveries.read_at_ms IS NULL
    AND deliveries.sending > projects.read_through AND projects.project_id IS NOT NULL
GROUP BY projects.id ORDER BY projects.id
"""

ACCOUNT = "SELECT id FROM accounts WHERE account_key = ?"
NEWEST = "SELECT coalesce(max(sending), 0) FROM deliveries WHERE account = ?"

# At least one row, with the newest number; without a notification its other columns are NULL. The conditions
# on project and unread are written so that no index applies: SQLite must search by account.
PAGE = f"""
SELECT (SELECT coalesce(max(sending), 0) FROM deliveries WHERE account = ?), page.*
FROM (SELECT 1 AS one) AS once LEFT JOIN (
    SELECT {_COLUMNS}
    FROM deliveries JOIN sendings ON sendings.id = deliveries.sending {_CONTENT}
    WHERE deliveries.account = ? AND deliveries.sending > ? AND deliveries.sending < ?
        AND coalesce(?, projects.project_id) = projects.project_id
        AND CASE WHEN deliveries.read_at_ms IS NULL AND sendings.id > projects.read_through THEN 1 ELSE 0 END
            BETWEEN ? AND ?
    ORDER BY deliveries.sending DESC LIMIT ?
) AS page ON true
ORDER BY page.id DESC
"""  # noqa: S608 - only the constants above
PAGE_AFTER = f"""
SELECT {_COLUMNS}
FROM deliveries JOIN sendings ON sendings.id = deliveries.sending {_CONTENT}
WHERE deliveries.account = ? AND deliveries.sending > ?
ORDER BY deliveries.sending LIMIT ?
"""  # noqa: S608 - only the constants above
# The parameter is a JSON object: the number of each account with the last sending that its streams have got.
ARRIVALS = f"""
SELECT arrived.accounts, {_CONTENT_COLUMNS}, sendings.id <= projects.read_through, NULL
FROM (
    SELECT deliveries.sending, json_group_array(deliveries.account) AS accounts
    FROM json_each(?) AS asked
    CROSS JOIN deliveries
        ON deliveries.account = CAST(asked.key AS INTEGER) AND deliveries.sending > asked.value
    CROSS JOIN sendings ON sendings.id = deliveries.sending
    CROSS JOIN projects ON projects.id = sendings.project AND projects.project_id IS NOT NULL
    GROUP BY deliveries.sending ORDER BY deliveries.sending LIMIT ?
) AS arrived
JOIN sendings ON sendings.id = arrived.sending {_CONTENT}
ORDER BY sendings.id
"""  # noqa: S608 - only the constants above

# The time is negative if the operator marks them.
MARK_READ = """
UPDATE deliveries SET read_at_ms = ?
WHERE account = ? AND sending IN (SELECT value FROM json_each(?)) AND read_at_ms IS NULL AND EXISTS (
    SELECT 1 FROM sendings JOIN projects ON projects.id = sendings.project
    WHERE sendings.id = deliveries.sending
        AND sendings.id > projects.read_through AND projects.project_id IS NOT NULL
)
RETURNING sending
"""


def _counted(column: str) -> tuple[str, str]:
    """Count deliveries that were marked as read in this column: by type and day, and by notification."""
    return (
        f"""
        INSERT INTO daily_figures (project, type, day, {column})
        SELECT sendings.project, sendings.type, sendings.sent_at_ms / 86400000, count(*)
        FROM json_each(?) AS marked CROSS JOIN sendings ON sendings.id = marked.value WHERE true
        GROUP BY 1, 2, 3
        ON CONFLICT (project, type, day) DO UPDATE SET {column} = daily_figures.{column} + excluded.{column}
        """,  # noqa: S608 - a column's name
        f"""
        UPDATE notifications SET {column} = notifications.{column} + counted.deliveries
        FROM (SELECT sendings.notification, count(*) AS deliveries
              FROM json_each(?) AS marked CROSS JOIN sendings ON sendings.id = marked.value
              GROUP BY sendings.notification) AS counted
        WHERE notifications.id = counted.notification
        """,  # noqa: S608 - a column's name
    )


COUNT_READ = _counted("read")
COUNT_BULK_MARKED = _counted("bulk_marked")
