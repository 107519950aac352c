"""The statements about accounts that a notification has not reached."""

# The parameter is a JSON array of [account key, reason, time from which the limit lets it pass].
INSERT = """
INSERT INTO missed_accounts (project, notification, account, reason, retry_at_ms, at_ms)
SELECT ?, ?, accounts.id, json_extract(failed.value, '$[1]'), json_extract(failed.value, '$[2]'), ?
FROM json_each(?) AS failed CROSS JOIN accounts ON accounts.account_key = json_extract(failed.value, '$[0]')
"""
DELETE_ASKED = """
DELETE FROM missed_accounts WHERE project = ? AND notification = ? AND account IN
    (SELECT accounts.id FROM json_each(?) AS asked CROSS JOIN accounts ON accounts.account_key = asked.value)
RETURNING reason
"""
COUNT = "UPDATE projects SET missed_accounts = missed_accounts + ? WHERE id = ? RETURNING missed_accounts"
DELETE_OLDEST = """
DELETE FROM missed_accounts WHERE (project, notification, account) IN
    (SELECT project, notification, account FROM missed_accounts
     WHERE project = ? ORDER BY notification, account LIMIT ?)
RETURNING project, notification
"""
SWEEP = """
DELETE FROM missed_accounts WHERE (project, notification, account) IN
    (SELECT project, notification, account FROM missed_accounts WHERE at_ms <= ? ORDER BY at_ms LIMIT ?)
RETURNING project, notification
"""
