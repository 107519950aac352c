-- A message of generation 2.x is one row, however many clients it waits for: a subscription says how far its
-- client has come. Of a topic's messages, those wait for the client that are
--   above `reached` and published by others (no subscription of another client makes them anything else), or
--   listed in `missing`: the client has acknowledged later ones, or it was given what nobody had received.

DELETE FROM irn_messages WHERE is_open = 0 AND NOT EXISTS
    (SELECT 1 FROM irn_deliveries JOIN irn_subscriptions ON irn_subscriptions.client = irn_deliveries.client
     WHERE irn_deliveries.number = irn_messages.number AND irn_subscriptions.topic = irn_messages.topic);

-- The greatest number on the topic when the client subscribed.
ALTER TABLE irn_subscriptions ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
-- Messages up to this number do not wait for the client, but those in `missing`.
ALTER TABLE irn_subscriptions ADD COLUMN reached INTEGER NOT NULL DEFAULT 0;
-- A JSON array of numbers; NULL: none.
ALTER TABLE irn_subscriptions ADD COLUMN missing TEXT;

UPDATE irn_subscriptions SET
    reached = coalesce(
        (SELECT max(number) FROM irn_messages WHERE irn_messages.topic = irn_subscriptions.topic), 0),
    missing = (SELECT nullif(json_group_array(irn_deliveries.number), '[]')
        FROM irn_deliveries JOIN irn_messages ON irn_messages.number = irn_deliveries.number
        WHERE irn_deliveries.client = irn_subscriptions.client
            AND irn_messages.topic = irn_subscriptions.topic);
UPDATE irn_subscriptions SET since = reached;

-- Numbers are never given twice, also when every message is gone: subscriptions speak of them.
CREATE TABLE irn_messages_numbered_once (
    number INTEGER PRIMARY KEY AUTOINCREMENT,   -- given by the server: later messages have greater ones
    topic TEXT NOT NULL,
    data BLOB NOT NULL,                 -- the JSON that receivers are sent, without its envelope
    size_bytes INTEGER NOT NULL,        -- of the data, so that an index can add them up
    sender TEXT NOT NULL,               -- the client that published it
    address TEXT,                       -- the client's address whose share it counts to; NULL: nobody's
    is_open INTEGER NOT NULL,           -- 1: nobody but the publisher was subscribed; the next subscriber gets it
    expires_at_ms INTEGER NOT NULL
);
INSERT INTO irn_messages_numbered_once SELECT * FROM irn_messages ORDER BY number;
DROP TABLE irn_deliveries;
DROP TABLE irn_messages;
ALTER TABLE irn_messages_numbered_once RENAME TO irn_messages;
CREATE INDEX irn_messages_by_topic ON irn_messages (topic, number, expires_at_ms, size_bytes);
CREATE INDEX irn_messages_by_sender ON irn_messages (sender, expires_at_ms, size_bytes);
CREATE INDEX irn_messages_by_address ON irn_messages (address, expires_at_ms, size_bytes)
    WHERE address IS NOT NULL;
CREATE INDEX irn_messages_by_expiry ON irn_messages (expires_at_ms);
