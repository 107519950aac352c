-- Times are milliseconds since the Unix epoch.

-- What became of each notification, counted, so that nobody has to walk through its deliveries.
ALTER TABLE notifications ADD COLUMN created_at_ms INTEGER; -- the first call; NULL: unknown, an older version stored it
ALTER TABLE notifications ADD COLUMN sent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE notifications ADD COLUMN read INTEGER NOT NULL DEFAULT 0; -- by their users
ALTER TABLE notifications ADD COLUMN bulk_marked INTEGER NOT NULL DEFAULT 0; -- before its last sending, and by the operator
ALTER TABLE notifications ADD COLUMN lapsed INTEGER NOT NULL DEFAULT 0; -- deleted unread
ALTER TABLE notifications ADD COLUMN rate_limited INTEGER NOT NULL DEFAULT 0; -- accounts that it did not reach yet
ALTER TABLE notifications ADD COLUMN type_not_subscribed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX notifications_by_project ON notifications (project, id);

-- Notifications of older versions: what is still in the inboxes.
UPDATE notifications SET
    created_at_ms = (SELECT min(sent_at_ms) FROM sendings WHERE sendings.notification = notifications.id),
    sent = (SELECT count(*) FROM sendings CROSS JOIN deliveries ON deliveries.sending = sendings.id
            WHERE sendings.notification = notifications.id),
    read = (SELECT count(*) FROM sendings CROSS JOIN deliveries ON deliveries.sending = sendings.id
            WHERE sendings.notification = notifications.id AND deliveries.read_at_ms IS NOT NULL),
    bulk_marked = (SELECT count(*) FROM sendings CROSS JOIN deliveries ON deliveries.sending = sendings.id
            WHERE sendings.notification = notifications.id AND deliveries.read_at_ms IS NULL
                AND sendings.id <= (SELECT read_through FROM projects WHERE id = notifications.project));

-- A delivery that the operator marked as read has a negative read_at_ms, minus the time: its user has not read it.
-- A column for that would make the insertion of 500 deliveries a tenth slower.

-- The addressed subscribers that a notification has not reached, each with the last reason.
CREATE TABLE missed_accounts (
    project INTEGER NOT NULL,
    notification INTEGER NOT NULL,
    account INTEGER NOT NULL,
    reason TEXT NOT NULL,                   -- as it is answered: rate_limited or type_not_subscribed
    retry_at_ms INTEGER,                    -- when the limit lets the next one pass
    at_ms INTEGER NOT NULL,                 -- when that was answered
    PRIMARY KEY (project, notification, account)
) WITHOUT ROWID;
CREATE INDEX missed_accounts_by_account ON missed_accounts (account, project, notification);
CREATE INDEX missed_accounts_by_time ON missed_accounts (at_ms);

-- How many rows of missed_accounts are the project's.
ALTER TABLE projects ADD COLUMN missed_accounts INTEGER NOT NULL DEFAULT 0;
