"""PostgreSQL's form of some statements of the notification stores."""

from collections.abc import Mapping

from bridge_server.notify import audience_sql, history_sql, missed_sql, sql
from bridge_server.storage.postgres.rewriting import numbers, texts, with_parts
from bridge_server.storage.postgres.sweeps import swept

# The accounts of a request are answered for in their order in the request.
_ASKED = "jsonb_array_elements_text({parameter}::text::jsonb) WITH ORDINALITY AS asked (value, place)"

_SORTED = {
    "json_group_array(account) FILTER (WHERE reason = 'none')": (
        "coalesce(json_agg(account ORDER BY place) FILTER (WHERE reason = 'none'), '[]')::text"
    ),
    "json_group_array(json_array(account_key, reason, owed_us)) FILTER (WHERE reason <> 'none')": """
       coalesce(json_agg(json_build_array(account_key, reason, owed_us) ORDER BY place)
                FILTER (WHERE reason <> 'none'), '[]')::text""",
    "SELECT account_key, account, owed_us,": "SELECT account_key, account, owed_us, place,",
    "SELECT asked.value AS account_key,": "SELECT asked.value AS account_key, asked.place,",
    "json_each(?4) AS asked": _ASKED.format(parameter="?4"),
}
_LEFT = {
    "json_group_array(asked.value)": "coalesce(json_agg(asked.value ORDER BY asked.place), '[]')::text",
    "json_each(?) AS asked": _ASKED.format(parameter="?"),
}
_SPENT = {
    "?3, value, ?1 + ?2, ?2, ?1 + ?2 FROM": "?3, value, ?1::bigint + ?2::bigint, ?2, ?1 + ?2 FROM",
    "WHERE true": "ORDER BY value",
}
_CLAMPED = {"?1 + ": "?1::bigint + ", "min(?3,": "least(?3::bigint,"}
_FOUND = {
    "CAST(group_concat(": "convert_to(string_agg(",
    " || '}') AS BLOB)": " || '}', ',' ORDER BY asked.place), 'UTF8')",
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
_IDS = {"json_group_array(id)": "coalesce(json_agg(id), '[]')::text"}

_SWEEPS = (
    sql.SWEEP_FULL_BUCKETS,
    sql.PUT_OFF_BUCKETS,
    sql.SWEEP_READ,
    sql.SWEEP_MARKED_BY_OPERATOR,
    missed_sql.DELETE_OLDEST,
    missed_sql.SWEEP,
)

OVERRIDES: Mapping[str, str] = {
    sql.SORT: with_parts(sql.SORT, _SORTED),
    sql.NOT_COVERED: with_parts(sql.NOT_COVERED, _LEFT),
    sql.INSERT_DELIVERIES: numbers(sql.INSERT_DELIVERIES),
    sql.INSERT_COVERED: numbers(sql.INSERT_COVERED),
    sql.SPEND: with_parts(numbers(sql.SPEND), _SPENT),
    sql.CLAMP: with_parts(texts(sql.CLAMP), _CLAMPED),
    sql.DEVICES: f"{numbers(sql.DEVICES)} ORDER BY devices.id",
    sql.LOOKUP: with_parts(sql.LOOKUP, _FOUND),
    sql.LISTING_PAGE: _LISTING_PAGE,
    sql.OLD_SENDINGS: with_parts(sql.OLD_SENDINGS, _IDS),
    sql.BULK_MARKED_SENDINGS: with_parts(sql.BULK_MARKED_SENDINGS, _IDS),
    missed_sql.INSERT: _INSERT_MISSED,
    missed_sql.DELETE_ASKED: texts(missed_sql.DELETE_ASKED),
    **{statement: swept(statement) for statement in _SWEEPS},
}
"""PostgreSQL's forms by the statements of `sql` and `missed_sql`."""

HEAVY = (
    sql.SORT,
    sql.NOT_COVERED,
    sql.LOOKUP,
    sql.LISTING_PAGE,
    audience_sql.EVERYBODY,
    audience_sql.END,
    audience_sql.OF_TYPE,
    history_sql.NOTIFICATIONS,
    history_sql.DELIVERED,
    history_sql.MISSED,
    history_sql.RECEIVED,
    history_sql.MISSED_BY_ACCOUNT,
)
"""Reads of many rows, which polls do not wait for."""
