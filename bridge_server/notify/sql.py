"""The statements of the notification store. A list of accounts is one JSON parameter or result.

CROSS JOIN fixes the order of the tables: the JSON list first, then an indexed look-up for each element. With
JOIN, SQLite may scan all subscribers of a project, because it overestimates the length of the list.
"""

# The number of a notification's deliveries that were bulk-marked. It is counted at the notification's last
# sending; mark-all-as-read marks everything that is unread, and does not count again.
BULK_MARKED = """
CASE WHEN coalesce((SELECT max(sendings.id) FROM sendings WHERE sendings.notification = notifications.id), 0)
        <= (SELECT projects.read_through FROM projects WHERE projects.id = notifications.project)
     THEN notifications.sent - notifications.read - notifications.lapsed
     ELSE notifications.bulk_marked END
"""

TYPE = "SELECT id FROM notification_types WHERE project = ? AND type_id = ? AND removed_at_ms IS NULL"
FIRST_CALL = """
SELECT notifications.id, notifications.type, notification_types.type_id,
       notifications.title, notifications.body, notifications.url,
       notifications.rate_limited + notifications.type_not_subscribed
FROM notifications JOIN notification_types ON notification_types.id = notifications.type
WHERE notifications.project = ? AND notifications.idempotency_key = ?
"""
INSERT_NOTIFICATION = """
INSERT INTO notifications
    (project, type, idempotency_key, title, body, url, created_at_ms, sent, rate_limited, type_not_subscribed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
"""
# Counts a later call, before its sending is stored: mark-all-as-read has marked whatever was unread before.
COUNT_CALL = f"""
UPDATE notifications SET bulk_marked = {BULK_MARKED},
    sent = sent + ?, rate_limited = rate_limited + ?, type_not_subscribed = type_not_subscribed + ?
WHERE id = ?
"""  # noqa: S608 - only the constant above
INSERT_SENDING = """
INSERT INTO sendings (project, type, notification, sent_at_ms) VALUES (?, ?, ?, ?) RETURNING id
"""

# The debt of a bucket: microseconds until it is full, at the rate of the present limit. A debt at an earlier
# rate is converted by its number of tokens, rounded up.
_OWED = """
CASE WHEN account_buckets.full_at_us <= {now} THEN 0
     WHEN account_buckets.interval_us = {interval} THEN account_buckets.full_at_us - {now}
     ELSE (account_buckets.full_at_us - {now} + account_buckets.interval_us - 1)
          / account_buckets.interval_us * {interval} END
"""

# Divides the requested account keys into accounts to send to, and [key, reason, debt] of the others. A bucket
# with a debt of more than ?3 has no token.
SORT = f"""
SELECT json_group_array(account) FILTER (WHERE reason = 'none'),
       json_group_array(json_array(account_key, reason, owed_us)) FILTER (WHERE reason <> 'none')
FROM (
    SELECT account_key, account, owed_us,
           CASE WHEN account IS NULL THEN 'not_subscribed'
                WHEN type IS NULL THEN 'type_not_subscribed'
                WHEN owed_us > ?3 THEN 'rate_limited'
                ELSE 'none' END AS reason
    FROM (
        SELECT asked.value AS account_key, subscriptions.account, type_set_members.type,
               {_OWED.format(now="?1", interval="?2")} AS owed_us
        FROM json_each(?4) AS asked
        LEFT JOIN subscriptions ON subscriptions.project = ?5 AND subscriptions.account_key = asked.value
        LEFT JOIN type_set_members
            ON type_set_members.type = ?6 AND type_set_members.type_set = subscriptions.type_set
        LEFT JOIN account_buckets
            ON account_buckets.project = ?5 AND account_buckets.account = subscriptions.account
    ) AS found
) AS sorted
"""  # noqa: S608 - only the constant above
# The requested account keys that the notification has not reached.
NOT_COVERED = """
SELECT json_group_array(asked.value) FROM json_each(?) AS asked
WHERE NOT EXISTS (
    SELECT 1 FROM accounts CROSS JOIN covered_accounts
        ON covered_accounts.notification = ? AND covered_accounts.account = accounts.id
    WHERE accounts.account_key = asked.value
)
"""

INSERT_DELIVERIES = "INSERT INTO deliveries (account, sending) SELECT value, ? FROM json_each(?)"
INSERT_COVERED = "INSERT INTO covered_accounts (notification, account) SELECT ?, value FROM json_each(?)"

