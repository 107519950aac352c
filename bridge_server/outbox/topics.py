"""The webhooks that are subscribed to topics: parts of other rooms' transactions."""

from collections.abc import Generator
from typing import NewType

from bridge_server.kernel.errors import ConflictError
from bridge_server.outbox.models import Purpose
from bridge_server.storage.database import Row, Statement, Step, Transaction, Turn, Turns, scalar, striped

Topic = NewType("Topic", str)
"""A session id of the bridge, or a topic of generation 1.x or 2.x."""

TOPIC_WEBHOOK = Purpose("topic-webhook")
"""The purpose of a notice to a webhook that was subscribed to a topic: its subject is the topic."""


class TooManyWebhooksError(ConflictError, code="too-many-webhooks", title="Too many webhooks"):
    """The topic has as many webhooks as it may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The topic has {limit} webhooks already, and may have no more.")


WEBHOOKS = "SELECT webhook FROM topic_webhooks WHERE topic = ? AND expires_at_ms > ?"
COUNT_OTHERS = "SELECT count(*) FROM topic_webhooks WHERE topic = ? AND webhook <> ? AND expires_at_ms > ?"
UPSERT = """
INSERT INTO topic_webhooks (topic, webhook, expires_at_ms) VALUES (?, ?, ?)
ON CONFLICT (topic, webhook) DO UPDATE SET expires_at_ms = excluded.expires_at_ms
"""
DELETE = "DELETE FROM topic_webhooks WHERE topic = ? AND webhook = ?"
DELETE_ALL = "DELETE FROM topic_webhooks WHERE topic = ?"
SWEEP = """
DELETE FROM topic_webhooks WHERE (topic, webhook) IN
    (SELECT topic, webhook FROM topic_webhooks WHERE expires_at_ms <= ? LIMIT ?)
"""


def subscribe_webhook(
    topic: str, webhook: str, now_ms: int, expires_at_ms: int, webhook_limit: int
) -> Transaction[None]:
    """Subscribe the webhook until `expires_at_ms`, or renew it. Raises TooManyWebhooksError."""
    others = scalar(int, (yield Statement(COUNT_OTHERS, (topic, webhook, now_ms))))
    if others >= webhook_limit:
        raise TooManyWebhooksError(webhook_limit)
    yield Statement(UPSERT, (topic, webhook, expires_at_ms))


def remove_webhook(topic: str, webhook: str) -> Transaction[None]:
    """Unsubscribe the webhook."""
    yield Statement(DELETE, (topic, webhook))


def remove_all_webhooks(topic: str) -> Transaction[None]:
    """Unsubscribe every webhook of the topic."""
    yield Statement(DELETE_ALL, (topic,))


def webhooks_of(topic: str, now_ms: int) -> Generator[Step, list[Row], list[str]]:
    """The webhooks that are subscribed now."""
    return [webhook for (webhook,) in (yield Statement(WEBHOOKS, (topic, now_ms)))]


def sweep_webhooks(now_ms: int, limit: int) -> Transaction[int]:
    """Delete at most `limit` webhooks that have expired; returns how many."""
    return scalar(int, (yield Statement(SWEEP, (now_ms, limit))))


def turn_of_topic(topic: str) -> Turn:
    """The topic, which shares its turn with others: one transaction can concern a thousand topics."""
    return striped("topic", topic)


def of_topic(topic: str, *_: object, **__: object) -> Turns:
    """The turns of a transaction on one topic, which is its first argument."""
    return Turns((turn_of_topic(topic),))
