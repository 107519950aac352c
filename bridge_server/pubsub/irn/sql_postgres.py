"""What PostgreSQL gets instead of some statements of generation 2.x."""

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
    sql.DELETE_UNWANTED,
    sql.WAITING,
    sql.FETCHABLE,
)
_SWEEPS = (sql.FORGET_CALLS, sql.SWEEP_MESSAGES, sql.SWEEP_SUBSCRIPTIONS, sql.SWEEP_CALLS)
_OF_NUMBERS = (sql.BY_NUMBERS, sql.ACKNOWLEDGE, sql.DELETE_DELIVERED)

_NUMBERS = "SELECT nextval('irn_message_numbers') FROM json_numbers(?)"
"""Processes give provisional numbers; the sequence orders the messages of all of them."""

OVERRIDES: Mapping[str, str] = {
    sql.NUMBERS: _NUMBERS,
    sql.REMEMBER_CALLS: with_parts(texts(sql.REMEMBER_CALLS), _SORTED),
    sql.SUBSCRIBE: with_parts(texts(sql.SUBSCRIBE), _SORTED),
    **{statement: texts(statement) for statement in _OF_TOPICS},
    **{statement: numbers(statement) for statement in _OF_NUMBERS},
    **{statement: swept(statement) for statement in _SWEEPS},
}
"""By the statement that is written in `sql`."""
