-- Times are milliseconds since the Unix epoch.

-- Whom a message is sent for, so that those who send to receivers that hang wait for themselves. The host is
-- part of the destination.
ALTER TABLE outbox ADD COLUMN client TEXT;              -- the caller's address (IPv6: its /64); NULL: exempt, or no caller
ALTER TABLE outbox ADD COLUMN subject TEXT;             -- what it is about: a session's id, or a project's
ALTER TABLE outbox ADD COLUMN queue TEXT NOT NULL DEFAULT ''; -- its queue at the destination, sent in order; '': the common one

DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (destination, queue, attempts, next_attempt_at_ms)
    WHERE next_attempt_at_ms IS NOT NULL;

-- Hosts with a recent delivery: part of the outbox's places is theirs, after a restart too.
CREATE TABLE outbox_hosts (
    host TEXT PRIMARY KEY,              -- without its port
    answered_at_ms INTEGER NOT NULL     -- about: it is not written at every answer
) WITHOUT ROWID;
CREATE INDEX outbox_hosts_by_answer ON outbox_hosts (answered_at_ms);
