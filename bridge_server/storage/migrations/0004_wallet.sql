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

-- Transactions that the wallet was asked to send, and what has become of them.
CREATE TABLE wallet_transactions (
    id INTEGER PRIMARY KEY,                 -- in the order in which they were asked for
    transaction_id TEXT NOT NULL UNIQUE,    -- as clients name it
    sender TEXT NOT NULL,                   -- whose nonce it uses, in lower case
    params BLOB NOT NULL,                   -- as it was asked for: an object or DATA, as JSON
    caller TEXT NOT NULL,                   -- the client's address
    origin TEXT,                            -- the web page that it says it is
    request_id TEXT NOT NULL,
    asked_at_ms INTEGER NOT NULL,
    state TEXT NOT NULL,                    -- queued, signed, sent, mined, replaced, refused, forgotten
    chain_id INTEGER,                       -- NULL: whichever the node is on, once it can be asked
    nonce INTEGER,                          -- this and the next two: NULL until it is signed
    transaction_hash TEXT,
    raw TEXT,                               -- the signed bytes, as DATA
    attempts INTEGER NOT NULL DEFAULT 0,    -- how many have not reached the node
    next_attempt_at_ms INTEGER NOT NULL,
    error TEXT,                             -- why it is not sent, or will not be on the chain
    settled_at_ms INTEGER                   -- when it was mined, replaced, refused or forgotten
);
CREATE INDEX wallet_transactions_by_sender ON wallet_transactions (sender, id);
CREATE INDEX wallet_transactions_by_hash ON wallet_transactions (transaction_hash)
    WHERE transaction_hash IS NOT NULL;
CREATE INDEX wallet_transactions_owed ON wallet_transactions (next_attempt_at_ms)
    WHERE state IN ('queued', 'signed');
CREATE INDEX wallet_transactions_owed_by_sender ON wallet_transactions (sender)
    WHERE state IN ('queued', 'signed');
CREATE INDEX wallet_transactions_nonces ON wallet_transactions (chain_id, sender, nonce)
    WHERE state IN ('signed', 'sent', 'mined');
CREATE INDEX wallet_transactions_sent ON wallet_transactions (chain_id, sender, nonce) WHERE state = 'sent';
CREATE INDEX wallet_transactions_settled ON wallet_transactions (settled_at_ms) WHERE settled_at_ms IS NOT NULL;
