"""Who is called when something happens on a topic: parts of other rooms' transactions."""

from collections.abc import Generator

from bridge_server.storage.database import Row, Statement, Step, Transaction, scalar
from bridge_server.topics import sql
from bridge_server.topics.errors import TooManyWebhooksError


def subscribe_webhook(
    topic: str, webhook: str, now_ms: int, expires_at_ms: int, webhook_limit: int
) -> Transaction[None]:
    """Call the webhook until `expires_at_ms`, later if it was called already. Raises TooManyWebhooksError."""
    others = scalar(int, (yield Statement(sql.COUNT_OTHERS, (topic, webhook, now_ms))))
    if others >= webhook_limit:
        raise TooManyWebhooksError(webhook_limit)
    yield Statement(sql.UPSERT, (topic, webhook, expires_at_ms))


def remove_webhook(topic: str, webhook: str) -> Transaction[None]:
    """Call the webhook no longer."""
    yield Statement(sql.DELETE, (topic, webhook))


def remove_all_webhooks(topic: str) -> Transaction[None]:
    """Call no webhook for the topic any longer."""
    yield Statement(sql.DELETE_ALL, (topic,))


def webhooks_of(topic: str, now_ms: int) -> Generator[Step, list[Row], list[str]]:
    """The webhooks to call."""
    return [webhook for (webhook,) in (yield Statement(sql.WEBHOOKS, (topic, now_ms)))]


def sweep_webhooks(now_ms: int, limit: int) -> Transaction[int]:
    """Delete at most `limit` webhooks that have expired; returns how many."""
    return scalar(int, (yield Statement(sql.SWEEP, (now_ms, limit))))
