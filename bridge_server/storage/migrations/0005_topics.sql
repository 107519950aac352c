-- Times are milliseconds since the Unix epoch.

-- Messages that were published on topics over WebSockets, and that no receiver has acknowledged yet.
CREATE TABLE topic_messages (
    number INTEGER PRIMARY KEY,         -- given by the server: later messages have greater ones
    topic TEXT NOT NULL,
    text BLOB NOT NULL,                 -- the JSON that receivers are sent
    size_bytes INTEGER NOT NULL,        -- of the text, so that an index can add them up
    sender INTEGER NOT NULL,            -- the socket that it came from: a random number, never given again
    address TEXT,                       -- the client's address whose share it counts to; NULL: nobody's
    expires_at_ms INTEGER NOT NULL
);
CREATE INDEX topic_messages_by_topic ON topic_messages (topic, number, expires_at_ms, size_bytes);
CREATE INDEX topic_messages_by_address ON topic_messages (address, expires_at_ms, size_bytes)
    WHERE address IS NOT NULL;
CREATE INDEX topic_messages_by_expiry ON topic_messages (expires_at_ms);
