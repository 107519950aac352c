"""PostgreSQL's form of some statements of generation 2.x."""

from collections.abc import Mapping

from bridge_server.pubsub.irn import sql
from bridge_server.storage.postgres.rewriting import numbers, texts, with_parts
from bridge_server.storage.postgres.sweeps import swept

_SORTED = {"WHERE true": "ORDER BY value"}
_OF_TOPICS = (
    sql.REPEATED,
    sql.SUBSCRIBED,
    sql.UNSUBSCRIBE,
    sql.DELIVER_OPEN,
    sql.CLOSE_OPEN,
    sql.DROP_DELIVERIES,
    sql.WAITING,
)
_SWEEPS = (sql.FORGET_CALLS, sql.SWEEP_SUBSCRIPTIONS, sql.SWEEP_CALLS)
_OF_NUMBERS = (sql.BY_NUMBERS, sql.DELETE_DELIVERED)

_OF_MESSAGE = "irn_deliveries.number = irn_messages.number"
_OPEN_ONLY = {_OF_MESSAGE: f"{_OF_MESSAGE} AND is_received = 0"}
_POSITIONS = {
    "data, 0": "data, is_received",
    "json_each(?)": "jsonb_each_text(?::text::jsonb)",
    "> asked.value": "> asked.value::bigint",
}
_RECEIVED = {"DELETE FROM irn_deliveries WHERE": "UPDATE irn_deliveries SET is_received = 1 WHERE"}

# The others may read for 10 s more what the last receiver has acknowledged, whose time is stored, negative.
_SWEEP_MESSAGES = """
DELETE FROM irn_messages WHERE expires_at_ms BETWEEN 10000 - ?1::bigint AND ?1 AND ctid = ANY (ARRAY(
    SELECT ctid FROM irn_messages WHERE expires_at_ms BETWEEN 10000 - ?1::bigint AND ?1
    ORDER BY expires_at_ms LIMIT ?2))
"""

_NUMBERS = "SELECT nextval('irn_message_numbers') FROM json_numbers(?)"
"""Processes give provisional numbers; the sequence orders the messages of all of them."""

OVERRIDES: Mapping[str, str] = {
    sql.NUMBERS: _NUMBERS,
    sql.REMEMBER_CALLS: with_parts(texts(sql.REMEMBER_CALLS), _SORTED),
    sql.SUBSCRIBE: with_parts(texts(sql.SUBSCRIBE), _SORTED),
    sql.WAITING_ANYWHERE: with_parts(sql.WAITING_ANYWHERE, _POSITIONS),
    sql.FETCHABLE: with_parts(texts(sql.FETCHABLE), _OPEN_ONLY),
    sql.DELETE_UNWANTED: with_parts(texts(sql.DELETE_UNWANTED), _OPEN_ONLY),
    sql.ACKNOWLEDGE: with_parts(numbers(sql.ACKNOWLEDGE), _RECEIVED),
    sql.SETTLE_DELIVERED: with_parts(numbers(sql.SETTLE_DELIVERED), _OPEN_ONLY),
    sql.SWEEP_MESSAGES: _SWEEP_MESSAGES,
    **{statement: texts(statement) for statement in _OF_TOPICS},
    **{statement: numbers(statement) for statement in _OF_NUMBERS},
    **{statement: swept(statement) for statement in _SWEEPS},
}
"""PostgreSQL's forms by the statements of `sql`."""
