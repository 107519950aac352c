-- Times are milliseconds since the Unix epoch. Payloads are the JSON text that the sender wrote, in UTF-8.

-- A session that a dapp opened and a wallet may have answered.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,    -- the public id, a capability
    payload BLOB,                       -- NULL until the wallet's first update
    push_type TEXT,                     -- the wallet's push details: all three columns, or none
    push_token TEXT,
    push_webhook TEXT,
    expires_at_ms INTEGER NOT NULL      -- moved by the wallet's updates and the dapp's calls
);
CREATE INDEX sessions_by_expiry ON sessions (expires_at_ms);

-- A call request. Never updated: what happens to it is recorded beside it.
CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    call_id TEXT NOT NULL UNIQUE,       -- the public id, a capability; ordered by time
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    payload BLOB NOT NULL,
    expires_at_ms INTEGER NOT NULL
);
CREATE INDEX calls_by_session ON calls (session);
CREATE INDEX calls_by_expiry ON calls (expires_at_ms);

-- The calls that have no status yet. A narrow table of its own, so that a status dirties few pages.
CREATE TABLE pending_calls (
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    call INTEGER NOT NULL,              -- calls.id; this row is deleted before the call
    expires_at_ms INTEGER NOT NULL,     -- the call's, so that counting needs no look-up
    PRIMARY KEY (session, call)
) WITHOUT ROWID;

-- The wallet's answer to a call; a later one replaces the earlier.
CREATE TABLE call_statuses (
    call INTEGER PRIMARY KEY REFERENCES calls (id) ON DELETE CASCADE,
    payload BLOB NOT NULL,
    expires_at_ms INTEGER NOT NULL
);

-- Webhooks that asked to hear of new calls on a topic (a session id).
CREATE TABLE topic_webhooks (
    topic TEXT NOT NULL,
    webhook TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (topic, webhook)
) WITHOUT ROWID;
CREATE INDEX topic_webhooks_by_expiry ON topic_webhooks (expires_at_ms);

-- Undelivered outgoing requests. A row is written in the transaction that causes it and deleted once
-- the receiver has answered 2xx.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,           -- the same at every attempt, so that a receiver can drop repeats
    destination TEXT NOT NULL,          -- scheme, host and port: the unit of fairness
    url TEXT NOT NULL,
    body BLOB NOT NULL,
    created_at_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at_ms INTEGER,         -- NULL once it is a dead letter
    last_error TEXT,
    died_at_ms INTEGER                  -- when it was given up
);
CREATE INDEX outbox_due ON outbox (destination, next_attempt_at_ms) WHERE next_attempt_at_ms IS NOT NULL;
CREATE INDEX outbox_dead ON outbox (died_at_ms) WHERE died_at_ms IS NOT NULL;

-- Token buckets that are not full, as the moment at which each will be full again, in microseconds.
CREATE TABLE buckets (
    limit_name TEXT NOT NULL,
    key TEXT NOT NULL,
    full_at_us INTEGER NOT NULL,
    PRIMARY KEY (limit_name, key)
) WITHOUT ROWID;
CREATE INDEX buckets_by_time ON buckets (full_at_us);
