"""The statements of the notification store. Lists of accounts go in and out as JSON, one statement for all.

CROSS JOIN keeps the order in which tables are written: first what is asked for, then a look-up for each. Left
to itself, SQLite may walk a project's million subscribers instead, because it takes JSON for the larger.
"""

TYPE = "SELECT id FROM notification_types WHERE project = ? AND type_id = ? AND removed_at_ms IS NULL"
FIRST_CALL = """
SELECT notifications.id, notifications.type, notification_types.type_id,
       notifications.title, notifications.body, notifications.url
FROM notifications JOIN notification_types ON notification_types.id = notifications.type
WHERE notifications.project = ? AND notifications.idempotency_key = ?
"""
INSERT_NOTIFICATION = """
INSERT INTO notifications (project, type, idempotency_key, title, body, url) VALUES (?, ?, ?, ?, ?, ?)
RETURNING id
"""
INSERT_SENDING = """
INSERT INTO sendings (project, type, notification, sent_at_ms) VALUES (?, ?, ?, ?) RETURNING id
"""

# What a bucket owes, in microseconds until it is full, as of the limit that is in force now: one that was
# filled at another rate owes as many tokens as it did, and a part of one counts whole.
_OWED = """
CASE WHEN account_buckets.full_at_us <= {now} THEN 0
     WHEN account_buckets.interval_us = {interval} THEN account_buckets.full_at_us - {now}
     ELSE (account_buckets.full_at_us - {now} + account_buckets.interval_us - 1)
          / account_buckets.interval_us * {interval} END
"""

# Sorts the account keys that were asked for: the accounts to send to, and as [key, obstacle, owed] those
# not to. Who is covered is in neither. A bucket that owes more than ?3 has no token.
SORT = f"""
SELECT json_group_array(account) FILTER (WHERE obstacle = 'none'),
       json_group_array(json_array(account_key, obstacle, owed_us)) FILTER (WHERE obstacle <> 'none')
FROM (
    SELECT account_key, account, owed_us,
           CASE WHEN account IS NULL THEN 'not_subscribed'
                WHEN type IS NULL THEN 'type_not_subscribed'
                WHEN owed_us > ?3 THEN 'rate_limited'
                ELSE 'none' END AS obstacle
    FROM (
        SELECT asked.value AS account_key, subscriptions.account, type_set_members.type,
               {_OWED.format(now="?1", interval="?2")} AS owed_us
        FROM json_each(?4) AS asked
        LEFT JOIN subscriptions ON subscriptions.project = ?5 AND subscriptions.account_key = asked.value
        LEFT JOIN type_set_members
            ON type_set_members.type = ?6 AND type_set_members.type_set = subscriptions.type_set
        LEFT JOIN account_buckets
            ON account_buckets.project = ?5 AND account_buckets.account = subscriptions.account
    )
)
"""  # noqa: S608 - only the constant above
# Of the account keys that were asked for, those that the notification has not reached.
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

# One token from each bucket: it is full one interval later than it was, or than now.
SPEND = f"""
INSERT INTO account_buckets (project, account, full_at_us, interval_us, sweep_at_us)
SELECT ?3, value, ?1 + ?2, ?2, ?1 + ?2 FROM json_each(?4) WHERE true
ON CONFLICT (project, account) DO UPDATE
SET full_at_us = ?1 + ?2 + {_OWED.format(now="?1", interval="?2")}, interval_us = ?2
"""  # noqa: S608 - only the constant above
# Of those without a token: after the clock was set back, none counts as emptier than empty.
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
# Few accounts have devices: they are looked for first.
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

# The subscribers among the accounts that were asked for, as they are sent; and the spellings that are not the
# stored ones. LEFT JOIN keeps the order: what was asked for comes first, or SQLite may walk everything.
LOOKUP = """
SELECT CAST(group_concat('"' || asked.key || '":{"notification_types":' || type_sets.types || '}') AS BLOB),
       json_group_array(asked.key) FILTER (WHERE subscriptions.account_id IS DISTINCT FROM asked.key)
FROM json_each(?) AS asked
LEFT JOIN subscriptions ON subscriptions.project = ? AND subscriptions.account_key = asked.value
LEFT JOIN type_sets ON type_sets.id = subscriptions.type_set
"""
# A page as it is sent, and the last account on it: NULL on the last page. Finding where a page ends before
# it is read is twice as fast as a subquery with a LIMIT. Account ids hold nothing that JSON would escape,
# and no character from ~ on.
LISTING_PAGE = """
SELECT CAST(group_concat(subscriptions.account_id, '","') AS BLOB), page.last,
    EXISTS (SELECT 1 FROM projects WHERE projects.id = ? AND projects.project_id IS NOT NULL)
FROM (SELECT (SELECT account_id FROM subscriptions WHERE project = ? AND account_id > ?
              ORDER BY account_id LIMIT 1 OFFSET ?) AS last) AS page
CROSS JOIN subscriptions ON subscriptions.project = ? AND subscriptions.account_id > ?
    AND subscriptions.account_id <= coalesce(page.last, '~')
"""

# A slice of the buckets to look at: those that are full go, the others are looked at again when they are.
SWEEP_FULL_BUCKETS = """
DELETE FROM account_buckets WHERE full_at_us <= ? AND (project, account) IN
    (SELECT project, account FROM account_buckets WHERE sweep_at_us <= ? ORDER BY sweep_at_us LIMIT ?)
"""
PUT_OFF_BUCKETS = """
UPDATE account_buckets SET sweep_at_us = full_at_us WHERE (project, account) IN
    (SELECT project, account FROM account_buckets WHERE sweep_at_us <= ? ORDER BY sweep_at_us LIMIT ?)
"""
# What users have read goes first; then whole sendings: bulk-marked ones, and those nobody has read for long.
# Ids come in the order of time but for a clock that was set back: they narrow the search, times decide.
SWEEP_READ = """
DELETE FROM deliveries WHERE (account, sending) IN
    (SELECT account, sending FROM deliveries WHERE read_at_ms <= ? ORDER BY read_at_ms LIMIT ?)
"""
OLD_SENDINGS = """
SELECT json_group_array(id) FROM (SELECT id FROM sendings WHERE sent_at_ms <= ? ORDER BY sent_at_ms LIMIT ?)
"""
BULK_MARKED_SENDINGS = """
SELECT json_group_array(id) FROM (
    SELECT sendings.id FROM projects
    CROSS JOIN sendings ON sendings.project = projects.id AND sendings.id <= projects.read_through
    WHERE projects.marked_at_ms <= ? LIMIT ?
)
"""
