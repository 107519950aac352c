-- Times are milliseconds since the Unix epoch.

-- Requests that somebody must approve before the wallet signs.
CREATE TABLE wallet_approvals (
    id INTEGER PRIMARY KEY,
    approval_id TEXT NOT NULL UNIQUE,       -- as the operator names it
    method TEXT NOT NULL,
    address TEXT NOT NULL,                  -- whose key would sign, in lower case
    subject BLOB NOT NULL,                  -- what would be signed, as JSON
    caller TEXT NOT NULL,                   -- the client's address
    origin TEXT,                            -- the web page that it says it is
    request_id TEXT NOT NULL,
    asked_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    state TEXT NOT NULL,                    -- pending, approved, rejected, expired
    decided_at_ms INTEGER
);
CREATE INDEX wallet_approvals_pending ON wallet_approvals (state) WHERE state = 'pending';
CREATE INDEX wallet_approvals_by_age ON wallet_approvals (asked_at_ms);
