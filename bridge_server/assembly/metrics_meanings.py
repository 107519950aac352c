"""The meanings of the rooms' figures, as `/metrics` prints them."""

_CREDENTIALS = "Lanes whose push service refuses this server's credentials: pushes there wait."

MEANINGS = {
    "connections": "Open connections of clients.",
    "connections_refused": "Connections refused because their address had max_address_connections open.",
    "connections_silent": "Connections closed because no request came within head_timeout.",
    "connections_cut": "Connections cut because the client did not read its answers.",
    "unread_connections": "Connections whose client has answers left to read.",
    "unread_bytes": "Bytes of answers in memory until clients read them.",
    "waiting_clients": "Long polls that wait at this moment.",
    "database_bytes": "Size of the database, without its write-ahead log.",
    "database_commits": "Commits since the start; each may hold several transactions.",
    "database_transactions": "Transactions since the start.",
    "database_runs_again": "Transactions run again since the start, because others were in their way.",
    "database_log_bytes": "Size of the write-ahead log. It grows while a program holds an old state open.",
    "database_used_bytes": "Bytes of the database in use, with the log: what database_limit limits.",
    "database_limit_bytes": "The setting database_limit.",
    "outbox_due": "Messages owed to webhooks and devices, also messages that wait for a retry.",
    "outbox_dead": "Dead letters: messages that were given up (`bridge-server outbox list --dead`).",
    "outbox_delivered": "Messages delivered since the start.",
    "outbox_failed": "Attempts to deliver that failed since the start.",
    "sockets": "Open WebSockets of generations 1.x and 2.x.",
    "socket_topics": "Topics that open WebSockets are subscribed to.",
    "inbox_streams": "Open streams of server-sent events of inboxes.",
    "wallet_approvals_waiting": "Signing requests that wait for the operator's decision.",
    "push_fcm_blocked": _CREDENTIALS,
    "push_apns_blocked": _CREDENTIALS,
    "push_webpush_blocked": _CREDENTIALS,
}
"""The meanings by the names of figures, without the prefix `bridge_`."""
