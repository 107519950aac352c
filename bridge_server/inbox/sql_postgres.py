"""PostgreSQL's form of some statements of the inbox store."""

from collections.abc import Mapping

from bridge_server.inbox import sign_in_store, sql
from bridge_server.storage.postgres.rewriting import numbers, with_parts
from bridge_server.storage.postgres.sweeps import swept

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

# Rows are taken in the order of their keys, so that two of these statements never wait for each other.
_SORTED_FIGURES = {"GROUP BY 1, 2, 3": "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"}
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


OVERRIDES: Mapping[str, str] = {
    sql.SUBSCRIPTIONS: with_parts(sql.SUBSCRIPTIONS, _TYPES),
    sql.ARRIVALS: with_parts(sql.ARRIVALS, _ARRIVED),
    sql.MARK_READ: numbers(sql.MARK_READ),
    **_counting(sql.COUNT_READ),
    **_counting(sql.COUNT_BULK_MARKED),
    **{statement: swept(statement) for statement in sign_in_store.SWEEPS},
}
"""PostgreSQL's forms by the statements of `sql` and `sign_in_store`."""

HEAVY = (
    sql.SUBSCRIPTIONS,
    sql.UNREAD,
    sql.PAGE,
    sql.PAGE_AFTER,
    sql.ARRIVALS,
)
"""Reads of many rows, which polls do not wait for."""
