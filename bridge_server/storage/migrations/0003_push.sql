-- Times are milliseconds since the Unix epoch.

-- Clients that get a push for what happens on a topic (a session id).
CREATE TABLE push_registrations (
    id INTEGER PRIMARY KEY,
    topic TEXT NOT NULL UNIQUE,
    bridge TEXT NOT NULL,                   -- the bridge that tells this server of it
    channel TEXT NOT NULL,                  -- how the client is reached, such as fcm
    url TEXT NOT NULL,                      -- where, for the outbox: a scheme and a token, or a webhook's URL
    lane TEXT,                              -- whom its pushes wait with; NULL: the URL's host
    peer_name TEXT NOT NULL,
    language TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL
);
CREATE INDEX push_registrations_by_expiry ON push_registrations (expires_at_ms);

-- What has become of a device's notifications; how many are queued is counted in the outbox.
ALTER TABLE devices ADD COLUMN lane TEXT;               -- as above
ALTER TABLE devices ADD COLUMN delivered_at_ms INTEGER; -- when it was last reached
ALTER TABLE devices ADD COLUMN failed_at_ms INTEGER;    -- when an attempt last failed
ALTER TABLE devices ADD COLUMN last_error TEXT;         -- why; NULL after a success

ALTER TABLE outbox ADD COLUMN device_id TEXT;           -- the device that the message is for
CREATE INDEX outbox_by_device ON outbox (device_id) WHERE device_id IS NOT NULL;

UPDATE devices SET address = 'log:', lane = 'log' WHERE channel = 'log';
