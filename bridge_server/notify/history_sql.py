"""The statements about notifications that were sent. They read counters and count nothing themselves."""

from bridge_server.notify.sql import BULK_MARKED

_NOTIFICATION = f"""
notifications.id, notifications.created_at_ms, notification_types.type_id, notifications.title,
notifications.body, notifications.url, notifications.idempotency_key, notifications.sent, notifications.read,
{BULK_MARKED}, notifications.rate_limited, notifications.type_not_subscribed
"""
NOTIFICATIONS = f"""
SELECT {_NOTIFICATION}
FROM notifications CROSS JOIN notification_types ON notification_types.id = notifications.type
WHERE notifications.project = ? AND notifications.id < ? ORDER BY notifications.id DESC LIMIT ?
"""  # noqa: S608 - only the constant above
NOTIFICATION = f"""
SELECT {_NOTIFICATION}
FROM notifications CROSS JOIN notification_types ON notification_types.id = notifications.type
WHERE notifications.project = ? AND notifications.id = ?
"""  # noqa: S608 - only the constant above

# The outcome of a delivery, and when its user has read it.
_STATE = """
CASE WHEN {delivery}.read_at_ms > 0 THEN 'read'
     WHEN {delivery}.read_at_ms < 0 OR sendings.id <= projects.read_through THEN 'bulk_marked'
     ELSE 'sent' END,
sendings.sent_at_ms, CASE WHEN {delivery}.read_at_ms > 0 THEN {delivery}.read_at_ms END
"""
# An account that has unsubscribed since has only its key.
DELIVERED = f"""
SELECT sendings.id, deliveries.account, accounts.account_key, subscriptions.account_id,
       {_STATE.format(delivery="deliveries")}, NULL
FROM sendings
CROSS JOIN projects ON projects.id = sendings.project
CROSS JOIN deliveries ON deliveries.sending = sendings.id
CROSS JOIN accounts ON accounts.id = deliveries.account
LEFT JOIN subscriptions
    ON subscriptions.project = sendings.project AND subscriptions.account_key = accounts.account_key
WHERE sendings.notification = ? AND sendings.id >= ? AND (sendings.id > ? OR deliveries.account > ?)
ORDER BY sendings.id, deliveries.account LIMIT ?
"""  # noqa: S608 - only the constant above
MISSED = """
SELECT 0, missed_accounts.account, accounts.account_key, subscriptions.account_id, missed_accounts.reason,
       missed_accounts.at_ms, NULL, missed_accounts.retry_at_ms
FROM missed_accounts
CROSS JOIN accounts ON accounts.id = missed_accounts.account
LEFT JOIN subscriptions
    ON subscriptions.project = missed_accounts.project AND subscriptions.account_key = accounts.account_key
WHERE missed_accounts.project = ? AND missed_accounts.notification = ? AND missed_accounts.account > ?
ORDER BY missed_accounts.account LIMIT ?
"""

ACCOUNT = "SELECT id FROM accounts WHERE account_key = ?"
BUCKET = "SELECT full_at_us, interval_us FROM account_buckets WHERE project = ? AND account = ?"
# The last deliveries of the account, whichever project they are of, bound the search.
RECEIVED = f"""
SELECT notifications.id, notification_types.type_id, notifications.title,
       {_STATE.format(delivery="latest")}, NULL
FROM (SELECT account, sending, read_at_ms FROM deliveries
      WHERE account = ? ORDER BY sending DESC LIMIT ?) AS latest
CROSS JOIN sendings ON sendings.id = latest.sending AND sendings.project = ?
CROSS JOIN projects ON projects.id = sendings.project
CROSS JOIN notifications ON notifications.id = sendings.notification
CROSS JOIN notification_types ON notification_types.id = sendings.type
ORDER BY sendings.id DESC LIMIT ?
"""  # noqa: S608 - only the constant above
MISSED_BY_ACCOUNT = """
SELECT notifications.id, notification_types.type_id, notifications.title, missed_accounts.reason,
       missed_accounts.at_ms, NULL, missed_accounts.retry_at_ms
FROM missed_accounts
CROSS JOIN notifications ON notifications.id = missed_accounts.notification
CROSS JOIN notification_types ON notification_types.id = notifications.type
WHERE missed_accounts.account = ? AND missed_accounts.project = ?
ORDER BY missed_accounts.notification DESC LIMIT ?
"""
