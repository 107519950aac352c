"""PostgreSQL's form of some statements of projects and of their deletion."""

from collections.abc import Mapping

from bridge_server.projects import deleting_sql, sql, subscription_sql
from bridge_server.storage.postgres.rewriting import numbers, with_parts
from bridge_server.storage.postgres.sweeps import swept

_SORTED = {"GROUP BY 1, 2, 3": "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"}
_IDS = {"json_group_array(id)": "coalesce(json_agg(id), '[]')::text"}

_OVERVIEW = with_parts(
    sql.OVERVIEW,
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

OVERRIDES: Mapping[str, str] = {
    sql.OVERVIEW: _OVERVIEW,
    subscription_sql.TYPE_SET: _TYPE_SET,
    deleting_sql.DELETE_DELIVERIES: numbers(deleting_sql.DELETE_DELIVERIES),
    deleting_sql.COUNT_LAPSED: with_parts(numbers(deleting_sql.COUNT_LAPSED), _SORTED),
    deleting_sql.COUNT_LAPSED_OF_NOTIFICATIONS: numbers(deleting_sql.COUNT_LAPSED_OF_NOTIFICATIONS),
    deleting_sql.DELETE_SENDINGS: numbers(deleting_sql.DELETE_SENDINGS),
    deleting_sql.DELETE_UNSENT_NOTIFICATIONS: numbers(deleting_sql.DELETE_UNSENT_NOTIFICATIONS),
    deleting_sql.DELETE_COVERED: numbers(deleting_sql.DELETE_COVERED),
    deleting_sql.DELETE_UNCOVERED_NOTIFICATIONS: numbers(deleting_sql.DELETE_UNCOVERED_NOTIFICATIONS),
    deleting_sql.DELETE_MISSED: swept(deleting_sql.DELETE_MISSED),
    deleting_sql.SENDINGS: with_parts(deleting_sql.SENDINGS, _IDS),
    deleting_sql.NOTIFICATIONS: with_parts(deleting_sql.NOTIFICATIONS, _IDS),
}
"""PostgreSQL's forms by the statements of `sql`, `subscription_sql` and `deleting_sql`."""

HEAVY = (
    sql.OVERVIEW,
    sql.COUNT_PROJECTS,
    sql.COUNT_SUBSCRIBERS,
    sql.FIGURES,
)
"""Reads of many rows, which polls do not wait for."""
