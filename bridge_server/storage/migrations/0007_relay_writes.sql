-- Durable writes touch few pages: no index of expiries, no second row for a call that is pending, small columns
-- before the payload. Expired rows are found by walking through the tables in the order of their numbers.

CREATE TABLE new_sessions (
    id INTEGER PRIMARY KEY,             -- given again only while there are no calls
    session_id TEXT NOT NULL UNIQUE,    -- the public id, a capability; ordered by time
    expires_at_ms INTEGER NOT NULL,     -- moved by the wallet's updates and the dapp's calls; 0 once ended
    push_type TEXT,                     -- the wallet's push details: all three columns, or none
    push_token TEXT,
    push_webhook TEXT,
    payload BLOB                        -- NULL until the wallet's first update
);
INSERT INTO new_sessions (id, session_id, expires_at_ms, push_type, push_token, push_webhook, payload)
SELECT id, session_id, expires_at_ms, push_type, push_token, push_webhook, payload FROM sessions ORDER BY id;

-- A call request. A status is recorded beside it and nothing else is written then; `listed` is cleared when a
-- session has many answered calls, which changes a byte and leaves the payload's pages alone.
CREATE TABLE new_calls (
    id INTEGER PRIMARY KEY,
    call_id TEXT NOT NULL UNIQUE,       -- the public id, a capability; ordered by time
    session INTEGER NOT NULL,           -- sessions.id; may outlive that row, hence no foreign key
    expires_at_ms INTEGER NOT NULL,
    listed INTEGER NOT NULL,            -- 1: it is pending unless it has a status; 0: it has one
    payload BLOB NOT NULL
);
INSERT INTO new_calls (id, call_id, session, expires_at_ms, listed, payload)
SELECT id, call_id, session, expires_at_ms,
       EXISTS (SELECT 1 FROM pending_calls WHERE pending_calls.session = calls.session AND call = calls.id),
       payload
FROM calls ORDER BY id;

-- The wallet's answer to a call; a later one replaces the earlier. It stays as long as its call.
CREATE TABLE new_call_statuses (
    call INTEGER PRIMARY KEY REFERENCES calls (id) ON DELETE CASCADE,
    expires_at_ms INTEGER NOT NULL,
    payload BLOB NOT NULL
);
INSERT INTO new_call_statuses (call, expires_at_ms, payload)
SELECT call, expires_at_ms, payload FROM call_statuses ORDER BY call;

DROP TABLE pending_calls;
DROP TABLE call_statuses;
DROP TABLE calls;
DROP TABLE sessions;
ALTER TABLE new_sessions RENAME TO sessions;
ALTER TABLE new_calls RENAME TO calls;
ALTER TABLE new_call_statuses RENAME TO call_statuses;

-- A session's calls that may be pending, oldest first, and whether they live.
CREATE INDEX calls_listed ON calls (session, id, expires_at_ms) WHERE listed = 1;
