"""PostgreSQL's form of some statements of the relay, and the statements that are slow there."""

from collections.abc import Mapping

from bridge_server.relay import session_list_sql, sql
from bridge_server.storage.postgres.rewriting import with_parts

_WITHOUT_STATUS = {
    "NOT EXISTS (SELECT 1 FROM call_statuses WHERE call = calls.id AND call_statuses.expires_at_ms > ?)": (
        "is_without_status(calls.id, ?)"
    )
}

OVERRIDES: Mapping[str, str] = {sql.SWEEP_CALL: with_parts(sql.SWEEP_CALL, _WITHOUT_STATUS)}
"""PostgreSQL's forms by the statements of `sql`."""

HEAVY = (sql.EXPIRED_CALLS, sql.EXPIRED_SESSIONS, session_list_sql.PAGE, session_list_sql.COUNT_SLICE)
"""Reads of many rows, which polls do not wait for."""
