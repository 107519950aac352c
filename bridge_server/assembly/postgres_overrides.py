"""PostgreSQL's own forms of the stores' statements, and the reads that are slow there. They are not beside
the statements, because only a process with a PostgreSQL database loads them. Each has the statement whose
place it takes for its key.
"""

from collections.abc import Mapping

from bridge_server.console import access
from bridge_server.inbox import sign_in
from bridge_server.inbox import store as inbox_store
from bridge_server.notify import history, service
from bridge_server.notify import store as notify_store
from bridge_server.outbox import message_store, topics
from bridge_server.outbox import store as outbox_store
from bridge_server.projects import store as projects_store
from bridge_server.projects import subscriptions
from bridge_server.pubsub import v1_store, v2_list, v2_store
from bridge_server.push import store as push_store
from bridge_server.relay import store as relay_store
from bridge_server.storage.postgres.statements import numbers, swept, texts, with_parts
from bridge_server.wallet import approvals
from bridge_server.wallet.transactions import store as transactions_store
from bridge_server.web import limits

_SORTED = {"WHERE true": "ORDER BY value"}
_SORTED_FIGURES = {"GROUP BY 1, 2, 3": "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"}
"""Rows are taken in the order of their keys, so that two of these statements never wait for each other."""
_IDS = {"json_group_array(id)": "coalesce(json_agg(id), '[]')::text"}


# Relay bridge

_WITHOUT_STATUS = {
    "NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id AND call_statuses.expires_at_ms > ?)": (
        "is_without_status(calls.id, ?)"
    )
}

_RELAY: Mapping[str, str] = {relay_store.SWEEP_CALL: with_parts(relay_store.SWEEP_CALL, _WITHOUT_STATUS)}


# Topics of WalletConnect 1.x

_NUMBERED_1X = {"VALUES (?,": "VALUES (coalesce(nextval('topic_message_numbers'), ?::bigint),"}
"""Processes give provisional numbers; the sequence orders the messages of all of them."""

# Of a settled message the time when it was settled is stored, negative: the others may read it for 10 s more.
_SWEEP_1X = """
DELETE FROM topic_messages WHERE expires_at_ms BETWEEN 10000 - ?1::bigint AND ?1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM topic_messages WHERE expires_at_ms BETWEEN 10000 - ?1::bigint AND ?1
    ORDER BY expires_at_ms LIMIT ?2))
"""

_TOPICS_1X: Mapping[str, str] = {
    v1_store.INSERT: with_parts(v1_store.INSERT, _NUMBERED_1X),
    v1_store.SWEEP: _SWEEP_1X,
}


# Topics of WalletConnect 2.x

_MISSING = {"json_each(missing)": "json_numbers(missing)"}
_OF_CLIENT_2X = {**_MISSING, "json_each(?2)": "json_texts(?2)"}

# The planner, which cannot know how many there are, would walk through all messages.
_FETCHABLE = {
    **_OF_CLIENT_2X,
    "number IN (SELECT number FROM": "number = ANY (ARRAY(SELECT number FROM",
    ")\nORDER BY": "))\nORDER BY",
}
_DELIVERED = {
    **_MISSING,
    "number IN (SELECT value FROM json_each(?3))": "number = ANY (ARRAY(SELECT value FROM json_numbers(?3)))",
    "json_each(?1)": "json_texts(?1)",
}
_UNWANTED = {
    **_MISSING,
    "topic IN (SELECT value FROM json_each(?1)) AND is": (
        "topic = ANY (ARRAY(SELECT value FROM json_texts(?1))) AND is"
    ),
    "json_each(?1)": "json_texts(?1)",
}
_GATHERED = {"nullif(json_group_array(number), '[]')": "json_agg(number)::text"}
_NEWEST_2X = "SELECT coalesce(max(number), 0) FROM irn_messages"
_ACKNOWLEDGED = {
    **_GATHERED,
    "json_each(irn_subscriptions.missing)": "json_numbers(irn_subscriptions.missing)",
    "json_each(?3)": "json_numbers(?3)",
}
_POSITIONS = {
    **_MISSING,
    "json_each(?1)": "jsonb_each_text(?1::text::jsonb)",
    "> asked.value": "> asked.value::bigint",
}

