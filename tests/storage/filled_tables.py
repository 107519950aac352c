"""Rows for every table of the server that grows, made by PostgreSQL: its planner has some to weigh."""

_FILLING = """
INSERT INTO sessions (session_id, expires_at_ms, payload) SELECT 's' || n, CASE WHEN n % 10 = 0 THEN 0
    ELSE 2000000 + n END, 'x' FROM generate_series(1, {rows}) AS n;
INSERT INTO calls (call_id, session, expires_at_ms, listed, payload) SELECT 'c' || n, n / 2 + 1, 2000000 +
    n, n % 2, 'x' FROM generate_series(1, {rows}) AS n;
INSERT INTO call_statuses (call, expires_at_ms, payload) SELECT n, 2000000, 'x' FROM generate_series(1,
    {rows}, 2) AS n;
INSERT INTO topic_webhooks SELECT 's' || n, 'https://example.org/', 2000000 + n FROM generate_series(1,
    {rows}) AS n;
INSERT INTO push_registrations (topic, bridge, channel, url, peer_name, language, expires_at_ms) SELECT
    's' || n, '', 'fcm', 'fcm:' || n, '', '', n FROM generate_series(1, {rows}) AS n;
INSERT INTO topic_messages SELECT n, 't' || n / 4, 'x', 1, n, 'a' || n % 1000, n FROM generate_series(1,
    {rows}) AS n;
INSERT INTO irn_messages SELECT n, 't' || n / 4, 'x', 1, 'k' || n / 10, 'a' || n % 1000, n % 2, n FROM
    generate_series(1, {rows}) AS n;
INSERT INTO irn_subscriptions SELECT 'k' || n / 10, 't' || n, n, n, n FROM generate_series(1, {rows}) AS n;
INSERT INTO irn_calls SELECT n, 'd' || n FROM generate_series(1, {rows}) AS n;
INSERT INTO outbox (message_id, destination, url, body, created_at_ms, next_attempt_at_ms, died_at_ms,
    device_id, queue) SELECT 'm' || n, 'https://h' || n % 500, '', '', n, CASE WHEN n % 5 > 0 THEN n END,
    CASE WHEN n % 5 = 0 THEN n END, CASE WHEN n % 3 = 0 THEN 'd' || n END, 'q' || n % 700 FROM
    generate_series(1, {rows}) AS n;
INSERT INTO buckets SELECT 'requests', 'a' || n, n, 1 FROM generate_series(1, {rows}) AS n;
INSERT INTO projects (project_id, name, created_at_ms) SELECT 'p' || n, '', 0 FROM generate_series(1, 100)
    AS n;
INSERT INTO project_secrets (project, digest, created_at_ms) SELECT n % 100 + 1, 'x', 0 FROM
    generate_series(1, 200) AS n;
INSERT INTO notification_types (project, type_id, name, created_at_ms) SELECT n % 100 + 1, 't' || n, '', 0
    FROM generate_series(1, 1000) AS n;
INSERT INTO type_sets (project, types) SELECT n % 100 + 1, '["t' || n || '"]' FROM generate_series(1,
    10000) AS n;
INSERT INTO type_set_members SELECT n % 1000 + 1, n FROM generate_series(1, 10000) AS n;
INSERT INTO accounts (account_key) SELECT 'k' || n FROM generate_series(1, {rows}) AS n;
INSERT INTO subscriptions SELECT n % 100 + 1, 'k' || n, n, 'k' || n, n % 10000 + 1, 0 FROM
    generate_series(1, {rows}) AS n;
INSERT INTO notifications (project, type, idempotency_key, title, body) SELECT n % 100 + 1, n % 1000 + 1,
    'n' || n, '', '' FROM generate_series(1, {rows}) AS n;
INSERT INTO covered_accounts SELECT n, n FROM generate_series(1, {rows}) AS n;
INSERT INTO missed_accounts SELECT n % 100 + 1, n, n, 'rate_limited', NULL, n FROM generate_series(1,
    {rows}) AS n;
INSERT INTO sendings (project, type, notification, sent_at_ms) SELECT n % 100 + 1, n % 1000 + 1, n, n FROM
    generate_series(1, {rows}) AS n;
INSERT INTO deliveries SELECT n % 5000 + 1, n, CASE WHEN n % 2 = 0 THEN n END FROM generate_series(1,
    {rows}) AS n;
INSERT INTO account_buckets SELECT n % 100 + 1, n, n, 1, n FROM generate_series(1, {rows}) AS n;
INSERT INTO daily_figures SELECT n % 100 + 1, n % 1000 + 1, n / 1000 FROM generate_series(1, {rows}) AS n
    ON CONFLICT DO NOTHING;
INSERT INTO sign_in_nonces SELECT 'n' || n, n FROM generate_series(1, {rows}) AS n;
INSERT INTO inbox_tokens SELECT convert_to('t' || n, 'UTF8'), n, '', n FROM generate_series(1, {rows}) AS
    n;
INSERT INTO devices (device_id, account, channel, address, created_at_ms) SELECT 'd' || n, n, 'webhook',
    'a' || n, 0 FROM generate_series(1, {rows}) AS n;
INSERT INTO wallet_approvals (approval_id, method, address, subject, caller, request_id, asked_at_ms,
    expires_at_ms, state) SELECT 'a' || n, '', '', '', '', '', n, n, CASE WHEN n % 1000 = 0 THEN 'pending'
    ELSE 'approved' END FROM generate_series(1, {rows}) AS n;
INSERT INTO wallet_transactions (transaction_id, sender, params, caller, request_id, asked_at_ms, state,
    chain_id, nonce, transaction_hash, next_attempt_at_ms, settled_at_ms) SELECT 't' || n, '0x' || n % 50,
    '{}', '', '', n, CASE WHEN n % 100 = 0 THEN 'signed' WHEN n % 100 = 1 THEN 'sent' ELSE 'mined' END, 1,
    n, '0x' || n, n, CASE WHEN n % 100 > 1 THEN n END FROM generate_series(1, {rows}) AS n;
ANALYZE;
"""


def filling(rows: int) -> str:
    """The statements that fill the tables with about so many rows each."""
    return _FILLING.replace("{rows}", str(rows))
