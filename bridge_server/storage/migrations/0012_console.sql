-- Times are milliseconds since the Unix epoch, by the machine's clock.

-- Links that `bridge-server console` has printed, which nobody has opened yet.
CREATE TABLE console_links (
    digest BLOB NOT NULL PRIMARY KEY,   -- SHA-256 of the link's token
    expires_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX console_links_by_expiry ON console_links (expires_at_ms);

-- Browsers that are signed in to the console.
CREATE TABLE console_sessions (
    digest BLOB NOT NULL PRIMARY KEY,   -- SHA-256 of the token in the browser's cookie
    expires_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX console_sessions_by_expiry ON console_sessions (expires_at_ms);