# Takes one token from each bucket: it becomes full one interval later.
SPEND = f"""
INSERT INTO account_buckets (project, account, full_at_us, interval_us, sweep_at_us)
SELECT ?3, value, ?1 + ?2, ?2, ?1 + ?2 FROM json_each(?4) WHERE true
ON CONFLICT (project, account) DO UPDATE
SET full_at_us = ?1 + ?2 + {_OWED.format(now="?1", interval="?2")}, interval_us = ?2
"""  # noqa: S608 - only the constant above
# Limits the debt of buckets without a token to an empty bucket, for the case that the clock was set back.
CLAMP = f"""
UPDATE account_buckets SET interval_us = ?2,
    full_at_us = ?1 + min(?3, {_OWED.format(now="?1", interval="?2")}),
    sweep_at_us = ?1 + min(?3, {_OWED.format(now="?1", interval="?2")})
WHERE project = ?4 AND (full_at_us > ?1 + ?3 OR interval_us <> ?2)
    AND account IN (SELECT subscriptions.account FROM json_each(?5) AS asked CROSS JOIN subscriptions
        ON subscriptions.project = ?4 AND subscriptions.account_key = asked.value)
"""  # noqa: S608 - only the constant above
COUNT_SENT = """
INSERT INTO daily_figures (project, type, day, sent) VALUES (?, ?, ?, ?)
ON CONFLICT (project, type, day) DO UPDATE SET sent = daily_figures.sent + excluded.sent
"""
# Starts from the devices, because few accounts have any.
DEVICES = """
SELECT devices.device_id, devices.address, devices.lane, subscriptions.account_id
FROM json_each(?) AS sent
CROSS JOIN devices ON devices.account = sent.value
CROSS JOIN accounts ON accounts.id = devices.account
CROSS JOIN subscriptions ON subscriptions.project = ? AND subscriptions.account_key = accounts.account_key
"""

COUNT_UNREAD = """
SELECT coalesce(sum(sent - read - bulk_marked - lapsed), 0) FROM daily_figures WHERE project = ?
"""
MARK_FIGURES = "UPDATE daily_figures SET bulk_marked = sent - read - lapsed WHERE project = ?"
MARK_THROUGH = """
UPDATE projects SET marked_at_ms = ?, read_through =
    coalesce((SELECT max(id) FROM sendings WHERE sendings.project = projects.id), read_through)
WHERE id = ?
"""

# The subscribers among the requested accounts as JSON of the answer, and the account ids that differ from the
# stored ones. LEFT JOIN fixes the order of the tables, as CROSS JOIN does.
LOOKUP = """
SELECT CAST(group_concat('"' || asked.key || '":{"notification_types":' || type_sets.types || '}') AS BLOB),
       json_group_array(asked.key) FILTER (WHERE subscriptions.account_id IS DISTINCT FROM asked.key)
FROM json_each(?) AS asked
LEFT JOIN subscriptions ON subscriptions.project = ? AND subscriptions.account_key = asked.value
LEFT JOIN type_sets ON type_sets.id = subscriptions.type_set
"""
# A page as JSON of the answer, and its last account: NULL on the last page. Finding the end of a page before
# reading it is twice as fast as a subquery with LIMIT. Account ids contain no character that JSON escapes,
# and none from ~ on.
LISTING_PAGE = """
SELECT CAST(group_concat(subscriptions.account_id, '","') AS BLOB), page.last,
    EXISTS (SELECT 1 FROM projects WHERE projects.id = ? AND projects.project_id IS NOT NULL)
FROM (SELECT (SELECT account_id FROM subscriptions WHERE project = ? AND account_id > ?
              ORDER BY account_id LIMIT 1 OFFSET ?) AS last) AS page
CROSS JOIN subscriptions ON subscriptions.project = ? AND subscriptions.account_id > ?
    AND subscriptions.account_id <= coalesce(page.last, '~')
"""

# A slice of the buckets that are due: full ones are deleted, the others are due again when they are full.
SWEEP_FULL_BUCKETS = """
DELETE FROM account_buckets WHERE full_at_us <= ? AND (project, account) IN
    (SELECT project, account FROM account_buckets WHERE sweep_at_us <= ? ORDER BY sweep_at_us LIMIT ?)
"""
PUT_OFF_BUCKETS = """
UPDATE account_buckets SET sweep_at_us = full_at_us WHERE (project, account) IN
    (SELECT project, account FROM account_buckets WHERE sweep_at_us <= ? ORDER BY sweep_at_us LIMIT ?)
"""
# Deletes first the deliveries that users have read, then whole sendings: bulk-marked and old ones. Ids follow
# the order of time unless the clock was set back: ids narrow the search, times decide.
SWEEP_READ = """
DELETE FROM deliveries WHERE (account, sending) IN
    (SELECT account, sending FROM deliveries
     WHERE read_at_ms > 0 AND read_at_ms <= ? ORDER BY read_at_ms LIMIT ?)
"""
# The times of deliveries that the operator has marked are negative.
SWEEP_MARKED_BY_OPERATOR = """
DELETE FROM deliveries WHERE (account, sending) IN
    (SELECT account, sending FROM deliveries
     WHERE read_at_ms < 0 AND read_at_ms >= ? ORDER BY read_at_ms DESC LIMIT ?)
"""
OLD_SENDINGS = """
SELECT json_group_array(id)
FROM (SELECT id FROM sendings WHERE sent_at_ms <= ? ORDER BY sent_at_ms LIMIT ?) AS old
"""
BULK_MARKED_SENDINGS = """
SELECT json_group_array(id) FROM (
    SELECT sendings.id FROM projects
    CROSS JOIN sendings ON sendings.project = projects.id AND sendings.id <= projects.read_through
    WHERE projects.marked_at_ms <= ? LIMIT ?
) AS marked
"""
