"""Devices of an account, to which its notifications are delivered as pushes or webhooks."""

from collections.abc import Sequence
from typing import Protocol

from bridge_server.inbox import models
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.secrets import IdMaker
from bridge_server.outbox.models import DeviceEndpoint, OutgoingMessage
from bridge_server.outbox.store import withdraw
from bridge_server.projects.store import TURN_OF_SENDINGS
from bridge_server.storage import database as sql

_DEVICES = "SELECT device_id, channel, address, created_at_ms FROM devices WHERE account = ? ORDER BY id"
_SAME = """
SELECT device_id, channel, address, created_at_ms FROM devices
WHERE account = ? AND channel = ? AND address = ?
"""
_COUNT = "SELECT count(*) FROM devices WHERE account = ?"
_INSERT = """
INSERT INTO devices (account, device_id, channel, address, lane, created_at_ms) VALUES (?, ?, ?, ?, ?, ?)
"""
_DELETE = "DELETE FROM devices WHERE account = ? AND device_id = ?"
_FORGET = "DELETE FROM devices WHERE device_id = ? AND address = ?"

# A notification that is being sent may have found the device: its messages are stored, then withdrawn.
_after_sendings = sql.always(sql.Turns(shared=(TURN_OF_SENDINGS,)))


class DeviceStore:
    """Durable devices."""

    def __init__(self, database: sql.Database) -> None:
        self.database = database

    async def devices(self, account: int) -> Sequence[models.Device]:
        """The account's devices, oldest first."""
        return [_device(row) for row in await self.database.read(_DEVICES, (account,))]

    @sql.adding_transaction(turns=lambda account, *_, **__: sql.alone("account", str(account)))
    def add(
        self, account: int, device_id: models.DeviceId, device: models.NewDevice, now_ms: int, limit: int
    ) -> sql.Transaction[models.Device]:
        """Store a device, or return the stored device with equal values. Raises TooManyDevicesError."""
        known = yield sql.Statement(_SAME, (account, device.channel, device.url))
        if known:
            return _device(known[0])
        count = sql.scalar(int, (yield sql.Statement(_COUNT, (account,))))
        if count >= limit:
            raise models.TooManyDevicesError(limit)
        yield sql.Statement(_INSERT, (account, device_id, device.channel, device.url, device.lane, now_ms))
        return models.Device(device_id, device.channel, device.url, now_ms)

    @sql.transaction(turns=_after_sendings)
    def remove(self, account: int, device_id: models.DeviceId) -> sql.Transaction[None]:
        """Delete a device and its queued messages. Raises DeviceNotFoundError."""
        ((deleted,),) = yield sql.Statement(_DELETE, (account, device_id))
        if not deleted:
            raise models.DeviceNotFoundError
        yield from withdraw(device_id)

    @sql.transaction(turns=_after_sendings)
    def forget(self, device_id: models.DeviceId, address: str, message_id: str) -> sql.Transaction[None]:
        """Delete a device with this address and its messages but `message_id`, which is being settled."""
        ((deleted,),) = yield sql.Statement(_FORGET, (device_id, address))
        if deleted:
            yield from withdraw(device_id, message_id)


def _device(row: sql.Row) -> models.Device:
    device_id, channel, address, created_at_ms = row
    return models.Device(models.DeviceId(device_id), channel, address, created_at_ms)


class DeviceChannels(Protocol):
    """The configured channels to devices."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the channels."""

    def named(self, name: str) -> str | None:
        """The channel with this name or alias; None if it is not configured."""

    def address(self, channel: str, token: str) -> DeviceEndpoint:
        """The address of a device. Raises ValueError if the token does not have the channel's form."""


class Devices:
    """Registration of devices. A notification is queued for each of them (notify/service.py)."""

    def __init__(
        self, store: DeviceStore, channels: DeviceChannels, clock: Clock, ids: IdMaker, most: int
    ) -> None:
        self.store, self.channels, self._clock = store, channels, clock
        self._ids, self.most_per_account = ids, most

    async def add(self, reader: models.Reader, device: models.NewDevice) -> models.Device:
        """Register a device. A device that is already registered is unchanged. Raises TooManyDevicesError."""
        device_id = models.DeviceId(self._ids.random_uuid())
        now_ms, most = self._clock.now_ms(), self.most_per_account
        return await self.store.add(reader.number, device_id, device, now_ms, most)

    async def forget_receiver(self, message: OutgoingMessage) -> None:
        """Remove the device of a message whose receiver has answered that the device is gone."""
        if message.device_id is not None:
            await self.store.forget(models.DeviceId(message.device_id), message.url, message.message_id)