# The others may read for 10 s more what the last receiver has acknowledged, whose time is stored, negative.
_SWEEP_2X = """
DELETE FROM irn_messages WHERE expires_at_ms BETWEEN 10000 - ?1::bigint AND ?1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM irn_messages WHERE expires_at_ms BETWEEN 10000 - ?1::bigint AND ?1
    ORDER BY expires_at_ms LIMIT ?2))
"""

_NUMBERS_2X = "SELECT nextval('irn_message_numbers') FROM json_numbers(?)"
"""Processes give provisional numbers; the sequence orders the messages of all of them."""

_TOPICS_2X: Mapping[str, str] = {
    v2_store.NEWEST: _NEWEST_2X,
    v2_store.NUMBERS: _NUMBERS_2X,
    v2_store.REMEMBER_CALLS: with_parts(texts(v2_store.REMEMBER_CALLS), _SORTED),
    v2_store.SUBSCRIBE: with_parts(texts(v2_store.SUBSCRIBE), {**_SORTED, **_GATHERED}),
    v2_store.WAITING: with_parts(v2_store.WAITING, _OF_CLIENT_2X),
    v2_store.FETCHABLE: with_parts(v2_store.FETCHABLE, _FETCHABLE),
    v2_store.WAITING_ANYWHERE: with_parts(v2_store.WAITING_ANYWHERE, _POSITIONS),
    v2_store.ACKNOWLEDGE: with_parts(v2_store.ACKNOWLEDGE, _ACKNOWLEDGED),
    v2_store.DELETE_DELIVERED: with_parts(v2_store.DELETE_DELIVERED, _DELIVERED),
    v2_store.DELETE_UNWANTED: with_parts(v2_store.DELETE_UNWANTED, _UNWANTED),
    v2_store.SETTLE_DELIVERED: with_parts(v2_store.SETTLE_DELIVERED, _DELIVERED),
    v2_store.SWEEP_MESSAGES: _SWEEP_2X,
}


# Projects

_OVERVIEW = with_parts(
    projects_store.OVERVIEW,
    {
        "json_group_array(json_array(type_id, name, created_at_ms))": "coalesce(json_agg("
        "json_build_array(type_id, name, created_at_ms) ORDER BY id), '[]')::text",
        "SELECT type_id, name, created_at_ms FROM": "SELECT id, type_id, name, created_at_ms FROM",
        "json_array(coalesce(sum(CASE": "json_build_array(coalesce(sum(CASE",
        "coalesce(sum(daily_figures.lapsed), 0))": "coalesce(sum(daily_figures.lapsed), 0))::text",
    },
)
# The texts of choices are too long for an index: it has their hashes.
_TYPE_SET = """
SELECT id FROM type_sets WHERE project = ?1 AND hashtextextended(types, 0) = hashtextextended(?2::text, 0)
    AND types = ?2 AND follows_all = ?3 LIMIT 1
"""

_PROJECTS: Mapping[str, str] = {
    projects_store.OVERVIEW: _OVERVIEW,
    subscriptions.TYPE_SET: _TYPE_SET,
    projects_store.COUNT_LAPSED[0]: with_parts(numbers(projects_store.COUNT_LAPSED[0]), _SORTED_FIGURES),
    projects_store.SENDINGS: with_parts(projects_store.SENDINGS, _IDS),
    projects_store.NOTIFICATIONS: with_parts(projects_store.NOTIFICATIONS, _IDS),
}


# Notifications

# The accounts of a request are answered for in their order in the request.
_ASKED = "jsonb_array_elements_text({parameter}::text::jsonb) WITH ORDINALITY AS asked (value, place)"

