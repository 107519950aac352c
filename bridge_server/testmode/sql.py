"""The statements of test mode."""

# Every table but irn_id_blocks, whose ids no client may be sent twice, and the tables of the console's
# sign-ins (console_links, console_sessions): a reset from the console does not sign the operator out.
# Rows that refer to others go before them: nothing then cascades.
TABLES = (
    "call_statuses", "calls", "sessions",
    "irn_deliveries", "irn_messages", "irn_subscriptions", "irn_calls",
    "topic_webhooks", "topic_messages", "outbox", "outbox_hosts", "buckets",
    "missed_accounts", "deliveries", "sendings", "covered_accounts", "notifications",
    "subscriptions", "type_set_members", "type_sets", "notification_types",
    "account_buckets", "daily_figures", "project_secrets", "projects",
    "sign_in_nonces", "inbox_tokens", "devices", "accounts",
    "push_registrations", "wallet_approvals", "wallet_transactions",
)  # fmt: skip

EMPTY = tuple(f"DELETE FROM {table}" for table in TABLES)  # noqa: S608 - the names are above
"""Delete every row of every table."""

COUNT = f"SELECT {' + '.join(f'(SELECT COUNT(*) FROM {table})' for table in TABLES)}"  # noqa: S608 - as above
"""The number of rows in all tables together."""
