-- Times are milliseconds since the Unix epoch, days are whole days since then (UTC).
-- A column refers to another table's rows by a foreign key only where an index finds whatever refers to one:
-- deleting that row would otherwise walk through the whole table.

-- An app that publishes notifications.
CREATE TABLE projects (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT UNIQUE,                 -- the public id; NULL once deleted, until the sweeper has removed its rows
    name TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    account_burst INTEGER,                  -- the project's own limit per account; both NULL: the server's
    account_interval_us INTEGER,
    webhook_url TEXT,                       -- is sent every change of a subscription; both NULL: none
    webhook_secret TEXT,
    events INTEGER NOT NULL DEFAULT 0,      -- how many changes of subscriptions the webhook was sent
    read_through INTEGER NOT NULL DEFAULT 0, -- mark-all-as-read: every sending up to this one counts as read
    marked_at_ms INTEGER                    -- when that was last said; NULL: never
);

-- What may publish for a project: the SHA-256 of each live secret.
CREATE TABLE project_secrets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    digest BLOB NOT NULL,
    created_at_ms INTEGER NOT NULL
);
CREATE INDEX project_secrets_by_project ON project_secrets (project);

-- The kinds of notification of a project. Removed ones stay, for what was sent as such.
CREATE TABLE notification_types (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    type_id TEXT NOT NULL,                  -- the public id
    name TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    removed_at_ms INTEGER,
    UNIQUE (project, type_id)
);

-- The choices of types that subscribers make, each stored once, as the JSON array that is answered.
CREATE TABLE type_sets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    types TEXT NOT NULL,
    subscribers INTEGER NOT NULL DEFAULT 0  -- how many have made this choice; it goes with the last of them
);
CREATE INDEX type_sets_by_types ON type_sets (project, types);

-- The same by type: which choices contain it.
CREATE TABLE type_set_members (
    type INTEGER NOT NULL REFERENCES notification_types (id) ON DELETE CASCADE,
    type_set INTEGER NOT NULL REFERENCES type_sets (id) ON DELETE CASCADE,
    PRIMARY KEY (type, type_set)
) WITHOUT ROWID;
CREATE INDEX type_set_members_by_set ON type_set_members (type_set);

-- Everybody who ever subscribed or signed in. The key is what makes two CAIP-10 spellings one account.
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account_key TEXT NOT NULL UNIQUE
);

-- Written only in transactions that count it in its choice of types, which stays until nobody makes it.
CREATE TABLE subscriptions (
    project INTEGER NOT NULL REFERENCES projects (id),
    account_key TEXT NOT NULL,
    account INTEGER NOT NULL REFERENCES accounts (id),
    account_id TEXT NOT NULL,               -- the CAIP-10 spelling that is listed
    type_set INTEGER NOT NULL,
    subscribed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (project, account_key)
) WITHOUT ROWID;
CREATE INDEX subscriptions_listed ON subscriptions (project, account_id);
CREATE INDEX subscriptions_by_account ON subscriptions (account);

-- What a first call to notify said, written only once its type was found. One with an idempotency key is
-- kept for ever.
CREATE TABLE notifications (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project INTEGER NOT NULL REFERENCES projects (id),
    type INTEGER NOT NULL,
    idempotency_key TEXT,                   -- the caller's notification_id
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    url TEXT,
    UNIQUE (project, idempotency_key)       -- any number without a key
);

-- Which accounts a notification with an idempotency key has reached. Kept as long as the key.
CREATE TABLE covered_accounts (
    notification INTEGER NOT NULL,
    account INTEGER NOT NULL,
    PRIMARY KEY (notification, account)
) WITHOUT ROWID;

-- One call to notify that reached somebody, of the type of its notification. Its id is the place of its
-- deliveries in every inbox.
CREATE TABLE sendings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project INTEGER NOT NULL REFERENCES projects (id),
    type INTEGER NOT NULL,
    notification INTEGER NOT NULL REFERENCES notifications (id),
    sent_at_ms INTEGER NOT NULL
);
CREATE INDEX sendings_by_project ON sendings (project, id);
CREATE INDEX sendings_by_time ON sendings (sent_at_ms);
CREATE INDEX sendings_by_notification ON sendings (notification);

-- The inboxes: written only beside their sending, so that no foreign key has to be looked up for each.
CREATE TABLE deliveries (
    account INTEGER NOT NULL,
    sending INTEGER NOT NULL,
    read_at_ms INTEGER,                     -- when the user read it; mark-all-as-read leaves it NULL
    PRIMARY KEY (account, sending)
) WITHOUT ROWID;
CREATE INDEX deliveries_by_sending ON deliveries (sending);
CREATE INDEX deliveries_read ON deliveries (read_at_ms) WHERE read_at_ms IS NOT NULL;

-- The limit on notifications to one account from one project: token buckets that are not full, as the
-- moment at which each will be full again, in microseconds.
CREATE TABLE account_buckets (
    project INTEGER NOT NULL,
    account INTEGER NOT NULL,
    full_at_us INTEGER NOT NULL,
    interval_us INTEGER NOT NULL,           -- per token, at which the former was reckoned: limits change
    sweep_at_us INTEGER NOT NULL,           -- when to see whether it is full: no later than that, rarely moved
    PRIMARY KEY (project, account)
) WITHOUT ROWID;
CREATE INDEX account_buckets_to_sweep ON account_buckets (sweep_at_us);

-- Analytics, by the day on which things were sent. They outlive the notifications; a type outlives them.
CREATE TABLE daily_figures (
    project INTEGER NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    type INTEGER NOT NULL,
    day INTEGER NOT NULL,
    sent INTEGER NOT NULL DEFAULT 0,
    read INTEGER NOT NULL DEFAULT 0,        -- by their users
    bulk_marked INTEGER NOT NULL DEFAULT 0, -- by mark-all-as-read
    lapsed INTEGER NOT NULL DEFAULT 0,      -- deleted unread
    PRIMARY KEY (project, type, day)
) WITHOUT ROWID;

-- Nonces that were handed out for signing in and not used yet.
CREATE TABLE sign_in_nonces (
    nonce TEXT PRIMARY KEY,
    expires_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sign_in_nonces_by_expiry ON sign_in_nonces (expires_at_ms);

-- Who is signed in: the SHA-256 of each token. Written beside the account, which stays for ever.
CREATE TABLE inbox_tokens (
    digest BLOB PRIMARY KEY,
    account INTEGER NOT NULL,
    account_id TEXT NOT NULL,               -- the CAIP-10 spelling that was signed in with
    expires_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX inbox_tokens_by_expiry ON inbox_tokens (expires_at_ms);

-- Where else an account wants its notifications.
CREATE TABLE devices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    device_id TEXT NOT NULL UNIQUE,         -- the public id
    account INTEGER NOT NULL REFERENCES accounts (id),
    channel TEXT NOT NULL,                  -- how it is reached, such as webhook
    address TEXT NOT NULL,                  -- where, in the channel's terms: a URL, a token
    created_at_ms INTEGER NOT NULL,
    UNIQUE (account, channel, address)
);

-- Signs this message instead of the server's own secret (Standard Webhooks).
ALTER TABLE outbox ADD COLUMN signing_secret TEXT;
