"""The store of registrations for pushes."""

from bridge_server.outbox.models import DeviceEndpoint, OutgoingMessage
from bridge_server.outbox.store import enqueue
from bridge_server.outbox.topics import Topic, of_topic, remove_webhook, subscribe_webhook
from bridge_server.push.models import OWN_WEBHOOK, Registration
from bridge_server.storage import database as sql

_UPSERT = """
INSERT INTO push_registrations (topic, bridge, channel, url, lane, peer_name, language, expires_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (topic) DO UPDATE SET bridge = excluded.bridge, channel = excluded.channel, url = excluded.url,
    lane = excluded.lane, peer_name = excluded.peer_name, language = excluded.language,
    expires_at_ms = excluded.expires_at_ms
"""
_REGISTRATION = """
SELECT bridge, channel, url, lane, peer_name, language
FROM push_registrations WHERE topic = ? AND expires_at_ms > ?
"""
_DELETE = "DELETE FROM push_registrations WHERE topic = ? AND url = ?"
SWEEP = """
DELETE FROM push_registrations WHERE id IN
    (SELECT id FROM push_registrations WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""

_SWEEP_SLICE = 500


def _of_registration(registration: Registration, *_: object, **__: object) -> sql.Turns:
    return of_topic(registration.topic)


class PushStore:
    """Durable registrations. Registrations that have expired at `now_ms` are not found."""

    def __init__(self, database: sql.Database, lifetime_ms: int, webhook_limit: int) -> None:
        """A registration lasts `lifetime_ms`; a topic has at most `webhook_limit` webhooks."""
        self.database = database
        self._lifetime_ms = lifetime_ms
        self.webhook_limit = webhook_limit

    @sql.adding_transaction(turns=_of_registration)
    def register(self, registration: Registration, now_ms: int, is_own_bridge: bool) -> sql.Transaction[None]:
        """Store a registration; it replaces an earlier one of the topic. The same transaction adds this push
        server's webhook to the topic if this server's bridge serves it, and otherwise removes it. Raises
        TooManyWebhooksError.
        """
        topic, expires_at_ms = registration.topic, now_ms + self._lifetime_ms
        if is_own_bridge:
            yield from subscribe_webhook(topic, OWN_WEBHOOK, now_ms, expires_at_ms, self.webhook_limit)
        else:
            yield from remove_webhook(topic, OWN_WEBHOOK)
        _, bridge, channel, address, peer_name, language = registration
        row = (topic, bridge, channel, address.url, address.lane, peer_name, language, expires_at_ms)
        yield sql.Statement(_UPSERT, row)

    async def registration(self, topic: Topic, now_ms: int) -> Registration | None:
        """The registration of the topic, or None."""
        rows = await self.database.read(_REGISTRATION, (topic, now_ms))
        if not rows:
            return None
        bridge, channel, url, lane, peer_name, language = rows[0]
        return Registration(topic, bridge, channel, DeviceEndpoint(url, lane), peer_name, language)

    @sql.transaction(turns=of_topic)
    def unregister(self, topic: Topic, url: str) -> sql.Transaction[None]:
        """Delete the registration if it still has this address, and its webhook at the own bridge."""
        ((removed,),) = yield sql.Statement(_DELETE, (topic, url))
        if removed:
            yield from remove_webhook(topic, OWN_WEBHOOK)

    @sql.transaction
    def queue(self, message: OutgoingMessage, now_ms: int) -> sql.Transaction[None]:
        """Add the message to the outbox."""
        yield from enqueue(message, now_ms)

    @sql.transaction(turns=sql.sweeping("push-registrations"))
    def sweep(self, now_ms: int) -> sql.Transaction[int]:
        """Delete a slice of the expired registrations; returns how many rows."""
        return sql.scalar(int, (yield sql.Statement(SWEEP, (now_ms, _SWEEP_SLICE))))
