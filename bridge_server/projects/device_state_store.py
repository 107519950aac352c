"""The store of delivery states of devices."""

from bridge_server.projects.device_states import DeviceState
from bridge_server.storage.database import Database, Row

_STATES = """
SELECT devices.device_id, devices.channel, devices.created_at_ms,
    (SELECT count(*) FROM outbox
     WHERE outbox.device_id = devices.device_id AND outbox.next_attempt_at_ms IS NOT NULL),
    devices.delivered_at_ms, devices.failed_at_ms, devices.last_error
FROM accounts CROSS JOIN devices ON devices.account = accounts.id
WHERE accounts.account_key = ? ORDER BY devices.id
"""


class DeviceStateStore:
    """Reads the delivery states of devices."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def of_account(self, account_key: str) -> list[DeviceState]:
        """The account's devices, oldest first; empty for an unknown account."""
        return [_state(row) for row in await self.database.read(_STATES, (account_key,))]


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
