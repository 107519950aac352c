"""Registrations for pushes in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from typing import cast

from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push.models import Address, Registration, Topic
from bridge_server.storage.database import Database, Row, Statement, Transaction
from bridge_server.storage.outbox_store import enqueue
from bridge_server.storage.relay_store import remove_webhook, subscribe_webhook

_UPSERT = """
INSERT INTO push_registrations (topic, bridge, channel, url, lane, peer_name, language, expires_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (topic) DO UPDATE SET bridge = excluded.bridge, channel = excluded.channel, url = excluded.url,
    lane = excluded.lane, peer_name = excluded.peer_name, language = excluded.language,
    expires_at_ms = excluded.expires_at_ms
"""
_REGISTRATION = """
SELECT topic, bridge, channel, url, lane, peer_name, language
FROM push_registrations WHERE topic = ? AND expires_at_ms > ?
"""
_DELETE = "DELETE FROM push_registrations WHERE topic = ? AND url = ?"
_SWEEP = """
DELETE FROM push_registrations WHERE id IN
    (SELECT id FROM push_registrations WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""

_SWEEP_SLICE = 500


class SqlPushStore:
    """Implements the push server's store on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(
        self,
        registration: Registration,
        now_ms: int,
        expires_at_ms: int,
        *,
        own_webhook: str,
        is_own_bridge: bool,
        webhook_limit: int,
    ) -> None:
        def work() -> Transaction[None]:
            topic = registration.topic
            if is_own_bridge:
                yield from subscribe_webhook(topic, own_webhook, now_ms, expires_at_ms, webhook_limit)
            else:
                yield from remove_webhook(topic, own_webhook)
            yield Statement(_UPSERT, (*_row(registration), expires_at_ms))

        await self._database.transaction(work, adds=True)

    async def registration(self, topic: Topic, now_ms: int) -> Registration | None:
        rows = await self._database.read(_REGISTRATION, (topic, now_ms))
        return _registration(rows[0]) if rows else None

    async def unregister(self, topic: Topic, url: str, own_webhook: str) -> None:
        def work() -> Transaction[None]:
            ((removed,),) = yield Statement(_DELETE, (topic, url))
            if removed:
                yield from remove_webhook(topic, own_webhook)

        await self._database.transaction(work)

    async def queue(self, message: OutgoingMessage, now_ms: int) -> None:
        await self._database.transaction(lambda: enqueue(message, now_ms))

    async def sweep(self, now_ms: int) -> int:
        def work() -> Transaction[int]:
            ((deleted,),) = yield Statement(_SWEEP, (now_ms, _SWEEP_SLICE))
            return cast(int, deleted)

        return await self._database.transaction(work)


def _row(registration: Registration) -> tuple[str | None, ...]:
    return (
        registration.topic,
        registration.bridge,
        registration.channel,
        registration.address.url,
        registration.address.lane,
        registration.peer_name,
        registration.language,
    )


def _registration(row: Row) -> Registration:
    topic, bridge, channel, url, lane, peer_name, language = row
    return Registration(
        Topic(cast(str, topic)),
        cast(str, bridge),
        cast(str, channel),
        Address(cast(str, url), cast(str | None, lane)),
        cast(str, peer_name),
        cast(str, language),
    )
