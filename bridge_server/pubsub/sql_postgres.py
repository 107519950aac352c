"""PostgreSQL's form of some statements of the store of topics."""

from collections.abc import Mapping

from bridge_server.pubsub import sql
from bridge_server.storage.postgres.rewriting import numbers, with_parts

_NUMBERED = {"VALUES (?,": "VALUES (coalesce(nextval('topic_message_numbers'), ?::bigint),"}
"""Processes give provisional numbers; the sequence orders the messages of all of them."""

# Of a settled message the time when it was settled is stored, negative: the others may read it for 10 s more.
_SWEEP = """
DELETE FROM topic_messages WHERE expires_at_ms BETWEEN 10000 - ?1::bigint AND ?1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM topic_messages WHERE expires_at_ms BETWEEN 10000 - ?1::bigint AND ?1
    ORDER BY expires_at_ms LIMIT ?2))
"""

OVERRIDES: Mapping[str, str] = {
    sql.DELETE: numbers(sql.DELETE),
    sql.INSERT: with_parts(sql.INSERT, _NUMBERED),
    sql.SETTLE: numbers(sql.SETTLE),
    sql.SWEEP: _SWEEP,
}
"""PostgreSQL's forms by the statements of `sql`."""