_NOTIFY_SORTED = {
    "json_group_array(account) FILTER (WHERE reason = 'none')": (
        "coalesce(json_agg(account ORDER BY place) FILTER (WHERE reason = 'none'), '[]')::text"
    ),
    "json_group_array(json_array(account_key, reason, debt_us)) FILTER (WHERE reason <> 'none')": """
       coalesce(json_agg(json_build_array(account_key, reason, debt_us) ORDER BY place)
                FILTER (WHERE reason <> 'none'), '[]')::text""",
    "SELECT account_key, account, debt_us,": "SELECT account_key, account, debt_us, place,",
    "SELECT asked.value AS account_key,": "SELECT asked.value AS account_key, asked.place,",
    "json_each(?4) AS asked": _ASKED.format(parameter="?4"),
}
_LEFT = {
    "json_group_array(asked.value)": "coalesce(json_agg(asked.value ORDER BY asked.place), '[]')::text",
    "json_each(?) AS asked": _ASKED.format(parameter="?"),
}
_SPENT = {
    "?3, value, ?1 + ?2, ?2, ?1 + ?2 FROM": "?3, value, ?1::bigint + ?2::bigint, ?2, ?1 + ?2 FROM",
    **_SORTED,
}
_CLAMPED = {"?1 + ": "?1::bigint + ", "min(?3,": "least(?3::bigint,"}
_FOUND = {
    "CAST(group_concat(": "convert_to(string_agg(",
    """, '},"') AS BLOB)""": """, '},"' ORDER BY asked.place), 'UTF8')""",
    "json_group_array(asked.key) FILTER (WHERE subscriptions.account_id IS DISTINCT FROM asked.key)": """
       coalesce(json_agg(asked.key ORDER BY asked.place)
                FILTER (WHERE subscriptions.account_id IS DISTINCT FROM asked.key), '[]')::text""",
    "json_each(?) AS asked": "json_each_text(?::text::json) WITH ORDINALITY AS asked (key, value, place)",
}
_LISTING_PAGE = """
SELECT (SELECT convert_to(string_agg(account_id, '","' ORDER BY account_id), 'UTF8') FROM subscriptions
        WHERE project = ?5 AND account_id > ?6 AND account_id <= coalesce(page.last, '~')), page.last,
    EXISTS (SELECT 1 FROM projects WHERE projects.id = ?1 AND projects.project_id IS NOT NULL)
FROM (SELECT (SELECT account_id FROM subscriptions WHERE project = ?2 AND account_id > ?3
              ORDER BY account_id LIMIT 1 OFFSET ?4) AS last) AS page
"""
_INSERT_MISSED = """
INSERT INTO missed_accounts (project, notification, account, reason, retry_at_ms, at_ms)
SELECT ?1, ?2, accounts.id, failed.value ->> 1, CAST(failed.value ->> 2 AS BIGINT), ?3
FROM jsonb_array_elements(?4::text::jsonb) AS failed (value)
JOIN accounts ON accounts.account_key = failed.value ->> 0
ORDER BY accounts.id
"""

_NOTIFY: Mapping[str, str] = {
    notify_store.SORT: with_parts(notify_store.SORT, _NOTIFY_SORTED),
    notify_store.NOT_COVERED: with_parts(notify_store.NOT_COVERED, _LEFT),
    notify_store.SPEND: with_parts(numbers(notify_store.SPEND), _SPENT),
    notify_store.CLAMP: with_parts(texts(notify_store.CLAMP), _CLAMPED),
    notify_store.DEVICES: f"{numbers(notify_store.DEVICES)} ORDER BY devices.id",
    notify_store.LOOKUP: with_parts(notify_store.LOOKUP, _FOUND),
    notify_store.LISTING_PAGE: _LISTING_PAGE,
    notify_store.OLD_SENDINGS: with_parts(notify_store.OLD_SENDINGS, _IDS),
    notify_store.BULK_MARKED_SENDINGS: with_parts(notify_store.BULK_MARKED_SENDINGS, _IDS),
    notify_store.INSERT_MISSED: _INSERT_MISSED,
}


