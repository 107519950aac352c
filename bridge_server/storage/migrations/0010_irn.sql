-- Times are milliseconds since the Unix epoch. A client is the public key of its did:key, in base58btc.

-- Topics that clients of generation 2.x are subscribed to, whether they are connected or not.
CREATE TABLE irn_subscriptions (
    client TEXT NOT NULL,
    topic TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL,     -- unless the client subscribes or connects again
    PRIMARY KEY (client, topic)
) WITHOUT ROWID;
CREATE INDEX irn_subscriptions_by_topic ON irn_subscriptions (topic, expires_at_ms, client);
CREATE INDEX irn_subscriptions_by_expiry ON irn_subscriptions (expires_at_ms);

-- Messages of generation 2.x that somebody has not acknowledged yet.
CREATE TABLE irn_messages (
    number INTEGER PRIMARY KEY,         -- given by the server: later messages have greater ones
    topic TEXT NOT NULL,
    data BLOB NOT NULL,                 -- the JSON that receivers are sent, without its envelope
    size_bytes INTEGER NOT NULL,        -- of the data, so that an index can add them up
    sender TEXT NOT NULL,               -- the client that published it
    address TEXT,                       -- the client's address whose share it counts to; NULL: nobody's
    is_open INTEGER NOT NULL,           -- 1: nobody but the publisher was subscribed; the next subscriber gets it
    expires_at_ms INTEGER NOT NULL
);
CREATE INDEX irn_messages_by_topic ON irn_messages (topic, expires_at_ms, size_bytes);
CREATE INDEX irn_messages_by_sender ON irn_messages (sender, expires_at_ms, size_bytes);
CREATE INDEX irn_messages_by_address ON irn_messages (address, expires_at_ms, size_bytes)
    WHERE address IS NOT NULL;
CREATE INDEX irn_messages_by_expiry ON irn_messages (expires_at_ms);

-- Which clients a message waits for.
CREATE TABLE irn_deliveries (
    client TEXT NOT NULL,
    number INTEGER NOT NULL REFERENCES irn_messages (number) ON DELETE CASCADE,
    PRIMARY KEY (client, number)
) WITHOUT ROWID;
CREATE INDEX irn_deliveries_by_message ON irn_deliveries (number);

-- Publications that were answered: one that is repeated within five minutes is not published again.
-- They are looked up in memory; here they are only added at the end and deleted from the beginning.
CREATE TABLE irn_calls (
    expires_at_ms INTEGER NOT NULL,
    call TEXT NOT NULL,                 -- a digest of the client, the id that it gave the call, and the messages
    PRIMARY KEY (expires_at_ms, call)
) WITHOUT ROWID;

-- Ids of what the server asks clients are taken from blocks, so that none is given twice. One row.
CREATE TABLE irn_id_blocks (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    taken INTEGER NOT NULL              -- how many blocks
);
