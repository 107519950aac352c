"""The webhooks that are subscribed to topics: parts of other rooms' transactions."""

from collections.abc import Generator

from bridge_server.storage.database import Row, Statement, Step, Transaction, scalar
from bridge_server.topics import sql
from bridge_server.topics.errors import TooManyWebhooksError


def subscribe_webhook(
    topic: str, webhook: str, now_ms: int, expires_at_ms: int, webhook_limit: int
) -> Transaction[None]:
    """Subscribe the webhook until `expires_at_ms`, or renew it. Raises TooManyWebhooksError."""
    others = scalar(int, (yield Statement(sql.COUNT_OTHERS, (topic, webhook, now_ms))))
    if others >= webhook_limit:
        raise TooManyWebhooksError(webhook_limit)
    yield Statement(sql.UPSERT, (topic, webhook, expires_at_ms))


def remove_webhook(topic: str, webhook: str) -> Transaction[None]:
    """Unsubscribe the webhook."""
    yield Statement(sql.DELETE, (topic, webhook))


def remove_all_webhooks(topic: str) -> Transaction[None]:
    """Unsubscribe every webhook of the topic."""
    yield Statement(sql.DELETE_ALL, (topic,))


def webhooks_of(topic: str, now_ms: int) -> Generator[Step, list[Row], list[str]]:
    """The webhooks that are subscribed now."""
    return [webhook for (webhook,) in (yield Statement(sql.WEBHOOKS, (topic, now_ms)))]


def sweep_webhooks(now_ms: int, limit: int) -> Transaction[int]:
    """Delete at most `limit` webhooks that have expired; returns how many."""
    return scalar(int, (yield Statement(sql.SWEEP, (now_ms, limit))))