# Inboxes

_TYPES = {
    "json_group_array(json_array(type_id, name))": (
        "coalesce(json_agg(json_build_array(type_id, name) ORDER BY id), '[]')::text"
    ),
    "SELECT type_id, name FROM": "SELECT id, type_id, name FROM",
}
_ARRIVED = {
    "json_group_array(deliveries.account)": "json_agg(deliveries.account)::text",
    "json_each(?)": "json_each_text(?::text::json)",
    "CAST(asked.key AS INTEGER)": "CAST(asked.key AS BIGINT)",
    "asked.value": "CAST(asked.value AS BIGINT)",
    "ORDER BY sendings.id": "ORDER BY arrived.sending",  # or else all sendings could be read in this order
}

_SORTED_NOTIFICATIONS = {
    "FROM (SELECT sendings.notification,": """
        FROM (SELECT unsorted.notification, unsorted.deliveries FROM (SELECT sendings.notification,""",
    ") AS counted": """) AS unsorted
              JOIN notifications AS taken ON taken.id = unsorted.notification
              ORDER BY taken.id FOR NO KEY UPDATE OF taken) AS counted""",
}


def _counting(statements: tuple[str, str]) -> dict[str, str]:
    figures, notifications = statements
    return {
        figures: with_parts(numbers(figures), _SORTED_FIGURES),
        notifications: with_parts(numbers(notifications), _SORTED_NOTIFICATIONS),
    }


_INBOX: Mapping[str, str] = {
    inbox_store.SUBSCRIPTIONS: with_parts(inbox_store.SUBSCRIPTIONS, _TYPES),
    inbox_store.ARRIVALS: with_parts(inbox_store.ARRIVALS, _ARRIVED),
    **_counting(inbox_store.COUNT_READ),
    **_counting(inbox_store.COUNT_BULK_MARKED),
}


# Outbox

_INSERT_ALL = """
INSERT INTO outbox (message_id, destination, url, body, purpose, subject, device_id, client, queue,
     created_at_ms, next_attempt_at_ms)
SELECT value ->> 0, value ->> 1, value ->> 2, convert_to(value ->> 3, 'UTF8'), value ->> 4, value ->> 5,
       value ->> 6, value ->> 7, value ->> 8, ?1, ?1
FROM json_array_elements(?2::text::json) WITH ORDINALITY AS message (value, place) ORDER BY place
"""

_OUTBOX: Mapping[str, str] = {
    outbox_store.INSERT_ALL: _INSERT_ALL,
    outbox_store.PENDING_QUEUES: f"{outbox_store.PENDING_QUEUES} ORDER BY pending.destination, pending.queue",
}


# Wallet

_PARAMS = "convert_from(params, 'UTF8')::json"
_SHOWN = {
    "json_extract(CAST(params AS TEXT), '$.to')": (
        f"CASE WHEN json_typeof({_PARAMS}) = 'object' THEN {_PARAMS} ->> 'to' END"
    ),
    "json_extract(CAST(params AS TEXT), '$.value')": f"{_PARAMS} ->> 'value'",
    "json_type(CAST(params AS TEXT)) = 'object'": f"json_typeof({_PARAMS}) = 'object'",
    "json_type(CAST(params AS TEXT)) = 'text'": f"json_typeof({_PARAMS}) = 'string'",
}

_TRANSACTIONS: Mapping[str, str] = {transactions_store.PAGE: with_parts(transactions_store.PAGE, _SHOWN)}


# Statements of all rooms of which only the arrays, or the search for what is due, have another form

