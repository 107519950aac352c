"""The store of delivery states of devices."""

from bridge_server.projects.device_states import DeviceDelivery, DeviceState
from bridge_server.storage.database import Database, Row

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


class DeviceStateStore:
    """Reads the delivery states of devices."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def of_account(self, account_key: str) -> list[DeviceState]:
        """The account's devices, oldest first; empty for an unknown account."""
        return [_state(row) for row in await self.database.read(_STATES, (account_key,))]

    async def deliveries(self, account_key: str, project_id: str | None, limit: int) -> list[DeviceDelivery]:
        """Up to `limit` messages to the account's devices that are still in the outbox, newest first.

        They are of one project, or of all.
        """
        rows = await self.database.read(_DELIVERIES, (account_key, project_id, limit))
        return [DeviceDelivery(*row) for row in rows]


def _state(row: Row) -> DeviceState:
    device_id, channel, created_at_ms, queued, delivered_at_ms, failed_at_ms, last_error = row
    return DeviceState(
        device_id,
        channel,
        created_at_ms,
        queued,
        delivered_at_ms,
        failed_at_ms,
        last_error,
    )
