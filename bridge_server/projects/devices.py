"""The states of deliveries to an account's devices, for the operator."""

from enum import StrEnum
from typing import NamedTuple

from bridge_server.storage.database import Database

_STATES = """
SELECT devices.device_id, devices.channel, devices.created_at_ms,
    (SELECT count(*) FROM outbox
     WHERE outbox.device_id = devices.device_id AND outbox.next_attempt_at_ms IS NOT NULL),
    devices.delivered_at_ms, devices.failed_at_ms, devices.last_error
FROM accounts CROSS JOIN devices ON devices.account = accounts.id
WHERE accounts.account_key = ? ORDER BY devices.id
"""
# The subject of a message to a device is its project.
_DELIVERIES = """
SELECT devices.device_id, devices.channel, outbox.subject, outbox.attempts, outbox.created_at_ms,
    outbox.next_attempt_at_ms, outbox.last_error
FROM accounts CROSS JOIN devices ON devices.account = accounts.id
CROSS JOIN outbox ON outbox.device_id = devices.device_id
WHERE accounts.account_key = ? AND coalesce(?, outbox.subject, '') = coalesce(outbox.subject, '')
ORDER BY outbox.created_at_ms DESC, outbox.id DESC LIMIT ?
"""


class DeliveryState(StrEnum):
    """The state of deliveries to a device. Operators see the values."""

    NEW = "new"  # no notification has been queued yet
    QUEUED = "queued"  # a notification is queued; attempts may have failed
    DELIVERED = "delivered"
    FAILED = "failed"  # the last notification could not be delivered, and is not retried any more


class DeviceState(NamedTuple):
    """A device without its address, and its deliveries. Times are milliseconds since the Unix epoch."""

    device_id: str
    channel: str
    created_at_ms: int
    queued: int
    delivered_at_ms: int | None
    failed_at_ms: int | None
    last_error: str | None

    @property
    def state(self) -> DeliveryState:
        """The state that follows from the deliveries."""
        if self.queued:
            return DeliveryState.QUEUED
        if self.last_error is not None:
            return DeliveryState.FAILED
        return DeliveryState.NEW if self.delivered_at_ms is None else DeliveryState.DELIVERED


class DeviceDelivery(NamedTuple):
    """A message to a device that is still in the outbox; without a next attempt it has failed for good."""

    device_id: str
    channel: str
    project_id: str | None
    attempts: int
    created_at_ms: int
    next_attempt_at_ms: int | None
    last_error: str | None


class DeviceStateStore:
    """Reads the delivery states of devices."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def of_account(self, account_key: str) -> list[DeviceState]:
        """The account's devices, oldest first; empty for an unknown account."""
        return [DeviceState(*row) for row in await self.database.read(_STATES, (account_key,))]

    async def deliveries(self, account_key: str, project_id: str | None, limit: int) -> list[DeviceDelivery]:
        """Messages to the account's devices in the outbox, of one project or of all, newest first."""
        rows = await self.database.read(_DELIVERIES, (account_key, project_id, limit))
        return [DeviceDelivery(*row) for row in rows]