_OF_NUMBERS = (
    v1_store.DELETE, v1_store.SETTLE, v2_store.BY_NUMBERS, projects_store.DELETE_DELIVERIES,
    projects_store.COUNT_LAPSED[1], projects_store.DELETE_SENDINGS,
    projects_store.DELETE_UNSENT_NOTIFICATIONS, projects_store.DELETE_COVERED,
    projects_store.DELETE_UNCOVERED_NOTIFICATIONS, notify_store.INSERT_DELIVERIES,
    notify_store.INSERT_COVERED, inbox_store.MARK_READ, message_store.RETRY_DEAD, message_store.DROP_DEAD,
)  # fmt: skip
_OF_TEXTS = (
    v1_store.SHARE_OF_TOPIC, v1_store.SHARE_OF_ADDRESS, v2_store.REPEATED, v2_store.SUBSCRIBERS,
    v2_store.SUBSCRIBED, v2_store.FULL_TOPICS, v2_store.RENEW, v2_store.UNSUBSCRIBE, v2_store.CLOSE_OPEN,
    v2_list.COUNT_SUBSCRIBERS, v2_store.SHARE_OF_TOPIC, v2_store.SHARE_OF_CLIENT, v2_store.SHARE_OF_ADDRESS,
    notify_store.DELETE_MISSED_ASKED, message_store.PAGE, message_store.DEAD_PAGE,
)  # fmt: skip
_SWEEPS = (
    v2_store.FORGET_CALLS, v2_store.SWEEP_SUBSCRIPTIONS, v2_store.SWEEP_CALLS, projects_store.DELETE_MISSED,
    notify_store.SWEEP_FULL_BUCKETS, notify_store.PUT_OFF_BUCKETS, notify_store.SWEEP_READ,
    notify_store.SWEEP_MARKED_BY_OPERATOR, notify_store.DELETE_OLDEST_MISSED, notify_store.SWEEP_MISSED,
    *sign_in.SWEEPS, outbox_store.SWEEP_DEAD, outbox_store.SWEEP_OLD_HOSTS, transactions_store.SWEEP,
    push_store.SWEEP, topics.SWEEP, approvals.SWEEP, limits.SWEEP, *access.SWEEPS,
)  # fmt: skip

OF_ROOMS: tuple[Mapping[str, str], ...] = (
    _RELAY, _TOPICS_1X, _TOPICS_2X, _PROJECTS, _NOTIFY, _INBOX, _OUTBOX, _TRANSACTIONS,
    {statement: numbers(statement) for statement in _OF_NUMBERS},
    {statement: texts(statement) for statement in _OF_TEXTS},
    {statement: swept(statement) for statement in _SWEEPS},
)  # fmt: skip
OVERRIDES: Mapping[str, str] = {statement: text for each in OF_ROOMS for statement, text in each.items()}
"""PostgreSQL's forms by the statements that the rooms have written."""

HEAVY = frozenset((
    inbox_store.SUBSCRIPTIONS, inbox_store.UNREAD, inbox_store.PAGE, inbox_store.PAGE_AFTER,
    inbox_store.ARRIVALS, notify_store.SORT, notify_store.NOT_COVERED, notify_store.LOOKUP,
    notify_store.LISTING_PAGE, service.EVERYBODY, service.END, service.OF_TYPE, service.COUNT_OF_TYPE,
    history.NOTIFICATIONS, history.DELIVERED, history.MISSED, history.RECEIVED, history.MISSED_BY_ACCOUNT,
    outbox_store.PENDING_QUEUES, message_store.OLDEST_DUE, message_store.PAGE, message_store.PAGE_REST,
    message_store.DEAD_PAGE, message_store.DEAD_PAGE_REST, projects_store.OVERVIEW,
    projects_store.COUNT_PROJECTS, projects_store.COUNT_SUBSCRIBERS, projects_store.FIGURES,
    relay_store.EXPIRED_CALLS, relay_store.EXPIRED_SESSIONS, relay_store.PAGE, relay_store.COUNT_SLICE,
))  # fmt: skip
"""Reads that are run alone and on half of the connections, as the rooms have written them."""
