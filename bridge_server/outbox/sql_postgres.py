"""PostgreSQL's form of some statements of the outbox."""

from collections.abc import Mapping

from bridge_server.outbox import enqueue_sql, listing_sql, pending_sql, store
from bridge_server.storage.postgres.rewriting import numbers, texts
from bridge_server.storage.postgres.sweeps import swept

_INSERT_ALL = """
INSERT INTO outbox (message_id, destination, url, body, purpose, subject, device_id, client, queue,
     created_at_ms, next_attempt_at_ms)
SELECT value ->> 0, value ->> 1, value ->> 2, convert_to(value ->> 3, 'UTF8'), value ->> 4, value ->> 5,
       value ->> 6, value ->> 7, value ->> 8, ?1, ?1
FROM json_array_elements(?2::text::json) WITH ORDINALITY AS message (value, place) ORDER BY place
"""

OVERRIDES: Mapping[str, str] = {
    enqueue_sql.INSERT_ALL: _INSERT_ALL,
    store.PENDING_QUEUES: f"{store.PENDING_QUEUES} ORDER BY owed.destination, owed.queue",
    store.SWEEP_DEAD: swept(store.SWEEP_DEAD),
    store.SWEEP_OLD_HOSTS: swept(store.SWEEP_OLD_HOSTS),
    listing_sql.PAGE: texts(listing_sql.PAGE),
    listing_sql.DEAD_PAGE: texts(listing_sql.DEAD_PAGE),
    listing_sql.RETRY_DEAD: numbers(listing_sql.RETRY_DEAD),
    listing_sql.DROP_DEAD: numbers(listing_sql.DROP_DEAD),
}
"""PostgreSQL's forms by the statements of the outbox."""

HEAVY = (
    store.PENDING_QUEUES,
    pending_sql.OLDEST_DUE,
    listing_sql.PAGE,
    listing_sql.PAGE_REST,
    listing_sql.DEAD_PAGE,
    listing_sql.DEAD_PAGE_REST,
)
"""Reads of many rows, which polls do not wait for."""
